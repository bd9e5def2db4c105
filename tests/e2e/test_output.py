"""docs/output/NAME.txt: what each command of milligpuctl prints, as a real run printed it; docs/CLI.md contains them.

UPDATE=1 in the environment writes the files. What differs from run to run (times, sizes, uids, keys) is replaced before
the comparison. A line "..." stands for lines that are left out.
"""

import os
import re
import subprocess

import harness
import test_cordon
import test_keys

OUTPUT = harness.SOURCE / "docs/output"
CTL = harness.BIN / "milligpuctl"

# Patterns that differ from run to run, and their replacements.
ALWAYS = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-02T14:05:00.000Z"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-02T14:05:00Z"),
    (r"\d{8}T\d{6}Z", "20260102T140500Z"),
    (r"(?m)[ \d]\d[sm]$", " 5s"),  # the last column, as AGE
    (r"\(\d+s\)", "(5s)"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "b4009e46-7ce6-42b6-8b40-e15ea95240ee"),
    (r"\d+ bytes", "172032 bytes"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:8910"),
    (r" \([0-9a-f]{7,40}[^)]*\)", ""),  # the commit, if the build knows it
    (r"digest [0-9a-f]{16}", "digest 00d3b15d93a3313b"),
    # doctor
    (r"generation \d+", "generation 30"),
    (r"\d+ KiB and \d+ KiB of log, \d+ journal entries", "152 KiB and 639 KiB of log, 26 journal entries"),
    (r"in \d+ ms", "in 3 ms"),
    (r"last answer \d+ s ago", "last answer 0 s ago"),
    (r"none of \d+ calls", "none of 13 calls"),
    (r"\d+ wake-ups? since", "1 wake-up since"),
]

HAMI = """apiVersion: v1
kind: Pod
metadata:
  name: notebook
spec:
  containers:
  - name: main
    image: jupyter
    resources:
      limits:
        nvidia.com/gpu: 1
        nvidia.com/gpumem: 20480   # MiB
"""


def shortened(lines, head, tail):
    """The first and the last lines, with a line for those between."""
    return lines if len(lines) <= head + tail + 1 else [*lines[:head], "...", *lines[len(lines) - tail:]]


