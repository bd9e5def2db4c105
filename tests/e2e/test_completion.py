"""Completion as a user gets it: real shells, the scripts that milligpuctl prints, and a daemon that knows the names."""

import os
import subprocess

import harness
from test_ctl import PODS, run

BASH = """
source <(milligpuctl completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
compopt() { echo "files"; }
_milligpuctl
printf '%s\\n' "${COMPREPLY[@]}"
"""

# zsh completes only on a terminal, so print what its two completion functions are given: it would show that.
ZSH = """
compdef() { true; }
_describe() { print -l -- ${(P)2} }
_files() { print files }
source <(milligpuctl completion zsh)
words=("$@")
CURRENT=$#
_milligpuctl
"""

# As compinit loads a file of fpath: the first word that is completed reads it.
ZSH_FILE = """
compdef() { true; }
_describe() { print -l -- ${(P)2} }
_files() { print files }
fpath=($1 $fpath)
shift
autoload -Uz _milligpuctl
words=("$@")
CURRENT=$#
_milligpuctl
"""


class Completion(harness.Story):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.played = run("play", PODS, "--port-file", cls.daemon.home / "ports")
        cls.environment = {**os.environ, "PATH": f"{harness.BIN}:{os.environ['PATH']}",
                           "MILLIGPU_SERVER": f"127.0.0.1:{cls.daemon.port['admin']}", "HOME": str(cls.daemon.home)}

    def shell(self, *argv):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=harness.PATIENCE, env=self.environment)
        self.assertEqual(done.stderr, "")
        return [line for line in done.stdout.splitlines() if line]

    def bash(self, *words):
        return self.shell("bash", "--norc", "-c", BASH, "bash", "milligpuctl", *words)

    def zsh(self, *words):
        return [line.split(":")[0] for line in self.shell("zsh", "-f", "-c", ZSH, "zsh", "milligpuctl", *words)]

    def fish(self, line):
        return [word.split("\t")[0] for word in self.shell(
            "fish", "--no-config", "-c", "milligpuctl completion fish | source; complete -C $argv[1]",
            "milligpuctl " + line)]

    def every_shell(self, *words):
        """What the shells offer, which has to be the same."""
        found = self.bash(*words)
        self.assertEqual(self.zsh(*words), found)
        self.assertEqual(sorted(self.fish(" ".join(words))), sorted(found))
        return found

    def test_commands__complete_by_prefix(self):
        self.assertEqual(self.every_shell("no"), ["nodes", "node"])
        self.assertIn("history", self.every_shell(""))
        self.assertEqual(self.every_shell("nothing"), [])

    def test_zsh__completes_from_a_file_in_fpath(self):
        folder = self.daemon.home / "zsh"
        folder.mkdir()
        (folder / "_milligpuctl").write_text(run("completion", "zsh").stdout)
        found = self.shell("zsh", "-f", "-c", ZSH_FILE, "zsh", str(folder), "milligpuctl", "no")
        self.assertEqual([line.split(":")[0] for line in found], ["nodes", "node"])

    def test_options__are_those_of_the_command_and_the_global_ones(self):
        found = self.bash("allocations", "--n")
        self.assertEqual(found, ["--no-headers", "--namespace", "--node"])
        self.assertIn("--output", self.bash("allocations", "-"))
        self.assertNotIn("--watch", self.bash("allocations", "-"))

    def test_option_values__are_offered(self):
        self.assertEqual(self.every_shell("nodes", "-o", ""), ["table", "wide", "json", "yaml", "name"])
        self.assertEqual(self.every_shell("allocations", "--state", "re"), ["reserved", "released"])
        self.assertEqual(self.every_shell("waiting", "--state", ""), ["refused", "offered"])
        self.assertEqual(self.every_shell("top", "--state", "un"),
                         ["unreadable", "unplaced", "unsure", "unhealthy"])
        self.assertEqual(self.every_shell("simulate", "--policy", "f"), ["firstfit", "fgd"])
        self.assertEqual(self.every_shell("check-policy", "mi"), ["mixed"])

    def test_names__are_those_known_to_the_daemon(self):
        nodes = [node["name"] for node in self.daemon.get("/api/v1/nodes")["items"]]
        self.assertEqual(self.every_shell("node", ""), nodes)
        self.assertEqual(self.every_shell("cordon", ""), nodes)
        self.assertEqual(self.bash("uncordon", nodes[0], "7"), ["7"])
        self.assertEqual(self.bash("cordon", nodes[0], "0", nodes[0] + "/gpu-7"), [nodes[0] + "/gpu-7"])
        self.assertEqual(self.bash("allocations", "--node", nodes[0]), [nodes[0]])
        held = self.daemon.get("/api/v1/allocations")["items"][0]
        name = f"{held['namespace']}/{held['name']}"
        self.assertIn(name, self.every_shell("pod", held["namespace"] + "/"))
        self.assertIn(held["name"], self.bash("pod", "-n", held["namespace"], ""))
        self.assertEqual(self.bash("allocations", "-n", held["namespace"]), [held["namespace"]])
        self.assertIn(name, self.bash("history", ""))
        gpu = self.daemon.get("/api/v1/nodes")["items"][0]["gpus"][0]["id"]
        self.assertIn(f"{nodes[0]}/{gpu}", self.bash("history", nodes[0] + "/"))
        self.assertEqual(self.bash("node", nodes[0], ""), [], "one node is enough")

    def test_files__are_left_to_the_shell(self):
        for words in (("play", ""), ("verify", ""), ("top", "--port-file", ""), ("simulate", "--csv", "")):
            self.assertEqual(self.bash(*words), ["files"])
            self.assertEqual(self.zsh(*words), ["files"])

    def test_arguments__of_every_command_complete(self):
        env = {"MILLIGPU_SERVER": self.environment["MILLIGPU_SERVER"]}
        names = [line.split("\t")[0] for line in run("__complete", "").stdout.splitlines()[:-1]]
        self.assertIn("restore", names)
        for name in names:
            for before in ((), ("x",), ("x", "x")):
                done = run("__complete", name, *before, "", env=env)
                self.assertEqual((done.returncode, done.stderr), (0, ""), (name, before))
                self.assertRegex(done.stdout.splitlines()[-1], "^:[04]$", (name, before))
        for words in (("backup",), ("backup", "--keep", "3"), ("restore",), ("restore", "x"), ("diagnostics",)):
            self.assertEqual(run("__complete", *words, "").stdout, ":0\n", words)
        self.assertEqual(run("__complete", "revoke-key", "").stdout, ":4\n")

    def test_wrong_line__offers_the_remaining_words(self):
        self.assertEqual(self.bash("--nonsense", "no"), ["nodes", "node"])
        self.assertEqual(self.bash("nonsense", ""), self.bash(""))

    def test_unreachable_daemon__is_no_error(self):
        self.environment = {**self.environment, "MILLIGPU_SERVER": "127.0.0.1:1"}
        self.assertEqual(self.every_shell("node", ""), [])

    def test_kubectl__gets_the_words_of_the_plugin(self):
        done = run("node", "", program=harness.BIN / "kubectl_complete-milligpu",
                   env={"MILLIGPU_SERVER": self.environment["MILLIGPU_SERVER"]})
        nodes = [node["name"] for node in self.daemon.get("/api/v1/nodes")["items"]]
        self.assertEqual(done.stdout.splitlines(), [*nodes, ":4"])
        done = run("ver", program=harness.BIN / "kubectl_complete-milligpu")
        self.assertEqual([line.split("\t")[0] for line in done.stdout.splitlines()], ["verify", "version", ":4"])
        done = run("node", "", program=harness.BIN / "kubectl_complete-milligpu")
        self.assertEqual(done.stdout, ":4\n", "kubectl is not started for it")

    def test_unknown_shell__is_refused(self):
        done = run("completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bash zsh fish", done.stderr)


class Version(harness.Story):
    def test_version__shows_client_and_daemon(self):
        server = f"127.0.0.1:{self.daemon.port['admin']}"
        done = run("version", "--server", server)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"(?m)^milligpuctl  \S+ \(.*\)\nmilligpud    \S+$")
        done = run("version", "--server", server, "-o", "json")
        self.assertEqual(done.stdout.count("\n"), 4, done.stdout)

    def test_version__without_a_daemon_shows_the_client_and_exits_1(self):
        done = run("version", "--server", "127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("milligpud    unknown", done.stdout)
        self.assertTrue(done.stderr.startswith("milligpuctl: "))

    def test_kubectl_formats__are_refused_with_an_alternative(self):
        for given in ("jsonpath={.items}", "custom-columns=A:.b", "go-template={{.}}"):
            done = run("nodes", "-o", given)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--output json", done.stderr)


if __name__ == "__main__":
    harness.main()
