"""Backups as a nightly Job makes them: over the Unix socket, into a folder that keeps the newest ones."""

import fcntl
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import time
import unittest

import harness

CTL = harness.BIN / "milligpuctl"
NAME = re.compile(r"ledger-\d{8}T\d{6}Z\.db")
NOBODY = 65534
DAY = 24 * 60 * 60
run = harness.run


class Socket(harness.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-socket-")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "run", "admin.sock")
        self.server = f"unix:{self.path}"

    def start(self, *flags, **more):
        return self.keep(harness.Daemon(harness.DEMO, "--admin-socket", str(self.path), *flags, **more))

    def test_milligpuctl__connects_over_the_socket(self):
        daemon = self.start()
        self.assertIn(f"port=socket address={self.server}", daemon.logged())
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        for words, env in ((("--server", self.server), {}), ((), {"MILLIGPU_SERVER": self.server})):
            done = run("nodes", "-o", "name", *words, env=env)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.split(), ["node/a100-0", "node/t4-0", "node/vm-0"])
        # The port is as it was.
        self.assertEqual(run("nodes", "--server", f"127.0.0.1:{daemon.port['admin']}").returncode, 0)

    def test_watch__follows_events_over_the_socket(self):
        daemon = self.start()
        process = subprocess.Popen([CTL, "top", "--watch", "--no-headers", "--server", self.server],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait, harness.PATIENCE)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        for _ in range(14):
            process.stdout.readline()
        node, _, _ = daemon.schedule(harness.pod("seen", 300))
        self.assertIsNotNone(node)
        while "300" not in process.stdout.readline():
            self.assertIsNone(process.poll())

    def test_socket__ends_with_milligpud_and_returns_after_a_kill(self):
        daemon = self.start()
        daemon.kill()
        self.assertTrue(self.path.exists())
        done = run("summary", "--server", self.server)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot reach milligpud at {self.server}", done.stderr)
        daemon.start()
        self.assertEqual(run("summary", "--server", self.server).returncode, 0)
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse(self.path.exists())

    def refused(self, path, *says):
        done = run("--standalone", harness.DEMO, *harness.ANY_PORTS, "--admin-socket", path, program="milligpud")
        self.assertEqual(done.returncode, 1 if os.path.isabs(path) else 2, done.stderr)
        for word in ("admin_socket", *says):
            self.assertIn(word, done.stderr)

    def test_socket__refuses_an_unusable_path_at_the_start(self):
        daemon = self.start()
        self.refused(str(self.path), "in use by another program")
        self.assertEqual(run("summary", "--server", self.server).returncode, 0)
        self.refused(str(daemon.home / "log"), "is no socket")
        self.assertTrue((daemon.home / "log").exists())
        self.refused("/nowhere/deeper/admin.sock", "/nowhere/deeper: No such file or directory")
        self.refused("run/admin.sock", "absolute path")

    def test_milligpuctl__names_the_error_in_an_address(self):
        for server, says in (("unix:/nowhere/admin.sock", "cannot reach milligpud at unix:/nowhere/admin.sock"),
                             ("unix:", "unix: is not an address: write"), ("unix:rel", "unix:rel is not an address: write"),
                             ("unix:/" + "a" * 200, "cannot reach milligpud at unix:/aaa"),
                             (f"unix:{self.folder.name}", "cannot reach milligpud")):
            done = run("summary", "--server", server)
            self.assertEqual(done.returncode, 1, server)
            self.assertIn(says, done.stderr)

    def test_socket__copies_a_ledger_too_large_for_a_port(self):
        daemon = self.start("--ledger-max-bytes", "2147483648", ledger="ledger.db")
        self.assertEqual(daemon.stop(), 0)
        with sqlite3.connect(daemon.home / "ledger.db") as db:  # free pages are part of the file
            db.execute("PRAGMA synchronous = OFF")
            db.execute("CREATE TABLE large(x)")
            db.execute(f"INSERT INTO large VALUES (zeroblob({258 << 20}))")
            db.execute("DROP TABLE large")
        db.close()
        daemon.start()
        copy = daemon.home / "copy.db"
        done = run("backup", copy, "--server", f"127.0.0.1:{daemon.port['admin']}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("admin_socket", done.stderr)
        done = run("backup", copy, "--server", self.server)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(copy.stat().st_size, 256 << 20)


class Doctor(harness.Case):
    """doctor knows how old the last backup is. The wall clock of the daemon moves; nobody waits."""

    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="milligpu-backups-")
        self.addCleanup(self.home.cleanup)

    def start(self, ledger=None):
        self.daemon = self.keep(harness.Daemon(harness.DEMO, env=self.ahead(0), ledger=ledger))

    def ahead(self, seconds):
        return harness.wall_clock(pathlib.Path(self.home.name), seconds)

    def found(self, ahead_s):
        self.ahead(ahead_s)
        found = [check for check in self.daemon.get("/api/v1/doctor")["checks"] if check["name"] == "backup"]
        self.assertEqual(len(found), 1)
        self.assertEqual("milligpuctl backup" in found[0]["fix"], found[0]["status"] != "ok")
        return found[0]["status"], found[0]["text"]

    def test_doctor__warns_a_week_after_the_start_without_a_backup(self):
        self.start("ledger.db")
        since = "none since milligpud started, {} ago; a week without one is a warning"
        self.assertEqual(self.found(0), ("ok", since.format("0 hours")))
        self.assertEqual(self.found(3700), ("ok", since.format("1 hour")))
        self.assertEqual(self.found(47 * 3600 + 60), ("ok", since.format("47 hours")))
        self.assertEqual(self.found(7 * DAY - 600), ("ok", since.format("6 days")))
        self.assertEqual(self.found(7 * DAY + 60), ("warning", "none was made since milligpud started, 7 days ago"))
        self.assertEqual(self.found(-DAY), ("ok", since.format("0 hours")))

    def test_doctor__warns_of_an_old_backup(self):
        self.start("ledger.db")
        self.ahead(20 * DAY)
        self.assertEqual(self.daemon.admin("GET", "/api/v1/backup")[0], 200)
        self.assertEqual(self.found(20 * DAY), ("ok", "the last one was made 0 hours ago"))
        self.assertEqual(self.found(22 * DAY + 60), ("ok", "the last one was made 2 days ago"))
        self.assertEqual(self.found(27 * DAY - 600), ("ok", "the last one was made 6 days ago"))
        self.assertEqual(self.found(28 * DAY + 60), ("warning", "the last one was made 8 days ago"))
        self.assertEqual(self.found(0), ("ok", "the last one was made 0 hours ago"))

    def test_doctor__needs_no_backup_of_a_ledger_in_memory(self):
        self.start()
        self.assertIsNone(self.daemon.doctor("backup"))


