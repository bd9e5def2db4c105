"""What a person sees of 200 nodes and five GPU models: in 80 columns of a terminal, and what a script sees in a pipe."""

import datetime
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import fleet
import harness

CTL = harness.BIN / "milligpuctl"
REASON = "XID 79: GPU has fallen off the bus, since 2026-01-02T03:04:05Z"
VIEWS = (("top",), ("top", "--by", "gpu"), ("nodes",), ("node", fleet.name_of(3)), ("drift",), ("drift", "--kind", "adopted"),
         ("pod", "-v", "default/v100"), ("pod", "team-0/inference-server-000-6d5f8"), ("waiting",), ("summary",),
         ("allocations",), ("usage",), ("doctor",))


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Terminal:
    """milligpuctl in a terminal of this size; read() is what it has written, without colors."""

    def __init__(self, *words, columns=80, lines=24, env=()):
        try:
            self.master, slave = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"there are no pseudo-terminals here: {error}") from None
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen([CTL, *words], stdout=slave, stderr=subprocess.PIPE,
                                        env={**kept, "LC_ALL": "C.UTF-8", **dict(env)}, text=True)
        os.close(slave)
        self.bytes = b""

    def more(self, seconds=0.2):
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            read = os.read(self.master, 65536)
        except OSError:
            read = b""
        self.bytes += read
        return read != b""

    def read(self):
        while self.more(30):
            pass
        _, said = self.process.communicate(timeout=harness.PATIENCE)
        os.close(self.master)
        assert self.process.returncode in (0, 1), (self.process.returncode, said)
        return plain(self.bytes)


def plain(written):
    return re.sub(r"\x1b\[[0-9;]*m", "", written.decode().replace("\r\n", "\n"))


