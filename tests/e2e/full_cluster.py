"""A dump of a cluster in which every label, annotation and field that src/wire reads of Nodes and Pods has a value.

test_full_cluster.py compares it with the keys in the sources: a new key belongs here, too. Where a value may be good,
bad or unreadable, there is a node or pod for each.
"""

import json

MODEL = "NVIDIA-A100-SXM4-80GB"
SICK = "Xid 79: the GPU has fallen off the bus, and does not answer the driver any more"
WHOLE, CLAIMED, SHARED = (f"8d5b2a3c-0000-4000-8000-{at:012}" for at in (1, 2, 3))
NODE_LABELS = {
    "kubernetes.io/hostname": "full", "topology.kubernetes.io/zone": "zone-a", "pool": "training",
    "nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": MODEL, "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.workload.config": "container",
    "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": "all-disabled",
    "nvidia.com/mig-1g.10gb.count": "0", "nvidia.com/mps.capable": "false",
    "nvidia.com/gpu.deploy.operands": "true", "nvidia.com/gpu.deploy.device-plugin": "true",
}


def uuid(node, index):
    return f"GPU-{node}-0000-0000-00000000{index:04}"


def gpu(node, index, **more):
    """All fields of an entry of milligpu.io/gpus."""
    return {"uuid": uuid(node, index), "index": index, "milli": 1000, "mib": 81920, "model": MODEL, "numa": index // 4,
            "health": "healthy", "nvlink": [uuid(node, index ^ 1)], **more}


def node(name, gpus=None, *, labels=None, annotations=None, amounts=None, spec=None):
    whole = len(gpus) if gpus is not None else (labels or {}).get("nvidia.com/gpu.count", 8)
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(whole), **(amounts or {})}
    noted = dict(annotations or {})
    if gpus is not None:
        noted["milligpu.io/gpus"] = json.dumps(gpus)
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": "uid-" + name, "resourceVersion": "7", "namespace": "",
                         "creationTimestamp": "2026-01-02T03:04:05Z",
                         "labels": {**NODE_LABELS, "kubernetes.io/hostname": name, **(labels or {})}, "annotations": noted},
            "spec": {"unschedulable": False, **(spec or {})},
            "status": {"capacity": dict(room), "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}],
                       "nodeInfo": {"bootID": "boot-" + name}}}


def nodes():
    """Each with a source of GPUs, or a fault, of its own."""
    agent = {"milligpu.io/agent": '{"version":"0.1.0","key":"c29tZSBwdWJsaWMga2V5"}'}
    bare = {key: value for key, value in NODE_LABELS.items() if not key.startswith("nvidia.com/")}
    held = ["pod:" + WHOLE, "env:" + CLAIMED, "process", "mig", "unknown", "a word that means nothing"]
    full = [gpu("full", at, held=word) for at, word in enumerate(held)]
    full += [gpu("full", 6, health="unhealthy", reason=SICK, since="2026-01-02T03:04:05Z", held="process"), gpu("full", 7)]
    sick = [gpu("sick", at, health=word, reason=f"{word}: {SICK}", since="2026-01-02T03:04:05Z")
            for at, word in enumerate(("healthy", "unhealthy", "lost", "not a word of ours"))]
    yield node("full", full, annotations={"milligpu.io/cordon": uuid("full", 6), **agent},
               spec={"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]})
    yield node("sick", sick, annotations=agent)
    yield node("idle", [gpu("idle", at) for at in range(8)], annotations={"milligpu.io/cordon": "", **agent})
    yield node("cordoned", [gpu("cordoned", 0)], annotations={"milligpu.io/cordon": "all", "milligpu.io/agent": "?"},
               spec={"unschedulable": True})
    yield node("odd", [gpu("odd", 0, milli=500, mib=0, numa=-1, nvlink=["GPU-of-no-node"])],
               annotations={"milligpu.io/cordon": "GPU-nobody-has-this"})
    claim = {"v": 1, "pod": {"uid": "agent-upgrading", "node": "another-uid", "boot": "boot-upgrading"},
             "leaving": "driver-upgrade"}
    yield node("upgrading", [gpu("upgrading", 0)], annotations={"milligpu.io/agent": json.dumps(claim)})
    yield node("labelled", labels={"nvidia.com/gpu.count": "4"})
    yield node("mig", labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "7"})
    yield node("sliced", labels={"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4",
                                 "nvidia.com/gpu.product": MODEL + "-SHARED"})
    yield node("broken", annotations={"milligpu.io/gpus": '[{"uuid": "GPU-x", "index": "first"}]'})
    yield node("foreign", amounts={"nvidia.com/vgpu": "80"})
    yield node("cut", labels={"nvidia.com/gpu.count": "1"}, amounts={"nvidia.com/gpu": "4"})
    amounts = node("amounts", amounts={"nvidia.com/vgpu": "2000", "nvidia.com/gpu": "2"})
    amounts["metadata"]["labels"] = bare
    yield amounts
    yield node("crowded", labels={"nvidia.com/gpu.count": "4096"})


def amounts(milli=None, whole=None):
    asked = {"cpu": "1", "memory": "1Gi"}
    if milli is not None:
        asked["nvidia.com/vgpu"] = str(milli)
    if whole is not None:
        asked["nvidia.com/gpu"] = str(whole)
    return {"limits": dict(asked), "requests": asked}


def pod(name, resources, *, uid, on=None, annotations=None, spec=None, status=None, phase="Running"):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "8", "labels": {"app": name},
                         "creationTimestamp": "2026-01-02T04:00:00Z", "annotations": annotations or {}},
            "spec": {"containers": [{"name": "c", "image": "none", "resources": resources}],
                     **({"nodeName": on} if on else {}), **(spec or {})},
            "status": {"phase": phase, **(status or {})}}


