"""Why a pod is not bound: what kube-scheduler wrote on it, who should ask about it, and whose room it waits for."""

import json

import harness

TAINTED = ("0/2 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 1 node(s) had untolerated "
           "taint {node-role.kubernetes.io/control-plane: }. preemption: 0/2 nodes are available: 2 Preemption is not "
           "helpful for scheduling.")
SELECTED = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
MISSING = "0/2 nodes are available: 2 Insufficient nvidia.com/vgpu."


def node(name, gpus, **spec):
    return {"apiVersion": "v1", "kind": "Node", "spec": spec,
            "metadata": {"name": name, "uid": "uid-" + name,
                         "labels": {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.product": "Tesla-T4",
                                    "nvidia.com/gpu.memory": "15360"}},
            "status": {"capacity": {"cpu": "32", "pods": "110"}, "allocatable": {"cpu": "32", "pods": "110"},
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def waiting(name, message=None, *, milli=300, reason="Unschedulable", **spec):
    made = harness.pod(name, milli)
    made.update(apiVersion="v1", kind="Pod")
    made["metadata"]["creationTimestamp"] = "2026-01-02T03:00:00Z"
    made["spec"].update(spec)
    made["status"] = {"phase": "Pending"}
    if message is not None:
        made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                                         "lastTransitionTime": "2026-01-02T03:04:05Z"}]
    return made


def owned(pod, kind, owner, revision, label="pod-template-hash"):
    name = f"{owner}-{revision}" if kind == "ReplicaSet" else owner
    pod["metadata"]["labels"] = {label: revision}
    pod["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "o-" + name,
                                           "controller": True}]
    return pod


