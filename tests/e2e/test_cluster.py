"""milligpud against an API server: how it authenticates, what it learns by watching, how it starts and stops."""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import signal
import stat
import tempfile
import threading

import harness


class Cluster(harness.Case):
    def serve(self, cluster=harness.DEMO, *flags):
        return self.keep(harness.Api(cluster, *flags))

    def open(self, api, *flags, **more):
        return self.keep(harness.ClusterDaemon(api, *flags, **more))


class Placing(Cluster):
    def keys(self, api):
        code, keys = api.request("GET", "/api/v1/namespaces/gpu/configmaps/milligpu-keys")
        return keys["data"] if code == 200 else {}

    def test_binding__is_signed_by_a_published_key(self):
        api, daemon = self.pair()
        daemon.wait(lambda: daemon.get("/api/v1/keys")["items"][0]["state"] == "signing", "a key that signs")
        node, _, _ = daemon.schedule(harness.pod("p", 100))
        signature = api.pod("p")["metadata"]["annotations"]["milligpu.io/signature"]
        self.assertRegex(signature, "^v1:[0-9a-f]{16}:[A-Za-z0-9+/]{86}==$")
        daemon.wait(lambda: signature.split(":")[1] in self.keys(api), "the public key")
        found = daemon.doctor("signing")
        self.assertEqual(found["status"], "ok", found)
        self.assertFalse(daemon.get(f"/api/v1/nodes/{node}")["agent"])
        self.assertNotIn("required-plugins", json.dumps(api.pod("p")))
        # The same key after a restart; and on a node with an agent the Binding demands it.
        daemon.kill()
        daemon.start()
        gpus = [{"uuid": gpu["id"], "index": gpu["index"]} for gpu in daemon.get(f"/api/v1/nodes/{node}")["gpus"]]
        api.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {
            "milligpu.io/agent": "1", "milligpu.io/gpus": json.dumps(gpus)}}})
        daemon.wait(lambda: daemon.get(f"/api/v1/nodes/{node}")["agent"], "the agent")
        made = api.create(harness.pod("q", 100))
        self.assertEqual(daemon.bind(made, node), "")
        annotations = api.pod("q")["metadata"]["annotations"]
        self.assertEqual(annotations["milligpu.io/signature"].split(":")[1], signature.split(":")[1])
        self.assertEqual(annotations["required-plugins.noderesource.dev/pod"], '["milligpu"]')
        self.assertEqual(len(self.keys(api)), 1)

    def test_signing_key__is_refused_when_others_can_read_it(self):
        _, daemon = self.pair()
        key = next(daemon.home.glob("*.key"))
        self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
        daemon.kill()
        key.chmod(0o644)
        with self.assertRaises(Exception):
            daemon.start()
        self.assertIn("others could read it and sign; run chmod 600", daemon.logged())
        key.chmod(0o600)
        daemon.start()

    def test_placing__of_twenty_pods_agrees_in_every_view(self):
        api, daemon = self.pair()
        for i in range(20):
            node, error, _ = daemon.schedule(harness.pod(f"p{i}", 300))
            self.assertEqual(error, "")
            self.assertEqual(api.pod(f"p{i}")["spec"]["nodeName"], node)
        daemon.check()
        self.assertEqual(api.seen("PATCH /api/v1/namespaces/default/pods"), 0, "node and allocation come in one write")
        self.assertEqual(api.seen("/binding"), 20)

    def test_succeeded_pod__frees_its_share(self):
        api, daemon = self.pair()
        daemon.schedule(harness.pod("job", 300))
        status, _ = api.request("PATCH", "/api/v1/namespaces/default/pods/job/status", {"status": {"phase": "Succeeded"}})
        self.assertEqual(status, 200)
        daemon.forgets("job")
        daemon.check()

    def test_unbound_pod__is_reported_and_not_bound_again(self):
        """As after a restore of etcd to a time before the Binding; the list after the restart is the evidence."""
        api, daemon = self.pair()
        node, _, made = daemon.schedule(harness.pod("back", 300))
        daemon.knows("back")
        daemon.stop()
        status, said = api.request("PATCH", "/api/v1/namespaces/default/pods/back", {"spec": {"nodeName": None}})
        self.assertEqual(status, 200, said)
        daemon.start()
        drift = [drift for drift in daemon.get("/api/v1/drift?kind=unbound")["items"]]
        self.assertEqual([one["name"] for one in drift], ["back"])
        self.assertRegex(daemon.bind(made, node), f"^unbound: .* bound to node {node}, .* delete the pod$")
        self.assertRegex(daemon.filter(made)["Error"], "^unbound: ")
        self.assertEqual(daemon.get(f"/api/v1/nodes/{node}")["usedMilli"], 300)
        check = daemon.doctor("drift")
        self.assertEqual(check["status"], "warning")
        self.assertIn("delete the pods that milligpuctl drift --kind unbound lists", check["fix"])
        api.gone("back")
        daemon.forgets("back")
        self.assertEqual(daemon.get("/api/v1/drift")["items"], [])

    def test_recreated_pod__of_the_same_name_is_a_new_pod(self):
        api, daemon = self.pair()
        _, _, first = daemon.schedule(harness.pod("again", 300))
        api.gone("again")
        node, error, second = daemon.schedule(harness.pod("again", 400))
        self.assertEqual((node is not None, error), (True, ""))
        self.assertNotEqual(first["metadata"]["uid"], second["metadata"]["uid"])
        daemon.check()
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 400)

    def test_refused_pod__is_woken_when_capacity_is_freed(self):
        api, daemon = self.pair()
        daemon.schedule(harness.pod("holds", 500), ["vm-0"])
        made = daemon.create(harness.pod("waits", 500))
        self.assertIn("vm-0", daemon.filter(made, ["vm-0"])["FailedAndUnresolvableNodes"])
        before = api.seen("csistoragecapacities")
        api.gone("holds")
        daemon.wait(lambda: api.seen("csistoragecapacities") > before, "a wake-up")
        self.assertEqual(daemon.filter(made, ["vm-0"])["NodeNames"], ["vm-0"])
        _, objects = api.request("GET", "/apis/storage.k8s.io/v1/namespaces/gpu/csistoragecapacities")
        self.assertEqual(len(objects["items"]), 1, "in the namespace of the kubeconfig's context")


