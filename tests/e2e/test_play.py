"""milligpuctl play: nodes are chosen as kube-scheduler would, and refusals have true numbers."""

import json

import harness
from gfd_labels import gfd_labels

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
                "kubernetes.io/hostname": name, "rack": str(at), **gfd_labels(8, MODELS[model])}},
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


ANYWHERE = {"tolerations": [{"operator": "Exists"}]}  # so that nothing is said of PreferNoSchedule


def affinity(*rules):
    terms = [{"matchExpressions": [dict(zip(("key", "operator", "values"), rule)) for rule in rules]}]
    return {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}


class Play(harness.Story):
    serial = 0

    def play(self, *objects, status=0, words=()):
        done = self.run_play(*objects, words=("-o", "json", *words))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)["items"]

    def run_play(self, *objects, words=()):
        return self.daemon.ctl("play", "-", *words, input="\n---\n".join(map(json.dumps, objects)))

    def fails(self, wrong, says):
        """An error in one sentence; the other objects are played, and the exit status is 1."""
        Play.serial += 1
        fine = f"fine-{Play.serial}"
        done = self.run_play(wrong, pod(fine, **ANYWHERE))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stdout, rf"^default/{fine} +placed .*\n1 placed, 0 refused, 1 object not played\n$")
        self.assertNotIn("wrong", {made["metadata"]["name"] for made in self.pods()})

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

    def test_play__obeys_selectors_taints_and_cordons(self):
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

    def test_reasons__are_those_of_kube_scheduler_and_add_up(self):
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

    def test_reasons__that_cover_many_nodes_are_counted(self):
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

    def test_placed_pods__take_their_capacity(self):
        wanted = affinity(("rack", "In", ["20"]), ("nvidia.com/gpu.product", "In", [MODELS["v100"]]))
        items = self.play(*(pod(f"fills-{i}", 100, cpu="30", **wanted) for i in range(3)))
        self.assertEqual([item["node"] for item in items], ["v100-20", "v100-20", ""])
        self.assertEqual(self.reasons(items[2])["Insufficient cpu"], 1)
        # Another run finds them there.
        self.assertEqual(self.reasons(self.play(pod("fills-4", 100, cpu="30", **wanted))[0])["Insufficient cpu"], 1)

    def test_unasked_pods__are_skipped_with_a_note(self):
        items = self.play(pod("named", nodeName="h100-10"), pod("gated", schedulingGates=[{"name": "wait"}]),
                          pod("other", schedulerName="mine", **on("t4")))
        self.assertEqual([item["outcome"] for item in items], ["skipped", "skipped", "placed"])
        self.assertIn("spec.nodeName", items[0]["text"])
        self.assertIn("schedulingGates", items[1]["text"])
        self.assertTrue(items[2]["node"].startswith("t4-"), items)
        self.assertFalse({"named", "gated"} & {made["metadata"]["name"] for made in self.pods()})

    def test_invalid_pods__are_named_by_path_and_left_out(self):
        def container(**resources):
            return {"containers": [{"name": "c", "image": "i", "resources": resources}]}

        vgpu = "nvidia.com/vgpu"
        for wrong, says in (
                ({"tolerations": [{"key": 1}]}, "spec.tolerations[0].key: expected a string"),
                ({"nodeSelector": {"gpu": True}}, 'spec.nodeSelector["gpu"]'),
                (affinity(("gpu", "In", "h100")), "matchExpressions[0].values: expected an array"),
                ({"overhead": {"cpu": "much"}}, 'spec.overhead.cpu: "much" is not a quantity'),
                (container(limits={vgpu: "0.3"}), f"limits.{vgpu}: 0.3 must be an integer"),
                (container(limits={vgpu: "300m"}), f"limits.{vgpu}: 300m must be an integer"),
                (container(limits={vgpu: -1}), f"limits.{vgpu}: -1 must be greater than or equal to 0"),
                (container(requests={vgpu: 300}), f"spec.containers[0].resources.limits[{vgpu}]: Required value"),
                (container(requests={vgpu: 100}, limits={vgpu: 300}), f"requests[{vgpu}]: Invalid value: \"100\": must be "
                                                                      f"equal to {vgpu} limit of 300"),
                ({"containers": [{"image": "i"}]}, "spec.containers[0].name: Required value"),
                ({"containers": [{"name": "C", "image": "i"}]}, 'spec.containers[0].name: Invalid value: "C"'),
                ({"initContainers": [{"name": "c"}]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
                ({"initContainers": [{**container(requests={vgpu: 1})["containers"][0], "name": "i"}]},
                 "spec.initContainers[0].resources.limits"),
                ({"resources": {"limits": {vgpu: 300}}}, f"spec.resources.limits[{vgpu}]: Unsupported value: \"{vgpu}\""),
                ({"resources": {"requests": {"nvidia.com/gpu": 1}}}, "spec.resources.requests[nvidia.com/gpu]: Unsupported")):
            with self.subTest(says):
                self.fails(pod("wrong", **wrong), says=["Pod default/wrong: ", says])

    def test_quantities__are_read_as_by_an_api_server(self):
        """The file is more than the request, so both ends of each are there."""
        for name, amount, milli in (("one-k", "1k", 1000), ("exponent", "3e2", 300), ("point", "0.3k", 300)):
            limits = {"nvidia.com/vgpu": amount}
            done = self.play({**pod(name), "spec": {"containers": [{"name": "c", "image": "i", "resources": {
                "limits": limits, "requests": limits}}], **on("a100")}})
            self.assertEqual(done[0]["outcome"], "placed", done)
            charges = self.daemon.view(name)["allocation"]["charges"]
            self.assertEqual([charge["milli"] for charge in charges], [milli])
        # Two words for one amount are equal.
        self.assertEqual(self.daemon.admin("POST", "/api/v1/standalone/pods", {**pod("equal"), "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/vgpu": "2Ki"}, "requests": {
                "nvidia.com/vgpu": "2048"}}}]}})[0], 201)
        # Behind play, too: what other clients create is judged by the API server's stand-in.
        for resources, says in (({"limits": {"nvidia.com/vgpu": 300}}, "Unsupported value"),
                                ({"requests": {"cpu": "1", "nvidia.com/vgpu": 300}}, "Unsupported value")):
            status, body, _ = self.daemon.admin("POST", "/api/v1/standalone/pods", {
                **pod("level", 300), "spec": {**pod("level", 300)["spec"], "resources": resources}})
            self.assertEqual((status, says in body.decode()), (422, True), body)

    def test_webhook_port__is_found_automatically(self):
        admin = f"127.0.0.1:{self.daemon.port['admin']}"
        for server, env in (["--server", admin], {}), ([], {"MILLIGPU_SERVER": f"http://{admin}"}):
            Play.serial += 1
            done = harness.run("play", "-", *server, env=env, input=json.dumps(pod(f"found-{Play.serial}", **ANYWHERE)))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("1 placed", done.stdout)

    def test_second_run__says_how_to_remove_pods(self):
        again = [pod("again", **ANYWHERE), pod("again-2", **ANYWHERE)]
        self.play(*again)
        done = self.run_play(*again)
        self.assertEqual(done.returncode, 1)
        command = (f"curl -X DELETE http://127.0.0.1:{self.daemon.port['admin']}/api/v1/standalone/pods/default/again")
        self.assertEqual(done.stderr, "milligpuctl: 2 pods are there already, from an earlier run; to remove a pod: "
                                      f"{command}\n")
        self.assertEqual(self.daemon.admin("DELETE", "/" + command.split("/", 3)[3])[0], 200)
        self.assertEqual(self.play(again[0])[0]["outcome"], "placed")


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

    def test_deployment__is_played_pod_by_pod_and_repeatably(self):
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

    def test_stateful_set__stops_at_an_unplaced_pod(self):
        fits = affinity(("kubernetes.io/hostname", "In", ["l4-30"]))
        items = self.play(workload("StatefulSet", "db", replicas=4, template=template(300, cpu="30", **fits)))
        self.assertEqual([(item["name"], item["outcome"]) for item in items],
                         [("db-0", "placed"), ("db-1", "placed"), ("db-2", "refused"), ("db-3", "skipped")])
        self.assertIn("db-2", items[3]["text"])
        self.assertNotIn("db-3", {made["metadata"]["name"] for made in self.pods()})
        items = self.play(workload("StatefulSet", "par", replicas=2, podManagementPolicy="Parallel",
                                   template=template(300, cpu="65")))
        self.assertEqual(self.names(items, "refused"), ["par-0", "par-1"])

    def test_job__starts_its_parallel_pods(self):
        done = self.run_play(workload("Job", "train", parallelism=3, completions=9, template=template(100)),
                             workload("CronJob", "night", schedule="0 3 * * *",
                                      jobTemplate={"spec": {"template": template(100)}}),
                             workload("Job", "asleep", suspend=True, template=template(100)),
                             *({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}} for i in range(30)),
                             words=("-o", "name"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["pod/default/train-0", "pod/default/train-1", "pod/default/train-2",
                                               "pod/default/night-1-0"])
        self.assertIn("Job default/train: the first 3 of 9 pods", done.stderr)
        self.assertIn("Job default/asleep: no pods", done.stderr)
        self.assertIn("left out: Node n0 and 29 more (", done.stderr)
        self.assertEqual(done.stderr.count("left out"), 1)

    def test_daemon_set__has_a_pod_on_each_eligible_node(self):
        each = workload("DaemonSet", "each", template=template(100, cpu="3", **affinity(
            ("nvidia.com/gpu.product", "In", [MODELS["l4"]]), ("rack", "Gt", ["1"]))))
        done = self.run_play(each, words=("-o", "json"))
        items = json.loads(done.stdout)["items"]
        # Cordoned nodes have one, as the controller tolerates them; those with a taint of their own have none.
        names = [f"l4-{at:02}" for at in range(2, EACH) if at not in TAINTED]
        self.assertIn(f"DaemonSet default/each: {len(names)} pods, one for each node that lets it\n", done.stderr)
        self.assertEqual([item["name"] for item in items], [f"each-{at}" for at in range(len(names))])
        placed = [item["node"] for item in items if item["outcome"] == "placed"]
        self.assertEqual(placed, [name for at, name in enumerate(names) if int(name[3:]) not in SMALL])
        for item in items:
            if item["outcome"] == "refused":  # its own node lacks CPU, and it is for no other
                self.assertIn("1 Insufficient cpu", item["text"])
        made = {one["metadata"]["name"]: one for one in self.pods()}["each-9"]
        self.assertEqual(made["metadata"]["ownerReferences"][0]["kind"], "DaemonSet")
        none = self.run_play(workload("DaemonSet", "none", template=template(100, nodeSelector={"a": "b"})))
        self.assertIn("DaemonSet default/none: 0 pods", none.stderr)
        self.fails(workload("DaemonSet", "wrong", template=template(1, tolerations="all")),
                   ["DaemonSet default/wrong: spec.template.spec.tolerations: expected an array"])

    def test_unchecked_rules__are_named_once_and_only_if_used(self):
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