class Fleet(harness.Story):
    @classmethod
    def make_daemon(cls):  # tearDownClass() closes it
        more = [fleet.pod(f"over-{i}", 900, on=4) for i in range(3)]  # two GPUs
        more += [fleet.pod(f"fresh-{i}", 300, on=10, bound=now()) for i in range(3)]
        return harness.Daemon(fleet.cluster(more=more))

    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.make_daemon()
        cls.server = ("--server", f"127.0.0.1:{cls.daemon.port['admin']}")
        assert cls.daemon.schedule(harness.pod("mine", 300))[0]
        assert not cls.daemon.schedule(harness.pod("v100", 300, annotations={"milligpu.io/gpu-model": "V100"}))[0]

    def ask(self, *words, status=0):
        done = harness.run(*words, *self.server)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def screen(self, *words, **size):
        return Terminal(*words, *self.server, **size).read()

    def test_tables__fit_eighty_columns(self):
        for words in VIEWS:
            for columns in (80, 120):
                shown = self.screen(*words, columns=columns)
                widest = max(shown.splitlines(), key=len)
                self.assertLessEqual(len(widest), columns, (words, widest))
                self.assertGreater(shown.count("\n"), 1, words)

    def test_terminal_width__comes_from_columns_when_unknown(self):
        shown = self.screen("nodes", columns=0, lines=0, env={"COLUMNS": "60"})
        self.assertLessEqual(max(map(len, shown.splitlines())), 60)
        self.assertIn("no room for them in 60 columns", " ".join(shown.split()))
        for columns in ("", "wide", "0", "-5", "1000000000000000000000"):
            shown = self.screen("nodes", columns=0, lines=0, env={"COLUMNS": columns})
            self.assertIn(len(max(shown.splitlines(), key=len)), range(61, 81), columns)
        # The terminal's own size is newer than a variable that a shell once exported.
        self.assertGreater(max(map(len, self.screen("summary", env={"COLUMNS": "40"}).splitlines())), 60)

    def test_pipe__gets_all_columns_and_untruncated_values(self):
        for words in VIEWS:
            piped = self.ask(*words)
            self.assertNotIn("…", piped)
            self.assertNotIn("no room", piped)
        self.assertEqual(self.ask("nodes").splitlines()[0].split(),
                         "NAME MODEL GPUS TOTAL USED RESERVED FREE HELD CLOSED BEYOND LARGEST STATE REASON".split())
        self.assertEqual(self.ask("top").splitlines()[0].split(),
                         "NODE GPU MODEL USED RESERVED MEASURED FREE PODS STATE REASON".split())
        self.assertIn("GPU-" + fleet.uid("gpu", 3, 0), self.ask("node", fleet.name_of(3)))

    def test_top__has_a_line_for_each_large_node(self):
        gpus = sum(len(node["gpus"]) for node in self.daemon.get("/api/v1/nodes?limit=1000")["items"])
        lines = self.screen("top").splitlines()
        self.assertRegex(lines[0], r"^NODE +GPUS +BAR ")
        self.assertEqual(sum(line.startswith("gpu-") and ":" not in line for line in lines), fleet.NODES)
        self.assertEqual(len(self.ask("top", "--no-headers").splitlines()), gpus)
        self.assertEqual(len(self.ask("top", "--no-headers", "--by", "node").splitlines()), fleet.NODES)
        self.assertEqual(len(self.screen("top", "--no-headers", "--by", "gpu", "-o", "wide").splitlines()), gpus)
        self.assertIn("must be one of: auto gpu node", harness.run("top", "--by", "pod", *self.server).stderr)
        self.assertRegex(self.screen("top", "--node", fleet.name_of(3)).splitlines()[0], r"^NODE +GPU ")

    def test_node_parts__add_up(self):
        rows = [line.split() for line in self.ask("nodes", "--no-headers").splitlines()]
        self.assertEqual(len(rows), fleet.NODES)
        for row in rows:
            total, used, reserved, free, held, closed = map(int, row[3:9])
            self.assertEqual(used + reserved + free + held + closed, total, row)
        over = next(row for row in rows if row[0] == fleet.name_of(4))
        self.assertEqual((int(over[3]), int(over[9])), (3500, 1500), over)
        # No sentence says that a node of two GPUs has more than 2000.
        node = self.ask("node", fleet.name_of(4))
        self.assertRegex(node, r"Milli: +2000: 3500 used, 0 free; 1500 of what is used exceeds the size of its GPU")
        legend = self.ask("top").splitlines()[-1]
        summary = self.daemon.get("/api/v1/summary")
        self.assertIn(f" of {summary['capacityMilli']} milli", legend)
        self.assertNotIn("fragment", legend)

    def test_sick_gpu__is_shown_in_every_view(self):
        sick = [fleet.name_of(i) for i in fleet.SICK]
        for words in (("top",), ("top", "--by", "node"), ("nodes",)):
            lines = self.ask(*words).splitlines()
            found = [line for line in lines if line.split()[:1] and line.split()[0] in sick and REASON in line]
            self.assertEqual(len(found), len(sick), words)
        for words in (("top",), ("nodes",), ("top", "--by", "gpu")):
            below = " ".join(self.screen(*words).split())
            self.assertIn(REASON, below)
            for name in sick:
                self.assertRegex(below, rf"{name}(: 1 of \d GPUs unhealthy|/1)", words)
        node = self.screen("node", sick[0])
        self.assertIn("State:        ok, 1 unhealthy GPU\n", node)
        self.assertIn(f"GPU 1: {REASON}\n", node)
        check = self.daemon.doctor("gpus")
        self.assertEqual(check["status"], "warning")
        for name in sick:
            self.assertIn(f"{name}/1 ({REASON})", check["text"])

    def test_reasons__of_many_nodes_are_written_once(self):
        shown = self.screen("nodes")
        self.assertEqual(shown.count("the node's labels say MIG"), 1)
        self.assertRegex(shown, rf"and {len(fleet.MIG) - 3} more: the node's labels say MIG")
        pod = self.screen("pod", "-v", "default/v100")
        self.assertLess(pod.count("\n"), 30)
        self.assertRegex(pod, rf"\n +{fleet.NODES - len(fleet.MIG)}  no ")

    def test_foreign_pods__do_not_hide_other_drift(self):
        old = fleet.ADOPTED + 3
        lines = self.ask("drift").splitlines()
        self.assertRegex(lines[0], r"^KIND +WARNINGS +INFORMATION +MEANING")
        counts = {line.split()[0]: line.split()[1:3] for line in lines[1:lines.index("")]}
        self.assertEqual(counts, {"adopted": ["3", str(old)], "over": ["2", "0"]})
        listed = [line.split()[0] for line in lines[lines.index("") + 2:]]
        self.assertEqual(sorted(listed), ["adopted"] * 3 + ["over"] * 2)
        self.assertEqual(len(self.ask("drift", "--no-headers").splitlines()), 5)
        self.assertEqual(len(self.ask("drift", "--no-headers", "--kind", "adopted").splitlines()), old + 3)
        self.assertEqual(len(self.ask("drift", "--no-headers", "--kind", "over,absent").splitlines()), 2)
        self.assertEqual(len(self.ask("drift", "--no-headers", "--kind", "adopted,over", "--node", fleet.name_of(4)).splitlines()),
                         2 + 3 + 2)
        self.assertEqual(self.ask("drift", "--no-headers", "--node", "nowhere"), "")
        self.assertIn("one or more of adopted", harness.run("drift", "--kind", "adopt", *self.server).stderr)
        self.ask("drift", "--kind", "adopt", status=2)
        document = json.loads(self.ask("drift", "-o", "json"))
        self.assertEqual([len(document["items"]), document["counts"][0]["information"]], [5, old])
        summary = self.daemon.get("/api/v1/summary")
        self.assertEqual((summary["drift"], summary["driftInformation"]), (5, old))
        check = self.daemon.doctor("drift")
        self.assertIn("in 5 places: 3 adopted, 2 over", check["text"])

    def test_start_log__counts_foreign_pods(self):
        log = (self.daemon.home / "log").read_text()
        self.assertLess(log.count("drift"), 5, log)
        self.assertIn(f'kinds="{fleet.ADOPTED + 6} adopted"', log)

    def test_placed_pods__are_not_called_pending(self):
        self.assertIn("Phase:        placed; its containers have not started (Pending)\n", self.ask("pod", "default/mine"))
        self.assertIn("Phase:        Pending\n", self.ask("pod", "default/v100"))
        self.assertIn("Phase:        Running\n", self.ask("pod", "team-0/inference-server-000-6d5f8"))

    def pictures(self, *words, **size):
        """The first whole picture of --watch."""
        terminal = Terminal("top", "--watch", *words, *self.server, **size)
        until = time.monotonic() + harness.PATIENCE
        while terminal.bytes.count(b"\x1b[2J") < 2 and time.monotonic() < until:
            terminal.more()
        terminal.process.send_signal(signal.SIGINT)
        terminal.process.communicate(timeout=harness.PATIENCE)
        os.close(terminal.master)
        return plain(terminal.bytes.split(b"\x1b[2J")[1].split(b"\x1b[H")[0])

    def test_watch__fits_the_height_of_the_terminal(self):
        for lines, columns, words in ((24, 80, ()), (24, 80, ("--by", "gpu")), (50, 100, ()), (12, 60, ()), (24, 40, ())):
            picture = self.pictures(*words, lines=lines, columns=columns)
            self.assertLess(picture.count("\n"), lines, picture)
            self.assertLessEqual(max(map(len, picture.splitlines())), columns, picture)
            flat = " ".join(picture.split())
            more = int(re.search(r"\.\.\. and (\d+) more (nodes|GPUs)", flat)[1])
            rows = sum(re.match(r"gpu-[^: ]+ +\d", line) is not None for line in picture.splitlines())
            self.assertGreater(rows, 2, picture)
            if not words:
                self.assertEqual(rows + more, fleet.NODES, picture)
            self.assertIn("unhealthy", picture.splitlines()[1])  # what needs a look comes first
        picture = self.pictures("--sort-by", "-USED")
        used = [int(re.search(r"(\d+) +\d+ +\d+ +\w+$", line)[1]) for line in picture.splitlines()[1:5]]
        self.assertEqual(used, sorted(used, reverse=True), picture)


if __name__ == "__main__":
    harness.main()
