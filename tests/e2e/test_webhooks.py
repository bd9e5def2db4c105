"""What kube-scheduler may ask, and what any other client may send."""

import concurrent.futures
import json
import socket

import harness


class Placing(harness.Story):
    def test_bind__of_300_names_its_gpu_in_annotations(self):
        node, error, made = self.daemon.schedule(harness.pod("first", 300))
        self.assertEqual((node is not None, error), (True, ""))
        view = self.daemon.view("first")
        self.assertEqual(view["allocation"]["state"], "bound")
        charge = view["allocation"]["charges"][0]
        self.assertEqual(charge["milli"], 300)
        gpus = {gpu["id"]: gpu for gpu in self.daemon.get("/api/v1/nodes/" + node)["gpus"]}
        self.assertGreaterEqual(gpus[charge["gpu"]]["usedMilli"], 300)
        self.assertEqual(view["uid"], made["metadata"]["uid"])

    def test_repeated_bind__succeeds_and_takes_nothing_more(self):
        node, _, made = self.daemon.schedule(harness.pod("twice", 200))
        before = self.daemon.get("/api/v1/summary")["usedMilli"]
        self.assertEqual(self.daemon.bind(made, node), "")
        self.assertEqual(self.daemon.get("/api/v1/summary")["usedMilli"], before)

    def test_bind__to_another_node_is_an_error(self):
        node, _, made = self.daemon.schedule(harness.pod("moves", 100))
        other = next(name for name in self.daemon.nodes() if name != node)
        self.assertIn(node, self.daemon.bind(made, other))

    def test_request_2000__is_two_whole_gpus(self):
        _, error, _ = self.daemon.schedule(harness.pod("two", 2000))
        self.assertEqual(error, "")
        charges = self.daemon.view("two")["allocation"]["charges"]
        self.assertEqual([charge["milli"] for charge in charges], [1000, 1000])

    def test_gpu_count__splits_the_amount_over_different_gpus(self):
        _, error, _ = self.daemon.schedule(harness.pod("split", 600, annotations={"milligpu.io/gpu-count": "2"}))
        self.assertEqual(error, "")
        charges = self.daemon.view("split")["allocation"]["charges"]
        self.assertEqual([charge["milli"] for charge in charges], [300, 300])
        self.assertEqual(len({charge["gpu"] for charge in charges}), 2)

    def test_model_and_memory__are_respected(self):
        node, _, _ = self.daemon.schedule(harness.pod("t4", 200, annotations={"milligpu.io/gpu-model": "tesla t4"}))
        self.assertEqual(node, "t4-0")
        node, _, _ = self.daemon.schedule(harness.pod("big", 300, annotations={"milligpu.io/gpu-memory": "20Gi"}))
        self.assertIn(node, ("a100-0", "vm-0"))

    def test_request_0__passes_everywhere_without_an_allocation(self):
        node, error, _ = self.daemon.schedule(harness.pod("none", 0))
        self.assertEqual((node is not None, error), (True, ""))
        self.assertNotIn("allocation", self.daemon.view("none"))

    def test_best_node__alone_scores_ten(self):
        made = self.daemon.create(harness.pod("scored", 10))
        _, body = self.daemon.webhook("prioritize", {"Pod": made, "Nodes": None, "NodeNames": self.daemon.nodes()})
        scores = [host["Score"] for host in json.loads(body)]
        self.assertEqual(scores.count(10), 1)
        self.assertTrue(all(0 <= score <= 10 for score in scores))

    def test_preempt__keeps_nodes_that_fit_without_the_victims(self):
        _, _, victim = self.daemon.schedule(harness.pod("victim", 500), ["t4-0"])
        made = self.daemon.create(harness.pod("urgent", 300))
        uid = victim["metadata"]["uid"]
        _, body = self.daemon.webhook("preempt", {
            "Pod": made, "NodeNameToVictims": None,
            "NodeNameToMetaVictims": {"t4-0": {"Pods": [{"UID": uid}], "NumPDBViolations": 1},
                                      "nowhere": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}}})
        self.assertEqual(json.loads(body)["NodeNameToMetaVictims"],
                         {"t4-0": {"Pods": [{"UID": uid}], "NumPDBViolations": 1}})

    def test_node_objects__are_answered_also_for_unknown_nodes(self):
        cluster = json.loads(harness.DEMO.read_text())
        template = json.loads(json.dumps(cluster["items"][1]))
        template["metadata"]["name"] = "template-7"
        made = self.daemon.create(harness.pod("whole-nodes", 100))
        _, body = self.daemon.webhook("filter", {"Pod": made, "NodeNames": None,
                                                 "Nodes": {"metadata": {}, "items": [template]}})
        answer = json.loads(body)
        self.assertEqual([n["metadata"]["name"] for n in answer["Nodes"]["items"]], ["template-7"])


