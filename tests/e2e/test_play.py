"""milligpuctl play: nodes are chosen as kube-scheduler would, and refusals have true numbers."""

import json
import os
import subprocess
import unittest

import harness

CTL = harness.BIN / "milligpuctl"
MODELS = {"h100": "NVIDIA-H100-80GB-HBM3", "a100": "NVIDIA-A100-SXM4-80GB", "l4": "NVIDIA-L4", "t4": "Tesla-T4",
          "v100": "Tesla-V100-SXM2-32GB"}
EACH = 40
CORDONED, TAINTED, SMALL = range(0, 3), range(3, 5), range(5, 9)  # of the nodes of each model


def node(model, at):
    name = f"{model}-{at:02}"
    room = {"cpu": "2" if at in SMALL else "64", "memory": "256Gi", "pods": "110", "nvidia.com/vgpu": "8k"}
    spec = {"unschedulable": True} if at in CORDONED else {}
    if at in TAINTED:
        spec["taints"] = [{"key": "team", "value": "vision", "effect": "NoSchedule"}]
    if at == EACH - 1:
        spec["taints"] = [{"key": "slow", "effect": "PreferNoSchedule"}]
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "nvidia.com/gpu.product": MODELS[model], "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.memory": "81920", "rack": str(at)}},
            "spec": spec, "status": {"capacity": room, "allocatable": room}}


def cluster(*pods):
    nodes = [node(model, at) for model in MODELS for at in range(EACH)]
    return {"apiVersion": "v1", "kind": "List", "items": nodes + list(pods)}


def pod(name, milli=300, *, cpu="4", annotations=None, **spec):
    made = harness.pod(name, milli, annotations=annotations)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    made["spec"].update(spec)
    return made


def on(model):
    return {"nodeSelector": {"nvidia.com/gpu.product": MODELS[model]}}


def affinity(*rules):
    terms = [{"matchExpressions": [dict(zip(("key", "operator", "values"), rule)) for rule in rules]}]
    return {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}


class Play(harness.Story):
    def play(self, *objects, status=0, words=()):
        done = self.run_play(*objects, words=("-o", "json", *words))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)["items"]

    def run_play(self, *objects, words=()):
        kept = {k: v for k, v in os.environ.items() if k not in ("MILLIGPU_SERVER", "NO_COLOR")}
        done = subprocess.run([CTL, "play", "-", "--port-file", self.daemon.home / "ports", *words], text=True,
                              capture_output=True, timeout=harness.PATIENCE, env=kept, input="\n---\n".join(map(json.dumps, objects)))
        if "Sanitizer" in done.stderr or "must:" in done.stderr or done.returncode < 0:
            raise AssertionError(f"{done.returncode}\n{done.stderr}")
        return done

    def fails(self, *objects, says):
        """An error in one sentence, and no pod is made."""
        before = len(self.pods())
        done = self.run_play(*objects)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(self.pods()), before)

    def pods(self):
        return self.daemon.get("/api/v1/standalone/pods?limit=1000")["items"]

    def reasons(self, item):
        """{text: nodes}; every node of the cluster is in one of them."""
        self.assertEqual(item["outcome"], "refused", item)
        counted = {reason["text"]: reason["nodes"] for reason in item["reasons"]}
        self.assertEqual(sum(counted.values()), EACH * len(MODELS), item)
        return counted


