"""milligpuctl against the real daemon: what an operator types, and what comes back."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import tarfile
import tempfile
import threading
import time

import harness

CTL = harness.BIN / "milligpuctl"
PODS = harness.SOURCE / "demo/pods.yaml"
ESCAPE = "\x1b"
PLUGIN = "kubectl-milligpu"
run = harness.run


class Ctl(harness.Story):
    """One daemon; the demo's pods are played onto it once, before the first test."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ports = cls.daemon.home / "ports"
        cls.played = cls.daemon.ctl("play", PODS, env={"MILLIGPU_SERVER": "127.0.0.1:1"})

    def ask(self, *words, status=0, **more):
        done = self.daemon.ctl(*words, **more)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        self.assertNotIn(ESCAPE, done.stdout + done.stderr)
        return done.stdout

    def refuse(self, *words, status, says):
        done = self.daemon.ctl(*words)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        self.assertTrue(done.stderr.startswith("milligpuctl: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)

    def test_selector__matches_labels_of_the_cluster_file(self):
        def names(*words):
            return self.ask(*words, "-o", "name").split()

        self.assertEqual(names("nodes", "-l", "nvidia.com/gpu.product in (Tesla-T4,L4),!zone"), ["node/t4-0"])
        self.assertEqual(names("nodes", "-l", "nvidia.com/gpu.count>3"), ["node/a100-0", "node/t4-0"])
        self.assertEqual(names("nodes", "-l", "zone"), [])
        top = self.ask("top", "--no-headers", "-l", "nvidia.com/gpu.count=1")
        self.assertEqual({line.split()[0] for line in top.splitlines() if line}, {"vm-0"})
        # For allocations and waiting pods, the labels of pods count.
        self.assertEqual(names("allocations", "-l", "nvidia.com/gpu.product"), [])
        self.assertEqual(len(names("allocations", "-l", "!team")), len(names("allocations")))
        self.assertEqual(names("waiting", "-l", "!team"), ["pod/batch/wants-h100"])
        self.assertEqual(names("waiting", "-l", "team"), [])
        for wrong in ("", "=a", "a in b", "a b"):
            self.refuse("nodes", "-l", wrong, status=2, says=("--selector",))

    def forget(self, *names):
        for name in names:
            self.daemon.admin("DELETE", "/api/v1/standalone/pods/default/" + name)
        self.daemon.wait(lambda: "default" not in self.ask("allocations"), "the pods to be gone")

    def rows(self, *words):
        return [line.split() for line in self.ask(*words).splitlines()]

    def test_play__places_eleven_and_explains_the_twelfth(self):
        self.assertEqual(self.played.returncode, 0, self.played.stderr)
        lines = self.played.stdout.splitlines()
        self.assertEqual(len(lines), 13)
        self.assertEqual(lines[-1], "11 placed, 1 refused")
        self.assertRegex(lines[-2], r"^batch/wants-h100 +refused  3 nodes: no GPU of model H100\*; the nearest are NVIDIA-A100-SXM4-80GB, Tesla-T4$")
        self.assertTrue(all("  placed   " in line for line in lines[:11]), lines)

    def test_top__has_a_line_for_each_gpu_and_adds_up(self):
        text = self.ask("top")
        self.assertNotIn("BAR", text)
        lines = text.splitlines()
        self.assertEqual(len(lines), 1 + 13 + 2)
        used = sum(int(line.split()[3]) for line in lines[1:14])
        summary = self.daemon.get("/api/v1/summary")
        self.assertEqual(used, summary["usedMilli"])
        self.assertIn(f"3 nodes, 13 GPUs: {used} used", lines[-1])
        self.assertIn("1 pod waits", lines[-1])
        self.assertRegex(self.ask("top", "--bars=always", "--node", "vm-0"), r"vm-0 .*[#█]+[.░]+")
        self.assertEqual(len(self.ask("top", "-o", "name").splitlines()), 13)

    def test_lists__apply_their_filters(self):
        def column(at, *words):
            return sorted({line.split()[at] for line in self.ask(*words, "--no-headers").splitlines()})

        everything = json.loads(self.ask("nodes", "-o", "json"))["items"]
        of_a100 = sorted(node["name"] for node in everything if "A100" in node["model"])
        self.assertTrue(0 < len(of_a100) < len(everything))
        self.assertEqual(column(0, "nodes", "--model", "*a100*"), of_a100)
        self.assertEqual(column(0, "top", "--model", "*a100*"), of_a100)
        self.assertEqual(column(0, "top", "--state", "open"), column(0, "top"))
        self.assertEqual(column(0, "nodes", "--state", "closed"), [])
        self.assertEqual(column(0, "waiting", "--model", "H100"), ["batch"])
        self.assertEqual(column(0, "waiting", "-n", "default"), [])
        self.assertEqual(column(0, "allocations", "-n", "batch"), ["batch"])
        held = {(pod["node"], charge["gpu"]) for pod in json.loads(self.ask("allocations", "-n", "batch", "-o", "json"))["items"]
                for charge in pod["charges"]}
        shown = {(node["name"], gpu["id"]) for node in json.loads(self.ask("top", "-n", "batch", "-o", "json"))["items"]
                 for gpu in node["gpus"]}
        self.assertEqual(shown, held)
        self.assertEqual(self.ask("top", "-A"), self.ask("top"))
        done = self.daemon.ctl("nodes", "--model", "V100")
        self.assertEqual((done.returncode, done.stderr), (0, "nothing matches\n"))

    def test_usage__adds_up_to_the_summary(self):
        rows = self.rows("usage", "--no-headers")
        summary = self.daemon.get("/api/v1/summary")
        self.assertEqual(sum(int(row[4]) + int(row[5]) for row in rows),
                         summary["usedMilli"] + summary["reservedMilli"])
        self.assertEqual([row[:2] for row in rows], sorted(row[:2] for row in rows))
        self.assertEqual({row[0] for row in self.rows("usage", "--no-headers", "-n", "research")}, {"research"})
        self.assertIn(f"= {summary['usedMilli']} milli", self.ask("usage"))

    @contextlib.contextmanager
    def watching(self, *words):
        """`top --watch`, interrupted at the end."""
        process = subprocess.Popen([CTL, "top", "--watch", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.said = process.communicate(timeout=harness.PATIENCE)[1]

    def test_top_watch__runs_until_interrupted(self):
        with self.watching("--no-headers", "--port-file", self.ports) as process:
            frames = [process.stdout.readline() for _ in range(14)]
        self.assertEqual(frames[0], frames[13])

    def lines_until(self, process, wanted):
        """Reads a process's lines until one matches."""
        began = time.monotonic()
        for line in process.stdout:
            if re.search(wanted, line):
                return
            self.assertLess(time.monotonic() - began, harness.PATIENCE, f"no {wanted}")
        self.fail("it has ended: " + process.stderr.read())

    def test_top_watch__redraws_on_a_change(self):
        daemon = self.keep(harness.Daemon())
        with self.watching("--server", f"127.0.0.1:{daemon.port['admin']}") as process:
            self.lines_until(process, "13 GPUs: ")
            self.lines_until(process, "13 GPUs: ")  # the stream has begun
            daemon.wait(lambda: "\nmilligpu_streams 1\n" in daemon.metrics(), "its stream")
            for number in range(20):  # a busy machine may miss it now and then
                self.lines_until(process, "13 GPUs: ")
                drawn = time.monotonic()
                used = daemon.get("/api/v1/summary")["usedMilli"] + 300
                self.assertIsNotNone(daemon.schedule(harness.pod(f"seen-at-once-{number}", 300))[0])
                self.lines_until(process, f"13 GPUs: {used} used")
                if time.monotonic() - drawn < 3:
                    break
            else:
                self.fail("a picture is drawn every 5 s only, as if nothing had changed")

    def test_top_watch__polls_without_an_event_stream(self):
        answers = {"/api/v1/nodes": {"items": []}, "/api/v1/summary": {"nodes": 7, "ready": True}}

        def old(path):
            answer = answers.get(path.split("?")[0])
            return 200 if answer else 404, json.dumps(answer or {"detail": "nothing is there"}).encode()

        with self.watching("--server", self.http(old)) as process:
            for _ in range(3):
                self.lines_until(process, "7 nodes")
        self.assertEqual(process.said.count("no stream of events here (HTTP status 404): asking every 2 seconds"), 1, process.said)

    def test_nodes__print_in_every_format(self):
        self.assertEqual([row[0] for row in self.rows("nodes")], ["NAME", "a100-0", "t4-0", "vm-0"])
        self.assertEqual([row[0] for row in self.rows("nodes", "--no-headers", "--sort-by=-FREE")],
                         ["a100-0", "t4-0", "vm-0"])
        self.assertEqual(self.ask("nodes", "-o", "name"), "node/a100-0\nnode/t4-0\nnode/vm-0\n")
        listed = json.loads(self.ask("nodes", "-o", "json"))
        self.assertEqual(listed, self.daemon.get("/api/v1/nodes"))
        import yaml
        self.assertEqual(yaml.safe_load(self.ask("nodes", "-o", "yaml")), listed)
        self.assertIn("UID", self.ask("nodes", "-o", "wide"))

    def test_node__shows_its_holders(self):
        text = self.ask("node", "vm-0")
        self.assertIn("notebook-ada", text)
        self.assertRegex(text, r"vm-0/gpu-0 +NVIDIA-A100-SXM4-80GB +40960 +500 +300")
        self.refuse("node", "vm-9", status=1, says=["vm-9"])

    def test_allocations__are_filtered(self):
        self.assertEqual(len(self.rows("allocations")), 12)
        self.assertEqual(len(self.rows("allocations", "-A", "--no-headers")), 11)
        self.assertEqual({row[0] for row in self.rows("allocations", "-n", "serving", "--no-headers")}, {"serving"})
        self.assertEqual({row[2] for row in self.rows("allocations", "--node", "t4-0", "--no-headers")}, {"t4-0"})
        self.assertEqual(self.ask("allocations", "--state", "reserved"), "")
        self.assertEqual(len(self.ask("allocations", "--state=bound", "-o", "name").splitlines()), 11)
        self.assertIn("pod/research/training\n", self.ask("allocations", "-o", "name"))

    def test_pod__shows_its_place_or_its_reason_to_wait(self):
        placed = self.ask("pod", "research/two-halves")
        self.assertIn("2 x 300 milli", placed)
        self.assertRegex(placed, r"State: +bound since 20")
        self.assertEqual(self.ask("pod", "two-halves", "-n", "research").splitlines()[0], placed.splitlines()[0])
        waiting = self.ask("pod", "batch/wants-h100")
        self.assertRegex(waiting, r"(?m)^ +3 +model +no GPU of model H100\* ")
        self.assertRegex(waiting, r"(?m)^Never: .*no node has a GPU of model H100\*; the nearest are NVIDIA-A100-SXM4-80GB,")
        self.assertNotIn("a100-0 ", waiting)
        waiting = self.ask("pod", "batch/wants-h100", "--verbose")
        for node in ("a100-0", "t4-0", "vm-0"):
            self.assertRegex(waiting, rf"(?m)^{node} +no ")
        self.assertIn("wants-h100", self.ask("waiting"))
        self.refuse("pod", "batch/nobody", status=1, says=["nobody", "batch"])

    def test_history__tells_gpus_from_pods(self):
        pod = json.loads(self.ask("history", "research/training", "-o", "json"))["items"]
        self.assertEqual({row["name"] for row in pod}, {"training"})
        gpu = pod[0]["gpu"]
        for words in (["history", gpu], ["history", "--gpu", gpu], ["history", "a100-0/" + gpu]):
            self.assertIn("training", self.ask(*words))
        self.assertEqual(len(self.rows("history", "training", "-n", "research", "--no-headers")), 2)
        # Held now, but not an hour ago; and a GPU that exists is known even if no pod ever held it.
        self.assertIn("training", self.ask("history", gpu, "--at", "2999-01-01T00:00:00Z"))
        self.assertEqual(self.ask("history", gpu, "--at", "1h"), "")
        free = [g["id"] for n in self.daemon.get("/api/v1/nodes")["items"] for g in n["gpus"] if g["usedMilli"] == 0]
        self.assertEqual(self.ask("history", free[0]), "")
        self.refuse("history", "nobody/knows-it", status=1, says=["no GPU and no pod nobody/knows-it is"])
        self.refuse("history", "nothing", status=1, says=["no GPU and no pod nothing in namespace default is"])
        self.refuse("history", "nothing", "-n", "research", status=1, says=["no pod nothing in namespace research is"])
        self.refuse("history", "research/training", "--gpu", status=1, says=["no GPU research/training is"])
        self.refuse("history", "a100-0/gpu-0", "--pod", status=1, says=["no pod a100-0/gpu-0 is"])
        # A pod's name has no capital letters, so this can only be meant as a GPU.
        self.refuse("history", "GPU-1a2b", status=1, says=["no GPU and no pod GPU-1a2b in namespace default is"])

    def test_history__shows_deleted_pods(self):
        done = self.daemon.ctl("play", "-", input=json.dumps(harness.pod("leaves", 100)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
        time.sleep(1.1)
        self.forget("leaves")
        self.daemon.wait(lambda: "released" in self.ask("history", "default/leaves"), "the release")
        row = json.loads(self.ask("history", "default/leaves", "-o", "json"))["items"][0]
        self.assertEqual(row["milli"], 100)
        self.assertIn("leaves", self.ask("history", row["gpu"], "--at", at))
        self.assertIn("leaves", self.ask("allocations", "--state", "released"))

    def test_summary_drift_doctor__print_their_tables(self):
        text = self.ask("summary")
        self.assertRegex(text, r"Nodes: +3 with 13 GPUs: 3 ok")
        numbers = [int(word) for word in re.search(r"(?m)^Milli: +(.*)$", text)[1].split() if word.isdigit()]
        self.assertEqual(numbers[0], sum(numbers[1:]))
        self.assertEqual(len(numbers), 6)
        self.assertEqual(self.ask("drift"), "")
        doctor = self.ask("doctor")
        self.assertRegex(doctor, r"(?m)^ok +ledger ")
        self.assertNotIn("FAILED", doctor)
        self.assertRegex(doctor, r"(?m)^ok +rights .*grants all 10 needed permissions")
        self.assertRegex(doctor, r"(?m)^ok +signing +allocations are not signed")
        self.assertIn("check/daemon", self.ask("doctor", "-o", "name"))

    def test_backup__is_a_database_or_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "copy.db")
            self.ask("backup", file)
            rows = sqlite3.connect(file).execute("SELECT count(*) FROM allocation WHERE state='bound'").fetchone()
            self.assertGreaterEqual(rows[0], 11)
            before = file.read_bytes()
            self.refuse("backup", file, status=1, says=["copy.db", "--force"])
            self.assertEqual(file.read_bytes(), before)
            self.ask("backup", file, "--force")
            self.refuse("backup", folder + "/no/such/place", status=1, says=["no/such/place"])
            done = run("backup", folder + "/late.db", "--server", "127.0.0.1:1")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(sorted(os.listdir(folder)), ["copy.db"])

    PARTS = ("doctor.json", "summary.json", "nodes.json", "allocations.json", "waiting.json", "drift.json", "policy.json",
             "keys.json", "settings.json", "commands.jsonl", "metrics.txt", "ledger.db")

    def parts_of(self, archive):
        """The content of each file of an archive of diagnostics, by its name."""
        with tarfile.open(archive) as tar:
            self.assertTrue(all(member.isreg() and member.mode == 0o600 for member in tar))
            parts = {member.name: tar.extractfile(member).read() for member in tar}
        self.assertTrue(all(name.startswith("milligpu-diagnostics/") for name in parts))
        return {name.split("/", 1)[1]: content for name, content in parts.items()}

    def test_diagnostics__contain_all_parts_for_a_bug_report(self):
        with tempfile.TemporaryDirectory() as folder:
            archive = pathlib.Path(folder, "d.tar")
            self.assertIn("read it before you send it", self.ask("diagnostics", archive))
            self.assertEqual(archive.stat().st_mode & 0o777, 0o600)
            parts = self.parts_of(archive)
            self.assertEqual(list(parts), ["README.txt", *self.PARTS])
            for name in self.PARTS:
                self.assertIn(name, parts["README.txt"].decode())
            pods = {f"{item['namespace']}/{item['name']}" for item in json.loads(parts["allocations.json"])["items"]}
            self.assertIn("research/training", pods)
            self.assertEqual(len(json.loads(parts["nodes.json"])["items"]), 3)
            self.assertTrue(json.loads(parts["doctor.json"])["checks"])
            lines = [json.loads(line) for line in parts["commands.jsonl"].splitlines()]
            self.assertIn("training", {line.get("name") for line in lines})
            self.assertIn(b"milligpu_ready 1", parts["metrics.txt"])
            copy = pathlib.Path(folder, "ledger.db")
            copy.write_bytes(parts["ledger.db"])
            self.ask("verify", copy)
            self.refuse("diagnostics", archive, status=1, says=["d.tar", "--force"])
            self.ask("diagnostics", archive, "--force", "--without-ledger")
            self.assertEqual(list(self.parts_of(archive)), ["README.txt", *self.PARTS[:-1]])
            self.assertEqual(sorted(os.listdir(folder)), ["d.tar", "ledger.db"])

    def test_diagnostics__name_the_missing_part_and_keep_the_others(self):
        def ill(path):
            bad = path.startswith(("/api/v1/backup", "/api/v1/waiting"))
            return (413, b'{"status":413,"detail":"it is too large"}') if bad else (200, b'{"items":[]}')

        folder = self.scratch()
        done = run("diagnostics", folder / "d.tar", "--server", self.http(ill))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([line.split(":")[1] for line in done.stderr.splitlines()],
                         [" waiting.json is missing", " ledger.db is missing"])
        parts = self.parts_of(folder / "d.tar")
        self.assertIn(b"it is too large", parts["ledger.db.error"])
        self.assertIn(b"it is too large", parts["waiting.json.error"])
        self.assertEqual(json.loads(parts["nodes.json"]), {"items": []})
        done = run("diagnostics", folder / "e.tar", "--server", "127.0.0.1:1", "--without-ledger")
        self.assertEqual(done.returncode, 1)
        self.refuse("diagnostics", folder / "no/d.tar", status=1, says=["no/d.tar"])

    def test_check_config__needs_no_daemon(self):
        with tempfile.TemporaryDirectory() as folder:
            good = pathlib.Path(folder, "good.yaml")
            bad = pathlib.Path(folder, "bad.yaml")
            good.write_text("shortlist: 8\n")
            bad.write_text("shortlist: 8\nshortlst: 9\n")
            done = run("check-config", good, "--server", "127.0.0.1:1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = run("check-config", bad)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            for word in ("bad.yaml", ":2", "shortlst"):
                self.assertIn(word, done.stderr)
            self.assertEqual(run("check-config", folder + "/none.yaml").returncode, 1)
            good.write_text("policy: bestfit\n")
            self.assertIn('policy: there is no policy "bestfit"; there are', run("check-config", good).stderr)
            for policy in ("mixed", "fgd", "/where/milligpud/runs.yaml"):
                good.write_text(f"policy: {policy}\n")
                self.assertEqual(run("check-config", good).returncode, 0)

    def test_wrong_input__is_refused_by_each_command(self):
        for words, says in (
                (["top", "x"], ["top"]), (["top", "--bars=some"], ["--bars", "always"]),
                (["nodes", "--sort-by", "COLOUR"], ["COLOUR", "NAME"]), (["nodes", "-o", "xml"], ["xml", "yaml"]),
                (["node"], ["NODE"]), (["node", ""], ["no name of a node"]),
                (["node", "node/t4-0"], ["node/t4-0 is no name of a node"]), (["node", "T4-0"], ["T4-0 is no name of a node"]),
                (["allocations", "--state", "gone"], ["gone", "bound"]), (["allocations", "-A", "-n", "x"], ["-"]),
                (["nodes", "--state", "bound"], ["--state", "open, closed"]), (["top", "--model", "a,,b"], ["--model", "empty"]),
                (["waiting", "--state", "ok"], ["refused, offered"]), (["top", "-A", "-n", "x"], ["contradict"]),
                (["pod"], ["POD"]), (["pod", "a/b/c"], ["a/b/c"]), (["pod", "a/b", "-n", "c"], ["a/b"]),
                (["history"], ["GPU|POD"]), (["history", "x", "--at", "noon"], ["noon", "--at"]),
                (["history", "x", "--gpu", "--pod"], ["--gpu"]), (["history", ""], ["empty"]),
                (["summary", "x"], ["summary"]), (["drift", "--state", "x"], ["--state"]),
                (["waiting", "x"], ["waiting"]), (["doctor", "--watch"], ["--watch"]),
                (["backup"], ["FILE"]), (["backup", ""], ["empty"]), (["diagnostics", ""], ["empty"]),
                (["check-config"], ["FILE"]), (["play"], ["FILE"]), (["tpo"], ["top"])):
            with self.subTest(words):
                self.refuse(*words, status=2, says=says)

    def test_invalid_manifest__is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, says in (("half.json", '{"kind":"Pod"', "half.json"), ("tab.yaml", "a:\n\tb: 1\n", "line"),
                                     ("service.yaml", "kind: Service\nmetadata: {name: web}\n", "no Pod"),
                                     ("deployment.yaml", "kind: Deployment\nmetadata: {name: web}\n", "spec.template"),
                                     ("empty.yaml", "", "no Pod")):
                with self.subTest(name):
                    file = pathlib.Path(folder, name)
                    file.write_text(text)
                    done = self.daemon.ctl("play", file)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(says, done.stderr)
            self.assertIn("web", self.daemon.ctl("play", folder + "/service.yaml").stderr)
            self.refuse("play", folder + "/none.yaml", status=1, says=["none.yaml"])

    def test_play__continues_after_an_error_and_reports_it(self):
        twice = "\n---\n".join(json.dumps(harness.pod(name, 100)) for name in ("again", "again", "after"))
        done = self.daemon.ctl("play", "-", "-o", "json", input=twice)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([item["outcome"] for item in json.loads(done.stdout)["items"]],
                         ["placed", "failed", "placed"])
        done = self.daemon.ctl("play", "-", input=json.dumps(harness.pod("plain", None)))
        self.assertEqual(done.returncode, 0)
        self.assertIn("skipped", done.stdout)
        done = self.daemon.ctl("play", "-", "--webhook", "127.0.0.1:1",
                   input=json.dumps(harness.pod("lost", 100)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:1", done.stdout)
        self.forget("again", "after", "plain", "lost")

    def test_impossible_request__gets_advice(self):
        done = self.daemon.ctl("play", "-", input=json.dumps(harness.pod("odd", 1500)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"default/odd +refused .*1000 or 2000")
        self.forget("odd")

    def test_server_address__comes_from_environment_or_flag(self):
        address = f"127.0.0.1:{self.daemon.port['admin']}"
        self.assertEqual(run("nodes", env={"MILLIGPU_SERVER": address}).returncode, 0)
        self.assertEqual(run("nodes", "--server", f"http://{address}/", env={"MILLIGPU_SERVER": "127.0.0.1:1"}
                             ).returncode, 0)
        # The webhook listener answers, but nothing that milligpuctl understands.
        done = run("nodes", "--server", f"127.0.0.1:{self.daemon.port['webhook']}")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)

    def on_a_terminal(self, *words, env=None):
        master, slave = harness.terminal(self)
        text = b""
        process = subprocess.Popen([CTL, *words, "--port-file", self.ports], stdout=slave,
                                   env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", **(env or {})})
        os.close(slave)
        try:
            while chunk := os.read(master, 65536):
                text += chunk
        except OSError:
            pass  # a terminal reports an error once its other side is closed
        os.close(master)
        self.assertEqual(process.wait(harness.PATIENCE), 0)
        return text.decode()

    def test_colours__appear_only_on_a_terminal(self):
        seen = self.on_a_terminal("top")
        self.assertIn("█", seen)
        self.assertIn(ESCAPE, seen)
        plain = self.on_a_terminal("top", env={"NO_COLOR": "1"})
        self.assertIn("█", plain)
        self.assertNotIn(ESCAPE, plain)
        self.assertIn(ESCAPE, self.on_a_terminal("doctor"))
        self.assertNotIn("#", self.on_a_terminal("top", "--bars=never"))

    def test_failed_output__is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([CTL, "nodes", "--port-file", self.ports], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


class Pages(harness.Case):
    def test_lists__are_followed_to_the_last_page(self):
        cluster = json.loads(harness.DEMO.read_text())
        model = cluster["items"][2]
        for i in range(1500):
            node = json.loads(json.dumps(model))
            node["metadata"].update(name=f"n{i:04}", uid=f"uid-{i}")
            cluster["items"].append(node)
        daemon = self.keep(harness.Daemon(cluster))
        done = run("nodes", "-o", "name", "--server", f"127.0.0.1:{daemon.port['admin']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = done.stdout.splitlines()
        self.assertEqual(len(names), 1503)
        self.assertEqual(names, sorted(set(names)))


class Plugin(harness.Case):
    """`kubectl milligpu` with a kubectl that forwards to the real daemon."""

    def setUp(self):
        self.folder = self.scratch()
        self.env = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.daemon = self.keep(harness.Daemon())

    def plugin(self, *words, status=0):
        done = run(*words, env=self.env, program=PLUGIN)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def forwards(self, script):
        """A kubectl that forwards a port to a daemon, and does this otherwise."""
        self.kubectl(f'case "$*" in *port-forward*) echo "Forwarding from 127.0.0.1:{self.daemon.port["admin"]} -> 8911"\n'
                     f"exec sleep 100;; esac\n{script}\n")

    def kubectl(self, script):
        file = self.folder / "kubectl"
        file.write_text("#!/bin/sh\n" + script)
        file.chmod(0o755)

    def test_plugin__forwards_a_port_and_closes_it(self):
        said = self.folder / "said"
        self.kubectl(f'echo "$$ $*" > {said}\necho "Forwarding from 127.0.0.1:{self.daemon.port["admin"]} -> 8911"\n'
                     "exec sleep 100\n")
        done = run("nodes", "-o", "name", "--context", "c1", "--milligpu-namespace", "gpus", env=self.env,
                   program=PLUGIN)
        self.assertEqual(done.stdout, "node/a100-0\nnode/t4-0\nnode/vm-0\n", done.stderr)
        pid, arguments = said.read_text().split(" ", 1)
        self.assertEqual(arguments.strip(), "--context c1 --namespace gpus port-forward statefulset/milligpu :8911")
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pid), 0)

    def test_plugin__reports_a_kubectl_failure(self):
        self.kubectl('echo "error: no such namespace" >&2\nexit 1\n')
        done = self.plugin("nodes", status=1)
        self.assertIn("no such namespace", done.stderr)
        self.assertIn("port-forward", done.stderr)

    def test_plugin__selects_nodes_by_label(self):
        said = self.folder / "said"
        self.forwards(f'printf "%s\\n" "$*" > {said}\n'
                      'case "$*" in *"get pods"*) echo research/two-halves; echo batch/wants-h100;; *) echo t4-0; echo other;; esac')

        def ask(*words):
            return self.plugin(*words).stdout

        self.assertEqual(ask("nodes", "-o", "name", "-l", "zone in (a,b),!old", "--context", "c1"), "node/t4-0\n")
        self.assertEqual(said.read_text().strip(), "--context c1 get nodes --output=jsonpath={range .items[*]}"
                         '{.metadata.name}{"\\n"}{end} --selector=zone in (a,b),!old')
        self.assertEqual({line.split()[0] for line in ask("top", "--no-headers", "-l", "zone=a").splitlines()}, {"t4-0"})
        self.assertEqual(ask("top", "--no-headers", "-l", "zone=a", "--node", "a100-0"), "")
        # In lists of pods the labels are those of pods.
        self.assertEqual(ask("allocations", "-o", "name", "-l", "app=a"), "")
        self.assertIn("get pods --all-namespaces", said.read_text())

    def test_plugin__reports_a_refused_or_unanswered_selector(self):
        self.forwards('echo "error: bad selector" >&2\nexit 1')
        done = self.plugin("nodes", "-l", "=", status=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("bad selector", done.stderr)
        self.assertIn("kubectl failed; its message is above", done.stderr)
        # A server that is named may be another cluster than kubectl's; this one is standalone and knows labels itself.
        done = run("nodes", "-o", "name", "-l", "nvidia.com/gpu.product=Tesla-T4", "--server",
                   f"127.0.0.1:{self.daemon.port['admin']}", env=self.env, program=PLUGIN)
        self.assertEqual((done.returncode, done.stdout), (0, "node/t4-0\n"), done.stderr)

    def test_plugin__takes_the_namespace_of_the_context(self):
        for namespace in ("team-a", "default"):
            self.assertIsNotNone(self.daemon.schedule(harness.pod("r1", 300, namespace=namespace))[0])
        said = self.folder / "said"

        def kubectl(namespace):
            self.forwards(f'echo "$*" >> {said}\n{namespace}')
            said.write_text("")

        def pod(*words, status=0):
            done = self.plugin(*words, "-o", "name", status=status)
            return done.stdout, done.stderr

        kubectl("printf team-a")
        self.assertEqual(pod("pod", "r1", "--context", "c1", "--kubeconfig", "f")[0], "pod/team-a/r1\n")
        self.assertEqual(said.read_text(), "--context c1 --kubeconfig f config view --minify "
                                           "--output=jsonpath={.contexts[0].context.namespace}\n")
        self.assertEqual(pod("history", "r1")[0], "pod/team-a/r1\n")
        self.assertEqual(pod("history", "r1", "--pod")[0], "pod/team-a/r1\n")
        # The flag overrides the context's namespace.
        said.write_text("")
        self.assertEqual(pod("pod", "r1", "-n", "default")[0], "pod/default/r1\n")
        self.assertEqual(pod("pod", "default/r1")[0], "pod/default/r1\n")
        self.assertEqual(said.read_text(), "")
        kubectl("true")  # a context that has none
        self.assertEqual(pod("pod", "r1")[0], "pod/default/r1\n")
        kubectl("echo no context >&2; exit 1")
        out, err = pod("pod", "r1")
        self.assertEqual(out, "pod/default/r1\n")
        self.assertIn("the namespace of the context is not known", err)
        # milligpuctl by its own name knows no contexts.
        said.write_text("")
        self.assertEqual(run("pod", "r1", "-o", "name", "--server", f"127.0.0.1:{self.daemon.port['admin']}", env=self.env).stdout,
                         "pod/default/r1\n")
        self.assertEqual(said.read_text(), "")

    def test_plugin__needs_no_kubectl_with_a_server_flag(self):
        self.kubectl("echo called >&2; exit 1\n")
        done = run("nodes", "--server", "127.0.0.1:1", env=self.env, program=PLUGIN)
        self.assertNotIn("called", done.stderr)


def http(body, status="200 OK"):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


class OddServers(harness.Case):
    """A server that is not milligpud must not be taken for one, nor make milligpuctl wait for ever."""

    def answer(self, bytes_, *words):
        listener = self.keep(socket.create_server(("127.0.0.1", 0)))

        def serve():
            try:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(bytes_)
            except OSError:
                pass  # the client closed first

        thread = threading.Thread(target=serve)
        thread.start()
        done = run(*(words or ("nodes",)), "--server", f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join(20)
        return done

    def test_odd_server__keeps_advice_about_a_whole_list(self):
        page = http('{"items":[],"overflow":true}')
        self.assertIs(json.loads(self.answer(page, "waiting", "-o", "json").stdout)["overflow"], True)
        self.assertIn("More pods wait", self.answer(page, "waiting").stderr)

    def test_odd_server__is_reported_in_one_sentence(self):
        for bytes_ in (b"", b"garbage\r\n\r\n", http("<html>"), http("{}"), http("[]"), http('{"items":3}'),
                       http("oops", "500 Oops"), http('{"detail":"not now"}', "503 Busy"),
                       b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", http("", "301 Moved")):
            with self.subTest(bytes_[:40]):
                done = self.answer(bytes_)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertTrue(re.match("milligpuctl: .", done.stderr))


if __name__ == "__main__":
    harness.main()
