"""The real daemon on a full disk, which is simulated by a limit on the size of its files."""

import concurrent.futures
import contextlib
import resource
import unittest

import harness

ROOM = 128 * 1024  # enough for a few more commits


class FullDisk(unittest.TestCase):
    def open(self):
        api = harness.Api()
        self.addCleanup(api.close)
        daemon = harness.ClusterDaemon(api)
        self.addCleanup(daemon.close)
        return api, daemon

    def little_room(self, daemon):
        """The limit applies to every file, even the log; the -wal file is the one that reaches it."""
        self.limit(daemon, (daemon.home / "ledger.db-wal").stat().st_size + ROOM)

    def limit(self, daemon, room):
        _, most = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (room, most))

    @contextlib.contextmanager
    def no_room(self, daemon):
        self.little_room(daemon)
        try:
            yield
        finally:
            self.limit(daemon, resource.RLIM_INFINITY)

    def fill(self, api, daemon):
        """Bind until a bind cannot be written; returns its pod, its error, and the uids bound before it."""
        answered = set()
        for i in range(100):
            made = api.create(harness.pod(f"fill-{i}", 10))
            error = daemon.bind(made, "a100-0")
            if error:
                return made, error, answered
            answered.add(made["metadata"]["uid"])
        raise AssertionError("there was room for everything")

    def test_a_full_disk_answers_every_bind_with_an_error_until_there_is_room(self):
        api, daemon = self.open()
        self.assertEqual(daemon.schedule(harness.pod("ends", 300), ["t4-0"])[1], "")
        waiting = [api.create(harness.pod(f"waits-{i}", 100)) for i in range(8)]
        with self.no_room(daemon):
            made, error, _ = self.fill(api, daemon)
            self.assertIn("the ledger cannot be written", error)
            self.assertNotIn("nodeName", api.pod(made["metadata"]["name"])["spec"])
            code, body, _ = daemon.admin("GET", "/readyz")
            self.assertEqual((code, b"ledger" in body), (503, True), body)
            self.assertEqual(daemon.admin("GET", "/livez")[0], 200)
            self.assertIn("cannot be written", daemon.filter(made)["Error"])
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda pod: daemon.bind(pod, "a100-1"), waiting))
            self.assertTrue(all("cannot be written" in answer for answer in answers), answers)
            held = daemon.get("/api/v1/summary")["allocations"]
            # Reads go on, and nothing is left of it, unless the first that could not be written was that a pod is bound.
            reserved = daemon.get("/api/v1/allocations?state=reserved")["items"]
            self.assertLessEqual(held["reserved"], 1)
            self.assertTrue(all("nodeName" in api.pod(item["name"])["spec"] for item in reserved), reserved)
            api.gone("ends")
            daemon.logs("granting stops until it can")
            self.assertFalse(daemon.ready())
        daemon.await_ready()
        daemon.logs("can be written again")
        daemon.forgets("ends")
        for pod in [made, *waiting]:
            self.assertEqual(daemon.bind(pod, "a100-0"), "")
        self.assertEqual(daemon.get("/api/v1/summary")["allocations"], {"reserved": 0, "bound": held["bound"] + held["reserved"] + 8})
        daemon.check()

    def test_more_news_than_can_be_kept_is_learned_when_there_is_room(self):
        api, daemon = self.open()
        self.assertEqual(daemon.schedule(harness.pod("ends", 300), ["t4-0"])[1], "")
        with self.no_room(daemon):
            self.fill(api, daemon)
            api.gone("ends")
            for i in range(3500):
                api.create(harness.pod(f"plain-{i}"))
            foreign = harness.pod("foreign", 100)
            foreign["spec"]["nodeName"] = "t4-0"
            api.create(foreign)
            self.assertFalse(daemon.ready())
            self.assertEqual(daemon.admin("GET", "/livez")[0], 200)
        daemon.await_ready()
        daemon.knows("foreign")
        daemon.forgets("ends")
        daemon.check()

    def test_what_was_answered_before_the_disk_filled_up_survives_kill_9(self):
        api, daemon = self.open()
        self.little_room(daemon)
        made, _, answered = self.fill(api, daemon)
        self.assertGreater(len(answered), 0)
        daemon.kill()
        daemon.start()
        held = {item["uid"] for item in daemon.all("/api/v1/allocations") if item["state"] == "bound"}
        self.assertLessEqual(answered, held)
        self.assertEqual(daemon.bind(made, "a100-0"), "")
        daemon.check()


if __name__ == "__main__":
    harness.main(side_by_side=True)