class Filters(Play):
    cluster = cluster()  # the class attribute that Story reads

    def test_a_pod_goes_only_where_selector_taints_and_cordons_let_it(self):
        good = {f"h100-{at:02}" for at in range(9, EACH)}
        items = self.play(*(pod(f"h{i}", 1000, **on("h100")) for i in range(12)))
        self.assertEqual({item["outcome"] for item in items}, {"placed"})
        self.assertLessEqual({item["node"] for item in items}, good)
        tolerant = {"tolerations": [{"key": "team", "operator": "Equal", "value": "vision"}]}
        rack = affinity(("rack", "In", ["3"]), ("nvidia.com/gpu.product", "NotIn", [MODELS["h100"]]),
                        ("nvidia.com/gpu.product", "In", [MODELS["l4"], MODELS["h100"]]))
        self.assertEqual(self.play(pod("vision", **tolerant, **rack))[0]["node"], "l4-03")
        cordon = {"tolerations": [{"operator": "Exists"}], **affinity(("rack", "Lt", ["1"]), ("rack", "Gt", ["-1"]))}
        self.assertRegex(self.play(pod("daemon", **cordon))[0]["node"], "-00$")

    def test_reasons_are_those_of_kube_scheduler_and_add_up(self):
        item = self.play(pod("picky", 300, cpu="3", annotations={"milligpu.io/gpu-model": "L4"}, **on("h100")))[0]
        self.assertEqual(self.reasons(item), {
            "node(s) were unschedulable": 15, "node(s) had untolerated taint(s)": 10,
            "node(s) didn't match Pod's node affinity/selector": 140, "Insufficient cpu": 4, "no GPU of model L4": 31})
        item = self.play(pod("large", cpu="65"))[0]
        self.assertEqual(self.reasons(item), {"node(s) were unschedulable": 15, "node(s) had untolerated taint(s)": 10,
                                              "Insufficient cpu": 175})
        table = self.run_play(pod("shown", cpu="65")).stdout
        self.assertRegex(table, r"default/shown +refused  175 Insufficient cpu; 15 node\(s\) were unschedulable; "
                                r"10 node\(s\) had untolerated taint\(s\)\n")

    def test_an_entry_that_speaks_for_many_nodes_is_counted(self):
        item = self.play(pod("nine", 9000, cpu="1", annotations={"milligpu.io/gpu-model": "H100*"}))[0]
        counted = self.reasons(item)
        self.assertEqual(counted.pop("node(s) were unschedulable"), 15)
        self.assertEqual(counted.pop("node(s) had untolerated taint(s)"), 10)
        self.assertEqual(counted.pop("no GPU of model H100*"), 4 * 35)
        self.assertEqual(list(counted.values()), [35])
        self.assertNotIn("all such nodes", item["text"])
        item = self.play(pod("odd", 1500, cpu="1"))[0]  # no node is judged for a request that cannot be
        self.assertEqual(sorted(self.reasons(item).values()), [10, 15, 175])
        item = self.play(pod("none", cpu="1", annotations={"milligpu.io/gpu-model": "B200"}))[0]
        self.assertEqual(self.reasons(item)["no GPU of model B200"], 175)
        self.assertRegex(item["text"], r"; the nearest are [^;]+, [^;]+, [^;]+$")
        # A model that exists has no neighbours: something else is in the way.
        item = self.play(pod("full", 64000, cpu="1", annotations={"milligpu.io/gpu-model": "H100*"}))[0]
        self.assertNotIn("nearest", item["text"])

    def test_pods_that_play_places_take_their_room(self):
        wanted = affinity(("rack", "In", ["20"]), ("nvidia.com/gpu.product", "In", [MODELS["v100"]]))
        items = self.play(*(pod(f"fills-{i}", 100, cpu="30", **wanted) for i in range(3)))
        self.assertEqual([item["node"] for item in items], ["v100-20", "v100-20", ""])
        self.assertEqual(self.reasons(items[2])["Insufficient cpu"], 1)
        # Another run finds them there.
        self.assertEqual(self.reasons(self.play(pod("fills-4", 100, cpu="30", **wanted))[0])["Insufficient cpu"], 1)

    def test_pods_that_kube_scheduler_would_not_ask_about_are_skipped_with_a_word(self):
        items = self.play(pod("named", nodeName="h100-10"), pod("gated", schedulingGates=[{"name": "wait"}]),
                          pod("other", schedulerName="mine", **on("t4")))
        self.assertEqual([item["outcome"] for item in items], ["skipped", "skipped", "placed"])
        self.assertIn("spec.nodeName", items[0]["text"])
        self.assertIn("schedulingGates", items[1]["text"])
        self.assertTrue(items[2]["node"].startswith("t4-"), items)
        self.assertFalse({"named", "gated"} & {made["metadata"]["name"] for made in self.pods()})

    def test_what_an_api_server_would_refuse_ends_play_before_the_first_pod(self):
        for wrong, says in (
                ({"tolerations": [{"key": 1}]}, "spec.tolerations[0].key: expected a string"),
                ({"nodeSelector": {"gpu": True}}, 'spec.nodeSelector["gpu"]'),
                (affinity(("gpu", "In", "h100")), "matchExpressions[0].values: expected an array"),
                ({"overhead": {"cpu": "much"}}, 'spec.overhead.cpu: "much" is not a quantity')):
            with self.subTest(says):
                self.fails(pod("fine"), pod("wrong", **wrong), says=["default/wrong", says])


def template(milli, *, cpu="1", labels=None, **spec):
    return {"metadata": {"labels": {"app": "web", **(labels or {})}, "annotations": {"milligpu.io/gpu-model": "L4"}},
            "spec": pod("ignored", milli, cpu=cpu, **spec)["spec"]}