class Why(harness.Case):
    def cluster(self, *items):
        return self.pair(cluster=harness.objects(*items))

    def ctl(self, daemon, *words):
        done = daemon.ctl(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_waiting_pod__refused_by_kube_scheduler_itself_is_explained(self):
        taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        _, daemon = self.cluster(node("g1", 2, taints=[taint]), waiting("notebook", TAINTED))
        pod = daemon.view("notebook")
        scheduling = pod["scheduling"]
        self.assertEqual(scheduling["scheduler"], "default-scheduler")
        self.assertEqual((scheduling["by"], scheduling["reason"]), ("kube-scheduler", "taint"))
        self.assertFalse(scheduling["asked"])
        self.assertEqual(scheduling["condition"], "Unschedulable: " + TAINTED)
        self.assertEqual(scheduling["since"], "2026-01-02T03:04:05.000Z")
        self.assertEqual([(bar["reason"], bar["nodes"]) for bar in pod["unusable"]], [("tainted", 1)])
        listed = daemon.get("/api/v1/waiting")
        self.assertEqual(listed["counts"], [{"by": "kube-scheduler", "reason": "taint", "pods": 1}])
        self.assertEqual(listed["items"][0]["condition"], TAINTED)
        self.assertEqual(listed["items"][0]["asks"], 0)
        self.assertNotIn("lastAsked", listed["items"][0])
        self.assertEqual(daemon.get("/api/v1/waiting?state=refused")["items"], [])
        self.assertEqual(len(daemon.get("/api/v1/waiting?state=unasked&model=Tesla-T4")["items"]), 1)
        self.assertEqual(daemon.get("/api/v1/waiting?namespace=other")["counts"], [])
        # The alarm about the wiring is not a tenant's to raise.
        check = daemon.doctor("scheduler")
        self.assertEqual(check["status"], "ok", check)
        self.assertIn("default/notebook (taint)", check["text"])
        table = self.ctl(daemon, "waiting")
        self.assertTrue(table.startswith("1 waits: 1 refused by kube-scheduler: taint\n"), table)
        self.assertIn(TAINTED, table)
        shown = self.ctl(daemon, "pod", "default/notebook")
        self.assertIn("default-scheduler finds no node by its own filters (taint), so it has not asked\n", shown)
        self.assertIn("had untolerated taint {nvidia.com/gpu: present}", shown)
        self.assertIn("1 node fits, the pod may use none: 1 tainted nvidia.com/gpu (g1)", shown)

    def test_gates_and_unknown_schedulers__are_no_alarm(self):
        _, daemon = self.cluster(
            node("g1", 2), waiting("selected", SELECTED), waiting("made-up", schedulerName="nobody-runs-me"),
            waiting("gated", "Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated",
                    schedulingGates=[{"name": "example.com/quota"}]))
        daemon.view("gated")
        asked = harness.pod("asked", 300)
        daemon.schedule(asked)
        check = daemon.doctor("scheduler")
        self.assertEqual(check["status"], "ok", check)
        self.assertIn("2 waiting pods are refused before an extender is asked", check["text"])
        self.assertNotIn("made-up", check["text"])
        unserved = daemon.doctor("unserved")
        self.assertEqual(unserved["status"], "ok", unserved)
        self.assertEqual(unserved["text"], "1 pod asks for nvidia.com/vgpu and names a scheduler that has not asked milligpud "
                         "since its start, which serves default-scheduler: default/made-up (nobody-runs-me)")
        self.assertEqual(daemon.view("gated")["scheduling"]["gates"], "example.com/quota")
        self.assertEqual(daemon.view("gated")["scheduling"]["by"], "gate")
        made_up = daemon.view("made-up")["scheduling"]
        self.assertFalse(made_up["serves"])
        self.assertIn("no scheduler named nobody-runs-me has asked", made_up["text"])
        self.assertIn("those that do: default-scheduler", made_up["text"])
        self.assertTrue(daemon.view("selected")["scheduling"]["serves"])
        counts = {(count["by"], count["reason"]): count["pods"] for count in daemon.get("/api/v1/waiting")["counts"]}
        self.assertEqual(counts, {("kube-scheduler", "selector"): 1, ("gate", "gated"): 1, ("nobody", "scheduler"): 1})

    def test_schedulers__are_all_plausible_before_the_first_call(self):
        _, daemon = self.cluster(node("g1", 2), waiting("made-up", schedulerName="nobody-runs-me"))
        daemon.view("made-up")
        check = daemon.doctor("scheduler")
        self.assertEqual(check["status"], "warning", check)
        self.assertIn("1 waiting pod names a scheduler that has never asked, among them default/made-up (nobody-runs-me)",
                      check["text"])
        unserved = daemon.doctor("unserved")
        self.assertEqual((unserved["status"], unserved["text"]), ("ok", "no scheduler has asked since the start"))
        self.assertNotIn("otherScheduler", daemon.view("made-up"))

    def served(self, *items):
        """A daemon that serves the scheduler milligpu."""
        api, daemon = self.cluster(node("g1", 4), *items)
        ours = harness.pod("ours", 300)
        ours["spec"]["schedulerName"] = "milligpu"
        self.assertEqual(daemon.schedule(ours)[1], "")
        return api, daemon

    def test_pods__of_another_scheduler_are_each_named(self):
        _, daemon = self.served(
            waiting("lost"), waiting("tainted", SELECTED), waiting("counted", MISSING, schedulerName="counts"),
            waiting("made-up", schedulerName="nobody-runs-me"), waiting("nothing", milli=0))
        taken = waiting("taken", nodeName="g1", schedulerName="default-scheduler")
        del taken["metadata"]["creationTimestamp"]
        daemon.create(taken)
        daemon.wait(lambda: (daemon.allocation("taken") or {}).get("presumed"), "the pod that was taken")
        unserved = daemon.doctor("unserved")
        self.assertEqual(unserved["status"], "warning", unserved)
        head, _, names = unserved["text"].partition(": ")
        self.assertEqual(head, "5 pods ask for nvidia.com/vgpu and name schedulers that have not asked milligpud since its "
                         "start, which serves milligpu")
        alarms = names.split(", ")[:3]
        self.assertEqual(sorted(alarms), ["default/counted (counts)", "default/lost (default-scheduler)",
                                          "default/taken (default-scheduler on g1)"])
        self.assertEqual(sorted(names.split(", ")[3:]), ["default/made-up (nobody-runs-me)",
                                                         "default/tainted (default-scheduler)"])
        self.assertIn("set spec.schedulerName", unserved["fix"])
        self.assertIn("drift --kind adopted", unserved["fix"])
        self.assertEqual(daemon.doctor("scheduler")["status"], "ok")
        for name, scheduler in ("lost", "default-scheduler"), ("made-up", "nobody-runs-me"), ("taken", "default-scheduler"):
            words = (f"default/{name} asks for nvidia.com/vgpu and names scheduler {scheduler}, which has not asked milligpud "
                     "since its start; milligpud serves milligpu: set spec.schedulerName: milligpu and create it again")
            self.assertEqual(daemon.view(name)["otherScheduler"], words)
            self.assertIn("Scheduler:    " + words, self.ctl(daemon, "pod", "default/" + name))
        self.assertNotIn("otherScheduler", daemon.view("ours"))
        self.assertNotIn("Scheduler:", self.ctl(daemon, "pod", "default/ours"))

    def test_long_bound_pods__raise_no_alarm(self):
        old = waiting("old", nodeName="g1", schedulerName="default-scheduler")
        old["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}]
        _, daemon = self.served(old)
        unserved = daemon.doctor("unserved")
        self.assertEqual(unserved["status"], "ok", unserved)
        self.assertIn("1 pod asks for nvidia.com/vgpu", unserved["text"])
        self.assertIn(": default/old (default-scheduler on g1)", unserved["text"])

    def test_unserved_pod__is_told_which_scheduler_to_choose(self):
        _, daemon = self.served(waiting("lost", schedulerName="nobody-runs-me"))
        second = harness.pod("second", 300)
        daemon.schedule(second)
        self.assertTrue(daemon.view("lost")["otherScheduler"].endswith(
            "milligpud serves milligpu, default-scheduler: set spec.schedulerName to one of these and create it again"))
        self.assertNotIn("otherScheduler", daemon.view("second"))

    def test_names__beyond_the_limit_of_a_finding_are_counted(self):
        others = [waiting(f"{'made-up-' * 6}{i:02}", schedulerName="x" * 60) for i in range(30)]
        _, daemon = self.served(waiting("lost"), *others)
        unserved = daemon.doctor("unserved")
        self.assertEqual(unserved["status"], "warning", unserved)
        self.assertTrue(unserved["text"].startswith("31 pods ask "), unserved)
        self.assertIn(": default/lost (default-scheduler), ", unserved["text"])
        self.assertGreater(unserved["text"].count(" (x"), 1)
        self.assertRegex(unserved["text"], rf", and {30 - unserved['text'].count(' (x')} more$")

    def test_young_pod__is_not_named_yet(self):
        _, daemon = self.served()
        young = harness.pod("young", 300)
        young["spec"]["schedulerName"] = "nobody-runs-me"
        daemon.create(young)
        daemon.view("young")
        self.assertEqual(daemon.doctor("unserved")["text"],
                         "each pod that asks for nvidia.com/vgpu names a scheduler that asks milligpud")

    def test_scheduler_without_the_extender__is_an_alarm(self):
        _, daemon = self.cluster(node("g1", 2), waiting("notebook", MISSING))
        daemon.view("notebook")
        check = daemon.doctor("scheduler")
        self.assertEqual(check["status"], "failed", check)
        self.assertIn("no scheduler named default-scheduler has asked since the start", check["text"])
        self.assertIn("urlPrefix", check["fix"])
        daemon.schedule(harness.pod("asked", 300))
        self.assertEqual(daemon.doctor("scheduler")["status"], "ok")

    def test_rollout__waits_for_its_own_predecessor(self):
        api, daemon = self.cluster(node("g1", 1))
        old = owned(harness.pod("llm-old-1", 700), "ReplicaSet", "llm", "old")
        self.assertEqual(daemon.schedule(old)[1], "")
        new = owned(harness.pod("llm-new-1", 700), "ReplicaSet", "llm", "new")
        daemon.schedule(new)
        other = owned(harness.pod("web-new-1", 700), "ReplicaSet", "web", "new")
        daemon.schedule(other)
        sibling = owned(harness.pod("llm-old-2", 700), "ReplicaSet", "llm", "old")
        daemon.schedule(sibling)
        large = owned(harness.pod("llm-large-1", 2000), "ReplicaSet", "llm", "large")
        daemon.schedule(large)
        daemon.view("llm-large-1")
        daemon.wait(lambda: "predecessor" in daemon.get("/api/v1/pods/default/llm-new-1"), "the watch of the old pod")
        found = daemon.view("llm-new-1")["predecessor"]
        self.assertEqual({key: found[key] for key in ("namespace", "name", "node", "milli", "owner", "terminating")},
                         {"namespace": "default", "name": "llm-old-1", "node": "g1", "milli": 700,
                          "owner": "Deployment llm", "terminating": False})
        self.assertIn("maxSurge: 0", found["text"])
        for name in "web-new-1", "llm-old-2", "llm-large-1":
            self.assertNotIn("predecessor", daemon.view(name), name)
        shown = self.ctl(daemon, "pod", "default/llm-new-1")
        self.assertIn("Predecessor:  the older pod llm-old-1 of the same Deployment holds 700 milli on node g1", shown)
        self.assertIn("Recreate", shown)
        # The end of the old pod is no help if kube-scheduler would not place the new one anyway.
        for cordoned, explained in (True, False), (False, True):
            status, said = api.request("PATCH", "/api/v1/nodes/g1", {"spec": {"unschedulable": cordoned}})
            self.assertEqual(status, 200, said)
            daemon.wait(lambda: ("predecessor" in daemon.get("/api/v1/pods/default/llm-new-1")) == explained, "the cordon")
        api.gone("llm-old-1")
        daemon.forgets("llm-old-1")
        self.assertNotIn("predecessor", daemon.view("llm-new-1"))

    def test_autoscaler__leaves_no_trace(self):
        api, daemon = self.cluster(node("g1", 1))
        self.assertEqual(daemon.schedule(harness.pod("full", 1000))[1], "")
        made = api.create(harness.pod("small", 300))
        daemon.filter(made, ["g1"])
        before = daemon.view("small")["waiting"]
        template = dict(node("template", 4))
        status, answer = daemon.webhook("filter", {"Pod": made, "NodeNames": None, "Nodes": {"items": [template]}})
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(answer)["NodeNames"], ["template"])
        self.assertEqual(daemon.view("small")["waiting"], before)
        self.assertEqual(daemon.get("/api/v1/waiting")["counts"], [{"by": "milligpu", "reason": "room", "pods": 1}])


if __name__ == "__main__":
    harness.main()
