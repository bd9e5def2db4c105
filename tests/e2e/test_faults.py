"""What an API server and the network can do wrong, one test for each; milligpud must stay correct.

What only the reflector or the outbox sees is in unit.kube.reflector, unit.sync.outbox and unit.app.fault_loop."""

import concurrent.futures
import json
import sys
import time
import unittest

import harness

PODS = "GET /api/v1/pods$"
NODES = "GET /api/v1/nodes$"
WATCH = "GET /api/v1/pods?watch"
WATCH_NODES = "GET /api/v1/nodes?watch"
BINDING = "/binding"
PATIENT = ("--http-timeout-ms", "4000")  # time for a second try on a busy machine
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


class Faulty(unittest.TestCase):
    def serve(self, *faults, cluster=harness.DEMO):
        api = harness.Api(cluster)
        self.addCleanup(api.close)
        for fault in faults:
            api.fault(*fault[:2], **(fault[2] if len(fault) > 2 else {}))
        return api

    def open(self, api, *flags, **more):
        daemon = harness.ClusterDaemon(api, *flags, **more)
        self.addCleanup(daemon.close)
        self.addCleanup(self.right, daemon)
        return daemon

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
    def starts(self, *faults, cluster=harness.DEMO, says=None):
        api = self.serve(*faults, cluster=cluster)
        daemon = self.open(api)
        if says:
            self.assertIn(says, daemon.logged())
        self.works(daemon)
        return api, daemon

    @kind("500 to a list")
    def test_errors_500_come_and_go(self):
        self.starts((PODS, "status", {"number": 500, "times": 2, "text": status(500, "InternalError")}), says="500")

    @kind("503 to a list")
    def test_errors_503_without_a_body_come_and_go(self):
        self.starts((NODES, "status", {"number": 503, "times": 2}), says="503")

    @kind("429 with Retry-After")
    def test_429_is_obeyed_for_as_long_as_it_says(self):
        api = self.serve((PODS, "status", {"number": 429, "text": "Too many requests", "retry_after": 3}))
        begun = time.monotonic()
        daemon = self.open(api)
        self.assertGreaterEqual(time.monotonic() - begun, 3)
        self.assertEqual(lists(api), 2)
        self.works(daemon)

    @kind("429 with retryAfterSeconds in its body")
    def test_429_that_says_it_in_its_body(self):
        self.starts((NODES, "status", {"number": 429, "text": status(
            429, "TooManyRequests", details={"retryAfterSeconds": 1})}), says="429")

    @kind("a page that is cut")
    def test_a_page_that_is_cut_is_asked_for_again(self):
        self.starts((PODS, "truncate", {"number": 40}))

    @kind("one byte at a time")
    def test_a_page_that_comes_byte_by_byte_is_read(self):
        self.starts((PODS, "drip", {"number": 1}))

    @kind("200 that is no JSON")
    def test_a_page_that_is_no_json(self):
        self.starts((PODS, "status", {"number": 200, "text": "<html>the proxy says hello</html>"}))

    @kind("200 without a body")
    def test_an_empty_page(self):
        self.starts((NODES, "status", {"number": 200}))

    @kind("bytes after the end of a page")
    def test_a_page_with_bytes_after_its_end(self):
        self.starts((PODS, "status", {"number": 200, "text": '{"kind":"PodList","metadata":{"resourceVersion":"1"},'
                                                            '"items":[]} and more'}))

    @kind("a list without a version")
    def test_a_list_without_a_resource_version(self):
        self.starts((NODES, "status", {"number": 200, "text": '{"kind":"NodeList","metadata":{},"items":[]}'}))

    @kind("a reset before anything was done")
    def test_a_connection_that_is_reset_before_the_list(self):
        self.starts((NODES, "refuse", {"times": 2}))

    @kind("a reset instead of the answer")
    def test_a_list_whose_answer_is_lost(self):
        self.starts((PODS, "lose"))

    def many(self):
        cluster = json.loads(harness.DEMO.read_text())
        cluster["items"] += [harness.running(f"p{i}", 10 if i % 100 == 0 else None, "t4-0", uid=f"uid-{i}") for i in range(1200)]
        return cluster

    def holds(self, daemon):
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"]["bound"], 13)  # 12 of many() and 1 of works()

    def test_a_second_page_that_is_cut_is_asked_for_again_and_nothing_counts_twice(self):
        _, daemon = self.starts((PODS, "slow"), (PODS, "truncate", {"number": 5000}), cluster=self.many())
        self.holds(daemon)

    @kind("410 in the middle of a list")
    def test_a_continue_token_that_expired_begins_the_list_again(self):
        _, daemon = self.starts((PODS, "slow"), (PODS, "slow"),
                                (PODS, "status", {"number": 410, "text": status(410, "Expired")}), cluster=self.many())
        self.holds(daemon)

    def test_until_the_list_is_whole_nothing_is_granted(self):
        api = self.serve((PODS, "slow"), (PODS, "status", {"number": 503, "times": 1, "retry_after": 2}),
                         cluster=self.many())
        daemon = self.open(api, ready=False)
        daemon.logs("503")
        made = api.create(harness.pod("early", 300))
        daemon.wait(lambda: "list of pods" in daemon.filter(made, ["t4-0"])["Error"], "the nodes")
        self.assertIn("list of pods", daemon.bind(made, "t4-0"))
        daemon.await_ready()
        self.works(daemon)

    @kind("403 to a list")
    def test_403_is_said_and_nothing_is_granted(self):
        api = self.serve((PODS, "status", {"number": 403, "times": 2, "text": status(
            403, "Forbidden", 'User "milligpu" cannot list resource "pods"')}))
        daemon = self.open(api, ready=False)
        daemon.logs("cannot list resource")
        self.assertFalse(daemon.ready())
        daemon.await_ready()
        self.works(daemon)

    @kind("401 to a list")
    def test_401_to_a_list_is_said_and_nothing_is_granted(self):
        api = self.serve((PODS, "status", {"number": 401, "times": 3, "text": status(401, "Unauthorized")}))
        daemon = self.open(api, ready=False)
        daemon.logs("401")
        self.assertFalse(daemon.ready())
        daemon.await_ready()
        self.works(daemon)

    @kind("404 to a list")
    def test_404_to_a_list_is_not_an_empty_cluster(self):
        api = self.serve(cluster=self.many())
        daemon = self.open(api)
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"]["bound"], 12)
        api.fault(PODS, "status", number=404, times=2, text="404 page not found")
        self.list_again(api, daemon)
        daemon.logs("404")
        self.works(daemon)
        self.holds(daemon)

    @kind("an object of 15 MB in a list")
    def test_a_pod_of_15_mb_in_a_list(self):
        api = self.serve()
        api.create(harness.running("fat", 100, "t4-0", annotations={"fat": "x" * 15_000_000}))
        daemon = self.open(api)
        self.assertEqual(daemon.allocation("fat")["state"], "bound")
        self.works(daemon)

    @kind("a list that is older than what was known")
    def test_a_list_from_before_is_made_good_by_the_watch(self):
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

    @kind("a redirect")
    def test_a_redirect_is_not_followed(self):
        self.starts((PODS, "status", {"number": 302, "text": "to the login page"}), says="302")

    def page(self, api, *items):
        version = str(api.version())
        for item in items:
            if isinstance(item, dict):
                item.setdefault("metadata", {})["resourceVersion"] = version
        return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version},
                           "items": items})

    @kind("an item that cannot be read")
    def test_a_list_with_an_item_of_which_nobody_can_say_where_it_is_is_made_again(self):
        api = self.serve()
        api.create(harness.running("there", 100, "t4-0"))
        bad = {"metadata": {"name": "bad", "namespace": "default", "uid": "uid-bad"}, "spec": 17}
        api.fault(PODS, "status", number=200, text=self.page(api, harness.running("good", 100, "t4-0", uid="uid-good"), bad))
        daemon = self.open(api)
        self.assertIn("listing again", daemon.logged())
        self.assertEqual({item["name"] for item in daemon.all("/api/v1/allocations")}, {"there"})
        self.list_again(api, daemon)

    @kind("two items with one name and different uids")
    def test_two_items_with_one_name_and_different_uids_both_count(self):
        api = self.serve()
        api.fault(PODS, "status", number=200, text=self.page(api, harness.running("twin", 100, "t4-0", uid="uid-1"),
                                                             harness.running("twin", 200, "t4-0", uid="uid-2")))
        daemon = self.open(api)
        self.assertEqual(daemon.get("/api/v1/nodes/t4-0")["usedMilli"], 300)
        api.fault(WATCH, "status", number=410)
        api.do("release")
        daemon.wait(lambda: daemon.get("/api/v1/nodes/t4-0")["usedMilli"] == 0, "the next list to settle it")

    @kind("an item that comes twice in a list")
    def test_the_same_item_twice_counts_once(self):
        api = self.serve()
        twice = harness.running("twice", 100, "t4-0", uid="uid-1")
        api.fault(PODS, "status", number=200, text=self.page(api, twice, twice))
        daemon = self.open(api)
        self.assertEqual(daemon.get("/api/v1/nodes/t4-0")["usedMilli"], 100)
        self.list_again(api, daemon)

    @kind("a namespace without a uid")
    def test_the_name_of_the_cluster_comes_late(self):
        for fault in (("status", {"number": 500}), ("refuse", {}), ("status", {"number": 200, "text": "{}"}),
                      ("status", {"number": 200, "text": "nonsense"}), ("truncate", {"number": 9})):
            with self.subTest(fault):
                _, daemon = self.starts(("namespaces/kube-system", *fault))
                self.assertIn("cannot be identified yet", daemon.logged())


