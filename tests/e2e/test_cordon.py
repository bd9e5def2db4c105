"""milligpuctl cordon, uncordon and history NODE/INDEX, with a kubectl that records its arguments."""

import json
import os

import harness
from test_ctl import run

NODE = "a100-0"
UID = "5b0c2f4e-0d6a-4a53-9f0e-a10000000000"

# It keeps the annotation in a file, as the API server would, and each of its words on a line of its own.
KUBECTL = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
for word; do echo "$word"; done > said.new
case " $* " in
*" get "*)
    mv said.new got
    [ -e flood ] && exec yes
    [ -e lingers ] && { echo $$ > pid; exec >&-; exec sleep 100; }
    [ -e broken ] && { echo "Error from server (Forbidden)" >&2; exit 1; }
    printf '%s\\n%s\\n' "$(cat uid)" "4711$(tr -d '\n' < versions)"
    [ ! -e value ] || cat value
    ;;
*" annotate "*)
    mv said.new said
    echo "$*" >> tries
    [ ! -s conflicts ] || { sed -i 1d conflicts; echo 1 >> versions; [ ! -e other ] || mv other value; echo "(Conflict)" >&2; exit 1; }
    [ ! -e forbidden ] || { echo "Error from server (Forbidden)" >&2; exit 1; }
    for word; do case "$word" in milligpu.io/cordon=*) printf %s "${word#*=}" > value ;; milligpu.io/cordon-) rm -f value ;; esac; done
    echo "node/x annotated"
    ;;