class Keep(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory(prefix="milligpu-backups-")
        cls.server = f"unix:{cls.home.name}/admin.sock"
        cls.daemon = harness.Daemon(harness.DEMO, "--admin-socket", f"{cls.home.name}/admin.sock")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.home.cleanup()

    def setUp(self):
        self.folder = self.scratch()

    def back_up(self, keep=3, ahead_s=0, status=0, says=(), server=None, **more):
        env = harness.wall_clock(pathlib.Path(self.home.name), ahead_s)
        done = run("backup", "--keep", keep, self.folder, "--server", server or self.server, env=env, **more)
        self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
        for word in says:
            self.assertIn(word, done.stdout + done.stderr)
        return done

    def made(self):
        return sorted(name for name in os.listdir(self.folder) if name != ".backup.lock")

    def put(self, *names):
        for name in names:
            (self.folder / name).write_text("of before")

    def test_backup__is_verified_and_named_after_its_time(self):
        began = time.strftime("ledger-%Y%m%dT%H%M%SZ.db", time.gmtime())
        done = self.back_up()
        [name] = self.made()
        self.assertRegex(name, NAME)
        self.assertGreaterEqual(name, began)
        self.assertLessEqual(name, time.strftime("ledger-%Y%m%dT%H%M%SZ.db", time.gmtime()))
        self.assertRegex(done.stdout, rf"^{self.folder}/{name}: \d+ bytes, verified; 1 backups, 0 removed\n$")
        self.assertEqual(run("verify", self.folder / name).returncode, 0)
        self.assertEqual(stat.S_IMODE((self.folder / name).stat().st_mode), 0o600)

    def test_keep__retains_the_newest(self):
        names = []
        for day in range(5):
            self.back_up(keep=3, ahead_s=day * DAY)
            names += [name for name in self.made() if name not in names]
            self.assertEqual(self.made(), names[-3:])
        self.assertEqual(len(names), 5)
        # A smaller number removes more at once, a larger one nothing.
        self.back_up(keep=9, ahead_s=5 * DAY)
        self.assertEqual(len(self.made()), 4)
        newest = self.made()[-1]
        self.back_up(keep=1, ahead_s=6 * DAY, says=["1 backups, 4 removed"])
        self.assertEqual(len(self.made()), 1)
        self.assertGreater(self.made()[0], newest)

    def test_keep__removes_only_files_named_as_backups(self):
        others = ["ledger-20200101T000000Z.db.bak", "ledger-20200101T000000Z.dbx", "ledger-2020.db", "ledger.db",
                  "xledger-20200101T000000Z.db", "ledger-2020010aT000000Z.db", "Ledger-20200101T000000Z.db", "notes"]
        self.put(*others, "ledger-20200101T000000Z.db", "ledger-20200102T000000Z.db")
        (self.folder / "ledger-20200103T000000Z.db").mkdir()
        (self.folder / "ledger-20200104T000000Z.db").symlink_to("notes")
        self.back_up(keep=1, says=["1 backups, 2 removed"])
        kept = [name for name in self.made() if name < "ledger-2021" or not NAME.fullmatch(name)]
        self.assertEqual(kept, sorted([*others, "ledger-20200103T000000Z.db", "ledger-20200104T000000Z.db"]))
        self.assertEqual(len(self.made()), len(kept) + 1)

    def test_keep__removes_no_newer_backup_after_a_clock_step_back(self):
        self.put("ledger-20200101T000000Z.db", "ledger-20200102T000000Z.db", "ledger-29990101T000000Z.db")
        self.back_up(keep=2, says=["2 backups, 1 removed", "1 backups in", "named after a later time than now"])
        self.assertEqual(len(self.made()), 3)
        self.assertEqual((self.made()[0], self.made()[2]), ("ledger-20200102T000000Z.db", "ledger-29990101T000000Z.db"))

    def test_keep__removes_leftovers_of_an_interrupted_run(self):
        self.put("ledger-20200101T000000Z.db.tmp", "ledger-29990101T000000Z.db.tmp", "other.tmp")
        self.back_up()
        self.assertEqual(self.made()[1:], ["other.tmp"])

    def nothing_changes(self, **more):
        self.put("ledger-20200101T000000Z.db", "ledger-20200102T000000Z.db")
        self.back_up(keep=1, status=1, **more)
        self.assertEqual(self.made(), ["ledger-20200101T000000Z.db", "ledger-20200102T000000Z.db"])

    def test_keep__removes_nothing_without_milligpud(self):
        self.nothing_changes(server="unix:/nowhere/admin.sock", says=["cannot reach milligpud"])

    def test_keep__removes_nothing_on_a_full_disk(self):
        # Python ignores SIGXFSZ, and so does the child: a write beyond the limit fails as on a full disk.
        self.nothing_changes(says=["cannot write the file"], restore_signals=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768)))

    def test_keep__removes_only_the_copy_that_fails_its_check(self):
        good = self.folder / "good.db"
        self.assertEqual(run("backup", good, "--server", self.server).returncode, 0)
        whole = good.read_bytes()
        good.unlink()
        for body, says in ((whole[:len(whole) // 2], "not usable"), (b"hello", "not usable"), (b"", "not usable")):
            self.nothing_changes(server=self.http(lambda _: (200, body)), says=[says])
        self.nothing_changes(server=self.http(lambda _: (503, b'{"detail": "no room for a copy"}')), says=["no room for a copy"])

    def test_keep__detects_rows_that_contradict_each_other(self):
        self.daemon.schedule(harness.pod("held", 300))
        good = self.folder / "good.db"
        self.assertEqual(run("backup", good, "--server", self.server).returncode, 0)
        harness.spoil(good, "UPDATE share SET milli = milli - 1")
        body = good.read_bytes()
        good.unlink()
        self.nothing_changes(server=self.http(lambda _: (200, body)), says=["not usable", 'check "'])

    def test_keep__refuses_a_second_run_at_once(self):
        self.put("ledger-20200101T000000Z.db.tmp")
        with open(self.folder / ".backup.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.back_up(status=1, says=["another backup into this folder is being made"])
            self.assertEqual(self.made(), ["ledger-20200101T000000Z.db.tmp"])
        self.back_up()
        self.assertEqual(len(self.made()), 1)

    def test_keep__names_an_unusable_folder(self):
        folder = self.folder
        for wrong, says in ((folder / "none", "No such file or directory"), ("", "No such file or directory"),
                            ("/dev/null", "is no folder"), ("/proc", "/proc/.backup.lock")):
            self.folder = wrong
            self.back_up(status=1, says=[says])
        self.folder = folder
        (folder / ".backup.lock").symlink_to("/dev/null")
        self.back_up(status=1, says=[".backup.lock"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be another user")
    def test_keep__refuses_the_folder_of_another_user(self):
        daemon = f"127.0.0.1:{self.daemon.port['admin']}"
        self.put("ledger-20200101T000000Z.db")
        more = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        os.chmod(self.folder, 0o755)
        program = run("backup", "--keep", 1, self.folder, "--server", daemon, **more)
        self.assertEqual(program.returncode, 1)
        self.assertIn("Permission denied", program.stderr)
        # It may be written and not listed: nothing is removed, and nothing is left.
        os.chmod(self.folder, 0o733)
        program = run("backup", "--keep", 1, self.folder, "--server", daemon, **more)
        self.assertEqual(program.returncode, 1)
        self.assertIn("Permission denied", program.stderr)
        self.assertEqual(self.made(), ["ledger-20200101T000000Z.db"])
        # The sticky bit: the new one is there, an old one cannot be removed, and that is said.
        os.chmod(self.folder, 0o1777)
        os.unlink(self.folder / ".backup.lock")
        program = run("backup", "--keep", 1, self.folder, "--server", daemon, **more)
        self.assertEqual(program.returncode, 1)
        self.assertIn("ledger-20200101T000000Z.db cannot be removed", program.stderr)
        self.assertIn("2 backups, 0 removed", program.stdout)
        self.assertEqual(len(self.made()), 2)

    def test_keep__refuses_the_same_second_again(self):
        second = int(time.time())
        # All seconds that the command may meet are taken.
        self.put(*(time.strftime("ledger-%Y%m%dT%H%M%SZ.db", time.gmtime(second + i)) for i in range(harness.PATIENCE)))
        self.back_up(keep=9999, status=1, says=["is there already: try again in a second"])
        self.assertEqual({(self.folder / name).read_text() for name in self.made()}, {"of before"})

    def restore(self, status=0, says=()):
        ledger = self.folder / "restored" / "ledger.db"
        ledger.parent.mkdir(exist_ok=True)
        self.addCleanup(shutil.rmtree, ledger.parent, True)
        if not ledger.exists():
            self.assertEqual(run("backup", ledger, "--server", self.server).returncode, 0)
        done = run("restore", self.folder, ledger)
        self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
        for word in says:
            self.assertIn(word, done.stderr)

    def test_restore__takes_the_newest_backup_of_a_folder(self):
        self.restore(status=2, says=[f"{self.folder} has no backup"])
        self.put("ledger-29990101T000000Z.db", "other.db")
        self.restore(status=2, says=[f"{self.folder} has no backup"])
        self.put("ledger-20200101T000000Z.db")
        self.back_up(keep=9)
        name = self.made()[1]
        self.restore(says=[f"restored from {self.folder}/{name};"])
        # One that is damaged is no reason to take an older one without a word.
        (self.folder / name).write_text("x" * 9000)
        self.restore(status=2, says=[name])

    def test_keep__refuses_wrong_usage(self):
        for words, says in ((("--keep", "0"), "1 to 10000"), (("--keep", "10001"), "1 to 10000"),
                            (("--keep", "x"), "--keep is x"), (("--keep", "-1"), "--keep is -1"),
                            (("--keep", "999999999999999999999"), "1 to 10000"), (("--keep", "3", "--force"), "--force")):
            done = run("backup", self.folder, *words, "--server", self.server)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn(says, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
