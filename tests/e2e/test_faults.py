"""What an API server and the network can do wrong, one test for each; milligpud must stay correct.

What only the reflector or the outbox sees is in unit.kube.reflector, unit.sync.outbox and unit.app.fault_loop."""

import concurrent.futures
import json
import sys
import time

import harness

PODS = "GET /api/v1/pods$"
NODES = "GET /api/v1/nodes$"
WATCH = "GET /api/v1/pods?watch"
WATCH_NODES = "GET /api/v1/nodes?watch"
BINDING = "/binding"
LOOK = "GET /api/v1/namespaces/default/pods/pod"
PATIENT = ("--http-timeout-ms", "6000")  # time for a second try on a busy machine
QUICK = ("--http-timeout-ms", "2000")  # a bind gives up after 1.6 s

KINDS = {}  # kinds of misbehaviour, and the tests of each: --list prints them


def kind(*names):
    def mark(story):
        for name in names:
            KINDS.setdefault(name, []).append(story.__qualname__)
        return story
    return mark


def lists(api):
    """How often the pods were listed; a watch that begins meanwhile is not taken for a list."""
    while True:
        watches = api.seen(WATCH)
        both = api.seen(PODS[:-1])
        if api.seen(WATCH) == watches:
            return both - watches


def status(code, reason, message="as the test wants it", **more):
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                       "message": message, **more})


class Faulty(harness.Case):
    def serve(self, *faults, cluster=harness.DEMO):
        api = self.keep(harness.Api(cluster))
        for fault in faults:
            api.fault(*fault[:2], **(fault[2] if len(fault) > 2 else {}))
        return api

    def open(self, api, *flags, **more):
        daemon = self.keep(harness.ClusterDaemon(api, *flags, **more))
        self.addCleanup(self.right, daemon)
        return daemon

    def before(self):
        """A daemon that has placed a pod."""
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        return api, daemon

    def offered(self, api, daemon):
        """A pod and the first node that the filter offers."""
        made = api.create(harness.pod("pod", 300))
        return made, daemon.filter(made)["NodeNames"][0]

    def right(self, daemon):
        """How every test ends: ready, the ledger agrees with the cluster, and the only drift is adopted pods."""
        daemon.await_ready()
        daemon.check()
        daemon.wait(lambda: {drift["kind"] for drift in daemon.all("/api/v1/drift")} <= {"adopted"}, "no drift")

    def list_again(self, api, daemon):
        """Cause another list: it reports what the watch did not."""
        before = lists(api)
        api.fault(WATCH, "status", number=410, text=status(410, "Expired"))
        api.do("release")
        daemon.wait(lambda: lists(api) > before, "another list")

    def works(self, daemon, name="after"):
        """A pod can be placed, and all views agree."""
        _, error, _ = daemon.schedule(harness.pod(name, 300))
        self.assertEqual(error, "")
        daemon.check()


