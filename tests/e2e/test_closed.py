"""Nodes that kube-scheduler places nobody on: their room is not free, no reserve and no aim of moves."""

import json

import harness

PRODUCT = "NVIDIA-A100-SXM4-80GB"
CORDONED = {"unschedulable": True,
            "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
TEAM = {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}
RESERVE = "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\nrules:\n  - {name: keep-one-host, reserve: 1}\n"
TOLERANT = [{"operator": "Exists"}]


def node(name, gpus=4, ready="True", labels=None, **spec):
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.product": PRODUCT,
                "nvidia.com/gpu.memory": "81920", **(labels or {})}},
            "spec": spec, "status": {"capacity": room, "allocatable": room,
                                     "conditions": [{"type": "Ready", "status": ready}]}}


def pod(name, milli, on=None, **spec):
    """on: the node and the index of the GPU that it holds."""
    made = harness.pod(name, milli)
    made["spec"].update(spec)
    if on is not None:
        where, index = on
        share = {"gpu": f"{where}/gpu-{index}", "index": index, "milli": milli, "mib": 81920 * milli // 1000}
        made["metadata"]["annotations"] = {
            "milligpu.io/allocation": json.dumps({"v": 1, "containers": {"main": [share]}})}
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": True}]
        made["spec"]["nodeName"] = where
        made["status"] = {"phase": "Running"}
    return made


class Closed(harness.Case):
    def begin(self, *objects, policy=None):
        flags = []
        if policy is not None:
            file = self.scratch() / "policy.yaml"
            file.write_text(policy)
            flags = ["--policy", str(file)]
        self.daemon = self.keep(harness.Daemon(harness.objects(*objects), *flags))

    def summary(self):
        return self.daemon.get("/api/v1/summary")

    def waiting(self, made):
        made = self.daemon.create(made)
        return self.daemon.view(made["metadata"]["name"])

    def test_drained_node__counts_its_remaining_pods_as_closed_by_name(self):
        self.begin(node("good"), node("drained", **CORDONED),
                   *(pod(f"w{i}", 1000, on=("good", i)) for i in range(4)))
        summary = self.summary()
        self.assertEqual((summary["freeMilli"], summary["largestFreeMilli"], summary["closedMilli"]), (0, 0, 4000))
        self.assertEqual(summary["closed"]["cordoned"], 4000)
        self.assertEqual(self.daemon.metric("milligpu_free_milli{"), [f'milligpu_free_milli{{model="{PRODUCT}"}} 0'])
        self.assertEqual(self.daemon.metric("milligpu_largest_free_milli{"),
                         [f'milligpu_largest_free_milli{{model="{PRODUCT}"}} 0'])
        self.assertIn(f'milligpu_closed_milli{{reason="cordoned",model="{PRODUCT}"}} 4000',
                      self.daemon.metric("milligpu_closed_milli{"))
        shown = {item["name"]: item for item in self.daemon.get("/api/v1/nodes")["items"]}
        self.assertEqual((shown["drained"]["state"], shown["drained"]["freeMilli"]), ("cordoned", 0))
        self.assertIn("kubectl cordon", shown["drained"]["stateText"])
        self.assertEqual([item["name"] for item in self.daemon.get("/api/v1/nodes?state=closed")["items"]], ["drained"])
        answer = self.waiting(pod("new", 1000))
        self.assertEqual([reason["reason"] for reason in answer["reasons"]], ["room"])
        self.assertEqual([(bar["reason"], bar["nodes"], bar["names"]) for bar in answer["unusable"]],
                         [("cordoned", 1, ["drained"])])
        self.assertFalse(any(verdict["fits"] for verdict in answer["nodes"]))
        self.assertNotIn("4000 milli free", json.dumps(answer))
        done = self.daemon.ctl("pod", "default/new")
        self.assertIn("1 node fits, the pod may use none: 1 cordoned", done.stdout)
        # kube-scheduler decides: whom it asks about is granted.
        self.daemon.schedule(pod("daemon", 300, tolerations=TOLERANT), ["drained"])
        self.assertEqual(self.summary()["closed"]["cordoned"], 3700)

    def test_sick_gpu__is_counted_as_doctor_counts_it(self):
        sick = node("sick", gpus=2)
        sick["metadata"]["annotations"] = {"milligpu.io/gpus": json.dumps([
            {"uuid": f"GPU-{i}", "index": i, "milli": 1000, "mib": 81920, "model": PRODUCT, "health": health}
            for i, health in enumerate(("ok", "sick: XID 79"))])}
        self.begin(node("well"), sick)
        shown = sum(int(line.split()[-1]) for line in self.daemon.metric("milligpu_unhealthy_gpus{"))
        said = self.daemon.doctor("gpus")
        self.assertEqual((shown, said["status"]), (1, "warning"))
        self.assertTrue(said["text"].startswith("1 of 6 GPUs is unhealthy"), said["text"])

    def test_closed_capacity__has_a_part_for_each_reason(self):
        self.begin(node("away", ready="Unknown"), node("team", **TEAM),
                   node("soft", taints=[{"key": "slow", "effect": "PreferNoSchedule"}]),
                   node("leaves", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "value": "17", "effect": "NoSchedule"}]),
                   node("odd", taints=[{"key": 7, "effect": "NoSchedule"}]))
        closed = self.summary()["closed"]
        self.assertEqual({word: milli for word, milli in closed.items() if milli > 0},
                         {"not_ready": 4000, "tainted": 4000, "leaving": 4000, "taints_unreadable": 4000})
        self.assertEqual(self.summary()["freeMilli"], 4000)
        # A pod that tolerates the taint makes it room; no pod makes room of a node that is about to go.
        answer = self.waiting(pod("any", 300, tolerations=TOLERANT))
        self.daemon.wait(lambda: self.summary()["closed"]["tainted"] == 0, "the taint to be tolerated")
        self.assertEqual(self.summary()["closed"]["leaving"], 4000)
        self.assertEqual(self.summary()["freeMilli"], 8000)
        self.assertEqual(sum(reason["nodes"] for reason in answer["reasons"]), 4)
        self.assertEqual([bar["reason"] for bar in answer["unusable"]], ["taints_unreadable"])
        self.daemon.admin("DELETE", "/api/v1/standalone/pods/default/any")
        self.daemon.wait(lambda: self.summary()["closed"]["tainted"] == 4000, "nobody to tolerate it")

    def test_waiting_pod__names_the_taint_and_the_affinity(self):
        self.begin(node("g1", **{"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}),
                   node("g2", labels={"pool": "b"}))
        answer = self.waiting(pod("notebook", 300, nodeSelector={"pool": "a"}))
        self.assertEqual(sorted((bar["reason"], bar.get("taint"), bar["names"]) for bar in answer["unusable"]),
                         [("affinity", None, ["g2"]), ("tainted", "nvidia.com/gpu", ["g1"])])
        self.assertEqual(answer["reasons"], [])
        self.assertIn("2 nodes fit, the pod may use none: ", self.daemon.ctl("pod", "default/notebook").stdout)
        answer = self.waiting(pod("fine", 300, nodeSelector={"pool": "b"}))
        self.assertEqual([verdict["name"] for verdict in answer["nodes"] if verdict["fits"]], ["g2"])

    def test_play__places_no_pod_on_a_closed_node(self):
        self.begin(node("away", ready="False"), node("team", **TEAM), node("drained", **CORDONED))
        file = self.daemon.home / "pods.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            pod("plain", 300), pod("tolerant", 300, tolerations=[{"key": "team", "value": "a"}])]}))
        items = {item["name"]: item for item in json.loads(self.daemon.ctl("play", str(file), "-o", "json").stdout)["items"]}
        self.assertEqual(items["plain"]["outcome"], "refused", items)
        self.assertEqual((items["tolerant"]["outcome"], items["tolerant"]["node"]), ("placed", "team"))

    def refused(self, made, names):
        answer = self.daemon.filter(self.daemon.create(made), names)
        self.assertFalse(answer["NodeNames"], answer)
        return answer["FailedAndUnresolvableNodes"]

    def test_reserve__ignores_a_host_closed_to_all_pods(self):
        for spec in (CORDONED, TEAM, {"ready": "False"}):
            self.begin(node("good"), node("bad", **spec), policy=RESERVE)
            self.refused(pod("single", 1000), ["good"])
            self.daemon.schedule(pod("quad", 4000), ["good"])

    def test_reserve__counts_a_host_that_pods_tolerate(self):
        self.begin(node("good"), node("bad", **TEAM), policy=RESERVE)
        single = self.daemon.create(pod("single", 1000, tolerations=TOLERANT))
        self.daemon.wait(lambda: self.daemon.filter(single, ["good"])["NodeNames"] == ["good"], "the reserve")

    def test_defrag__moves_nothing_to_or_from_closed_nodes(self):
        for spec, moves in ((CORDONED, False), ({}, True)):
            self.begin(node("good", 2), node("drained", 1, **spec), pod("a", 600, on=("good", 0)),
                       pod("b", 600, on=("good", 1)), pod("c", 400, on=("drained", 0)))
            done = self.daemon.ctl("defrag", "--plan", "--min-gain", "1", "-o", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            plan = json.loads(done.stdout)
            if not moves:
                self.assertEqual((plan["moves"], plan["freeMilli"]), ([], 800))
            else:
                self.assertEqual(plan["freeMilli"], 1400)


if __name__ == "__main__":
    harness.main()