esac
"""


class Cordon(harness.Story):
    def setUp(self):
        self.folder = self.scratch()
        (self.folder / "kubectl").write_text(KUBECTL)
        (self.folder / "kubectl").chmod(0o755)
        (self.folder / "uid").write_text(UID)
        (self.folder / "versions").touch()
        self.env = {"PATH": f"{self.folder}:{os.environ['PATH']}"}

    def ctl(self, *words, status=0, env=None):
        done = run("--port-file", self.daemon.home / "ports", *words, env=env or self.env)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        return done

    def value(self):
        file = self.folder / "value"
        return file.read_text() if file.exists() else None

    def said(self):
        return (self.folder / "said").read_text().splitlines()

    def gpus(self):
        return [gpu["id"] for gpu in self.daemon.get("/api/v1/nodes/" + NODE)["gpus"]]

    def test_node__is_cordoned_and_uncordoned_whole(self):
        done = self.ctl("cordon", NODE)
        self.assertEqual(done.stdout, f"node/{NODE} cordoned: all\n")
        # In a cluster nothing is said: see InACluster.
        self.assertIn("milligpud is standalone: kubectl changes the cluster itself", done.stderr)
        self.assertEqual(self.said(), ["annotate", "node", NODE, "milligpu.io/cordon=all", "--overwrite",
                                       "--resource-version=4711"])
        self.assertEqual(self.ctl("cordon", NODE, "0").stdout, f"node/{NODE} already cordoned: all\n")
        self.assertEqual(self.ctl("uncordon", NODE).stdout, f"node/{NODE} uncordoned\n")
        self.assertEqual(self.said()[3], "milligpu.io/cordon-")
        self.assertIsNone(self.value())
        self.assertEqual(self.ctl("uncordon", NODE).stdout, f"node/{NODE} already uncordoned\n")

    def test_gpus__are_cordoned_and_uncordoned_one_by_one(self):
        gpu = self.gpus()
        self.ctl("cordon", NODE, "1")
        self.assertEqual(self.value(), gpu[1])
        self.assertEqual(self.ctl("uncordon", NODE, "0").stdout, f"node/{NODE} unchanged, cordoned: {gpu[1]}\n")
        # The annotation that kubectl shows counts, not milligpud's view: no entry is lost.
        (self.folder / "value").write_text(f"{gpu[1]}, GPU-away")
        self.ctl("cordon", NODE, "0", gpu[2])
        self.assertEqual(self.value(), f"{gpu[1]},GPU-away,{gpu[0]},{gpu[2]}")
        self.ctl("uncordon", NODE, gpu[1], "2", "0")
        self.assertEqual(self.value(), "GPU-away")
        (self.folder / "value").write_text("all")
        self.ctl("uncordon", NODE, "0")
        self.assertEqual(self.value(), ",".join(gpu[1:]))

    def test_kubectl__gets_the_context_and_kubeconfig(self):
        self.ctl("cordon", NODE, "--context", "c1", "--kubeconfig", "/k/f")
        for file in ("got", "said"):
            words = (self.folder / file).read_text().splitlines()
            self.assertEqual(words[:4], ["--context", "c1", "--kubeconfig", "/k/f"])
        self.assertEqual((self.folder / "got").read_text().splitlines()[4:7], ["get", "node", NODE])

    def test_dry_run__prints_the_command_and_changes_nothing(self):
        done = self.ctl("cordon", NODE, "0", "--dry-run", "--context", "my c")
        self.assertEqual(done.stdout, f"kubectl --context 'my c' annotate node {NODE} "
                                      f"milligpu.io/cordon={self.gpus()[0]} --overwrite\n")
        self.assertEqual(done.stderr, "")
        self.assertIsNone(self.value())
        self.assertFalse((self.folder / "said").exists())

    def test_missing_kubectl__prints_the_command_and_exits_1(self):
        env = {"PATH": str(self.folder / "empty")}
        done = self.ctl("cordon", NODE, "0", status=1, env=env)
        self.assertEqual(done.stdout, f"kubectl annotate node {NODE} milligpu.io/cordon={self.gpus()[0]} --overwrite\n")
        self.assertIn("there is no kubectl in PATH", done.stderr)
        self.assertEqual(self.ctl("uncordon", NODE, "--dry-run", env=env).stdout,
                         f"kubectl annotate node {NODE} milligpu.io/cordon- --overwrite\n")

    def test_failing_kubectl__changes_nothing(self):
        (self.folder / "broken").touch()
        done = self.ctl("cordon", NODE, status=1)
        # kubectl's words about a cluster that is not there would help nobody.
        self.assertEqual(done.stderr, f"milligpuctl: milligpud is standalone, and kubectl failed to show Node {NODE}: write "
                                      "the annotation milligpu.io/cordon to the Node in the cluster file, and start milligpud "
                                      "again\n")
        (self.folder / "broken").unlink()
        (self.folder / "uid").write_text("another")
        self.assertIn("different clusters", self.ctl("cordon", NODE, status=1).stderr)
        (self.folder / "uid").write_text(UID)
        (self.folder / "value").write_text("what is this")
        self.assertIn("no GPU: what is this", self.ctl("cordon", NODE, "0", status=1).stderr)
        self.assertFalse((self.folder / "said").exists())

    def conflicts(self, times):
        """So many times, somebody else writes to the Node after it was read."""
        (self.folder / "conflicts").write_text("x\n" * times)
        (self.folder / "tries").unlink(missing_ok=True)

    def tries(self):
        """The versions that were written in turn."""
        return [line.rpartition("=")[2] for line in (self.folder / "tries").read_text().splitlines()]

    def test_conflict__reads_the_node_again(self):
        """kubelet does so every few seconds. What was written meanwhile stays."""
        first, second = self.gpus()[:2]
        self.conflicts(2)
        (self.folder / "other").write_text(second)
        done = self.ctl("cordon", NODE, "0")
        self.assertEqual(self.tries(), ["4711", "47111", "471111"])
        self.assertEqual(self.value(), f"{second},{first}")
        self.assertNotIn("Conflict", done.stderr)
        self.assertEqual(done.stderr.count("milligpud is standalone"), 1)
        self.conflicts(5)
        self.ctl("uncordon", NODE)
        self.assertEqual(len(self.tries()), 6)
        self.assertIsNone(self.value())

    def test_conflict__gives_up_after_repeated_conflicts(self):
        self.conflicts(100)
        done = self.ctl("cordon", NODE, status=1)
        self.assertEqual(len(self.tries()), 6)
        self.assertTrue(done.stderr.endswith("\n(Conflict)\nmilligpuctl: kubectl failed; its message is above\n"), done.stderr)
        self.assertEqual(done.stderr.count("Conflict"), 1)
        self.assertIsNone(self.value())

    def test_cordon__skips_a_write_already_made(self):
        self.conflicts(1)
        (self.folder / "other").write_text("all")
        self.assertIn("already cordoned: all", self.ctl("cordon", NODE).stdout)
        self.assertEqual(len(self.tries()), 1)

    def test_refused_write__is_reported_once(self):
        (self.folder / "forbidden").touch()
        done = self.ctl("cordon", NODE, status=1)
        self.assertEqual(done.stderr.count("Error from server (Forbidden)\n"), 1)
        self.assertTrue(done.stderr.endswith("milligpuctl: kubectl failed; its message is above\n"), done.stderr)
        self.assertIsNone(self.value())

    def test_hanging_kubectl__is_killed(self):
        (self.folder / "flood").touch()
        self.assertIn("more than 65536 bytes", self.ctl("cordon", NODE, status=1).stderr)
        (self.folder / "flood").unlink()
        (self.folder / "lingers").touch()
        self.assertIn("kubectl failed", self.ctl("cordon", NODE, status=1).stderr)
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text()), 0)
        self.assertFalse((self.folder / "said").exists())

    def test_unknown_gpu_or_node__never_reaches_kubectl(self):
        for words, status, says in ((["cordon", NODE, "99"], 1, "it has 0 ("), (["uncordon", NODE, "GPU-x"], 1, "it has 0 ("),
                                    (["cordon", NODE, "--", "-1"], 1, "has no GPU -1"), (["cordon", NODE, "all"], 1, "the whole node is meant"),
                                    (["cordon", NODE, ""], 1, "the name of a GPU is empty"),
                                    (["cordon", "nobody"], 1, "nobody"), (["cordon"], 2, "NODE"), (["cordon", ""], 2, "no name of a node"),
                                    (["cordon", "--", "--all"], 2, "no name of a node"), (["cordon", "--", "-l"], 2, "no name of a node"),
                                    (["cordon", "a;b"], 2, "no name of a node"), (["cordon", NODE, "--force"], 2, "--force")):
            with self.subTest(words):
                self.assertIn(says, self.ctl(*words, status=status).stderr)
        self.assertFalse((self.folder / "got").exists())

    def test_history__takes_the_current_index_of_a_gpu(self):
        made = self.daemon.create(harness.pod("held", 1000))
        self.assertEqual(self.daemon.bind(made, NODE), "")
        gpu = self.daemon.view("held")["allocation"]["charges"][0]["gpu"]
        index = self.gpus().index(gpu)
        done = self.ctl("history", f"{NODE}/{index}")
        self.assertIn("held", done.stdout)
        self.assertEqual(done.stderr, f"milligpuctl: GPU {index} of node {NODE} is {gpu} now\n")
        shown = json.loads(self.ctl("history", f"{NODE}/{index}", "-o", "json").stdout)["items"]
        self.assertEqual({row["gpu"] for row in shown}, {gpu})
        self.assertIn("it has 0 (", self.ctl("history", f"{NODE}/99", status=1).stderr)
        # A pod may have a number for a name, and an index nothing to do with --pod.
        self.assertIn("no GPU and no pod", self.ctl("history", "nobody/0", status=1).stderr)
        self.assertNotIn("now", self.ctl("history", f"{NODE}/{index}", "--pod", status=1).stderr.replace("known, now", ""))


# kubectl as far as it matters here: it reads from the API server, and writes only the version in its arguments.
PATCHES = """#!/usr/bin/env python3
import json, pathlib, sys, urllib.request
words = sys.argv[1:]
url = pathlib.Path(__file__).with_name("url").read_text() + "/api/v1/nodes/" + words[2]
if words[0] == "get":
    meta = json.load(urllib.request.urlopen(url))["metadata"]
    print(meta["uid"], meta["resourceVersion"], meta.get("annotations", {}).get("milligpu.io/cordon", ""), sep="\\n", end="")