class Lists(Faulty):
    def starts(self, *faults, cluster=harness.DEMO, says=""):
        api = self.serve(*faults, cluster=cluster)
        daemon = self.open(api)
        daemon.logs(says)
        self.works(daemon)
        return api, daemon

    STARTS = (  # name; request, kind of fault and arguments; a part of the log
        ("500 to a list", PODS, "status", {"number": 500, "times": 2, "text": status(500, "InternalError")}, "500"),
        ("503 to a list", NODES, "status", {"number": 503, "times": 2}, "503"),
        ("429 with retryAfterSeconds in its body", NODES, "status",
         {"number": 429, "text": status(429, "TooManyRequests", details={"retryAfterSeconds": 1})}, "429"),
        ("a redirect", PODS, "status", {"number": 302, "text": "to the login page"}, "302"),
        ("a page that is cut", PODS, "truncate", {"number": 40}, ""),
        ("one byte at a time", PODS, "drip", {"number": 1}, ""),
        ("200 that is no JSON", PODS, "status", {"number": 200, "text": "<html>the proxy says hello</html>"}, ""),
        ("200 without a body", NODES, "status", {"number": 200}, ""),
        ("bytes after the end of a page", PODS, "status",
         {"number": 200, "text": '{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]} and more'}, ""),
        ("a list without a version", NODES, "status",
         {"number": 200, "text": '{"kind":"NodeList","metadata":{},"items":[]}'}, ""),
        ("a reset before anything was done", NODES, "refuse", {"times": 2}, ""),
        ("a reset instead of the answer", PODS, "lose", {}, ""))

    @kind(*(row[0] for row in STARTS))
    def test_start__lists_again_after_a_fault(self):
        for name, *fault, says in self.STARTS:
            with self.subTest(name):
                self.starts(fault, says=says)
                self.doCleanups()

    @kind("429 with Retry-After")
    def test_retry_after__delays_the_next_list(self):
        api = self.serve((PODS, "status", {"number": 429, "text": "Too many requests", "retry_after": 3}))
        begun = time.monotonic()
        daemon = self.open(api)
        self.assertGreaterEqual(time.monotonic() - begun, 3)
        self.assertEqual(lists(api), 2)
        self.works(daemon)

    def many(self):
        cluster = json.loads(harness.DEMO.read_text())
        cluster["items"] += [harness.running(f"p{i}", 10 if i % 100 == 0 else None, "t4-0", uid=f"uid-{i}") for i in range(1200)]
        return cluster

    def holds(self, daemon):
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"]["bound"], 13)  # 12 of many() and 1 of works()

    def test_second_page__that_is_cut_is_requested_again_and_counts_once(self):
        _, daemon = self.starts((PODS, "slow"), (PODS, "truncate", {"number": 5000}), cluster=self.many())
        self.holds(daemon)

    @kind("410 in the middle of a list")
    def test_expired_continue__restarts_the_list(self):
        _, daemon = self.starts((PODS, "slow"), (PODS, "slow"),
                                (PODS, "status", {"number": 410, "text": status(410, "Expired")}), cluster=self.many())
        self.holds(daemon)

    def test_incomplete_list__grants_nothing(self):
        api = self.serve((PODS, "slow"), (PODS, "status", {"number": 503, "times": 1, "retry_after": 2}),
                         cluster=self.many())
        daemon = self.open(api, ready=False)
        daemon.logs("503")
        made = api.create(harness.pod("early", 300))
        daemon.wait(lambda: "list of pods" in daemon.filter(made, ["t4-0"])["Error"], "the nodes")
        self.assertIn("list of pods", daemon.bind(made, "t4-0"))
        daemon.await_ready()
        self.works(daemon)

    @kind("403 to a list", "401 to a list")
    def test_denied_list__is_reported_and_grants_nothing(self):
        for code, reason, message, says in ((403, "Forbidden", 'User "milligpu" cannot list resource "pods"', "cannot list resource"),
                                            (401, "Unauthorized", "as the test wants it", "401")):
            with self.subTest(code):
                api = self.serve((PODS, "status", {"number": code, "times": 3, "text": status(code, reason, message)}))
                daemon = self.open(api, ready=False)
                daemon.logs(says)
                self.assertFalse(daemon.ready())
                daemon.await_ready()
                self.works(daemon)
                self.doCleanups()

    @kind("404 to a list")
    def test_list_404__is_not_an_empty_cluster(self):
        api = self.serve(cluster=self.many())
        daemon = self.open(api)
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"]["bound"], 12)
        api.fault(PODS, "status", number=404, times=2, text="404 page not found")
        self.list_again(api, daemon)
        daemon.logs("404")
        self.works(daemon)
        self.holds(daemon)

    @kind("an object of 15 MB in a list")
    def test_list__accepts_a_pod_of_15_mb(self):
        api = self.serve()
        api.create(harness.running("fat", 100, "t4-0", annotations={"fat": "x" * 15_000_000}))
        daemon = self.open(api)
        self.assertEqual(daemon.allocation("fat")["state"], "bound")
        self.works(daemon)

    @kind("a list that is older than what was known")
    def test_older_list__is_corrected_by_the_watch(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("first", 200))
        old = api.request("GET", "/api/v1/pods")[1]
        _, error, _ = daemon.schedule(harness.pod("second", 300))
        self.assertEqual(error, "")
        api.fault(PODS, "status", number=200, text=json.dumps(old))
        self.list_again(api, daemon)
        daemon.knows("second")
        self.works(daemon)
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 200 + 300 + 300)

    def page(self, api, *items):
        version = str(api.version())
        for item in items:
            if isinstance(item, dict):
                item.setdefault("metadata", {})["resourceVersion"] = version
        return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version},
                           "items": items})

    @kind("an item that cannot be read")
    def test_unreadable_item__repeats_the_list(self):
        api = self.serve()
        api.create(harness.running("there", 100, "t4-0"))
        bad = {"metadata": {"name": "bad", "namespace": "default", "uid": "uid-bad"}, "spec": 17}
        api.fault(PODS, "status", number=200, text=self.page(api, harness.running("good", 100, "t4-0", uid="uid-good"), bad))
        daemon = self.open(api)
        daemon.logs("listing again")
        self.assertEqual({item["name"] for item in daemon.all("/api/v1/allocations")}, {"there"})
        self.list_again(api, daemon)

    @kind("two items with one name and different uids")
    def test_items__of_one_name_and_two_uids_both_count(self):
        api = self.serve()
        api.fault(PODS, "status", number=200, text=self.page(api, harness.running("same", 100, "t4-0", uid="uid-1"),
                                                             harness.running("same", 200, "t4-0", uid="uid-2")))
        daemon = self.open(api)
        self.assertEqual(daemon.get("/api/v1/nodes/t4-0")["usedMilli"], 300)
        api.fault(WATCH, "status", number=410)
        api.do("release")
        daemon.wait(lambda: daemon.get("/api/v1/nodes/t4-0")["usedMilli"] == 0, "the next list to settle it")

    @kind("an item that comes twice in a list")
    def test_item__that_is_repeated_counts_once(self):
        api = self.serve()
        twice = harness.running("twice", 100, "t4-0", uid="uid-1")
        api.fault(PODS, "status", number=200, text=self.page(api, twice, twice))
        daemon = self.open(api)
        self.assertEqual(daemon.get("/api/v1/nodes/t4-0")["usedMilli"], 100)
        self.list_again(api, daemon)

    @kind("a namespace without a uid")
    def test_cluster_uid__may_come_late(self):
        for fault in (("status", {"number": 500}), ("refuse", {}), ("status", {"number": 200, "text": "{}"}),
                      ("status", {"number": 200, "text": "nonsense"}), ("truncate", {"number": 9})):
            with self.subTest(fault):
                _, daemon = self.starts(("namespaces/kube-system", *fault))
                daemon.logs("cannot be identified yet")