def workload(kind, name, **spec):
    version = {"Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


class Workloads(Play):
    cluster = cluster()

    def names(self, items, outcome="placed"):
        return [item["name"] for item in items if item["outcome"] == outcome]

    def test_a_deployment_is_played_pod_by_pod_and_twice_the_same(self):
        web = workload("Deployment", "web", replicas=20, template=template(300))
        items = self.play(web)
        names = self.names(items)
        self.assertEqual(len(names), 20, items)
        self.assertTrue(all(item["node"].startswith("l4-") for item in items))
        for at, name in enumerate(names):
            self.assertRegex(name, rf"^web-[a-z0-9]+-{at}$")
        made = {one["metadata"]["name"]: one for one in self.pods()}[names[7]]
        hashed = names[7].split("-")[1]
        self.assertEqual(made["metadata"]["labels"], {"app": "web", "pod-template-hash": hashed})
        owner, = made["metadata"]["ownerReferences"]
        self.assertEqual((owner["kind"], owner["name"], owner["controller"]), ("ReplicaSet", "web-" + hashed, True))
        self.assertEqual(made["metadata"]["annotations"]["milligpu.io/gpu-model"], "L4")
        again = self.play(web, status=1)
        self.assertEqual(self.names(again, "failed"), names)

    def test_a_stateful_set_waits_for_a_pod_that_is_not_placed(self):
        fits = affinity(("kubernetes.io/hostname", "In", ["l4-30"]))
        items = self.play(workload("StatefulSet", "db", replicas=4, template=template(300, cpu="30", **fits)))
        self.assertEqual([(item["name"], item["outcome"]) for item in items],
                         [("db-0", "placed"), ("db-1", "placed"), ("db-2", "refused"), ("db-3", "skipped")])
        self.assertIn("db-2", items[3]["text"])
        self.assertNotIn("db-3", {made["metadata"]["name"] for made in self.pods()})
        items = self.play(workload("StatefulSet", "par", replicas=2, podManagementPolicy="Parallel",
                                   template=template(300, cpu="65")))
        self.assertEqual(self.names(items, "refused"), ["par-0", "par-1"])

    def test_jobs_start_as_many_pods_as_run_side_by_side(self):
        done = self.run_play(workload("Job", "train", parallelism=3, completions=9, template=template(100)),
                             workload("CronJob", "night", schedule="0 3 * * *",
                                      jobTemplate={"spec": {"template": template(100)}}),
                             workload("Job", "asleep", suspend=True, template=template(100)),
                             workload("DaemonSet", "each", template=template(100)),
                             *({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}} for i in range(30)),
                             words=("-o", "name"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["pod/default/train-0", "pod/default/train-1", "pod/default/train-2",
                                               "pod/default/night-1-0"])
        self.assertIn("Job default/train: the first 3 of 9 pods", done.stderr)
        self.assertIn("Job default/asleep: no pods", done.stderr)
        self.assertIn("left out: DaemonSet each (", done.stderr)
        self.assertIn("left out: Node n0 and 29 more (", done.stderr)
        self.assertEqual(done.stderr.count("left out"), 2)

    def test_wrong_templates_and_counts_end_play_before_the_first_pod(self):
        for wrong, says in (
                (workload("Deployment", "big", replicas=1000000000, template=template(1)),
                 "Deployment big: spec.replicas: 1000000000 pods are too many: play makes at most 100000"),
                (workload("Deployment", "text", replicas="3", template=template(1)),
                 "Deployment text: spec.replicas: expected an integer, found a string"),
                (workload("Job", "taint", template=template(1, tolerations="all")),
                 "Job default/taint: spec.template.spec.tolerations: expected an array, found a string"),
                (workload("CronJob", "cpu", jobTemplate={"spec": {"template": template(1, cpu="fast")}}),
                 'spec.jobTemplate.spec.template.spec.containers[0].resources.requests.cpu: "fast"')):
            with self.subTest(says):
                self.fails(pod("fine"), wrong, says=[says])

    def test_rules_that_play_does_not_look_at_are_named_once_and_only_if_used(self):
        plain = self.run_play(pod("quiet", tolerations=[{"operator": "Exists"}]))
        self.assertEqual(plain.stderr, "")
        ports = harness.pod("port", 100)
        ports["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        other = harness.pod("cpu-only")  # nobody asks milligpud about it
        other["spec"]["topologySpreadConstraints"] = [{"maxSkew": 1}]
        done = self.run_play(ports, other, workload("Deployment", "far", replicas=2, template=template(
            100, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}})),
            pod("apart", affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}))
        self.assertEqual(done.stderr.splitlines(), [
            "not considered: affinity and anti-affinity between pods (Deployment default/far and 1 more)",
            "not considered: host ports (Pod default/port)",
            "not considered: taints of the effect PreferNoSchedule (Pod default/port and 2 more)"])


class InACluster(unittest.TestCase):
    def test_play_ends_at_once_and_says_what_to_use(self):
        api = harness.Api(cluster())
        self.addCleanup(api.close)
        daemon = harness.ClusterDaemon(api)
        self.addCleanup(daemon.close)
        done = subprocess.run([CTL, "play", "-", "--port-file", daemon.home / "ports"], text=True, capture_output=True,
                              timeout=harness.PATIENCE, input=json.dumps(pod("real")))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("runs in a cluster: use kubectl", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_labels_are_not_kept_and_a_selector_says_who_knows_them(self):
        api = harness.Api(cluster())
        self.addCleanup(api.close)
        daemon = harness.ClusterDaemon(api)
        self.addCleanup(daemon.close)
        done = subprocess.run([CTL, "nodes", "-l", "a=b", "--port-file", daemon.home / "ports"], text=True,
                              capture_output=True, timeout=harness.PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("labels, which milligpud does not keep", done.stderr)


if __name__ == "__main__":
    harness.main()