class Output(harness.Story):
    """One daemon; the demo's pods are played onto it by the example of `play`, which comes first."""

    flags = ("--policy", "mixed")

    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon(harness.DEMO, *cls.flags, ledger="ledger.db")
        cls.home = cls.daemon.home
        cls.shown = set()
        version = subprocess.run([CTL, "--version"], capture_output=True, text=True, check=True).stdout
        cls.version = re.search(r"\d+\.\d+\.\d+\S*", version).group()

    def ctl(self, line, daemon=None, kubectl=None, status=0):
        """What the command line prints; line as it is shown, with `milligpuctl` in front."""
        words = line.split()
        self.assertEqual(words[0], "milligpuctl")
        env = {k: v for k, v in os.environ.items() if k not in ("MILLIGPU_SERVER", "NO_COLOR")}
        if kubectl:
            env["PATH"] = f"{kubectl}:{env['PATH']}"
        server = [] if daemon is None else ["--port-file", str(daemon.home / "ports")]
        done = subprocess.run([CTL, *words[1:], *server], capture_output=True, text=True, cwd=self.home, env=env,
                              timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, status, (line, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def example(self, name, *steps, masks=()):
        """The file of the command `name` is these steps: (line, text)."""
        said = "".join(f"$ {line}\n{text}" for line, text in steps)
        for what, instead in [(re.escape(str(self.home) + "/"), ""), (re.escape(self.version), "0.1.0"), *masks, *ALWAYS]:
            said = re.sub(what, instead, said)
        said = "".join(line.rstrip() + "\n" for line in said.splitlines())
        self.assertNotIn("`" * 3, said)
        file = OUTPUT / f"{name}.txt"
        if os.environ.get("UPDATE"):
            file.write_text(said)
        self.assertEqual(said, file.read_text(), f"{file.name}: run this test with UPDATE=1, and then unit.ctl.options")
        self.shown.add(name)

    def one(self, name, line=None, status=0, head=40, tail=0):
        line = line or f"milligpuctl {name}"
        text = "\n".join(shortened(self.ctl(line, self.daemon, status=status).splitlines(), head, tail)) + "\n"
        self.example(name, (line, text))

    def alone(self, name, *lines, status=0, head=40, tail=0):
        """A command that asks no server; a line of `cat` shows a file."""
        steps = []
        for line in lines:
            if line.startswith("cat "):
                steps.append((line, (self.home / line.split()[1]).read_text()))
            else:
                said = shortened(self.ctl(line, status=status).splitlines(), head, tail)
                steps.append((line, "\n".join(said) + "\n"))
        self.example(name, *steps)

    def check(self, name):
        """What `doctor` says of one thing."""
        return self.daemon.doctor(name)["text"]

    def states(self):
        return [one["state"] for one in self.daemon.get("/api/v1/allocations")["items"]]

    def test_output__of_every_command_is_as_recorded(self):
        """In the order in which one example needs what another one did."""
        (self.home / "demo").symlink_to(harness.SOURCE / "demo")
        self.one("play", "milligpuctl play demo/pods.yaml")
        self.daemon.wait(lambda: self.states() == ["bound"] * 11, "the pods to be bound")
        self.one("top")
        self.one("nodes")
        self.one("node", "milligpuctl node t4-0")
        self.one("allocations")
        self.one("pod", "milligpuctl pod batch/wants-h100")
        self.one("waiting")
        self.one("usage")
        self.one("history", "milligpuctl history t4-0/0")
        self.one("summary")
        self.one("policy")
        self.daemon.wait(lambda: "verified" in self.check("history"), "the verification of the ledger")
        self.one("doctor")
        self.one("version")
        self.one("completion", "milligpuctl completion fish", head=5)
        self.one("backup", "milligpuctl backup copy.db")
        self.one("diagnostics", "milligpuctl diagnostics report.tar")
        self.of_files()
        self.of_drift()
        self.of_cordons()
        self.of_moves()
        self.of_keys()
        listed = re.findall(r'^COMMAND\(\w+, "([\w-]+)"', (harness.SOURCE / "src/ctl/commands.def").read_text(), re.M)
        self.assertEqual(self.shown, set(listed))
        self.assertEqual({file.stem for file in OUTPUT.iterdir()}, set(listed))

    def of_files(self):
        self.alone("verify", "milligpuctl verify copy.db")
        (self.home / "old.db").write_bytes((self.home / "copy.db").read_bytes())
        self.alone("restore", "milligpuctl restore copy.db old.db", head=2, tail=2)
        (self.home / "config.yaml").write_text("min_mili: 50\n")
        self.alone("check-config", "cat config.yaml", "milligpuctl check-config config.yaml", status=1)
        self.alone("check-policy", "milligpuctl check-policy inference", head=9, tail=4)
        self.alone("simulate", "milligpuctl simulate --cluster demo/cluster.json --pods demo/what-if.yaml")
        (self.home / "hami.yaml").write_text(HAMI)
        self.alone("convert", "cat hami.yaml", "milligpuctl convert --gpu-memory 81920 hami.yaml")

    def of_drift(self):
        """A pod that somebody bound by hand."""
        by_hand = harness.pod("by-hand", 200)
        by_hand["spec"]["nodeName"] = "t4-0"
        self.daemon.create(by_hand)
        self.daemon.wait(lambda: self.daemon.get("/api/v1/drift")["items"], "drift")
        self.one("drift")

    def of_cordons(self):
        folder = self.home / "kubectl-of-nodes"
        folder.mkdir()
        (folder / "kubectl").write_text(test_cordon.KUBECTL)
        (folder / "kubectl").chmod(0o755)
        (folder / "uid").write_text(test_cordon.UID)
        for name in ("cordon", "uncordon"):
            line = f"milligpuctl {name} {test_cordon.NODE} 1"
            lines = [f"{line} --dry-run", line] if name == "cordon" else [line]
            # A standalone milligpud says that kubectl changes another cluster.
            self.example(name, *((one, self.ctl(one, self.daemon, folder)) for one in lines),
                         masks=[(r"(?m)^milligpuctl: milligpud is standalone.*\n", "")])

    def of_moves(self):
        """Two shares on each of six GPUs, of which one goes."""
        moved = self.keep(harness.Daemon())
        for at in range(6):
            for part, milli in (("large", 500), ("small", 400)):
                moved.schedule(harness.pod(f"{part}-{at}", milli), ["a100-0"])
        for at in range(6):
            name = f"{'large' if at % 2 else 'small'}-{at}"
            moved.admin("DELETE", "/api/v1/standalone/pods/default/" + name)
        moved.wait(lambda: len(moved.get("/api/v1/allocations")["items"]) == 6, "six pods to be gone")
        line = "milligpuctl defrag --plan --moves 2 --min-gain 1"
        self.example("defrag", (line, self.ctl(line, moved)))

    def of_keys(self):
        """A key that is replaced while a pod needs it."""
        api, daemon = self.pair("--key-wait-s", "2")
        folder = self.home / "kubectl-of-keys"
        folder.mkdir()
        (folder / "kubectl").write_text(test_keys.KUBECTL.format(url=api.url, said=str(folder / "said")))
        (folder / "kubectl").chmod(0o755)

        def states():
            return [key["state"] for key in daemon.get("/api/v1/keys")["items"]]

        daemon.wait(lambda: states() == ["signing"], "a key")
        daemon.schedule(harness.pod("notebook", 300))
        old = daemon.get("/api/v1/keys")["items"][0]["id"]
        replaced = self.ctl("milligpuctl replace-key", daemon, folder)
        daemon.wait(lambda: states() == ["signing", "retiring"], "the new key to sign")
        daemon.wait(lambda: [key["pods"] for key in daemon.get("/api/v1/keys")["items"]] == [0, 1], "a pod of the old key")
        new = daemon.get("/api/v1/keys")["items"][0]["id"]
        masks = [(old, "3f9c51d20a7be846"), (new, "c04d7e1862f9a35b")]
        self.example("replace-key", ("milligpuctl replace-key", replaced), masks=masks)
        self.example("keys", ("milligpuctl keys", self.ctl("milligpuctl keys", daemon)), masks=masks)
        line = f"milligpuctl revoke-key {old}"
        self.example("revoke-key", (line, self.ctl(line, daemon, folder)), masks=masks)


if __name__ == "__main__":
    harness.main()