class Watches(Faulty):
    """The current watch ends and the next ones are faulty; what happens meanwhile must be learned."""

    def spoil(self, *faults, match=WATCH):
        api, daemon = self.before()
        before = api.seen(match)
        for kind, more in faults:
            api.fault(match, kind, **more)
        api.do("release")
        daemon.wait(lambda: api.seen(match) > before, "a watch to be spoilt")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        return api, daemon

    def goes_on_as_before(self, daemon):
        daemon.knows("meanwhile")
        self.assertEqual(daemon.allocation("before")["state"], "bound")
        self.works(daemon)

    def event(self, kind, obj):
        return json.dumps({"type": kind, "object": obj}) + "\n"

    def stream(self, api, text):
        """The next watch sends this and ends; then a pod appears."""
        api.fault(WATCH, "stream", text=text)
        api.do("release")
        api.create(harness.running("meanwhile", 100, "t4-0"))

    @kind("compacted history")
    def test_compaction__while_disconnected_lists_again(self):
        api, daemon = self.before()
        api.do("stop")
        daemon.logs("a list or watch failed")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        api.do("compact")
        api.do("start")
        self.goes_on_as_before(daemon)
        self.assertGreater(lists(api), 0, "it was listed again")  # counts begin anew

    SPOILT = (  # name; kind of fault and its arguments
        ("429 with Retry-After", "status", {"number": 429, "retry_after": 1}),
        ("500 to a watch", "status", {"number": 500, "times": 2}),
        ("401 to a watch", "status", {"number": 401, "text": status(401, "Refused")}),
        ("403 to a watch", "status", {"number": 403, "text": status(403, "Refused")}),
        ("404 to a watch", "status", {"number": 404, "text": status(404, "Refused")}),
        ("a chunk that is cut", "truncate", {"number": 100}),
        ("blank lines between events", "stream", {"text": "\n\r\n \n"}),
        ("a bookmark without a version", "stream",
         {"text": '{"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {}}}\n'}))

    @kind(*(row[0] for row in SPOILT))
    def test_watch__continues_after_a_fault(self):
        for name, *fault in self.SPOILT:
            with self.subTest(name):
                _, daemon = self.spoil(fault)
                self.goes_on_as_before(daemon)
                self.doCleanups()

    @kind("an event that cannot be read")
    def test_unreadable_event__lists_again(self):
        api, daemon = self.before()
        version = str(api.version())
        bad = {"metadata": {"name": "bad", "namespace": "default", "uid": "u", "resourceVersion": version}, "spec": 17}
        listed = lists(api)
        api.fault(WATCH, "stream", text=self.event("ADDED", bad))
        api.do("release")
        daemon.logs("listing again")
        daemon.wait(lambda: lists(api) > listed, "the next list")
        self.assertEqual(daemon.allocation("before")["state"], "bound")
        daemon.schedule(harness.pod("after", 100))
        self.list_again(api, daemon)

    @kind("events that come again")
    def test_repeated_events__change_nothing(self):
        api, daemon = self.before()
        daemon.schedule(harness.pod("ended", 400))
        daemon.check()
        ended = api.pod("ended")
        api.gone("ended")
        daemon.forgets("ended")
        ended["metadata"]["resourceVersion"] = str(api.version())
        again = api.pod("before")
        again["metadata"]["resourceVersion"] = ended["metadata"]["resourceVersion"]
        self.stream(api, self.event("MODIFIED", again) * 3 + self.event("DELETED", ended) * 2 + self.event("ADDED", again))
        self.goes_on_as_before(daemon)
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 200 + 100 + 300)

    @kind("DELETED without an object")
    def test_deleted_event__without_an_object_changes_nothing(self):
        api, daemon = self.before()
        self.stream(api, '{"type":"DELETED","object":null}\n{"type":"DELETED"}\n{"type":7}\n[]\n')
        self.goes_on_as_before(daemon)

    @kind("a half-open watch")
    def test_half_open_watch__recovers_when_it_ends(self):
        api, daemon = self.spoil(("half-open", {"number": 40}))
        made = api.create(harness.pod("unseen", 100))
        self.assertEqual(daemon.bind(made, "t4-0"), "", "the pod was fetched")
        api.do("release")
        self.goes_on_as_before(daemon)

    @kind("one byte per second")
    def test_slow_watch__grants_nothing_twice(self):
        api, daemon = self.spoil(("drip", {"number": 1000}))
        pods = [api.create(harness.pod(f"unseen-{i}", 300)) for i in range(2)]
        answers = [daemon.bind(made, "vm-0") for made in pods]
        self.assertEqual(answers[0], "")
        self.assertIn("room", answers[1])
        api.do("release")
        self.goes_on_as_before(daemon)

    @kind("bookmarks only")
    def test_bookmarks__advance_the_version_and_lose_nothing(self):
        api, daemon = self.before()
        mark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(api.version())}}
        listed = lists(api)
        self.stream(api, self.event("BOOKMARK", mark) * 5)
        self.goes_on_as_before(daemon)
        self.assertEqual(lists(api), listed, "nothing was listed again")

    @kind("events that are missing")
    def test_missing_deletion__frees_nothing_until_the_next_list(self):
        api, daemon = self.before()
        daemon.schedule(harness.pod("silent-end", 400))
        api.fault(WATCH, "half-open")
        seen = api.seen(WATCH)
        api.do("release")
        daemon.wait(lambda: api.seen(WATCH) > seen, "a watch without a word")
        api.gone("silent-end")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        # The watch goes on after the deletion, as if it had been reported.
        later = self.event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(api.version())}})
        api.fault(WATCH, "stream", text=later)
        api.do("release")
        made = api.create(harness.pod("next", 100))
        daemon.drive(made)
        self.assertTrue(daemon.holds("silent-end"), "nobody said that it is gone")
        self.list_again(api, daemon)
        daemon.forgets("silent-end")
        self.goes_on_as_before(daemon)

    @kind("events in another order")
    def test_reordered_events__list_again(self):
        api, daemon = self.before()
        daemon.schedule(harness.pod("ends", 400))
        daemon.check()
        bound = api.pod("ends")
        api.gone("ends")
        daemon.forgets("ends")
        version = api.version()
        gone = {**bound, "metadata": {**bound["metadata"], "resourceVersion": str(version)}}
        api.fault(WATCH, "stream", text=self.event("DELETED", gone) + self.event("MODIFIED", bound))
        api.do("release")
        daemon.logs("went back")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        self.goes_on_as_before(daemon)
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 200 + 100 + 300)

    @kind("an object of 15 MB in a watch")
    def test_watch__accepts_a_pod_of_15_mb(self):
        api, daemon = self.before()
        api.create(harness.running("meanwhile", 100, "t4-0", annotations={"fat": "x" * 15_000_000}))
        self.goes_on_as_before(daemon)

    def test_node_watch__continues_after_a_fault(self):
        api, daemon = self.spoil(("truncate", {"number": 10}), ("status", {"number": 410}), match=WATCH_NODES)
        api.request("PATCH", "/api/v1/nodes/vm-0", {"metadata": {"annotations": {"milligpu.io/cordon": "all"}}})
        daemon.wait(lambda: daemon.get("/api/v1/nodes/vm-0")["cordoned"] or
                    daemon.get("/api/v1/nodes/vm-0")["freeMilli"] == 0, "the cordon")
        self.goes_on_as_before(daemon)