class Watches(Faulty):
    """The current watch ends and the next ones are faulty; what happens meanwhile must be learned."""

    def spoil(self, *faults, match=WATCH):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
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

    @kind("compacted history")
    def test_a_compaction_while_nobody_watched(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        api.do("stop")
        daemon.logs("a list or watch failed")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        api.do("compact")
        api.do("start")
        self.goes_on_as_before(daemon)
        self.assertGreater(lists(api), 0, "it was listed again")  # counts begin anew

    @kind("429 with Retry-After")
    def test_429_with_retry_after(self):
        _, daemon = self.spoil(("status", {"number": 429, "retry_after": 1}))
        self.goes_on_as_before(daemon)

    @kind("500 to a watch")
    def test_errors_500_twice(self):
        _, daemon = self.spoil(("status", {"number": 500, "times": 2}))
        self.goes_on_as_before(daemon)

    @kind("a chunk that is cut")
    def test_a_connection_that_drops_in_the_middle_of_an_event(self):
        _, daemon = self.spoil(("truncate", {"number": 100}))
        self.goes_on_as_before(daemon)

    @kind("blank lines between events")
    def test_blank_lines_between_events(self):
        _, daemon = self.spoil(("stream", {"text": "\n\r\n \n"}))
        self.goes_on_as_before(daemon)

    @kind("an event that cannot be read")
    def test_an_event_of_which_nobody_can_say_where_its_pod_is_lists_all_again(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
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
    def test_events_that_come_again_change_nothing(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        daemon.schedule(harness.pod("ended", 400))
        daemon.check()
        ended = api.pod("ended")
        api.gone("ended")
        daemon.forgets("ended")
        ended["metadata"]["resourceVersion"] = str(api.version())
        again = api.pod("before")
        again["metadata"]["resourceVersion"] = ended["metadata"]["resourceVersion"]
        api.fault(WATCH, "stream", text=(self.event("MODIFIED", again) * 3 + self.event("DELETED", ended) * 2 +
                                         self.event("ADDED", again)))
        api.do("release")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        self.goes_on_as_before(daemon)
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 200 + 100 + 300)

    @kind("DELETED without an object")
    def test_a_pod_said_to_be_gone_without_a_body_of_it(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        api.fault(WATCH, "stream", text='{"type":"DELETED","object":null}\n{"type":"DELETED"}\n{"type":7}\n[]\n')
        api.do("release")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        self.goes_on_as_before(daemon)

    @kind("401 to a watch", "403 to a watch", "404 to a watch")
    def test_a_watch_that_is_refused_is_asked_for_again(self):
        for number in (401, 403, 404):
            with self.subTest(number):
                _, daemon = self.spoil(("status", {"number": number, "text": status(number, "Refused")}))
                self.goes_on_as_before(daemon)

    @kind("a half-open watch")
    def test_a_watch_that_is_half_open_is_made_good_when_the_way_is_open_again(self):
        api, daemon = self.spoil(("half-open", {"number": 40}))
        made = api.create(harness.pod("unseen", 100))
        self.assertEqual(daemon.bind(made, "t4-0"), "", "the pod was fetched")
        api.do("release")
        self.goes_on_as_before(daemon)

    @kind("one byte per second")
    def test_a_watch_at_one_byte_per_second_grants_nothing_twice(self):
        api, daemon = self.spoil(("drip", {"number": 1000}))
        pods = [api.create(harness.pod(f"unseen-{i}", 300)) for i in range(2)]
        answers = [daemon.bind(made, "vm-0") for made in pods]
        self.assertEqual(answers[0], "")
        self.assertIn("room", answers[1])
        api.do("release")
        self.goes_on_as_before(daemon)

    @kind("bookmarks only")
    def test_bookmarks_alone_move_on_and_lose_nothing(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        mark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(api.version())}}
        listed = lists(api)
        api.fault(WATCH, "stream", text=self.event("BOOKMARK", mark) * 5)
        api.do("release")
        api.create(harness.running("meanwhile", 100, "t4-0"))
        self.goes_on_as_before(daemon)
        self.assertEqual(lists(api), listed, "nothing was listed again")

    @kind("a bookmark without a version")
    def test_a_bookmark_without_a_version(self):
        _, daemon = self.spoil(("stream", {"text": self.event("BOOKMARK", {"kind": "Pod", "metadata": {}})}))
        self.goes_on_as_before(daemon)

    @kind("events that are missing")
    def test_a_deletion_that_is_never_told_frees_nothing_until_the_next_list(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
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
    def test_events_out_of_order_are_listed_again(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
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
    def test_a_pod_of_15_mb_in_a_watch(self):
        api = self.serve()
        daemon = self.open(api)
        daemon.schedule(harness.pod("before", 200))
        api.create(harness.running("meanwhile", 100, "t4-0", annotations={"fat": "x" * 15_000_000}))
        self.goes_on_as_before(daemon)

    def test_the_nodes_watch_drops_too(self):
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
        made = api.create(harness.pod("pod", 300))
        node = daemon.filter(made)["NodeNames"][0]
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

    def unknown(self, daemon, made, node):
        """The outcome is unknown: the pod is in doubt, is offered only its reserved node, and is refused elsewhere."""
        error = daemon.bind(made, node)
        self.assertIn("doubt", error)
        allocation = daemon.allocation("pod")
        self.assertEqual((allocation["state"], allocation["node"]), ("reserved", node))
        self.assertEqual(daemon.filter(made)["NodeNames"], [node])
        other = next(name for name in daemon.nodes() if name != node)
        self.assertIn(node, daemon.filter(made, [other])["Error"])
        self.assertIn(node, daemon.bind(made, other))
        summary = daemon.get("/api/v1/summary")
        self.assertEqual((summary["usedMilli"], summary["reservedMilli"]), (0, 300))

    @kind("a reset instead of the answer")
    def test_an_answer_that_is_lost_after_the_binding_happened(self):
        api, _ = self.succeeds(("lose", {}))
        self.assertGreaterEqual(api.seen("GET /api/v1/namespaces/default/pods/pod"), 1, "409, then a look")

    @kind("an answer that never comes")
    def test_an_answer_that_never_comes(self):
        self.succeeds(("silent", {}))

    @kind("a reset before anything was done")
    def test_a_request_that_is_lost(self):
        self.succeeds(("refuse", {}))

    @kind("503 to a Binding")
    def test_503_then_a_lost_answer(self):
        self.succeeds(("status", {"number": 503}), ("lose", {}))

    @kind("429 with Retry-After")
    def test_429_with_retry_after(self):
        begun = time.monotonic()
        self.succeeds(("status", {"number": 429, "retry_after": 1}))
        self.assertGreaterEqual(time.monotonic() - begun, 1)

    @kind("an answer that is slower than a try")
    def test_an_answer_that_is_slower_than_one_try(self):
        api, daemon = self.succeeds(("slow", {"number": 1300}))
        time.sleep(0.5)  # the first Binding arrives late, and changes nothing
        self.once(daemon)

    def test_every_answer_lost_is_never_granted_twice(self):
        api, daemon, made, node = self.spoil(("lose", {"times": 50}))
        daemon.bind(made, node)
        self.assertEqual(api.pod("pod")["spec"]["nodeName"], node)
        daemon.knows("pod")
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    def test_every_request_lost_leaves_a_doubt_that_the_next_try_settles(self):
        api, daemon, made, node = self.spoil(("refuse", {"times": 50}))
        self.unknown(daemon, made, node)
        self.assertNotIn("nodeName", api.pod("pod")["spec"])
        api.do("stop")
        api.do("start")  # the faults are gone
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    @kind("504 to a Binding")
    def test_a_doubt_survives_kill_9_and_binds_where_it_was_reserved(self):
        api, daemon, made, node = self.spoil(("status", {"number": 504, "times": 50}))
        self.unknown(daemon, made, node)
        daemon.kill()
        api.do("stop")
        api.do("start")
        daemon.start()
        self.assertEqual(daemon.filter(made)["NodeNames"], [node])
        other = next(name for name in daemon.nodes() if name != node)
        self.assertIn(node, daemon.bind(made, other))
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    def test_a_doubt_about_a_pod_that_goes_away_is_settled_by_that(self):
        api, daemon, made, node = self.spoil(("status", {"number": 504, "times": 50}))
        self.unknown(daemon, made, node)
        api.gone("pod")
        daemon.forgets("pod")
        self.assertEqual(daemon.get("/api/v1/summary")["usedMilli"], 0)

    @kind("an effect after we gave up")
    def test_a_binding_that_lands_after_we_gave_up_is_believed(self):
        api, daemon, made, node = self.spoil(("slow", {"number": 2500, "times": 2}))
        self.assertIn("doubt", daemon.bind(made, node))
        daemon.knows("pod")
        self.assertEqual(api.pod("pod")["spec"]["nodeName"], node)
        self.once(daemon)

    def test_an_answer_lost_and_kill_9_at_once(self):
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
            meanwhile(api, made, next(name for name in daemon.nodes() if name != node))
            return api, daemon, made, answer.result(harness.PATIENCE)

    @kind("409: another's Binding")
    def test_somebody_else_binds_the_pod_meanwhile(self):
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
    def test_the_pod_is_deleted_meanwhile(self):
        _, daemon, _, error = self.late(lambda api, made, other: api.gone("pod"))
        self.assertIn("not found", error)
        daemon.forgets("pod")
        self.works(daemon)

    @kind("409: another uid")
    def test_the_pod_is_replaced_by_one_of_its_name_meanwhile(self):
        def replace(api, made, other):
            api.gone("pod")
            api.create(harness.pod("pod", 300))

        api, daemon, made, error = self.late(replace)
        self.assertIn("replaced", error)
        second = api.pod("pod")
        self.assertNotEqual(second["metadata"]["uid"], made["metadata"]["uid"])
        daemon.drive(second)
        self.once(daemon)

    def test_the_pod_is_being_deleted_meanwhile(self):
        def terminate(api, made, other):
            api.gone("pod")

        _, daemon, _, error = self.late(terminate)
        self.assertNotEqual(error, "")
        daemon.wait(lambda: daemon.get("/api/v1/summary")["usedMilli"] == 0, "the share to be free")

    @kind("403 to a Binding")
    def test_403_is_said_and_holds_nothing(self):
        _, daemon, made, node = self.spoil(("status", {"number": 403, "text": status(
            403, "Forbidden", 'cannot create resource "pods/binding"')}))
        self.assertIn("pods/binding", daemon.bind(made, node))
        self.assertFalse(daemon.holds("pod"))
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    @kind("an error whose effect happened")
    def test_a_500_whose_binding_happened_is_a_success(self):
        api, _ = self.succeeds(("lie", {"number": 500, "text": status(500, "InternalError")}))
        self.assertGreaterEqual(api.seen("GET /api/v1/namespaces/default/pods/pod"), 1, "409, then a look")

    @kind("200 from somebody in between")
    def test_a_200_that_is_not_the_api_servers_is_no_success(self):
        api, _ = self.succeeds(("status", {"number": 200, "text": "<html>please log in</html>"}))
        self.assertGreaterEqual(api.seen(BINDING), 2)

    @kind("409 without a reason")
    def test_a_409_for_a_pod_that_nobody_bound_holds_nothing(self):
        _, daemon, made, node = self.spoil(("status", {"number": 409, "text": status(409, "Conflict")}))
        self.assertNotEqual(daemon.bind(made, node), "")
        self.assertFalse(daemon.holds("pod"))
        self.assertEqual(daemon.bind(made, node), "")
        self.once(daemon)

    @kind("a half-open answer")
    def test_an_answer_that_stops_in_the_middle(self):
        self.succeeds(("half-open", {"number": 5}))

    @kind("an answer at one byte per second")
    def test_an_answer_at_one_byte_per_second(self):
        self.succeeds(("drip", {"number": 1000}))

    @kind("422 to a Binding")
    def test_422_is_said_and_holds_nothing(self):
        _, daemon, made, node = self.spoil(("status", {"number": 422, "text": status(422, "Invalid", "no such target")}))
        self.assertIn("no such target", daemon.bind(made, node))
        self.assertFalse(daemon.holds("pod"))

    def test_eight_at_once_for_one_pod_while_answers_are_lost(self):
        _, daemon, made, node = self.spoil(("lose", {"times": 2}))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(set(pool.map(lambda _: daemon.bind(made, node), range(8))), {""})
        self.once(daemon)

    def test_a_pod_that_the_watch_has_not_shown_is_fetched(self):
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

    def test_a_burst_over_a_way_that_loses_every_third_word(self):
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
    def test_down_at_the_start_then_there(self):
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
    def test_restarted_while_nothing_happens(self):
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

    def test_restarted_while_pods_arrive(self):
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

    def test_away_for_a_bind_that_then_holds_nothing(self):
        api = self.serve()
        daemon = self.open(api, *QUICK)
        made = api.create(harness.pod("pod", 300))
        node = daemon.filter(made)["NodeNames"][0]
        api.do("stop")
        error = daemon.bind(made, node)
        self.assertIn("connect", error)
        self.assertFalse(daemon.holds("pod"), "nobody was there to hear it: no doubt")
        api.do("start")
        self.assertEqual(daemon.bind(made, node), "")

    def test_a_wake_up_object_that_cannot_be_patched_is_counted_and_does_no_harm(self):
        api = self.serve()
        daemon = self.open(api)
        api.fault("csistoragecapacities", "status", number=500, times=2)
        daemon.schedule(harness.pod("holds", 500), ["vm-0"])
        made = daemon.create(harness.pod("waits", 500))
        daemon.filter(made, ["vm-0"])
        api.gone("holds")
        daemon.wait(lambda: b'milligpu_wake_ups_total{outcome="failed"}' in daemon.admin("GET", "/metrics")[1], "it")
        daemon.wait(lambda: b'milligpu_wake_ups_total{outcome="ok"}' in daemon.admin("GET", "/metrics")[1], "a ring")
        self.assertEqual(daemon.filter(made, ["vm-0"])["NodeNames"], ["vm-0"])

    def test_a_wake_up_object_that_cannot_be_created_yet_is_tried_again(self):
        api = self.serve(("csistoragecapacities", "status", {"number": 500, "times": 2}))
        daemon = self.open(api)
        self.assertIn("the wake-up object cannot be created yet", daemon.logged())
        self.works(daemon)

    def test_a_wake_up_object_that_may_not_be_created_makes_a_new_ledger_wait(self):
        api = self.serve(("csistoragecapacities", "status", {"number": 403, "times": 1}))
        daemon = self.open(api, "--grace-period-s", "2")
        self.assertIn("the ledger is new, and a milligpud granted here before", daemon.logged())
        self.works(daemon)

    def test_events_that_cannot_be_written_do_no_harm(self):
        api = self.serve(("events", "status", {"number": 403, "times": 9}))
        daemon = self.open(api)
        api.create(harness.running("foreign", 300, "t4-0"))
        daemon.knows("foreign")
        daemon.wait(lambda: b'milligpu_events_total{outcome="failed"}' in daemon.admin("GET", "/metrics")[1], "it")
        self.works(daemon)

    def rights(self, daemon):
        return next(check for check in daemon.get("/api/v1/doctor")["checks"] if check["name"] == "rights")

    @kind("403 to everybody, for a moment")
    def test_rights_that_were_denied_for_a_moment_are_said_to_be_given(self):
        """A kube-apiserver that has just started denies everybody everything until it knows its roles."""
        api = self.serve()
        daemon = self.open(api)
        made = api.create(harness.pod("pod", 300))
        node = daemon.filter(made)["NodeNames"][0]
        api.fault(BINDING, "status", number=403, text=status(403, "Forbidden", "not yet"))
        api.fault("selfsubjectaccessreviews", "status", number=403, text=status(403, "Forbidden", "not yet"))
        self.assertIn("403", daemon.bind(made, node))
        rights = self.rights(daemon)
        self.assertEqual(rights["status"], "ok", rights)
        self.assertRegex(rights["text"], "grants all 12 needed permissions; since the start, it denied")
        self.works(daemon)

    @kind("a right that is not given")
    def test_a_right_that_is_not_given_is_named_and_asked_about_twice_and_seldom(self):
        api = self.serve(("selfsubjectaccessreviews", "status",
                          {"number": 201, "times": 99, "text": '{"status":{"allowed":false}}'}))
        daemon = self.open(api)
        for _ in range(5):
            rights = self.rights(daemon)
            self.assertEqual(rights["status"], "failed", rights)
            self.assertIn("create pods/binding (bind)", rights["text"])
        self.assertEqual(api.seen("selfsubjectaccessreviews"), 24, "two rounds, however often it is asked for")

    @kind("an API server that does not answer a review")
    def test_doctor_does_not_wait_for_a_server_that_does_not_answer(self):
        api = self.serve(("selfsubjectaccessreviews", "silent", {"times": 99}))
        daemon = self.open(api)
        rights = self.rights(daemon)  # they are never answered
        self.assertEqual(rights["status"], "warning", rights)
        self.works(daemon)

    @kind("401 for ever, then healed")
    def test_401_for_a_token_that_is_not_rotated_is_lasting_trouble_until_it_is_right(self):
        api = self.serve()
        daemon = self.open(api, *QUICK, user={"token": "mine"})
        made = api.create(harness.pod("pod", 300))
        node = daemon.filter(made)["NodeNames"][0]
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