class Advice(Cluster):
    """Events on waiting pods whose request is probably a mistake."""

    def advice(self, api, words):
        _, events = api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        return [event for event in events["items"] if event["reason"] == "GPURequestAdvice" and words in event["note"]]

    def test_advice__of_one_milli_is_bound_and_given_once(self):
        api, daemon = self.pair()
        node, error, made = daemon.schedule(harness.pod("one", 1, annotations={"milligpu.io/gpu_model": "A100*"}))
        self.assertEqual(error, "")
        daemon.wait(lambda: len(self.advice(api, "")) == 2, "two Events")
        tiny = self.advice(api, "nvidia.com/vgpu: 1 is 1 thousandth of a GPU; 1000 is one whole GPU; did you mean 1000?")
        self.assertEqual([(event["type"], event["action"], event["regarding"]["uid"]) for event in tiny],
                         [("Warning", "tiny", made["metadata"]["uid"])])
        self.assertEqual(len(self.advice(api, "milligpu.io/gpu_model has no effect; did you mean milligpu.io/gpu-model?")), 1)
        waits = api.create(harness.pod("waits", 2))
        daemon.wait(lambda: len(self.advice(api, "did you mean 2000?")) == 1, "the Event")
        for _ in range(2):
            daemon.kill()
            daemon.start()
            daemon.wait(lambda: 'milligpu_events_total{outcome="ok"} 1' in daemon.metrics(), "it to be sent again")
        daemon.filter(waits)
        self.assertEqual(len(self.advice(api, "")), 3, "the API server knows them by their names")


class Nodes(Cluster):
    def patch(self, api, name, patch, sub=""):
        status, said = api.request("PATCH", f"/api/v1/nodes/{name}{sub}", patch)
        self.assertEqual(status, 200, said)

    def refused(self, daemon, name, node, milli=300):
        made = daemon.create(harness.pod(name, milli))
        daemon.wait(lambda: node in (daemon.filter(made, [node]).get("FailedAndUnresolvableNodes") or {}), "a refusal")

    def test_new_node__takes_pods(self):
        api, daemon = self.pair()
        status, _ = api.request("POST", "/api/v1/nodes", harness.node("new-0", "2k"))
        self.assertEqual(status, 201)
        daemon.wait(lambda: "new-0" in daemon.nodes(), "the node")
        self.assertEqual(daemon.schedule(harness.pod("first", 2000), ["new-0"])[:2], ("new-0", ""))

    def test_cordoned_gpu__takes_nothing_until_uncordoned(self):
        api, daemon = self.pair()
        note = {"metadata": {"annotations": {"milligpu.io/cordon": "all"}}}
        self.patch(api, "vm-0", note)
        self.refused(daemon, "waits", "vm-0")
        self.patch(api, "vm-0", {"metadata": {"annotations": {"milligpu.io/cordon": None}}})
        made = api.pod("waits")
        daemon.wait(lambda: daemon.filter(made, ["vm-0"])["NodeNames"] == ["vm-0"], "room")

    def test_relabelled_node__has_its_new_model(self):
        api, daemon = self.pair()
        self.patch(api, "t4-0", {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}})
        made = daemon.create(harness.pod("wants", 300, annotations={"milligpu.io/gpu-model": "L4"}))
        daemon.wait(lambda: daemon.filter(made)["NodeNames"] == ["t4-0"], "the model")


