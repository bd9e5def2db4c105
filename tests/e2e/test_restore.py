"""The recipe of docs/operate/backup.md for a backup and its restore, run as it is written there, also after kill -9."""

import pathlib
import re
import shlex

import harness

PAGE = pathlib.Path(__file__).parents[2] / "docs/operate/backup.md"
LEDGER = "/var/lib/milligpu/ledger.db"


def recipe():
    """The commands of the page's section, as lists of words."""
    section = re.search(r"^## Back up and restore$(.*?)^## ", PAGE.read_text(), re.M | re.S).group(1)
    return [shlex.split(line) for line in re.findall(r"^    (milligpuctl .*)$", section, re.M)]


class Restore(harness.Case):
    def setUp(self):
        self.daemon = self.keep(harness.Daemon(ledger="ledger.db"))
        self.backup, self.restore = recipe()

    def run_it(self, command, fails=None):
        ledger = str(self.daemon.home / "ledger.db")
        words = [ledger if word == LEDGER else word for word in command[1:]]
        done = harness.run(*words, cwd=self.daemon.home, env={"MILLIGPU_SERVER": f"127.0.0.1:{self.daemon.port['admin']}"})
        self.assertEqual(done.returncode, 0 if fails is None else fails, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def place(self, name):
        _, error, _ = self.daemon.schedule(harness.pod(name, 250))
        self.assertEqual(error, "")

    def known(self):
        """The pods of which the ledger has a history."""
        return {name for name in ("before", "after")
                if self.daemon.get(f"/api/v1/history?pod=default/{name}")["items"]}

    def test_backup__is_restored_after_a_crash(self):
        self.place("before")
        self.run_it(self.backup)
        self.place("after")
        self.daemon.kill()
        said = self.run_it(self.restore)
        self.assertIn("ledger.db.replaced-", said)
        self.daemon.start()
        self.assertEqual(self.known(), {"before"})
        self.run_it(["milligpuctl", "verify", LEDGER])

    def test_hand_copied_backup__is_refused_with_the_recipe(self):
        self.place("before")
        self.run_it(self.backup)
        self.place("after")
        self.daemon.kill()
        ledger = self.daemon.home / "ledger.db"
        ledger.write_bytes((self.daemon.home / self.backup[-1]).read_bytes())
        done = harness.run(*self.daemon.source(), *self.daemon.flags, *harness.ANY_PORTS, program="milligpud")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"milligpuctl restore BACKUP {ledger}", done.stderr)
        self.run_it(self.restore)
        self.daemon.start()
        self.assertEqual(self.known(), {"before"})

    def test_restore__refuses_a_running_daemon_or_a_damaged_backup(self):
        self.place("before")
        self.run_it(self.backup)
        self.assertIn("another milligpud", self.run_it(self.restore, fails=1))
        self.daemon.stop()
        backup = self.daemon.home / self.backup[-1]
        content = bytearray(backup.read_bytes())
        content[4096:8192] = bytes(4096)
        backup.write_bytes(content)
        self.assertIn("FAILED", self.run_it(self.restore, fails=1))
        self.daemon.start()
        self.assertEqual(self.known(), {"before"})


if __name__ == "__main__":
    harness.main()
