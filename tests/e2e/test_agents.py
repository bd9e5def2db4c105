"""Nodes count while their agents vouch for them: milligpud against an API server, whose agents this file plays."""

import contextlib
import json
import sqlite3

import harness
from gfd_labels import gfd_labels
from test_nodes import cluster, node

NAMESPACE = "milligpu-node"


def vouching(name, uid=None, node_uid=None):
    """What an agent writes to its Node (src/agent/reporter.c); uid: of its pod."""
    gpus = [{"uuid": f"GPU-{name}-{at}", "index": at, "milli": 1000, "mib": 81920, "model": "NVIDIA-A100-SXM4-80GB"}
            for at in range(2)]
    claim = {"v": 1, "version": "0.1.0", "pod": {"uid": uid or f"agent-{name}", "node": node_uid or f"uid-{name}", "boot": f"boot-{name}"}}
    return {"milligpu.io/gpus": json.dumps(gpus), "milligpu.io/agent": json.dumps(claim)}


def gpu_node(name, annotations=None):
    made = node(name, gfd_labels(2), annotations=annotations)
    made["status"]["nodeInfo"] = {"bootID": f"boot-{name}", "containerRuntimeVersion": "containerd://2.3.7"}
    return made


def agent_pod(name, ready=True, uid=None):
    """The DaemonSet's, as kubelet shows it."""
    made = harness.pod(f"milligpu-node-{uid or name}", namespace=NAMESPACE, uid=uid or f"agent-{name}")
    made["metadata"]["labels"] = {"app.kubernetes.io/name": "milligpu", "app.kubernetes.io/component": "node"}
    made["spec"]["nodeName"] = name
    made["status"] = {"phase": "Running", "conditions": [
        {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True" if ready else "False"}]}
    return made


class Agents(harness.Case):
    def start(self, *nodes, pods=(), flags=()):
        self.api = self.keep(harness.Api(cluster(*nodes, *pods)))
        self.daemon = self.keep(harness.ClusterDaemon(self.api, f"--keys-namespace={NAMESPACE}", *flags))
        return self.daemon

    def ready(self, name, ready, uid=None):
        conditions = agent_pod(name, ready, uid)["status"]["conditions"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/milligpu-node-{uid or name}/status"
        self.assertEqual(self.api.request("PATCH", path, {"status": {"conditions": conditions}})[0], 200)

    def appear(self, name, ready, uid=None):
        """A pod that comes while milligpud runs; its status is kubelet's. Returns the uid that it got."""
        made = self.api.create(agent_pod(name, uid=uid))
        self.ready(name, ready, uid)
        return made["metadata"]["uid"]

    def annotate(self, name, annotations):
        self.assertEqual(self.api.request(
            "PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": annotations}})[0], 200)

    def vouch(self, name):
        return self.daemon.get("/api/v1/nodes/" + name)["vouch"]

    def becomes(self, name, word):
        self.daemon.wait(lambda: self.vouch(name) == word, f"{name}: {word}, is {self.vouch(name)}", 5)

    def drift(self):
        return [(one["kind"], one["node"]) for one in self.daemon.get("/api/v1/drift")["items"]]

    def test_new_shares__wait_until_the_agent_is_ready_again(self):
        daemon = self.start(gpu_node("n1", vouching("n1")), gpu_node("n2", vouching("n2")),
                            pods=[agent_pod("n1"), agent_pod("n2")])
        self.assertEqual((self.vouch("n1"), self.vouch("n2"), self.drift()), ("vouched", "vouched", []))
        self.assertEqual(self.daemon.doctor("agents")["text"], "the agents of 2 nodes vouch for their GPUs")
        ran, _, _ = daemon.schedule(harness.pod("ran", 300), ["n1"])
        self.assertEqual(ran, "n1")

        self.ready("n1", False)
        self.becomes("n1", "not_ready")
        shown = daemon.get("/api/v1/nodes/n1")
        self.assertEqual((shown["state"], shown["freeMilli"], shown["closedMilli"], shown["usedMilli"]),
                         ("not_vouched", 0, 1700, 300))
        self.assertEqual(shown["stateText"], "the pod of its agent is not Ready")
        self.assertEqual(self.drift(), [("not_vouched", "n1")])
        self.assertEqual(daemon.get("/api/v1/summary")["closed"]["agent"], 1700)
        found = self.daemon.doctor("agents")
        self.assertEqual((found["status"], found["text"]), (
            "warning", "the agents of 1 node do not vouch for their GPUs, which take no new shares; node n1: "
            "the pod of its agent is not Ready"))
        # The text is the one of all reasons that may change: a scheduler that writes it wakes the pod.
        waits = daemon.create(harness.pod("waits", 300))
        refused = daemon.filter(waits, ["n1"])
        text = "no GPU with 300 milli free"
        self.assertEqual((refused["NodeNames"], refused["FailedAndUnresolvableNodes"]), ([], {"n1": text}))
        self.assertEqual(daemon.filter(waits, ["n1", "n2"])["NodeNames"], ["n2"])
        self.assertIn(text, daemon.bind(waits, "n1"))
        daemon.knows("ran")

        self.ready("n1", True)
        self.becomes("n1", "vouched")
        self.assertEqual(daemon.filter(waits, ["n1"])["NodeNames"], ["n1"])
        self.assertEqual(daemon.bind(waits, "n1"), "")
        self.assertEqual(self.drift(), [])

    def test_new_node__takes_no_pods_before_its_agent_is_ready(self):
        daemon = self.start(gpu_node("old", vouching("old")), pods=[agent_pod("old")])
        status, new = self.api.request("POST", "/api/v1/nodes", gpu_node("new"))
        self.assertEqual(status, 201)
        daemon.wait(lambda: "new" in daemon.nodes(), "the new node")
        self.assertEqual(self.vouch("new"), "no_agent")
        made = daemon.create(harness.pod("p", 2000))
        self.assertEqual(daemon.filter(made, ["new"])["NodeNames"], [])
        self.assertNotEqual(daemon.bind(made, "new"), "")
        # its agent comes: first the pod, then the annotations, then Ready
        uid = self.appear("new", False)
        self.annotate("new", vouching("new", uid, new["metadata"]["uid"]))
        self.becomes("new", "not_ready")
        self.assertEqual(daemon.filter(made, ["new"])["NodeNames"], [])
        self.ready("new", True)
        self.becomes("new", "vouched")
        self.assertEqual(daemon.bind(made, "new"), "")
        given = json.loads(self.api.pod("p")["metadata"]["annotations"]["milligpu.io/allocation"])
        self.assertIn("GPU-new-", json.dumps(given))

    def test_agent_annotation__closes_the_node_when_the_cluster_contradicts_it(self):
        self.start(gpu_node("n1", vouching("n1")), pods=[agent_pod("n1")])
        self.appear("n1", True, uid="clone")
        self.becomes("n1", "cloned")
        self.ready("n1", False, uid="clone")
        self.becomes("n1", "vouched")
        self.ready("n1", False)
        self.ready("n1", True, uid="clone")
        self.becomes("n1", "not_ready")  # another pod that is Ready does not vouch
        self.api.gone("milligpu-node-clone", NAMESPACE)
        self.ready("n1", True)
        self.becomes("n1", "vouched")
        for member, value, word in (("node", "a-former-uid", "other_node"), ("boot", "another-boot", "other_boot"),
                                    ("uid", "another-pod", "gone")):
            said = vouching("n1")
            claim = json.loads(said["milligpu.io/agent"])
            claim["pod"][member] = value
            self.annotate("n1", {"milligpu.io/agent": json.dumps(claim)})
            self.becomes("n1", word)
        self.annotate("n1", {"milligpu.io/agent": '{"v":1}'})
        self.becomes("n1", "unnamed")
        self.annotate("n1", {"milligpu.io/agent": '{"v":1,"leaving":"driver-upgrade"}'})
        self.becomes("n1", "leaving")
        self.assertEqual(self.daemon.get("/api/v1/nodes/n1")["state"], "agent_leaving")
        self.assertEqual(self.drift(), [])
        self.annotate("n1", vouching("n1"))
        self.becomes("n1", "vouched")
        self.api.gone("milligpu-node-n1", NAMESPACE)
        self.becomes("n1", "gone")

    def remembers(self, daemon):
        """Has the ledger stored that the agent of a node vouched?"""
        with contextlib.closing(sqlite3.connect(f"file:{daemon.home}/ledger.db?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM agent WHERE vouched").fetchone()[0] > 0

    def test_required_agents__outlive_a_restart_without_agents(self):
        daemon = self.start(gpu_node("n1", vouching("n1")), pods=[agent_pod("n1")])
        self.assertEqual(self.vouch("n1"), "vouched")
        daemon.wait(lambda: "agents" in json.dumps(daemon.get("/api/v1/doctor")), "the check")
        daemon.wait(lambda: self.remembers(daemon), "it to be stored, which is done between two batches")
        daemon.kill()
        self.api.request("DELETE", "/api/v1/nodes/n1")
        self.api.gone("milligpu-node-n1", NAMESPACE)
        self.assertEqual(self.api.request("POST", "/api/v1/nodes", gpu_node("n2"))[0], 201)
        daemon.start()
        daemon.wait(lambda: "n2" in daemon.nodes(), "the new node")
        self.assertEqual(self.vouch("n2"), "no_agent")

    def test_agents__are_optional_when_absent_or_waived(self):
        daemon = self.start(gpu_node("n1"), gpu_node("n2"))
        self.assertEqual((self.vouch("n1"), self.drift()), ("none", []))
        self.assertEqual(self.daemon.doctor("agents")["text"], "no node needs an agent")
        self.assertEqual(daemon.schedule(harness.pod("p", 300), ["n1"])[0], "n1")
        self.annotate("n2", vouching("n2"))
        self.becomes("n2", "gone")
        self.becomes("n1", "no_agent")

    def test_required_agents__off_opens_every_node(self):
        self.start(gpu_node("n1", vouching("n1")), gpu_node("n2"), flags=["--require-agent=never"])
        self.assertEqual((self.vouch("n1"), self.vouch("n2"), self.drift()), ("none", "none", []))

    def test_required_agents__on_closes_every_node_without_one(self):
        self.start(gpu_node("n1"), flags=["--require-agent=always"])
        self.assertEqual(self.vouch("n1"), "no_agent")


if __name__ == "__main__":
    harness.main()
