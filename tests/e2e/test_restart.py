"""What survives kill -9, a restart, a lost ledger, and a ledger that is not ours."""

import json
import pathlib
import sqlite3
import tempfile

import harness


def bound_pod(name, milli, node, note=None):
    made = harness.pod(name, milli, uid="uid-" + name)
    made["spec"]["nodeName"] = node
    made["status"] = {"phase": "Running", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}
    if note is not None:
        made["metadata"]["annotations"] = {"milligpu.io/allocation": note}
    return made


def cluster_with(*pods):
    cluster = json.loads(harness.DEMO.read_text())
    cluster["items"] += pods
    return cluster


class Restart(harness.Case):
    def open(self, *args, **kwargs):
        return self.keep(harness.Daemon(*args, **kwargs))

    def test_file_pod__is_believed_by_its_annotation(self):
        note = '{"v":1,"containers":{"c":[{"gpu":"a100-0/gpu-5","index":5,"milli":300,"mib":24576}]}}'
        daemon = self.open(cluster_with(bound_pod("runs", 300, "a100-0", note)))
        allocation = daemon.get("/api/v1/pods/default/runs")["allocation"]
        self.assertEqual(allocation["charges"][0]["gpu"], "a100-0/gpu-5")
        self.assertFalse(allocation["presumed"])

    def test_forged_annotations__are_not_believed(self):
        notes = {
            "negative": '{"v":1,"containers":{"c":[{"gpu":"a100-0/gpu-1","index":1,"milli":-300,"mib":1}]}}',
            "too-much": '{"v":1,"containers":{"c":[{"gpu":"a100-0/gpu-1","index":1,"milli":900,"mib":1}]}}',
            "other-container": '{"v":1,"containers":{"x":[{"gpu":"a100-0/gpu-1","index":1,"milli":300,"mib":1}]}}',
            "broken": '{"v":1,"containers":',
            "version": '{"v":99,"containers":{}}',
        }
        daemon = self.open(cluster_with(*[bound_pod(name, 300, "a100-0", note) for name, note in notes.items()]))
        for name in notes:
            with self.subTest(name):
                self.assertTrue(daemon.get("/api/v1/pods/default/" + name)["allocation"]["presumed"])
        self.assertIn("adopted", [drift["kind"] for drift in daemon.get("/api/v1/drift")["items"]])

    def test_overlapping_annotations__never_hide_an_overcommit(self):
        note = '{"v":1,"containers":{"c":[{"gpu":"vm-0/gpu-0","index":0,"milli":400,"mib":32768}]}}'
        daemon = self.open(cluster_with(bound_pod("one", 400, "vm-0", note), bound_pod("two", 400, "vm-0", note)))
        gpu = daemon.get("/api/v1/nodes/vm-0")["gpus"][0]
        self.assertEqual(gpu["usedMilli"], 800)
        self.assertEqual(gpu["state"], "over")
        made = daemon.create(harness.pod("more", 100))
        self.assertIn("vm-0", daemon.filter(made, ["vm-0"])["FailedAndUnresolvableNodes"])

    def test_refusal__after_a_restart_needs_no_ledger_change(self):
        note = '{"v":1,"containers":{"c":[{"gpu":"vm-0/gpu-0","index":0,"milli":400,"mib":32768}]}}'
        daemon = self.open(cluster_with(bound_pod("one", 400, "vm-0", note)), ledger="ledger.db")
        daemon.kill()
        daemon.start()
        made = daemon.create(harness.pod("more", 300))
        for _ in range(2):
            self.assertIn("vm-0", daemon.filter(made, ["vm-0"])["FailedAndUnresolvableNodes"])

    def test_ledger__is_opened_by_one_daemon_only(self):
        daemon = self.open(ledger="ledger.db")
        second = harness.run("--standalone", harness.DEMO, "--ledger", daemon.home / "ledger.db", *harness.ANY_PORTS,
                             program="milligpud")
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("ledger.db", second.stderr)


class WrongFiles(harness.Case):
    def refuse(self, *flags):
        result = harness.run(*flags, program="milligpud")
        self.assertNotEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_cluster_file__is_refused_by_name_when_invalid(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("half.json", harness.DEMO.read_text()[:700]), ("scalar.json", "17"),
                               ("words.yaml", "hello"), ("empty.json", "")):
                with self.subTest(name):
                    file = pathlib.Path(folder, name)
                    file.write_text(text)
                    self.assertIn(name, self.refuse("--standalone", str(file)))
            self.assertIn("missing.json", self.refuse("--standalone", folder + "/missing.json"))

    def test_foreign_file__is_refused_as_ledger_and_untouched(self):
        with tempfile.TemporaryDirectory() as folder:
            foreign = pathlib.Path(folder, "other.db")
            connection = sqlite3.connect(foreign)
            connection.execute("CREATE TABLE t(x)")
            connection.commit()
            connection.close()
            before = foreign.read_bytes()
            start = ("--standalone", harness.DEMO, *harness.ANY_PORTS, "--ledger")
            self.assertIn("other.db", self.refuse(*start, foreign))
            self.assertEqual(foreign.read_bytes(), before)
            garbage = pathlib.Path(folder, "garbage.db")
            garbage.write_bytes(b"this is no database at all, not even nearly" * 100)
            self.assertIn("garbage.db", self.refuse(*start, garbage))

    def test_webhooks__beyond_loopback_need_a_client_ca(self):
        said = self.refuse("--standalone", str(harness.DEMO), "--webhook-listen", "0.0.0.0:0")
        self.assertIn("webhook_client_ca", said)