def allocation(node_name, *shares):
    return json.dumps({"v": 1, "containers": {"c": [
        {"gpu": uuid(node_name, index), "index": index, "milli": milli, "mib": mib, **more}
        for index, milli, mib, more in shares]}})


def pods():
    full = pod(
        "full", amounts(400), uid=SHARED, on="idle",
        annotations={
            "milligpu.io/allocation": allocation("idle", (0, 500, 40960, {"asked": 400})),
            "milligpu.io/signature": "k1:0011223344556677:c2lnbmF0dXJl", "milligpu.io/gpu-count": "1",
            "milligpu.io/gpu-model": "A100*", "milligpu.io/gpu-memory": "40Gi", "milligpu.io/topology": "numa",
            "gpu-count.milligpu.io/c": "1", "milligpu.io/gpu-modle": "a slip",
            "required-plugins.noderesource.dev": '["milligpu"]', "required-plugins.noderesource.dev/pod": '["milligpu"]',
            "revoked-key.milligpu.io/0011223344556677": "of a ConfigMap: it means nothing here",
            "required-plugins.noderesource.dev/container.c": '["milligpu"]'},
        spec={"priority": 7, "overhead": {"cpu": "100m"}, "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
              "initContainers": [{"name": "helper", "image": "none", "restartPolicy": "Always",
                                  "resources": {"requests": {"cpu": "10m"}}},
                                 {"name": "first", "image": "none", "resources": amounts()}]},
        status={"conditions": [{"type": "PodScheduled", "status": "True", "reason": "",
                                "lastTransitionTime": "2026-01-02T04:00:01Z"},
                               {"type": "PodResizePending", "status": "True", "reason": "Infeasible",
                                "lastTransitionTime": "2026-01-02T04:00:02Z"}],
                "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}, "resources": amounts(400)}],
                "initContainerStatuses": [{"name": "helper", "allocatedResources": {}, "resources": {}}]})
    full["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z"
    yield full
    yield pod("whole", amounts(whole=1), uid=WHOLE, on="full")
    yield pod("claims", amounts(whole=1), uid=CLAIMED, on="full")
    yield pod("adopted", amounts(300), uid="uid-adopted", on="idle")
    yield pod("torn", amounts(300), uid="uid-torn", on="idle", annotations={"milligpu.io/allocation": '{"v":1,"cont'})
    yield pod("astray", amounts(300), uid="uid-astray", on="a-node-that-is-gone")
    yield pod("waits", amounts(300), uid="uid-waits", phase="Pending")
    kept_off = pod(
        "kept-off", amounts(300), uid="uid-kept-off", phase="Pending",
        spec={"schedulerName": "milligpu", "schedulingGates": [{"name": "example.com/quota"}], "nodeSelector": {"pool": "training"},
              "tolerations": [{"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}],
              "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                  {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["training"]}],
                   "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["full"]}]}]}}}},
        status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                                "message": "Scheduling is blocked due to non-empty scheduling gates",
                                "lastTransitionTime": "2026-01-02T04:00:01Z"}]})
    kept_off["metadata"]["labels"]["pod-template-hash"] = "6d4cf56db6"
    kept_off["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "kept-off-6d4cf56db6",
                                                "uid": "uid-of-its-owner", "controller": True}]
    yield kept_off
    yield pod("ended", amounts(300), uid="uid-ended", on="idle", phase="Succeeded")


def cluster():
    return {"apiVersion": "v1", "kind": "List", "items": [*nodes(), *pods()]}
