"""The real daemon on a full disk, which is simulated by a limit on the size of its files."""

import concurrent.futures
import contextlib
import pathlib
import resource
import subprocess

import harness

ROOM = 128 * 1024  # enough for a few more commits


class FullDisk(harness.Case):
    def open(self):
        api, daemon = self.pair()
        return api, daemon

    def little_room(self, daemon):
        """The limit applies to every file, even the log; the -wal file is the one that reaches it."""
        self.limit(daemon, (daemon.home / "ledger.db-wal").stat().st_size + ROOM)

    def limit(self, daemon, room):
        _, most = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (room, most))

    def nothing_fits(self, daemon):
        """After a write that failed: room that is left would do for a smaller one."""
        self.limit(daemon, (daemon.home / "ledger.db-wal").stat().st_size - ROOM // 2)

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

    def test_full_disk__fails_every_bind_until_there_is_room(self):
        api, daemon = self.open()
        self.assertEqual(daemon.schedule(harness.pod("ends", 300), ["t4-0"])[1], "")
        waiting = [api.create(harness.pod(f"waits-{i}", 100)) for i in range(8)]
        with self.no_room(daemon):
            made, error, _ = self.fill(api, daemon)
            self.nothing_fits(daemon)
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

    def test_full_disk__queues_watch_events_until_there_is_room(self):
        api, daemon = self.open()
        self.assertEqual(daemon.schedule(harness.pod("ends", 300), ["t4-0"])[1], "")
        with self.no_room(daemon):
            self.fill(api, daemon)
            self.nothing_fits(daemon)
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

    def test_full_disk__keeps_acknowledged_binds_after_kill_9(self):
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

    def on_a_volume(self, mib):
        """A daemon whose ledger is on a volume of its own; returns that folder as this process sees it, too."""
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("volumes cannot be mounted here")
        api = self.keep(harness.Api())
        folder = self.scratch()

        class OnVolume(harness.ClusterDaemon):
            before = ["unshare", "-m", "sh", "-ec",
                      f'mount -t tmpfs -o size={mib}m none {folder}; exec "$@"', "sh"]

            def prepare(self, flags, ledger=None, env=None):
                super().prepare(flags, f"{folder}/volume.db", env)

        daemon = self.keep(OnVolume(api))
        return api, daemon, pathlib.Path(f"/proc/{daemon.process.pid}/root{folder}")

    def test_full_volume__uses_the_ballast_for_releases(self):
        api, daemon, volume = self.on_a_volume(80)
        ballast = volume / "volume.db.ballast"
        self.assertEqual(ballast.stat().st_blocks * 512, 10 << 20)  # an eighth of the volume, at most 16 MiB
        self.assertIn(f"\nmilligpu_ledger_max_bytes {64 << 20}\n", daemon.metrics())
        self.assertEqual(daemon.schedule(harness.pod("ends", 300), ["t4-0"])[1], "")
        with open(volume / "filler", "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):  # until there is no room
                while filler.write(bytes(1 << 12)):
                    pass
        made, error, _ = self.fill(api, daemon)
        self.assertIn("ledger", error)
        daemon.logs("the ballast beside it is given up")
        self.assertFalse(ballast.exists())
        api.gone("ends")
        daemon.forgets("ends")  # while the volume is full
        self.assertIn("disk of the ledger is full", daemon.bind(made, "a100-0"))
        self.assertIn(b"[-]ledger-size failed: the disk of the ledger is full", daemon.admin("GET", "/readyz")[1])
        found = daemon.doctor("ledger")
        self.assertEqual(found["status"], "failed")
        self.assertIn("free 32 MiB on the volume of the ledger", found["fix"])
        (volume / "filler").unlink()
        daemon.await_ready()
        daemon.logs("there is room in it again: granting goes on")
        self.assertTrue(ballast.exists())
        self.assertEqual(daemon.bind(made, "a100-0"), "")
        daemon.knows(made["metadata"]["name"])

    def test_ledger_limit__is_refused_when_too_small(self):
        done = harness.run("--check-config", "--ledger-max-bytes", "67108863", program="milligpud")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ledger_max_bytes: must be at least 67108864 (64 MiB), or 0", done.stderr + done.stdout)


if __name__ == "__main__":
    harness.main(side_by_side=True)