class WhoWeAre(Cluster):
    def secured(self, *flags):
        self.tls = harness.certificates()
        return self.serve(harness.DEMO, "--tls", str(self.tls), *flags)

    def works(self, daemon):
        self.assertEqual(daemon.schedule(harness.pod("one", 300))[1], "")

    def test_kubeconfig__accepts_a_token_over_tls(self):
        api = self.secured("--token", "secret")
        self.works(self.open(api, user={"token": "secret"}, ca=self.tls / "ca.crt"))

    def test_kubeconfig__accepts_a_client_certificate(self):
        api = self.secured("--client-ca", str(harness.certificates() / "ca.crt"))
        self.works(self.open(api, ca=self.tls / "ca.crt", user={
            "client-certificate": str(self.tls / "client.crt"), "client-key": str(self.tls / "client.key")}))

    def test_token_file__is_read_again_after_rotation(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "token")
            file.write_text("first\n")
            api = self.serve(harness.DEMO, "--token", "first")
            daemon = self.open(api, user={"tokenFile": str(file)})
            file.write_text("second\n")
            api.do("token", token="second")
            self.works(daemon)
            api.do("release")
            api.create(harness.running("seen", 100, "t4-0"))
            daemon.knows("seen")

    def test_wrong_token__is_reported_and_grants_nothing(self):
        api = self.serve(harness.DEMO, "--token", "right")
        daemon = self.open(api, user={"token": "wrong"}, ready=False)
        daemon.logs("401")
        self.assertFalse(daemon.ready())
        api.do("token", token="wrong")
        daemon.await_ready()

    def test_api_server__of_another_ca_is_not_trusted(self):
        api = self.secured()
        daemon = self.open(api, ca=self.tls / "other-ca.crt", ready=False)
        daemon.logs("certificate")
        self.assertFalse(daemon.ready())
        self.assertEqual(api.seen(""), 0)

    def test_ledger__of_another_cluster_is_refused(self):
        here = self.serve()
        daemon = self.open(here)
        daemon.schedule(harness.pod("mine", 300))
        self.assertEqual(daemon.stop(), 0)
        there = self.serve(harness.DEMO, "--name", "elsewhere")
        daemon.connect(there.url)
        refused = harness.run(*daemon.source(), *harness.ANY_PORTS, *daemon.flags, program="milligpud")
        self.assertEqual(refused.returncode, 1)
        last = refused.stderr.strip().splitlines()[-1]
        self.assertIn("cluster", last)
        self.assertIn("ledger.db", last)
        self.assertEqual(there.seen("binding"), 0)
        daemon.connect(here.url)
        daemon.start()
        self.assertEqual(daemon.allocation("mine")["state"], "bound")


class Hidden(harness.Case):
    def test_unreadable_pod__of_the_cluster_file_holds_its_share(self):
        cluster = json.loads(harness.DEMO.read_text())
        cluster["items"].append({**harness.running("hidden", 400, "vm-0", annotations={"milligpu.io/gpu-model": "\0"}, uid="u"),
                                 "spec": {"schedulerName": 300 * "s", "nodeName": "vm-0", "containers": [
                                     {"name": "c", "resources": {"limits": {"nvidia.com/vgpu": "400"}}}]}})
        daemon = self.keep(harness.Daemon(cluster))
        self.assertEqual(daemon.get("/api/v1/pods/default/hidden")["allocation"]["state"], "bound")