else:
    key, _, value = words[3].partition("=")
    meta = {"annotations": {key.removesuffix("-"): value or None}}
    meta["resourceVersion"] = words[5].partition("=")[2]
    urllib.request.urlopen(urllib.request.Request(url, json.dumps({"metadata": meta}).encode(), method="PATCH",
                                                  headers={"Content-Type": "application/merge-patch+json"}))
"""


class InACluster(harness.Case):
    def test_cordon__round_trips_through_kubectl_and_milligpud(self):
        api, daemon = self.pair()
        (daemon.home / "kubectl").write_text(PATCHES)
        (daemon.home / "kubectl").chmod(0o755)
        (daemon.home / "url").write_text(api.url)
        env = {"PATH": f"{daemon.home}:{os.environ['PATH']}"}

        def cordoned():
            return [gpu["index"] for gpu in daemon.get("/api/v1/nodes/" + NODE)["gpus"] if gpu["cordoned"]]

        # One after the other, without waiting for milligpud in between.
        for words, left in ((("cordon", "0"), [0]), (("cordon", "3"), [0, 3]), (("cordon", "5", "3"), [0, 3, 5]),
                            (("uncordon", "3"), [0, 5]), (("cordon",), list(range(8))),
                            (("uncordon", "2"), [0, 1, 3, 4, 5, 6, 7]), (("uncordon",), [])):
            done = run(words[0], NODE, *words[1:], "--port-file", daemon.home / "ports", env=env)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            if len(left) != 1:
                daemon.wait(lambda: cordoned() == left, f"{words}: {left}")
        # In a cluster kubectl's own words count.
        (daemon.home / "kubectl").write_text("#!/bin/sh\necho 'Error from server (Forbidden)' >&2\nexit 1\n")
        done = run("cordon", NODE, "--port-file", daemon.home / "ports", env=env)
        self.assertEqual((done.returncode, done.stderr), (1, "Error from server (Forbidden)\nmilligpuctl: kubectl failed; its "
                                                             "message is above\n"))


if __name__ == "__main__":
    harness.main()