class Orders(harness.Case):
    """The setting `policy`: where pods of 300 go one after the other."""

    def gpus_used(self, policy):
        cluster = harness.objects(harness.node("alpha", 2000), harness.node("beta", 2000))
        daemon = self.keep(harness.Daemon(cluster, "--policy", policy))
        used = []
        for number in range(4):
            self.assertEqual(daemon.schedule(harness.pod("web-%d" % number, 300))[1], "")
            pod = daemon.view("web-%d" % number)
            used.append(pod["allocation"]["charges"][0]["gpu"])
        return used

    def test_spread__takes_the_emptiest_gpu_of_the_emptiest_node(self):
        self.assertEqual(self.gpus_used("spread"), ["alpha/gpu-0", "beta/gpu-0", "alpha/gpu-1", "beta/gpu-1"])

    def test_firstfit__places_as_binpack(self):
        self.assertEqual(self.gpus_used("firstfit"), self.gpus_used("binpack"))


class LearnedOrders(harness.Case):
    """The setting `policy`, where the pods that came before decide: alpha has a hole of 700, beta and gamma are empty."""

    def daemon(self, policy, served):
        """Three nodes of one GPU, in a cluster that serves pods of this size."""
        cluster = harness.objects(*(harness.node(name, 1000) for name in ("alpha", "beta", "gamma")))
        daemon = self.keep(harness.Daemon(cluster, "--policy", policy))
        self.assertEqual(daemon.schedule(harness.pod("first", 300), ["alpha"])[1], "")
        for number in range(48):
            daemon.create(harness.pod("usual-%d" % number, served))
        daemon.wait(lambda: daemon.admin("GET", "/api/v1/pods/default/usual-47")[0] == 200, "the watch")
        return daemon

    def places(self, policy, served):
        """Which node a pod of 300 gets, by filter and by prioritize, when they were asked and when they are asked again."""
        daemon = self.daemon(policy, served)
        made = daemon.create(harness.pod("next", 300))
        best = []
        for _ in range(2):
            best.append(daemon.filter(made)["NodeNames"][0])
            _, body = daemon.webhook("prioritize", {"Pod": made, "Nodes": None, "NodeNames": daemon.nodes()})
            best += [host["Host"] for host in json.loads(body) if host["Score"] == 10]
        self.assertEqual(best, best[:1] * 4)
        return best[0]

    def test_learned_policy__keeps_the_gap_that_expected_pods_fit(self):
        self.assertIn(self.places("rollout", 700), ("beta", "gamma"))
        self.assertEqual(self.places("binpack", 700), "alpha")

    def test_learned_policy__keeps_whole_gpus_for_pods_that_need_them(self):
        self.assertEqual(self.places("rollout", 1000), "alpha")

    def test_learned_policy__answers_concurrent_pods_as_single_ones(self):
        daemon = self.daemon("rollout", 700)
        made = [daemon.create(harness.pod("at-once-%d" % milli, milli)) for milli in range(100, 900, 100)]
        names = daemon.nodes()
        daemon.wait(lambda: daemon.admin("GET", "/api/v1/pods/default/at-once-800")[0] == 200, "the watch")

        def prioritize(one):
            return daemon.webhook("prioritize", {"Pod": one, "Nodes": None, "NodeNames": names})

        alone = [prioritize(one) for one in made]
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            together = [list(threads.map(prioritize, made)) for _ in range(20)]
        # The pods themselves may have been learned in between.
        then = [prioritize(one) for one in made]
        for answers in together:
            for answer, before, after in zip(answers, alone, then):
                self.assertIn(answer, (before, after))

    def test_learned_policy__reports_its_evaluations_in_metrics(self):
        daemon = self.daemon("rollout", 700)
        made = daemon.create(harness.pod("next", 300))
        for _ in range(3):
            daemon.filter(made)
        value = {line.split()[0]: int(line.split()[1]) for line in daemon.metric("milligpu_judge")}
        self.assertGreaterEqual(value['milligpu_judged_nodes_total{outcome="made"}'], 3)
        self.assertGreaterEqual(value['milligpu_judged_nodes_total{outcome="found"}'], 3)
        self.assertGreater(value["milligpu_judge_bytes"], 90000)