class Lives(Cluster):
    def test_restart__on_the_same_ledger_changes_nothing(self):
        _, daemon = self.pair()
        for i in range(5):
            daemon.schedule(harness.pod(f"p{i}", 300))
        before = daemon.all("/api/v1/allocations")
        self.assertEqual(daemon.stop(), 0)
        daemon.start()
        self.assertEqual(daemon.all("/api/v1/allocations"), before)
        daemon.check()

    def test_restart__learns_the_changes_made_meanwhile(self):
        api, daemon = self.pair()
        daemon.schedule(harness.pod("ends", 300))
        self.assertEqual(daemon.stop(), 0)
        api.gone("ends")
        api.create(harness.running("comes", 200, "t4-0"))
        daemon.start()
        self.assertFalse(daemon.holds("ends"))
        self.assertTrue(daemon.allocation("comes")["presumed"])
        history = daemon.get("/api/v1/history?pod=default/ends")["items"]
        self.assertEqual(history[0]["state"], "released")

    def test_lost_ledger__is_rebuilt_from_annotations(self):
        _, daemon = self.pair()
        for i in range(6):
            daemon.schedule(harness.pod(f"p{i}", 350))
        before = {item["uid"]: item["charges"] for item in daemon.all("/api/v1/allocations")}
        self.assertEqual(daemon.stop(), 0)
        self.lose_ledger(daemon, "1")
        daemon.await_ready()
        after = daemon.all("/api/v1/allocations")
        self.assertEqual({item["uid"]: item["charges"] for item in after}, before)
        self.assertFalse(any(item["presumed"] for item in after))
        daemon.check()

    def lose_ledger(self, daemon, grace_period_s):
        for file in daemon.home.glob("ledger.db*"):
            file.unlink()
        daemon.flags = [*daemon.flags, "--grace-period-s", grace_period_s]
        daemon.start(ready=False)

    def test_new_ledger__waits_for_a_binding_of_the_last_daemon(self):
        api, daemon = self.pair()
        made = api.create(harness.pod("late", 700))  # the first one ever, so no pod shows that there was a grant before
        node = daemon.filter(made)["NodeNames"][0]
        api.fault("/binding", "slow", number=10000)  # a busy machine needs some for the restart
        seen = api.seen("/binding")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.ask_and_be_cut_off, daemon, made, node)
            daemon.wait(lambda: api.seen("/binding") > seen, "the Binding to be on its way")
            daemon.kill()
            asked.result(harness.PATIENCE)
        self.lose_ledger(daemon, "12")
        daemon.wait(lambda: b"the ledger is new" in daemon.admin("GET", "/readyz")[1], "the reason")
        self.assertIn("the ledger is new", daemon.filter(made)["Error"])
        self.assertIn("granted here before", json.dumps(daemon.get("/api/v1/doctor")))
        self.assertIsNone(daemon.allocation("late"))
        daemon.await_ready()
        self.assertEqual(api.pod("late")["spec"]["nodeName"], node)
        self.assertEqual(daemon.allocation("late")["node"], node)
        self.assertFalse(daemon.allocation("late")["presumed"])
        daemon.check()

    def ask_and_be_cut_off(self, daemon, made, node):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            daemon.ask_to_bind(made, node)

    def burst(self, daemon, pods, dies_after):
        """Binds by eight clients at once, and kill -9 after dies_after successes; returns the node of each success."""
        done, lock = {}, threading.Lock()

        def one(made):
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                node = (daemon.filter(made).get("NodeNames") or [None])[0]
                if node is None or daemon.ask_to_bind(made, node) != "":
                    return
                with lock:
                    done[made["metadata"]["uid"]] = node
                    if len(done) == dies_after:
                        daemon.process.kill()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(one, pods))
        daemon.kill()
        return done

    def test_kill_9__loses_no_acknowledged_bind(self):
        api, daemon = self.pair()
        waiting = [api.create(harness.pod(f"p{i}", 250)) for i in range(45)]
        for _ in range(3):
            done = self.burst(daemon, waiting, 8)
            self.assertGreaterEqual(len(done), 8)
            daemon.start()
            held = {item["uid"]: item["node"] for item in daemon.all("/api/v1/allocations")}
            for uid, node in done.items():
                self.assertEqual(held.get(uid), node)
            waiting = [pod for pod in waiting if pod["metadata"]["uid"] not in done]
        for made in waiting:
            daemon.drive(made)
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"], {"reserved": 0, "bound": 45})
        daemon.check()

    def slow_bind(self, api, daemon, ms):
        made = api.create(harness.pod("slow", 300))
        node = daemon.filter(made)["NodeNames"][0]
        api.fault("/binding", "slow", number=ms)
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        answer = pool.submit(daemon.ask_to_bind, made, node)
        daemon.wait(lambda: api.seen("/binding") == 1, "the Binding to be sent")
        return answer

    def test_sigterm__lets_pending_binds_finish(self):
        api, daemon = self.pair()
        answer = self.slow_bind(api, daemon, 600)
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(answer.result(harness.PATIENCE), "")
        self.assertEqual(daemon.ended(), 0)
        self.assertIn("nodeName", api.pod("slow")["spec"])
        daemon.start()
        daemon.check()

    def test_sigterm__refuses_later_binds_without_a_trace(self):
        api, daemon = self.pair()
        answer = self.slow_bind(api, daemon, 800)
        late = api.create(harness.pod("late", 300))
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait(lambda: not daemon.ready(), "not ready any more")
        self.assertIn("stopping", daemon.bind(late, "a100-0"))
        self.assertEqual(answer.result(harness.PATIENCE), "")
        self.assertEqual(daemon.ended(), 0)
        self.assertNotIn("nodeName", api.pod("late")["spec"])

    def test_second_sigterm__stops_at_once_and_the_bind_is_settled_later(self):
        api, daemon = self.pair()
        answer = self.slow_bind(api, daemon, 5000)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.logs("stopping: waiting for in-flight binds")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.ended(), 0)
        with self.assertRaises((OSError, http.client.HTTPException, ValueError, AssertionError)):
            answer.result(harness.PATIENCE)  # 503, or the connection is closed: it did not wait for the Binding
        daemon.start()
        daemon.drive(api.pod("slow"))
        daemon.check()
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 300)

    def test_sighup__reloads_settings_and_rejects_wrong_ones(self):
        api = self.serve()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "config.yaml")
            file.write_text("log_level: info\nshortlist: 16\n")
            daemon = self.open(api, "--config", str(file))
            made = api.create(harness.pod("asks", 300))
            self.assertGreater(len(daemon.filter(made)["NodeNames"]), 1)
            file.write_text("log_level: info\nshortlist: 1\nbase_path: /other\n")
            daemon.process.send_signal(signal.SIGHUP)
            daemon.logs("settings reloaded")
            self.assertEqual(len(daemon.filter(made)["NodeNames"]), 1)
            self.assertIn("base_path", daemon.logged(), "what needs a restart is named")
            file.write_text("log_level: info\nshortlist: 2\nlog_levle: debug\n")
            daemon.process.send_signal(signal.SIGHUP)
            daemon.logs("not reloaded")
            self.assertIn("config.yaml:3", daemon.logged())
            # Another pod, because the first one was offered too few nodes and would get a longer list now.
            other = api.create(harness.pod("asks-too", 300))
            self.assertEqual(len(daemon.filter(other)["NodeNames"]), 1)


