"""Nodes whose sources contradict each other: labels, amounts, the device plugin and the agent."""

import json

import harness
from gfd_labels import MIXED, gfd_labels


def node(name, labels, *, capacity=None, allocatable=None, annotations=None):
    """allocatable: as capacity, if nothing else is said."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    capacity = capacity or {}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": "uid-" + name, "annotations": annotations or {},
                         "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {}, "status": {"capacity": amounts | capacity,
                                   "allocatable": amounts | (capacity if allocatable is None else allocatable),
                                   "conditions": [{"type": "Ready", "status": "True"}]}}


def whole(gpus):
    return {"nvidia.com/gpu": str(gpus)}


def agent(gpus, mig=0, of="a"):
    """The annotations of an agent; MIG has the first GPUs."""
    said = [{"uuid": f"GPU-{of}{at}", "index": at, "milli": 1000, "mib": 81920, "model": "NVIDIA-A100-SXM4-80GB"}
            | ({"held": "mig"} if at < mig else {}) for at in range(gpus)]
    return {"milligpu.io/gpus": json.dumps(said), "milligpu.io/agent": '{"version":"0.1.0"}'}


def cluster(*nodes):
    return harness.objects(*nodes)


class Shown(harness.Case):
    """milligpud --standalone on a file. Nodes with and without an agent are side by side, so none is needed."""

    def daemon(self, *nodes, flags=("--require-agent=never",)):
        return self.keep(harness.Daemon(cluster(*nodes), *flags))

    def shown(self, daemon, name):
        shown = daemon.get("/api/v1/nodes/" + name)
        return shown["state"], shown["freeMilli"], shown["stateText"]

    def check(self, daemon, name):
        return daemon.doctor(name)

    def drift(self, daemon):
        return [(one["kind"], one["node"], one["text"]) for one in daemon.get("/api/v1/drift")["items"]]

    def ctl(self, daemon, *words):
        done = daemon.ctl(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_mig_gpus__come_from_the_agent_whatever_the_labels_say(self):
        daemon = self.daemon(
            node("labels-of-operator", gfd_labels(8, changes=MIXED), capacity=whole(6), annotations=agent(8, 2)),
            node("labels-without-mig", gfd_labels(8), annotations=agent(8, 2, of="b")),
            node("no-agent", gfd_labels(8, changes=MIXED), capacity=whole(6)))
        for name in "labels-of-operator", "labels-without-mig":
            self.assertEqual(self.shown(daemon, name), ("ok", 6000, ""))
            states = [gpu["state"] for gpu in daemon.get("/api/v1/nodes/" + name)["gpus"]]
            self.assertEqual(states, ["held"] * 2 + ["ok"] * 6)
        state, free, text = self.shown(daemon, "no-agent")
        self.assertEqual((state, free), ("excluded", 0))
        self.assertRegex(text, r"^the node's labels say MIG: ")
        self.assertRegex(self.ctl(daemon, "node", "labels-of-operator"), r"(?m)^  0 .* held +mig$")

    def test_time_sliced_gpus__are_not_shared_again(self):
        sliced = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing",
                  "nvidia.com/gpu.product": "Tesla-T4-SHARED"}
        daemon = self.daemon(node("bug", gfd_labels(1, "Tesla-T4", 15360), capacity=whole(4)),
                             node("says-so", gfd_labels(1, "Tesla-T4", 15360, sliced), capacity=whole(4)),
                             node("renamed", gfd_labels(1, "Tesla-T4", 15360), capacity={"nvidia.com/gpu.shared": "4"}),
                             node("agent", gfd_labels(1), capacity=whole(4), annotations=agent(1)),
                             node("fine", gfd_labels(4), capacity=whole(4)))
        text = ("the device plugin shows 4 GPUs, and the node has 1: somebody else shares them (time-slicing, MPS)")
        self.assertEqual(self.shown(daemon, "bug"), ("foreign_units", 0, text))
        self.assertEqual(self.shown(daemon, "agent"), ("foreign_units", 0, text))
        self.assertEqual(self.shown(daemon, "says-so")[:2], ("excluded", 0))
        self.assertEqual(self.shown(daemon, "renamed")[:2], ("excluded", 0))
        self.assertEqual(self.shown(daemon, "fine"), ("ok", 4000, ""))
        self.assertEqual(sorted(self.drift(daemon)), [("foreign_units", "agent", text), ("foreign_units", "bug", text)])
        answer = daemon.filter(daemon.create(harness.pod("p", 300)))
        self.assertEqual(answer["NodeNames"], ["fine"])

    def test_virtual_machine_nodes__are_excluded(self):
        given = {"nvidia.com/gpu.workload.config": "vm-passthrough"}
        daemon = self.daemon(node("vms", gfd_labels(2, changes=given)),
                             node("vgpus", gfd_labels(2, changes={"nvidia.com/gpu.workload.config": "vm-vgpu"}),
                                  annotations=agent(2)),
                             node("containers", gfd_labels(2, changes={"nvidia.com/gpu.workload.config": "container"})))
        self.assertEqual(self.shown(daemon, "vms"), (
            "excluded", 0, 'label nvidia.com/gpu.workload.config gives the GPUs to virtual machines: "vm-passthrough"'))
        self.assertEqual(self.shown(daemon, "vgpus")[:2], ("excluded", 0))
        self.assertEqual(self.shown(daemon, "containers"), ("ok", 2000, ""))
        self.assertEqual(self.drift(daemon), [])

    def test_idle_plugin__closes_its_node_and_held_gpus_are_drift(self):
        nodes = [node("down", gfd_labels(8), capacity=whole(8), allocatable=whole(0)),
                 node("sick", gfd_labels(8), capacity=whole(8), allocatable=whole(7)),
                 node("left", gfd_labels(8), capacity=whole(0)),
                 node("none", gfd_labels(8)),
                 node("agent", gfd_labels(8), capacity=whole(8), allocatable=whole(0), annotations=agent(8))]
        daemon = self.daemon(*nodes)
        self.assertEqual(self.shown(daemon, "down"), ("plugin", 0, "the node's device plugin offers no GPU now"))
        self.assertEqual(daemon.get("/api/v1/summary")["closed"]["plugin"], 8000)
        for name in "sick", "left", "none", "agent":
            self.assertEqual(self.shown(daemon, name), ("ok", 8000, ""))
        self.assertEqual(self.drift(daemon), [("plugin", "sick", "the device plugin offers 7 of 8 GPUs: it holds back 1, "
                                               "and which is not known; it may be sick, and takes shares")])
        found = self.check(daemon, "plugin")
        self.assertEqual((found["status"], found["text"]), (
            "warning", "the device plugin of 1 node (down first) offers 0 nvidia.com/gpu, so no share is granted there"))
        self.assertIn("set plugin to ignore", found["fix"])
        self.assertRegex(self.ctl(daemon, "nodes", "--state", "plugin"), r"(?m)^down .* plugin  ")
        self.assertIn(b'{reason="plugin",model="NVIDIA-A100-SXM4-80GB"} 8000', daemon.admin("GET", "/metrics")[1])
        answer = daemon.filter(daemon.create(harness.pod("p", 300)), ["down"])
        self.assertEqual(answer["FailedAndUnresolvableNodes"], {"down": "no GPU with 300 milli free"})
        expecting = self.daemon(*nodes, flags=("--plugin=expect", "--require-agent=never"))
        self.assertEqual({name: self.shown(expecting, name)[0] for name in ("down", "sick", "left", "none", "agent")},
                         {"down": "plugin", "sick": "ok", "left": "plugin", "none": "plugin", "agent": "ok"})
        ignoring = self.daemon(*nodes, flags=("--plugin=ignore", "--require-agent=never"))
        self.assertEqual(ignoring.get("/api/v1/summary")["freeMilli"], 40000)
        self.assertEqual(self.drift(ignoring), [])
        self.assertIn("is ignored", self.check(ignoring, "plugin")["text"])

    def test_unnamed_gpus__are_reported_missing(self):
        bare = {"kubernetes.io/os": "linux"}
        daemon = self.daemon(node("gke", bare, capacity=whole(8)), node("cpu", bare), node("fine", gfd_labels(1)))
        text = ("no source of shares: label nvidia.com/gpu.count (from feature discovery) or annotation milligpu.io/gpus "
                "(from milligpu-node) is missing")
        self.assertEqual(self.shown(daemon, "gke"), ("no_source", 0, text))
        self.assertEqual(self.shown(daemon, "cpu"), ("ok", 0, "the node has no GPUs to share"))
        found = self.check(daemon, "sources")
        self.assertEqual((found["status"], found["text"]),
                         ("warning", f"1 node has GPUs and nothing to share; node gke: {text}"))
        self.assertIn(text, self.ctl(daemon, "node", "gke"))
        self.assertRegex(self.ctl(daemon, "nodes"), r"(?m)^gke .* no_source  ")
        self.assertEqual(self.drift(daemon), [])

    def test_unknown_memory__is_reported(self):
        daemon = self.daemon(node("spark", gfd_labels(1, "NVIDIA-GB10", 0)))
        plain = daemon.create(harness.pod("plain", 300))
        mem = daemon.create(harness.pod("mem", 300, annotations={"milligpu.io/gpu-memory": "16Gi"}))
        text = "no GPU whose memory is known, and gpu-memory asks for 16384 MiB"
        self.assertEqual(daemon.filter(plain)["NodeNames"], ["spark"])
        self.assertEqual(daemon.filter(mem)["FailedAndUnresolvableNodes"], {"spark": text})
        self.assertIn(text, self.ctl(daemon, "pod", "default/mem"))


if __name__ == "__main__":
    harness.main()