class FullCluster(harness.Story):
    flags = ("--shortlist", "2")

    def test_full_cluster__refuses_with_one_text_until_there_is_room(self):
        node, _, big = self.daemon.schedule(harness.pod("fills", 500), ["vm-0"])
        self.assertEqual(node, "vm-0")
        made = self.daemon.create(harness.pod("waits", 300))
        first = self.daemon.filter(made, ["vm-0"])
        again = self.daemon.filter(made, ["vm-0"])
        self.assertEqual(first, again)
        self.assertEqual(first["FailedAndUnresolvableNodes"], {"vm-0": "no GPU with 300 milli free"})
        # kube-scheduler may hear of a pod before our watch does.
        self.daemon.wait(lambda: self.daemon.admin("GET", "/api/v1/pods/default/waits")[0] == 200, "the watch")
        view = self.daemon.view("waits")
        self.assertEqual(view["waiting"]["asks"], 2)
        self.daemon.admin("DELETE", "/api/v1/standalone/pods/default/fills")
        self.daemon.wait(lambda: self.daemon.filter(made, ["vm-0"]).get("NodeNames") == ["vm-0"], "room")
        self.assertEqual(self.daemon.bind(made, "vm-0"), "")

    def offers(self, made):
        return len(self.daemon.filter(made)["NodeNames"])

    def waiting(self, name):
        return [one for one in self.daemon.get("/api/v1/waiting")["items"] if one["name"] == name]

    def test_offered_pod__that_is_not_bound_is_offered_again_and_shown(self):
        made = self.daemon.create(harness.pod("choosy", 10))
        self.assertEqual([self.offers(made), self.offers(made)], [2, 3])
        self.assertEqual(self.waiting("choosy"), [])
        self.daemon.wait(lambda: self.waiting("choosy") != [], "the second to pass")
        shown = self.waiting("choosy")[0]
        self.assertEqual(shown["text"], "offered 3 of 3, not bound")
        self.assertEqual((shown["offered"], shown["fitting"], shown["asks"]), (3, 3, 2))
        self.assertEqual(self.daemon.view("choosy")["waiting"]["text"], shown["text"])
        self.assertEqual(self.daemon.bind(made, self.daemon.filter(made)["NodeNames"][0]), "")
        self.assertEqual(self.waiting("choosy"), [])