RELEASED = pathlib.Path(__file__).resolve().parent.parent / "released"
KUBE_SYSTEM = "GET /api/v1/namespaces/kube-system"


def lay(ledger, form="5", owner="uid-of-kube-system"):
    """A released ledger, of the cluster uid-of-kube-system if nothing else is said."""
    for suffix in ("", "-wal"):
        source, target = RELEASED / f"{form}.db{suffix}", ledger.with_name(ledger.name + suffix)
        target.unlink(missing_ok=True)
        if source.exists():
            target.write_bytes(source.read_bytes())
    if owner != "uid-of-kube-system":
        connection = sqlite3.connect(ledger)
        connection.execute("UPDATE meta SET cluster = ?", (owner,))
        connection.commit()
        connection.close()


class OlderDaemon(harness.ClusterDaemon):
    """It begins with a ledger of an older version."""

    def __init__(self, api, form, owner):
        self.older = (form, owner)
        super().__init__(api)

    def prepare(self, flags, ledger=None, env=None):
        super().prepare(flags, ledger, env)
        lay(self.home / ledger, *self.older)


class OlderLedger(harness.Case):
    """A ledger of an older version is migrated only for its own cluster, which the API server names."""

    def setUp(self):
        self.home = self.scratch()
        (self.home / "ledger").mkdir()
        self.ledger = self.home / "ledger" / "ledger.db"

    def serve(self):
        api = self.keep(harness.Api())
        return api, api.request("GET", "/api/v1/namespaces/kube-system")[1]["metadata"]["uid"]

    def cluster(self, url):
        config = self.home / "kubeconfig"
        config.write_text(json.dumps(harness.kubeconfig(url)))
        return ["--kubeconfig", str(config)]

    def files(self):
        """Without the lock, which is made before anything is looked at."""
        return {file.name: file.read_bytes() for file in self.ledger.parent.iterdir() if file.suffix != ".lock"}

    def refuse(self, source, *words):
        before = self.files()
        result = harness.run(*source, "--ledger", self.ledger, *harness.ANY_PORTS, program="milligpud")
        self.assertEqual(result.returncode, 1, result.stderr)
        sentence = result.stderr.splitlines()[-1]
        for word in ("milligpud: not migrated from version", str(self.ledger), "uid-of-kube-system", *words):
            self.assertIn(word, sentence)
        self.assertEqual(self.files(), before)

    def migrates(self, daemon, version):
        self.assertIn(f"migrated from version {version}", daemon.logged())
        self.assertEqual(len(list(daemon.home.glob(f"ledger.db.v{version}-*"))), 1, "a copy of before")

    def test_older_ledger__of_another_cluster_stays_byte_for_byte(self):
        api, uid = self.serve()
        for form in ("1", "1-killed", "5", "5-killed"):
            with self.subTest(form):
                lay(self.ledger, form)
                self.refuse(self.cluster(api.url), f"version {form[0]}:", "the ledger of another cluster", uid, "name another file")
        self.assertEqual(api.seen(KUBE_SYSTEM), 4, "one request for each start")

    def test_older_ledger__without_an_answer_stays_byte_for_byte(self):
        lay(self.ledger)
        again = "start milligpud again when the API server answers"
        for kind, number, words in (("status", 403, ("HTTP 403", "allow milligpud to get the namespace kube-system")),
                                    ("status", 503, ("HTTP 503", again)), ("refuse", 0, (again,)), ("silent", 0, (again,))):
            with self.subTest(f"{kind} {number}"):
                api, _ = self.serve()
                api.fault(KUBE_SYSTEM, kind, number=number, times=9)
                self.refuse(self.cluster(api.url), f"GET {api.url}/api/v1/namespaces/kube-system: ", *words)
        self.refuse(self.cluster("http://127.0.0.1:1"), again)

    def test_older_ledger__of_this_cluster_is_migrated_after_one_request(self):
        api, uid = self.serve()
        daemon = self.keep(OlderDaemon(api, "5", uid))
        self.migrates(daemon, 5)
        self.assertEqual(api.seen(KUBE_SYSTEM), 2, "before the migration, and as always")
        daemon.kill()
        daemon.start()
        self.assertEqual(api.seen(KUBE_SYSTEM), 3, "the present version needs no question")

    def test_older_ledger__without_an_owner_is_migrated_unasked(self):
        api, _ = self.serve()
        daemon = self.keep(OlderDaemon(api, "5", None))
        self.migrates(daemon, 5)
        self.assertEqual(api.seen(KUBE_SYSTEM), 1)

    def test_standalone__identifies_its_cluster_without_a_server(self):
        lay(self.ledger)
        self.refuse(["--standalone", str(harness.DEMO)], "the ledger of another cluster")
        daemon = self.keep(harness.Daemon(ledger="own.db"))
        uid = daemon.get("/api/v1/summary")["cluster"]
        daemon.stop()
        lay(daemon.home / "ledger.db", "5", uid)
        daemon.flags[-1] = str(daemon.home / "ledger.db")
        daemon.start()
        self.migrates(daemon, 5)


if __name__ == "__main__":
    harness.main()