def one(kind, name, version="v1", **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def asks(milli, name="c", **more):
    return {"containers": [{"name": name, "image": "i", "resources": {"limits": {"nvidia.com/vgpu": milli, **more}}}],
            **ANYWHERE}


class Guesses(Play):
    """Objects of kinds that milligpuctl does not know."""

    cluster = cluster()

    def test_templates__of_any_object_are_played_as_a_guess(self):
        def template(milli, **more):
            return {"metadata": {"annotations": {"milligpu.io/gpu-model": "L4"}}, "spec": asks(milli), **more}

        job = {"spec": {"parallelism": 3, "completions": 2, "template": template(50)}}
        done = self.run_play(
            one("RayCluster", "ray", "ray.io/v1", headGroupSpec={"template": template(100)}, workerGroupSpecs=[
                {"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": template(100)}]),
            one("PyTorchJob", "train", "kubeflow.org/v1", pytorchReplicaSpecs={
                "Master": {"template": template(100)}, "Worker": {"replicas": 2, "template": template(100)}}),
            one("Notebook", "nb", "kubeflow.org/v1", template=template(100)),
            {**one("InferenceService", "llm", "serving.kserve.io/v1beta1", predictor={
                "minReplicas": 0, "nodeSelector": {"nvidia.com/gpu.product": MODELS["t4"]}, **ANYWHERE,
                "model": {"resources": {"limits": {"nvidia.com/vgpu": 100}}}}),
             "metadata": {"name": "llm", "labels": {"team": "x"}}},
            one("JobSet", "js", "jobset.x-k8s.io/v1alpha2", replicatedJobs=[{"name": "w", "replicas": 2, "template": job}]),
            one("LeaderWorkerSet", "lws", "leaderworkerset.x-k8s.io/v1", replicas=2, leaderWorkerTemplate={
                "size": 3, "leaderTemplate": template(50), "workerTemplate": template(60)}),
            one("Job", "volcano", "batch.volcano.sh/v1alpha1", tasks=[{"name": "t", "replicas": 2, "template": template(70)}]),
            one("TrainJob", "tj", "trainer.kubeflow.org/v1alpha1", trainer={
                "numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/vgpu": 80}}}),
            one("JobSet", "later", "jobset.x-k8s.io/v1alpha2", suspend=True, replicatedJobs=[{"name": "w", "template": job}]),
            one("LLMInferenceService", "llmd", "serving.kserve.io/v1alpha1", replicas=2, template={
                "containers": [{"resources": {"limits": {"nvidia.com/vgpu": 40}}}], **ANYWHERE}),
            one("ServingRuntime", "sr", "serving.kserve.io/v1alpha1", **asks(900)),
            one("Widget", "none", "example.com/v1", size=7, resources={"limits": {"cpu": 1}}), words=("-o", "json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        items = json.loads(done.stdout)["items"]
        self.assertEqual({item["outcome"] for item in items}, {"placed"}, items)
        self.assertEqual([item["name"] for item in items], [
            "ray-head-0", *(f"ray-gpu-{at}" for at in range(4)), "train-master-0", "train-worker-0", "train-worker-1", "nb-0",
            "llm-predictor-0", *(f"js-w-{at}" for at in range(4)), "lws-leader-0", "lws-leader-1",
            *(f"lws-worker-{at}" for at in range(4)), "volcano-t-0", "volcano-t-1", "tj-trainer-0", "tj-trainer-1", "llmd-0",
            "llmd-1"])
        said = [line for line in done.stderr.splitlines() if not line.startswith("not considered: ")]
        for line in ("RayCluster default/ray: a guess: 4 pods as in spec.workerGroupSpecs[0].template.spec (replicas 2 x "
                     "numOfHosts 2)",
                     "JobSet default/js: a guess: 4 pods as in spec.replicatedJobs[0].template.spec.template.spec (replicas "
                     "2 x completions 2)",
                     "LeaderWorkerSet default/lws: a guess: 4 pods as in spec.leaderWorkerTemplate.workerTemplate.spec "
                     "(replicas 2 x size less its leader, 2)",
                     "Notebook default/nb: a guess: 1 pod as in spec.template.spec (no count is given)",
                     "InferenceService default/llm: a guess: 1 pod as in spec.predictor.model (minReplicas 1)",
                     "JobSet default/later: no pods: it is suspended",
                     "left out: ServingRuntime sr (it makes no pods that are known here)",
                     "left out: Widget none (it makes no pods that are known here)"):
            self.assertIn(line, said)
        pods = {one["metadata"]["name"]: one for one in self.pods()}
        self.assertEqual(pods["ray-gpu-3"]["metadata"]["annotations"]["milligpu.io/gpu-model"], "L4")
        owner, = pods["ray-gpu-3"]["metadata"]["ownerReferences"]
        self.assertEqual((owner["apiVersion"], owner["kind"], owner["name"]), ("ray.io/v1", "RayCluster", "ray"))
        self.assertEqual(pods["llm-predictor-0"]["metadata"]["labels"], {"team": "x"})
        self.assertTrue(pods["llm-predictor-0"]["spec"]["nodeName"].startswith("t4-"))

    def test_invalid_guess__is_named_and_the_others_are_played(self):
        wrong = one("RayCluster", "wrong", "ray.io/v1", headGroupSpec={"template": {"spec": {**asks(100), "tolerations": "all"}}})
        self.fails(wrong, ["RayCluster default/wrong: spec.headGroupSpec.template.spec.tolerations: expected an array"])
        many = one("RayCluster", "wrong", "ray.io/v1", workerGroupSpecs=[{"replicas": 100001, "template": {"spec": asks(1)}}])
        self.fails(many, ["RayCluster wrong: spec.workerGroupSpecs[0].template.spec: replicas 100001: play makes at most"])


class Admission(Play):
    """LimitRanges and ResourceQuotas of the files."""

    cluster = cluster()

    def played(self, space, *objects):
        done = self.run_play(*objects, words=("-o", "json", "-n", space))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [(item["name"], item["outcome"]) for item in json.loads(done.stdout)["items"]], \
            [item["text"] for item in json.loads(done.stdout)["items"]], done.stderr

    def test_quota__admits_as_many_pods_as_an_api_server(self):
        quota = one("ResourceQuota", "gpus", hard={"requests.nvidia.com/vgpu": "500", "pods": 3})
        pods = [one("Pod", f"p{at}", **asks(200)) for at in range(4)]
        names, texts, said = self.played("q1", *pods, quota)
        self.assertEqual(names, [("p0", "placed"), ("p1", "placed"), ("p2", "refused"), ("p3", "refused")])
        self.assertEqual(texts[2], 'not created: pods "p2" is forbidden: exceeded quota: gpus, requested: '
                                   "requests.nvidia.com/vgpu=200, used: requests.nvidia.com/vgpu=400, limited: "
                                   "requests.nvidia.com/vgpu=500")
        self.assertEqual(said, "")
        self.assertNotIn("p2", {made["metadata"]["name"] for made in self.pods()})
        # Exactly what is left fits; what another run made is counted, and another namespace has a quota of its own.
        names, texts, _ = self.played("q1", quota, one("Pod", "p5", **asks(101)), one("Pod", "p6", **asks(100)),
                                      one("Pod", "p7", **asks(0)))
        self.assertEqual(names, [("p5", "refused"), ("p6", "placed"), ("p7", "refused")])
        self.assertIn("requested: pods=1, used: pods=3, limited: pods=3", texts[2])
        self.assertEqual(self.played("q2", quota, pods[0])[0], [("p0", "placed")])

    def test_cpu_quota__requires_an_amount_in_each_container(self):
        quota = one("ResourceQuota", "cpu", hard={"limits.cpu": 2, "memory": "1Gi"})
        names, texts, _ = self.played("q3", quota, one("Pod", "a", **asks(100)), one("Pod", "b", **asks(100, cpu="1500m", memory="1Gi")),
                                      one("Pod", "c", **asks(100, cpu="501m", memory="1Mi")))
        self.assertEqual(names, [("a", "refused"), ("b", "placed"), ("c", "refused")])
        self.assertIn("failed quota: cpu: must specify limits.cpu for: c", texts[0])
        self.assertIn("requested: limits.cpu=501m,memory=1Mi, used: limits.cpu=1500m,memory=1Gi, limited: limits.cpu=2,memory=1Gi",
                      texts[2])

    def test_unconsidered_rules__are_reported(self):
        _, _, said = self.played(
            "q4", one("ResourceQuota", "a", hard={"pods": 0}, scopes=["BestEffort"]),
            one("ResourceQuota", "b", hard={"nvidia.com/vgpu": 1, "limits.nvidia.com/vgpu": 1, "count/deployments.apps": 1}),
            one("LimitRange", "c", limits=[{"type": "Container", "maxLimitRequestRatio": {"cpu": 2}}]), one("Pod", "p", **asks(10)))
        self.assertEqual(sorted(said.splitlines()), [
            "not considered: LimitRange q4/c: maxLimitRequestRatio",
            "not considered: ResourceQuota q4/a (it has scopes)",
            "not considered: ResourceQuota q4/b: count/deployments.apps",
            "not considered: ResourceQuota q4/b: limits.nvidia.com/vgpu, of which an API server counts nothing: write "
            "requests.nvidia.com/vgpu",
            "not considered: ResourceQuota q4/b: nvidia.com/vgpu, of which an API server counts nothing: write "
            "requests.nvidia.com/vgpu"])

    def test_limit_range__gives_defaults_and_bounds(self):
        plain = one("Pod", "plain", containers=[{"name": "c", "image": "i"}], **ANYWHERE)
        only_max = one("LimitRange", "max", limits=[{"type": "Container", "max": {"nvidia.com/vgpu": 400}, "min": {"cpu": "100m"}}])
        names, texts, _ = self.played("l1", only_max, plain, one("Pod", "big", **asks(401)), one("Pod", "exact", **asks(400)),
                                      one("Pod", "less", **asks(100, cpu="99m")))
        self.assertEqual(names, [("plain", "placed"), ("big", "refused"), ("exact", "placed"), ("less", "refused")])
        self.assertEqual(texts[1], 'not created: pods "big" is forbidden: maximum nvidia.com/vgpu usage per Container is 400, but '
                                   "limit is 401 (LimitRange max)")
        self.assertIn("minimum cpu usage per Container is 100m, but request is 99m", texts[3])
        made = {one["metadata"]["name"]: one for one in self.pods() if one["metadata"]["namespace"] == "l1"}["plain"]
        self.assertEqual(made["spec"]["containers"][0]["resources"], {
            "limits": {"nvidia.com/vgpu": "400"}, "requests": {"nvidia.com/vgpu": "400", "cpu": "100m"}})
        # As README says: with a default of 0, only those that ask are given.
        zero = one("LimitRange", "max", limits=[{"type": "Container", "max": {"nvidia.com/vgpu": 400}, "default": {"nvidia.com/vgpu": 0}}])
        made = self.played("l2", zero, plain)
        self.assertEqual(made[0], [("plain", "placed")])
        whole = one("LimitRange", "pods", limits=[{"type": "Pod", "max": {"nvidia.com/vgpu": 300}, "min": {"memory": "1Mi"}}])
        two = asks(200, memory="1Mi")
        two["containers"].append({**two["containers"][0], "name": "d"})
        names, texts, _ = self.played("l3", whole, one("Pod", "two", **two), one("Pod", "none", **asks(100)), plain)
        self.assertEqual(names, [("two", "refused"), ("none", "refused"), ("plain", "skipped")])
        self.assertIn("maximum nvidia.com/vgpu usage per Pod is 300, but limit is 400 (LimitRange pods)", texts[0])
        self.assertIn("minimum memory usage per Pod is 1Mi.  No request is specified (LimitRange pods)", texts[1])

    def test_unreadable_rule__is_named(self):
        for wrong, says in ((one("LimitRange", "wrong", limits=[{"type": "Pod", "max": {"cpu": "x"}}]),
                             "LimitRange wrong: spec.limits[0].max[cpu]: expected a quantity"),
                            (one("ResourceQuota", "wrong", hard={"pods": "x"}),
                             "ResourceQuota wrong: spec.hard[pods]: expected a quantity"),
                            (one("ResourceQuota", "wrong", hard=[]), "ResourceQuota wrong: spec.hard: expected an object")):
            self.fails(wrong, [says])


class InACluster(harness.Case):
    def test_play__in_a_cluster_ends_with_advice(self):
        api, daemon = self.pair(cluster=cluster())
        done = daemon.ctl("play", "-", input=json.dumps(pod("real")))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("runs in a cluster: use kubectl", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_selector__needs_a_cluster_that_keeps_labels(self):
        api, daemon = self.pair(cluster=cluster())
        done = daemon.ctl("nodes", "-l", "a=b")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("labels, which milligpud does not keep", done.stderr)


if __name__ == "__main__":
    harness.main()