class BadInput(harness.Story):
    def errors(self, body):
        status, answer = self.daemon.webhook("filter", body)
        self.assertEqual(status, 200)
        return json.loads(answer)["Error"]

    def test_invalid_body__is_answered_with_the_place_of_the_error(self):
        good = json.dumps({"Pod": harness.pod("p", 1, uid="u"), "Nodes": None, "NodeNames": ["a100-0"]})
        bad = {
            "empty": "", "not json": "hello", "wrong type": "[]", "number": "17", "half": good[:-20],
            "bytes after the value": good + "x", "deep": "[" * 5000, "duplicate": '{"Pod":{},"Pod":{}}',
            "case duplicate": '{"NodeNames":[],"nodenames":[]}', "nul": good.replace("a100-0", "a\\u0000b"),
            "bad utf-8": b'{"Pod":{"metadata":{"name":"\xff"}}}',
            "names of numbers": '{"Pod":{},"NodeNames":[1]}', "no pod": '{"NodeNames":["a100-0"]}',
            "huge number": '{"Pod":{"spec":{"priority":1e999}},"NodeNames":[]}',
        }
        for kind, body in bad.items():
            with self.subTest(kind):
                self.assertNotEqual(self.errors(body), "")

    def test_keys__are_case_insensitive_and_may_be_null_as_in_go(self):
        made = harness.pod("lower", 100, uid="lower-uid")
        made["metadata"]["annotations"] = None
        made["spec"]["initContainers"] = None
        body = json.dumps({"pod": made, "nodes": None, "nodenames": ["a100-0"]})
        status, answer = self.daemon.webhook("filter", body)
        self.assertEqual((status, json.loads(answer)["NodeNames"]), (200, ["a100-0"]))

    def test_unknown_node_names__are_refused_by_name(self):
        made = self.daemon.create(harness.pod("strange", 100))
        answer = self.daemon.filter(made, ["who-is-this"])
        self.assertIn("who-is-this", answer["FailedAndUnresolvableNodes"])

    def test_impossible_binds__give_the_reason(self):
        made = self.daemon.create(harness.pod("real", 100))
        meta = made["metadata"]
        plain = self.daemon.create(harness.pod("plain", None))
        base = {"PodName": "real", "PodNamespace": "default", "PodUID": meta["uid"], "Node": "a100-0"}
        wrong = [
            ({**base, "PodName": "ghost", "PodUID": "nobody"}, "unknown_pod"),
            ({**base, "PodUID": "another"}, "unknown_pod"),
            ({**base, "PodName": "another"}, "unknown_pod"),
            ({**base, "Node": "nowhere"}, "unknown_node"),
            ({"PodName": "plain", "PodNamespace": "default", "PodUID": plain["metadata"]["uid"],
              "Node": "a100-0"}, "not_ours"),
        ]
        for body, word in wrong:
            with self.subTest(word=word, body=body):
                status, answer = self.daemon.webhook("bind", body)
                self.assertEqual(status, 200)
                self.assertTrue(json.loads(answer)["Error"].startswith(word), answer)
        for body in ({}, {**base, "Node": ""}, {**base, "Node": None}, {**base, "PodName": 3}):
            with self.subTest(body=body):
                status, answer = self.daemon.webhook("bind", body)
                self.assertEqual(status, 200)
                self.assertNotEqual(json.loads(answer)["Error"], "")

    def test_wrong_request__is_refused_for_method_path_or_type(self):
        request = self.daemon.request
        self.assertEqual(request("webhook", "GET", "/scheduler/filter")[0], 405)
        self.assertEqual(request("webhook", "POST", "/scheduler/nothing", "{}")[0], 404)
        self.assertEqual(request("webhook", "POST", "/filter", "{}")[0], 404)
        self.assertEqual(request("webhook", "POST", "/scheduler/filter", "{}", {"Content-Type": "text/plain"})[0], 415)

    def test_body__of_100_mb_is_refused_before_it_is_read(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port["webhook"]), harness.PATIENCE) as peer:
            peer.sendall(b"POST /scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                         b"Content-Type: application/json\r\nContent-Length: 104857600\r\n\r\n{")
            peer.settimeout(harness.PATIENCE)
            self.assertIn(b" 413 ", peer.recv(4096))


if __name__ == "__main__":
    harness.main()