class Binds(Faulty):
    def spoil(self, *faults, flags=QUICK):
        """Returns a server, a daemon, a pod and its best node; the Bindings meet these faults."""
        api = self.serve()
        daemon = self.open(api, *flags)
        made, node = self.offered(api, daemon)
        for kind, more in faults:
            api.fault(BINDING, kind, **more)
        return api, daemon, made, node

    def succeeds(self, *faults):
        api, daemon, made, node = self.spoil(*faults, flags=PATIENT)
        self.assertEqual(daemon.bind(made, node), "")
        self.assertEqual(api.pod("pod")["spec"]["nodeName"], node)
        self.once(daemon)
        return api, daemon

    def once(self, daemon):
        daemon.check()
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 300)

    def other(self, daemon, node):
        return next(name for name in daemon.nodes() if name != node)

    def unknown(self, daemon, made, node):
        """The outcome is unknown: the pod is in doubt, is offered only its reserved node, and is refused elsewhere."""
        error = daemon.bind(made, node)
        self.assertIn("doubt", error)
        allocation = daemon.allocation("pod")
        self.assertEqual((allocation["state"], allocation["node"]), ("reserved", node))
        self.assertEqual(daemon.filter(made)["NodeNames"], [node])
        other = self.other(daemon, node)
        self.assertIn(node, daemon.filter(made, [other])["Error"])
        self.assertIn(node, daemon.bind(made, other))
        summary = daemon.get("/api/v1/summary")
        self.assertEqual((summary["usedMilli"], summary["reservedMilli"]), (0, 300))

    TRIED_AGAIN = (  # name; kinds of faults and their arguments; a request that is seen so often
        ("a reset instead of the answer", [("lose", {})], LOOK, 1),  # 409, then a look
        ("an error whose effect happened", [("lie", {"number": 500, "text": status(500, "InternalError")})], LOOK, 1),
        ("200 from somebody in between", [("status", {"number": 200, "text": "<html>please log in</html>"})], BINDING, 2),
        ("an answer that never comes", [("silent", {})], BINDING, 1),
        ("a reset before anything was done", [("refuse", {})], BINDING, 1),
        ("503 to a Binding", [("status", {"number": 503}), ("lose", {})], BINDING, 3),
        ("a half-open answer", [("half-open", {"number": 5})], BINDING, 1),
        ("an answer at one byte per second", [("drip", {"number": 1000})], BINDING, 1))

    @kind(*(row[0] for row in TRIED_AGAIN))
    def test_binding__succeeds_after_a_fault(self):
        for name, faults, request, times in self.TRIED_AGAIN:
            with self.subTest(name):
                api, _ = self.succeeds(*faults)
                self.assertGreaterEqual(api.seen(request), times)
                self.doCleanups()

    @kind("429 with Retry-After")
    def test_retry_after__delays_the_next_binding(self):
        begun = time.monotonic()
        self.succeeds(("status", {"number": 429, "retry_after": 1}))
        self.assertGreaterEqual(time.monotonic() - begun, 1)

    @kind("an answer that is slower than a try")
    def test_binding__that_arrives_late_changes_nothing(self):
        api, daemon = self.succeeds(("slow", {"number": 1300}))
        time.sleep(0.5)  # the first Binding arrives late, and changes nothing
        self.once(daemon)

    def test_lost_requests__leave_a_doubt_that_the_next_bind_settles(self):
        api, daemon, made, node = self.spoil(("refuse", {"times": 50}))
        self.unknown(daemon, made, node)
        self.assertNotIn("nodeName", api.pod("pod")["spec"])
        api.do("stop")
        api.do("start")  # the faults are gone
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    @kind("504 to a Binding")
    def test_doubt__survives_kill_9_and_binds_on_the_reserved_node(self):
        api, daemon, made, node = self.spoil(("status", {"number": 504, "times": 50}))
        self.unknown(daemon, made, node)
        daemon.kill()
        api.do("stop")
        api.do("start")
        daemon.start()
        self.assertEqual(daemon.filter(made)["NodeNames"], [node])
        other = self.other(daemon, node)
        self.assertIn(node, daemon.bind(made, other))
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    @kind("an effect after we gave up")
    def test_late_binding__is_believed_after_the_deadline(self):
        api, daemon, made, node = self.spoil(("slow", {"number": 2500, "times": 2}))
        self.assertIn("doubt", daemon.bind(made, node))
        daemon.knows("pod")
        self.assertEqual(api.pod("pod")["spec"]["nodeName"], node)
        self.once(daemon)

    def test_lost_answer__with_kill_9_binds_once(self):
        api, daemon, made, node = self.spoil(("silent", {"times": 50}))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(daemon.bind, made, node)
            daemon.wait(lambda: "nodeName" in api.pod("pod")["spec"], "the Binding to happen")
            daemon.kill()
            self.assertIsNotNone(answer.exception(10))
        api.do("release")
        daemon.start()
        self.assertEqual(daemon.allocation("pod")["state"], "bound")
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    def late(self, meanwhile):
        """A Binding is delayed on its way while the cluster changes."""
        api, daemon, made, node = self.spoil(("slow", {"number": 500}))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(daemon.bind, made, node)
            daemon.wait(lambda: api.seen(BINDING), "the Binding to be sent")
            meanwhile(api, made, self.other(daemon, node))
            return api, daemon, made, answer.result(harness.PATIENCE)

    @kind("409: another's Binding")
    def test_foreign_binding__meanwhile_is_believed(self):
        def bind(api, made, other):
            self.other = other
            code, _ = api.request("POST", "/api/v1/namespaces/default/pods/pod/binding", {
                "metadata": {"name": "pod", "uid": made["metadata"]["uid"]}, "target": {"kind": "Node", "name": other}})
            self.assertEqual(code, 201)

        _, daemon, _, error = self.late(bind)
        self.assertIn(self.other, error)
        daemon.wait(lambda: (daemon.allocation("pod") or {}).get("node") == self.other, "the truth")
        self.once(daemon)

    @kind("404 to a Binding")
    def test_deleted_pod__meanwhile_frees_its_share(self):
        _, daemon, _, error = self.late(lambda api, made, other: api.gone("pod"))
        self.assertIn("not found", error)
        daemon.forgets("pod")
        self.works(daemon)

    @kind("409: another uid")
    def test_replaced_pod__meanwhile_is_a_new_pod(self):
        def replace(api, made, other):
            api.gone("pod")
            api.create(harness.pod("pod", 300))

        api, daemon, made, error = self.late(replace)
        self.assertIn("replaced", error)
        second = api.pod("pod")
        self.assertNotEqual(second["metadata"]["uid"], made["metadata"]["uid"])
        daemon.drive(second)
        self.once(daemon)

    REFUSED = (  # name; status of the Binding; a part of the error
        ("403 to a Binding", status(403, "Forbidden", 'cannot create resource "pods/binding"'), "pods/binding"),
        ("409 without a reason", status(409, "Conflict"), "as the test wants it"),
        ("422 to a Binding", status(422, "Invalid", "no such target"), "no such target"))

    @kind(*(row[0] for row in REFUSED))
    def test_refused_binding__is_reported_and_holds_nothing(self):
        for name, text, says in self.REFUSED:
            with self.subTest(name):
                _, daemon, made, node = self.spoil(("status", {"number": json.loads(text)["code"], "text": text}))
                self.assertIn(says, daemon.bind(made, node))
                self.assertFalse(daemon.holds("pod"))
                self.assertEqual(daemon.bind(made, node), "")
                self.once(daemon)
                self.doCleanups()

    def test_concurrent_binds__of_one_pod_succeed_once_with_lost_answers(self):
        _, daemon, made, node = self.spoil(("lose", {"times": 2}))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(set(pool.map(lambda _: daemon.bind(made, node), range(8))), {""})
        self.once(daemon)

    def test_unseen_pod__is_fetched_by_bind(self):
        api, daemon, *_ = self.spoil()
        api.fault(WATCH, "half-open")
        api.do("release")
        daemon.wait(lambda: api.seen(WATCH) >= 2, "a watch without a word")
        for name, fault in (("calm", None), ("error", ("status", {"number": 500})), ("lost", ("lose", {})),
                            ("cut", ("truncate", {"number": 20}))):
            with self.subTest(name):
                made = api.create(harness.pod(name, 100))
                if fault:
                    api.fault(f"GET /api/v1/namespaces/default/pods/{name}", fault[0], **fault[1])
                self.assertEqual(daemon.bind(made, "t4-0"), "")
                self.assertEqual(api.pod(name)["spec"]["nodeName"], "t4-0")
        ghost = harness.pod("ghost", 100, uid="uid-ghost")
        self.assertIn("no such pod", daemon.bind(ghost, "t4-0"))
        other = api.create(harness.pod("renamed", 100))
        other["metadata"]["uid"] = "another"
        self.assertNotEqual(daemon.bind(other, "t4-0"), "")

    def test_burst__binds_each_pod_once_over_a_lossy_network(self):
        api = self.serve()
        daemon = self.open(api)
        made = [api.create(harness.pod(f"p{i}", 250)) for i in range(40)]
        for i, kind in enumerate(("lose", "refuse", "truncate", "status") * 6):
            api.fault(BINDING, "slow", times=1)
            api.fault(BINDING, kind, number=500 if kind == "status" else 3)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(daemon.drive, made))
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"], {"reserved": 0, "bound": 40})
        daemon.check()


