"""A ledger that is damaged under a running daemon: granting stops, reads go on, nothing is lost."""

import contextlib
import json
import sqlite3
import stat
import time

import harness

NODE = "a100-0"


class SafeMode(harness.Case):
    def open(self, *flags):
        daemon = self.keep(harness.Daemon(harness.DEMO, "--verify-interval-s", "1", *flags, ledger="ledger.db"))
        for name in ("one", "two"):
            node, error, _ = daemon.schedule(harness.pod(name, 300), [NODE])
            self.assertEqual((node, error), (NODE, ""))
        self.ledger = daemon.home / "ledger.db"
        return daemon

    def distrusts(self, daemon):
        """Wait for safe mode; returns the bundle once it is complete."""
        daemon.wait(lambda: daemon.admin("GET", "/readyz")[0] == 503, "readiness to go")
        found = list(daemon.home.glob("ledger.db.safe-mode-*"))
        self.assertEqual(len(found), 1)
        last = found[0] / "metrics.txt"
        daemon.wait(lambda: last.exists() and "milligpu_largest_free_milli{" in last.read_text(), "the bundle")
        return found[0]

    def test_sound_ledger__is_verified_periodically(self):
        daemon = self.open()
        daemon.wait(lambda: 'milligpu_verifications_total{outcome="ok"} 3' in daemon.metrics(), "three audits")
        self.assertIn("milligpu_safe_mode 0\n", daemon.metrics())
        self.assertIn("verified with the rest of the ledger at ", daemon.ctl("doctor").stdout)
        self.assertEqual(list(daemon.home.glob("*.safe-mode-*")), [])

    def test_changed_charge__stops_granting(self):
        daemon = self.open()
        three = daemon.create(harness.pod("three", 300))
        harness.spoil(self.ledger, "UPDATE charge SET milli = 100 WHERE allocation ="
                                   " (SELECT id FROM allocation WHERE name = 'one')")
        bundle = self.distrusts(daemon)
        why = "safe mode: the ledger on disk failed its verification"
        for port in ("admin", "probe"):
            status, body, _ = daemon.request(port, "GET", "/readyz")
            self.assertEqual(status, 503)
            self.assertIn(f"[-]consistency failed: {why}", body.decode())
        self.assertEqual(daemon.request("probe", "GET", "/livez")[0], 200)

        # Webhooks fail closed, and say so without naming a pod.
        for said in (daemon.filter(three, [NODE])["Error"], daemon.bind(three, NODE)):
            self.assertIn(why, said)
            self.assertNotIn("allocation", said)
        page = daemon.metrics()
        for line in ("milligpu_safe_mode 1\n", 'milligpu_safe_mode_info{reason="disk"} 1\n', "milligpu_ready 0\n",
                     'milligpu_verifications_total{outcome="failed"} 1\n'):
            self.assertIn(line, page)
        doctor = daemon.ctl("doctor")
        self.assertEqual(doctor.returncode, 1)
        for words in (why, "the charge of allocation", str(bundle), "restart milligpud"):
            self.assertIn(words, doctor.stdout)
        self.assertEqual(daemon.logged().count("safe mode: nothing is granted"), 1)
        self.assertIn(str(bundle), daemon.logged())

        # Reads go on.
        self.assertTrue(daemon.get("/api/v1/summary")["safeMode"])
        self.assertEqual(daemon.get("/api/v1/pods/default/one")["allocation"]["state"], "bound")
        self.assertEqual(len(daemon.get("/api/v1/history?pod=default/one")["items"]), 1)
        self.assertEqual(daemon.ctl("top").returncode, 0)

        self.bundle_is_whole(bundle)
        self.nothing_more_is_written(daemon)
        self.restart_refuses(daemon)

    def bundle_is_whole(self, bundle):
        names = ["README.txt", "commands.jsonl", "ledger.db", "metrics.txt", "settings.yaml", "snapshot.json"]
        self.assertEqual(stat.S_IMODE(bundle.stat().st_mode), 0o700)
        self.assertEqual(sorted(file.name for file in bundle.iterdir()), names)
        for file in bundle.iterdir():
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600, file)
        self.assertIn("the charge of allocation", (bundle / "README.txt").read_text())
        commands = [json.loads(line) for line in (bundle / "commands.jsonl").read_text().splitlines()]
        self.assertEqual([(c["name"], c["outcome"], c["milli"]) for c in commands if c["command"] == "reserve"],
                         [("one", "ok", 300), ("two", "ok", 300)])
        snapshot = json.loads((bundle / "snapshot.json").read_text())
        self.assertEqual(sorted(a["name"] for a in snapshot["allocations"]), ["one", "two"])
        self.assertIn(NODE, [node["name"] for node in snapshot["nodes"]])
        self.assertIn("verify_interval_s: 1", (bundle / "settings.yaml").read_text())
        for ledger in (bundle / "ledger.db", self.ledger):
            said = harness.run("verify", ledger)
            self.assertEqual(said.returncode, 1, said)
            self.assertRegex(said.stdout, r"FAILED +charges .*the charge of allocation")
        self.assertEqual(sorted(file.name for file in bundle.iterdir()), names)  # verify created no file

    def nothing_more_is_written(self, daemon):
        with contextlib.closing(sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True)) as db:
            before = db.execute("SELECT max(seq) FROM journal").fetchone()
            daemon.admin("DELETE", "/api/v1/standalone/pods/default/two")
            time.sleep(2.5)  # time for ticks and for two audits, if there still were any
            self.assertEqual(db.execute("SELECT max(seq) FROM journal").fetchone(), before)
        self.assertEqual(daemon.get("/api/v1/pods/default/two")["allocation"]["state"], "bound")
        self.assertEqual(len(list(daemon.home.glob("*.safe-mode-*"))), 1)

    def restart_refuses(self, daemon):
        flags = daemon.flags
        self.assertEqual(daemon.stop(), 0)
        refused = harness.run(*daemon.source(), *flags, *harness.ANY_PORTS, program="milligpud")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("the charge of allocation", refused.stderr)
        daemon.flags = [*flags, "--on-corrupt", "rebuild"]
        daemon.start()
        self.assertFalse(daemon.get("/api/v1/summary")["safeMode"])
        self.assertNotEqual(list(daemon.home.glob("ledger.db.corrupt-*")), [])

    def test_memory_and_disk__stop_granting_when_they_differ(self):
        """Tables and journal changed together: the file alone looks sound."""
        daemon = self.open()
        harness.spoil(self.ledger, "UPDATE allocation SET note_differs = 1 WHERE name = 'one'",
                      "UPDATE journal SET result = replace(result, ',\"reserved_ms\"', ',\"note_differs\":true,\"reserved_ms\"')"
                      " WHERE json_extract(result, '$.allocation.name') = 'one'")
        bundle = self.distrusts(daemon)
        self.assertIn('milligpu_safe_mode_info{reason="differ"} 1', daemon.metrics())
        self.assertIn("not the same on disk and in memory", (bundle / "README.txt").read_text())
        self.assertEqual(harness.run("verify", bundle / "ledger.db").returncode, 0)
        # The file alone is sound, so a restart accepts it.
        daemon.stop()
        daemon.start()
        self.assertFalse(daemon.get("/api/v1/summary")["safeMode"])

    def test_damaged_file__stops_granting(self):
        """SQLite cannot copy such a file, so the bundle contains a copy of its bytes."""
        daemon = self.open()
        daemon.stop()
        daemon.start()  # now all is in one file: no WAL hides the damage
        size = self.ledger.stat().st_size
        self.assertGreater(size, 10 * 4096)
        with open(self.ledger, "r+b") as file:
            for page in range(2, size // 4096):
                file.seek(page * 4096)
                file.write(b"\x5a" * 4096)
        bundle = self.distrusts(daemon)
        said = harness.run("verify", bundle / "ledger.db")
        self.assertEqual(said.returncode, 1, said)
        self.assertRegex(said.stdout, "FAILED +pages")

    def test_damaged_history__is_reported_and_blocks_nothing(self):
        daemon = self.open()
        daemon.admin("DELETE", "/api/v1/standalone/pods/default/one")
        daemon.wait(lambda: daemon.get("/api/v1/history?pod=default/one")["items"][0]["state"] == "released",
                    "the release")
        harness.spoil(self.ledger, "UPDATE charge SET milli = 100 WHERE live = 0")
        daemon.wait(lambda: 'milligpu_verifications_total{outcome="past"}' in daemon.metrics(), "the audit")
        self.assertIn("the history in the ledger is damaged", daemon.ctl("doctor").stdout)
        self.assertEqual(daemon.schedule(harness.pod("later", 300))[1], "")


if __name__ == "__main__":
    harness.main(side_by_side=True)
