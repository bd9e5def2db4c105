"""A cluster of 200 nodes and five GPU models, as stories about what people see need it."""

import hashlib
import json
import uuid

MODELS = (("NVIDIA-A100-SXM4-80GB", 81920, 8), ("NVIDIA-H100-80GB-HBM3", 81559, 8), ("NVIDIA-L40S", 46068, 4),
          ("NVIDIA-A10", 23028, 4), ("Tesla-T4", 15360, 2))
NODES = 200
ADOPTED = 300
SICK = (3, 44, 45)  # nodes with a GPU that is ill
MIG = range(160, 176)


def uid(*words):
    return str(uuid.UUID(hashlib.md5("/".join(map(str, words)).encode()).hexdigest()))


def name_of(number):
    return f"gpu-{MODELS[number % 5][0].split('-')[1].lower()}-{number:03}"


def gpu(number, index):
    model, mib, _ = MODELS[number % 5]
    entry = {"uuid": "GPU-" + uid("gpu", number, index), "index": index, "milli": 1000, "mib": mib, "model": model}
    if number in SICK and index == 1:
        entry |= {"health": "unhealthy", "reason": "XID 79: GPU has fallen off the bus", "since": "2026-01-02T03:04:05Z"}
    return entry


def node(number, agents):
    model, mib, gpus = MODELS[number % 5]
    labels = {"kubernetes.io/hostname": name_of(number), "nvidia.com/gpu.product": model,
              "nvidia.com/gpu.memory": str(mib), "nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.present": "true",
              "nvidia.com/gpu.replicas": "1"}
    annotations = {}
    if number in MIG:
        labels |= {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "7"}
    elif number in SICK or (agents and number % 2 == 0):
        annotations["milligpu.io/gpus"] = json.dumps([gpu(number, i) for i in range(gpus)])
    if number in (50, 51):
        annotations["milligpu.io/cordon"] = "all"
    amounts = {"cpu": "128", "memory": "1024Gi", "pods": "110", "nvidia.com/vgpu": str(gpus * 1000)}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name_of(number), "uid": uid("node", number), "labels": labels, "annotations": annotations},
            "spec": {}, "status": {"capacity": amounts, "allocatable": amounts,
                                   "conditions": [{"type": "Ready", "status": "True"}]}}


def pod(name, milli, on=None, namespace="default", bound="2026-01-02T03:04:05Z", annotations=None):
    limits = {"nvidia.com/vgpu": str(milli)}
    made = {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": uid("pod", namespace, name),
                         "creationTimestamp": bound, "annotations": annotations or {}},
            "spec": {"containers": [{"name": "main", "image": "none", "resources": {"limits": limits, "requests": limits}}]},
            "status": {"phase": "Pending"}}
    if on is not None:
        made["spec"]["nodeName"] = name_of(on)
        made["status"] = {"phase": "Running",
                          "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]}
    return made


def cluster(agents=True, nodes=NODES, adopted=ADOPTED, more=()):
    """Pods that others bound: `adopted` of them long ago, and those of `more`."""
    items = [node(i, agents) for i in range(nodes)]
    items += [pod(f"inference-server-{i:03}-6d5f8", 200 + 100 * (i % 5), on=i * 7 % min(nodes, 160), namespace=f"team-{i % 9}")
              for i in range(adopted)]
    return {"apiVersion": "v1", "kind": "List", "items": [*items, *more]}