class Server(Faulty):
    @kind("nobody listens")
    def test_api_server__absent_at_the_start_is_waited_for(self):
        api = self.serve()
        api.do("stop")
        daemon = self.open(api, ready=False)
        daemon.logs("cannot be identified yet")
        self.assertEqual(daemon.admin("GET", "/livez")[0], 200)
        code, body, _ = daemon.admin("GET", "/readyz")
        self.assertEqual(code, 503)
        self.assertIn(b"api-server", body)
        made = harness.pod("early", 300, uid="uid-early")
        self.assertIn("not ready", daemon.filter(made, ["t4-0"])["Error"])
        self.assertIn("not ready", daemon.bind(made, "t4-0"))
        self.assertEqual(daemon.webhook("preempt", {"Pod": made, "NodeNameToVictims": {}})[0], 503)
        api.do("start")
        daemon.await_ready()
        self.works(daemon)

    @kind("a server that restarts")
    def test_api_server__may_restart_while_idle(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        api.do("stop")
        daemon.logs("a list or watch failed")
        self.assertTrue(daemon.ready(), "what we hold is still known")
        api.do("start")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        daemon.knows("meanwhile")
        self.works(daemon)

    def test_api_server__may_restart_while_pods_arrive(self):
        api = self.serve()
        daemon = self.open(api, *QUICK)
        made = [api.create(harness.pod(f"p{i}", 250)) for i in range(24)]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            driven = [pool.submit(daemon.drive, pod) for pod in made]
            for _ in range(2):
                time.sleep(0.15)
                api.do("stop")
                time.sleep(0.3)
                api.do("start")
            for one in driven:
                one.result(harness.PATIENCE)
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"], {"reserved": 0, "bound": 24})
        daemon.check()

    def test_wake_up__that_fails_is_counted_and_repeated(self):
        api = self.serve()
        daemon = self.open(api)
        api.fault("csistoragecapacities", "status", number=500, times=2)
        daemon.schedule(harness.pod("holds", 500), ["vm-0"])
        made = daemon.create(harness.pod("waits", 500))
        daemon.filter(made, ["vm-0"])
        api.gone("holds")
        daemon.wait(lambda: 'milligpu_wake_ups_total{outcome="failed"}' in daemon.metrics(), "it")
        daemon.wait(lambda: 'milligpu_wake_ups_total{outcome="ok"}' in daemon.metrics(), "a wake-up")
        self.assertEqual(daemon.filter(made, ["vm-0"])["NodeNames"], ["vm-0"])

    def test_wake_object__is_created_later_after_an_error(self):
        api = self.serve(("csistoragecapacities", "status", {"number": 500, "times": 2}))
        daemon = self.open(api)
        daemon.logs("the wake-up object cannot be created yet")
        self.works(daemon)

    def test_wake_object__forbidden_makes_a_new_ledger_wait(self):
        api = self.serve(("csistoragecapacities", "status", {"number": 403, "times": 1}))
        daemon = self.open(api, "--grace-period-s", "2")
        daemon.logs("the ledger is new, and a milligpud granted here before")
        self.works(daemon)

    def test_events__that_cannot_be_written_do_no_harm(self):
        api = self.serve(("events", "status", {"number": 403, "times": 9}))
        daemon = self.open(api)
        api.create(harness.running("foreign", 300, "t4-0"))
        daemon.knows("foreign")
        daemon.wait(lambda: 'milligpu_events_total{outcome="failed"}' in daemon.metrics(), "it")
        self.works(daemon)

    @kind("403 to everybody, for a moment")
    def test_rights__denied_for_a_moment_are_reported_as_granted(self):
        """A kube-apiserver that has just started denies everybody everything until it knows its roles."""
        api = self.serve()
        daemon = self.open(api)
        made, node = self.offered(api, daemon)
        api.fault(BINDING, "status", number=403, text=status(403, "Forbidden", "not yet"))
        api.fault("selfsubjectaccessreviews", "status", number=403, text=status(403, "Forbidden", "not yet"))
        self.assertIn("403", daemon.bind(made, node))
        rights = daemon.doctor("rights")
        self.assertEqual(rights["status"], "ok", rights)
        self.assertRegex(rights["text"], "grants all 12 needed permissions; since the start, it denied")
        self.works(daemon)

    @kind("a right that is not given")
    def test_missing_right__is_named_and_reviewed_twice_only(self):
        api = self.serve(("selfsubjectaccessreviews", "status",
                          {"number": 201, "times": 99, "text": '{"status":{"allowed":false}}'}))
        daemon = self.open(api)
        for _ in range(5):
            rights = daemon.doctor("rights")
            self.assertEqual(rights["status"], "failed", rights)
            self.assertIn("create pods/binding (bind)", rights["text"])
        self.assertEqual(api.seen("selfsubjectaccessreviews"), 24, "two rounds, however often it is asked for")

    @kind("an API server that does not answer a review")
    def test_doctor__does_not_wait_for_a_silent_api_server(self):
        api = self.serve(("selfsubjectaccessreviews", "silent", {"times": 99}))
        daemon = self.open(api)
        rights = daemon.doctor("rights")  # they are never answered
        self.assertEqual(rights["status"], "warning", rights)
        self.works(daemon)

    @kind("401 for ever, then healed")
    def test_stale_token__is_reported_until_it_is_valid(self):
        api = self.serve()
        daemon = self.open(api, *QUICK, user={"token": "mine"})
        made, node = self.offered(api, daemon)
        api.do("token", token="other")
        self.assertIn("401", daemon.bind(made, node))
        self.assertFalse(daemon.holds("pod"))
        api.do("token", token="mine")
        self.assertEqual(daemon.bind(made, node), "")
        daemon.check()


def list_kinds():
    for name in sorted(KINDS):
        print(f"{name}: {', '.join(KINDS[name])}")
    print(f"{len(KINDS)} kinds")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        list_kinds()
    else:
        harness.main(side_by_side=True)