class WrongFiles(Cluster):
    def setUp(self):
        self.home = self.scratch()

    def refuse(self, *flags):
        result = harness.run("--ledger", self.home / "ledger.db", *harness.ANY_PORTS, *flags, program="milligpud")
        self.assertIn(result.returncode, (1, 2), result.stderr)
        return result.stderr

    def kubeconfig(self, content, *words):
        file = self.home / "kubeconfig"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        said = self.refuse("--kubeconfig", str(file))
        for word in ("kubeconfig", *words):
            self.assertIn(word, said)

    def test_kubeconfig__is_refused_when_missing_empty_binary_or_invalid(self):
        self.assertIn("nowhere", self.refuse("--kubeconfig", str(self.home / "nowhere")))
        self.assertIn(str(self.home), self.refuse("--kubeconfig", str(self.home)))
        self.kubeconfig("")
        self.kubeconfig(bytes(range(256)) * 8)
        self.kubeconfig("- a list\n")
        self.kubeconfig("clusters: [\n")
        self.kubeconfig("x: " + "[" * 100000)

    def test_config_file__is_refused_for_every_class_of_error(self):
        file = self.home / "config.yaml"
        for content, words in ((b"shortlst: 3\n", ("shortlst", ":1", "shortlist")),
                               (b"wake: object\nshortlist: many\n", (":2", "shortlist")),
                               (b"shortlist: [1]\n", (":1", "shortlist")), (b"shortlist: 1\nshortlist: 2\n", (":2",)),
                               (bytes(range(256)), ()), (b"\xff\xfe\x00", ()), (b"17\n", ()), (b"a: [\n", ()),
                               (b"shortlist: 4294967296\n", ("shortlist",))):
            with self.subTest(content[:20]):
                file.write_bytes(content)
                said = self.refuse("--config", str(file))
                for word in ("config.yaml", *words):
                    self.assertIn(word, said)
        self.assertIn("missing.yaml", self.refuse("--config", str(self.home / "missing.yaml")))
        self.assertIn(str(self.home), self.refuse("--config", str(self.home)))


if __name__ == "__main__":
    harness.main(side_by_side=True)
