"""Reports of usage: who may send them, what is taken of them, and where it is shown."""

import base64
import contextlib
import hashlib
import http.client
import itertools
import json
import pathlib
import re
import sqlite3
import ssl
import subprocess
import tempfile
import time

import harness
import test_node

GPUS = [{"uuid": f"GPU-{i}", "index": i, "milli": 1000, "mib": 16384, "model": "T4", "numa": 0, "health": "ok"}
        for i in range(2)]


class Agent:
    """What milligpu-node of one node does: a key of its own, and reports with rising numbers."""

    def __init__(self, node="n1"):
        self.node = node
        self.number = int(time.time() * 1000)
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-agent-")
        self.file = pathlib.Path(self.folder.name) / "report.key"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.file], check=True)
        self.public = subprocess.run(["openssl", "pkey", "-in", self.file, "-pubout", "-outform", "DER"], check=True,
                                     capture_output=True).stdout[-32:]

    def annotation(self):
        return json.dumps({"v": 1, "version": "0", "runtime": "containerd", "closed": True,
                           "key": base64.b64encode(self.public).decode()})

    def sign(self, body, node=None):
        message = pathlib.Path(self.folder.name) / "message"
        message.write_bytes(b"milligpu.io/usage/v1\0" + (node or self.node).encode() + b"\0" + body)
        signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.file, "-in", message],
                                   check=True, capture_output=True).stdout
        return f"v1:{hashlib.sha256(self.public).hexdigest()[:16]}:{base64.b64encode(signature).decode()}"

    def report(self, pods, **more):
        self.number += 1
        return json.dumps({"v": 1, "node": self.node, "number": self.number, "seconds": 300, "pods": pods,
                           **more}).encode()

    def headers(self, body):
        return {"Content-Type": "application/json", "Milligpu-Signature": self.sign(body)}


def used(made, gpu, milli=120, mib=4000, peak=4915, over=None, container="c", scaled=None):
    """What a report says of a pod with one container on one GPU."""
    amounts = {k: v for k, v in (("milli", milli), ("mib", mib), ("peakMib", peak), ("scaled", scaled)) if v is not None}
    return {"uid": made["metadata"]["uid"], "containers": [
        {"name": container, "gpus": [{"gpu": gpu, **amounts}], **({"over": over} if over else {})}]}


def cluster(agent):
    def node(name, annotations):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}, "spec": {},
                "status": {}}
    gpus = {"milligpu.io/gpus": json.dumps(GPUS)}
    return {"apiVersion": "v1", "kind": "List", "items": [
        node("n1", {**gpus, "milligpu.io/agent": agent.annotation()}),
        node("n2", {"milligpu.io/agent": json.dumps({"v": 1})}), node("n3", {})]}


class Base(harness.Case):
    flags = ("--report-listen", "127.0.0.1:0")

    def setUp(self):
        self.agent = Agent()
        self.daemon = self.keep(harness.Daemon(cluster(self.agent), *self.flags))

    def with_a_ledger(self):
        """Another daemon, with a ledger on disk."""
        ledger = self.scratch() / "kept.db"
        self.daemon = self.keep(harness.Daemon(cluster(self.agent), *self.flags, "--ledger", str(ledger)))
        return ledger

    def bound(self, name, milli=300, namespace="default"):
        node, said, made = self.daemon.schedule(harness.pod(name, milli, namespace=namespace), ["n1"])
        self.assertEqual(node, "n1", said)
        self.daemon.wait(lambda: self.allocation(name)["state"] == "bound", name)
        return made

    def allocation(self, name):
        return next(a for a in self.daemon.get("/api/v1/allocations")["items"] if a["name"] == name)

    def post(self, body, headers=None, path="/v1/usage", method="POST"):
        headers = self.agent.headers(body) if headers is None else headers
        return self.daemon.request("report", method, path, body, headers)

    def refused(self, status, part, body, headers=None, **more):
        got, answer, headers = self.post(body, headers, **more)
        self.assertEqual(got, status, answer)
        self.assertEqual(headers["Content-Type"], "application/problem+json")
        problem = json.loads(answer)
        self.assertEqual(problem["status"], status)
        self.assertIn(part, problem["detail"])

    def taken(self, *pods):
        status, answer, headers = self.post(self.agent.report(list(pods)))
        self.assertEqual((status, answer), (204, b""), answer)
        self.assertEqual(headers["Connection"], "close")


class Taking(Base):
    def test_signed_report__is_taken_once(self):
        made = self.bound("a")
        body = self.agent.report([used(made, self.allocation("a")["shares"][0]["gpu"])])
        headers = self.agent.headers(body)
        self.assertEqual(self.post(body, headers)[0], 204)
        self.refused(409, "report.number", body, headers)
        self.agent.number -= 2
        self.refused(409, "is not above", self.agent.report([]))
        self.assertIn('milligpu_reports_total{outcome="taken"} 1', self.daemon.metric("milligpu_reports_total"))
        self.assertIn('milligpu_reports_total{outcome="replayed"} 2', self.daemon.metric("milligpu_reports_total"))
        self.assertIn("milligpu_reporting_nodes 1", self.daemon.metric("milligpu_reporting_nodes"))
        self.assertIn("milligpu_measured_shares 1", self.daemon.metric("milligpu_measured_shares"))
        self.assertIn('milligpu_measured_milli{model="T4"} 120', self.daemon.metric("milligpu_measured_milli"))

    def test_unsigned_report__is_refused(self):
        body = self.agent.report([])
        plain = {"Content-Type": "application/json"}
        self.refused(401, "Milligpu-Signature", body, plain)
        for bad in ("", "v1:", "x" * 200, self.agent.sign(body + b" "), self.agent.sign(body, "n2"),
                    Agent().sign(body)):
            self.refused(401, "is no signature", body, {**plain, "Milligpu-Signature": bad})
        self.assertEqual(self.post(body)[0], 204, "the number was not taken by any of them")

    def test_report__needs_a_node_with_a_key(self):
        for node, status, part in (("n2", 401, "does not (yet) carry a key"), ("n3", 401, "milligpu.io/agent"),
                                   ("n4", 404, 'no Node "n4"')):
            self.refused(status, part, self.agent.report([], node=node))

    def test_report__drops_pods_not_bound_to_its_node(self):
        made = self.bound("a")
        gpu = self.allocation("a")["shares"][0]["gpu"]
        self.taken(used(made, gpu), {"uid": "stranger", "containers": []}, {"uid": "other"})
        self.assertIn("milligpu_report_pods_dropped_total 2", self.daemon.metric("milligpu_report_pods_dropped"))
        self.assertIn("milligpu_measured_shares 1", self.daemon.metric("milligpu_measured_shares"))

    def test_invalid_report__is_refused_with_a_reason(self):
        for body, part in ((b"", "report"), (b"[]", "report"), (b"{}", 'no "v"'), (b"{" * 2000, "report"),
                           (self.agent.report([], number=-1), "report.number"),
                           (self.agent.report([], seconds="x"), "report.seconds"),
                           (self.agent.report([{"uid": 7}]), "report.pods[0].uid"),
                           (self.agent.report([], node="x" * 254), "report.node")):
            self.refused(413 if b"x" * 254 in body else 400, part, body)
        self.refused(413, "256", self.agent.report([{"uid": f"u{i}"} for i in range(257)]))
        self.assertEqual(self.post(b" " * (256 * 1024 + 1))[0], 413)
        self.assertEqual(self.post(b"{}", {"Content-Type": "text/plain"})[0], 415)
        self.refused(404, "/v1/usage", b"{}", path="/api/v1/summary")
        status, _, headers = self.post(None, {}, method="GET")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.taken()

    def test_memory_overuse__makes_one_event(self):
        made = self.bound("a")
        gpu = self.allocation("a")["shares"][0]["gpu"]
        for over in ("seen", "seen", None, "seen", "killed"):
            self.taken(used(made, gpu, over=over))
        for text in ("container c holds more memory of GPU", "container c was ended because it held more memory"):
            self.daemon.wait(lambda text=text: text in self.daemon.logged(), text)
        self.daemon.wait(lambda: self.daemon.metric('milligpu_events_total{outcome="ok"}'), "the Event")

    def test_memory_overuse__is_journaled_once_each_time(self):
        ledger = self.with_a_ledger()
        made = self.bound("a")
        share = self.allocation("a")["shares"][0]
        for over in ("seen", "seen", None, "seen", "killed"):
            self.taken(used(made, share["gpu"], over=over, peak=None if over == "killed" else 4915))
        def entries():
            with contextlib.closing(sqlite3.connect(ledger)) as db:
                return [(json.loads(command), result) for command, result in db.execute(
                    "SELECT command, result FROM journal WHERE command LIKE '%\"over\"%' ORDER BY seq")]
        self.daemon.wait(lambda: len(entries()) == 3, "the entries")
        facts = {"kind": "over", "uid": made["metadata"]["uid"], "namespace": "default", "name": "a", "node": "n1",
                 "container": "c", "gpu": share["gpu"], "mib": share["mib"]}
        self.assertEqual(entries(), [({**facts, "why": "seen", "peak_mib": 4915}, "{}"),
                                  ({**facts, "why": "seen", "peak_mib": 4915}, "{}"), ({**facts, "why": "killed"}, "{}")])
        with subprocess.Popen(["curl", "-sN", "--max-time", "20", f"http://127.0.0.1:{self.daemon.port['admin']}"
                               "/api/v1/events?since=1"], stdout=subprocess.PIPE, text=True) as stream:
            events = list(itertools.islice((line for line in stream.stdout if line == "event: over\n"), 3))
            stream.terminate()
        self.assertEqual(len(events), 3)
        self.history_tells_of_it(share)
        checked = harness.run("verify", ledger)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def history_tells_of_it(self, share):
        """Newest first; of the pod, not of the GPU."""
        def said(*words):
            return self.daemon.ctl("history", *words).stdout

        row, = json.loads(said("--pod", "default/a", "-o", "json"))["items"]
        self.assertTrue(all(row["reservedAt"] <= over.pop("at") for over in row["over"]))
        share_facts = {"container": "c", "gpu": share["gpu"], "mib": share["mib"]}
        seen = {**share_facts, "how": "seen", "peakMib": 4915}
        self.assertEqual(row["over"], [{**share_facts, "how": "killed"}, seen, seen])
        self.assertRegex(said("--pod", "default/a"), rf"OVER\n.* killed:\?/{share['mib']}:20[-0-9T:]+Z,\+2\n$")
        self.assertNotIn("OVER", said("--gpu", share["gpu"]))
        self.assertNotIn("over", json.loads(said("--gpu", share["gpu"], "-o", "json"))["items"][0])

    def test_lying_node__neither_floods_the_journal_nor_silences_another(self):
        """60 entries in a minute for each node, and what comes beyond is counted."""
        liar, honest = self.agent, Agent("n2")
        both = cluster(liar)
        both["items"][1]["metadata"]["annotations"] = {"milligpu.io/agent": honest.annotation(), "milligpu.io/gpus":
                                                       both["items"][0]["metadata"]["annotations"]["milligpu.io/gpus"]
                                                       .replace("GPU-", "GPU-of-n2-")}
        self.daemon = self.keep(harness.Daemon(both, *self.flags))
        names = [f"c{i}" for i in range(50)]

        def placed(name, on):
            node, said, made = self.daemon.schedule(harness.pod(name, containers=dict.fromkeys(names, 10)), [on])
            self.assertEqual(node, on, said)
            self.daemon.wait(lambda: self.allocation(name)["state"] == "bound", name)
            return made["metadata"]["uid"], self.allocation(name)["shares"][0]["gpu"]

        def report(agent, pod, over):
            uid, gpu = pod
            body = agent.report([{"uid": uid, "containers": [
                {"name": name, "gpus": [{"gpu": gpu, "milli": 1}], **({"over": over} if over else {})} for name in names]}])
            self.assertEqual(self.post(body, agent.headers(body))[0], 204)

        dropped = "milligpu_over_memory_dropped_total"
        a, b = placed("a", "n1"), placed("b", "n2")
        for more in (0, 40, 90):
            report(liar, a, "seen")
            report(liar, a, None)
            self.daemon.wait(lambda more=more: f"{dropped} {more}" in self.daemon.metric(dropped), f"{more} to be dropped")
        report(honest, b, "seen")
        self.assertIn(f"{dropped} 90", self.daemon.metric(dropped))

    def test_report__is_taken_by_its_listener_only(self):
        body = self.agent.report([])
        for port in ("admin", "webhook", "probe"):
            self.assertIn(self.daemon.request(port, "POST", "/v1/usage", body, self.agent.headers(body))[0], (404, 405, 413))


class Showing(Base):
    def run_ctl(self, *words):
        done = self.daemon.ctl(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return [line.split() for line in done.stdout.splitlines()]

    def test_usage__stands_beside_the_grant(self):
        a, b = self.bound("a"), self.bound("b", 200)
        gpu = self.allocation("a")["shares"][0]["gpu"]
        self.assertEqual(self.allocation("b")["shares"][0]["gpu"], gpu, "binpack")
        self.assertNotIn("measuredAt", self.allocation("a")["shares"][0])
        tag = self.daemon.admin("GET", "/api/v1/allocations")[2]["ETag"]
        self.taken(used(a, gpu, 120, 4000, 4915), used(b, gpu, None, 77, None, over="seen"))
        self.assertNotEqual(self.daemon.admin("GET", "/api/v1/allocations")[2]["ETag"], tag)
        share = self.allocation("a")["shares"][0]
        self.assertEqual({k: share.get(k) for k in ("measuredMilli", "measuredMib", "peakMib", "idleSince", "over")},
                         {"measuredMilli": 120, "measuredMib": 4000, "peakMib": 4915, "idleSince": None, "over": None})
        self.assertRegex(share["measuredAt"], "^20..-..-..T")
        share = self.allocation("b")["shares"][0]
        self.assertNotIn("measuredMilli", share)
        self.assertEqual((share["measuredMib"], share["over"]), (77, "seen"))
        pod = self.daemon.view("a")["allocation"]["shares"][0]
        self.assertEqual(pod["measuredMilli"], 120)
        # of its GPU no time is known then: the driver counts that of b for somebody else, or not at all
        self.gpus_show(gpu, None, 4077)
        self.measured("top", ["-", "-"])
        self.measured("allocations", ["-", "120"])
        self.taken(used(a, gpu, 120, 4000, 4915), used(b, gpu, 30, 77, None))
        self.gpus_show(gpu, 150, 4077)
        self.measured("top", ["-", "150"])

    def test_scaled_usage__is_marked_until_a_report_clears_it(self):
        made = [self.bound(name) for name in ("a", "b")]
        gpu = self.allocation("a")["shares"][0]["gpu"]
        self.assertEqual(self.allocation("b")["shares"][0]["gpu"], gpu, "binpack")
        said = lambda: [self.allocation(name)["shares"][0].get("scaled") for name in ("a", "b")]
        of_gpu = lambda: next(one for one in self.daemon.get("/api/v1/nodes/n1")["gpus"] if one["id"] == gpu).get("scaled")
        # a's agent is of a version that does not tell, and then says it of both
        self.taken(used(made[0], gpu, 538), used(made[1], gpu, 5, scaled=True))
        self.assertEqual((said(), of_gpu()), ([None, True], True))
        self.measured("allocations", ["538", "~5"])
        self.measured("top", ["-", "~543"])
        self.measured(("allocations", "--idle", "0s"), ["~5"])
        self.taken(used(made[0], gpu, 9, scaled=True))
        self.assertEqual((said(), of_gpu()), ([True, True], True))
        self.measured(("allocations", "--idle", "0s"), ["~5", "~9"])
        self.measured(("pod", "default/a"), ["~9"], after="CONTAINER")
        self.taken(used(made[0], gpu, 300, scaled=False), used(made[1], gpu, None, scaled=True))
        self.assertEqual((said(), of_gpu()), ([None, None], None))
        self.measured("allocations", ["-", "300"])
        self.measured("top", ["-", "-"])
        self.refused(400, "gpus[0].scaled", self.agent.report([used(made[0], gpu, scaled="yes")]))

    def gpus_show(self, gpu, milli, mib):
        for node in (self.daemon.get("/api/v1/nodes/n1"), self.daemon.get("/api/v1/nodes")["items"][0]):
            gpus = {one["id"]: one for one in node["gpus"]}
            self.assertEqual((gpus[gpu].get("measuredMilli"), gpus[gpu]["measuredMib"]), (milli, mib))
            self.assertNotIn("measuredMilli", next(one for id, one in gpus.items() if id != gpu))

    def measured(self, command, column, after=""):
        """That of a table, or of one that begins with a line of such a word."""
        lines = self.run_ctl(*([command] if isinstance(command, str) else command))
        lines = lines[next(i for i, line in enumerate(lines) if after in line[:1] or not after):]
        at = lines[0].index("MEASURED")
        self.assertEqual(sorted(row[at] for row in lines[1:1 + len(column)]), column)

    def test_idle_shares__can_be_filtered(self):
        a, b = self.bound("a"), self.bound("b", 200)
        gpu = self.allocation("a")["shares"][0]["gpu"]
        self.taken(used(a, gpu, 9), used(b, gpu, 10))
        first = self.allocation("a")["shares"][0]["idleSince"]
        self.taken(used(a, gpu, 0), used(b, gpu, 0))
        self.assertEqual(self.allocation("a")["shares"][0]["idleSince"], first)
        self.assertGreater(self.allocation("b")["shares"][0]["idleSince"], first)
        names = lambda since: [one["name"] for one in self.daemon.get("/api/v1/allocations?idleSince=" + since)["items"]]
        self.assertEqual(names("2999-01-01T00:00:00Z"), ["a", "b"])
        self.assertEqual(names(first), ["a"])
        self.assertEqual(names("2020-01-01T00:00:00Z"), [])
        self.assertEqual(self.daemon.admin("GET", "/api/v1/allocations?idleSince=2d")[0], 400)
        self.assertEqual(self.daemon.admin("GET", "/api/v1/allocations?state=released&idleSince=" + first)[0], 400)
        self.assertEqual([row[1] for row in self.run_ctl("allocations", "--idle", "0s", "--no-headers")], ["a", "b"])
        self.assertEqual(self.daemon.ctl("allocations", "--idle", "2d").stderr, "nothing matches\n")
        self.assertEqual(self.daemon.ctl("allocations", "--idle", "2 days").returncode, 2)

    def test_granted_time__comes_from_the_history(self):
        self.bound("a", 500, namespace="team")
        time.sleep(2.1)
        self.assertEqual(len(self.daemon.get("/api/v1/usage/past")["items"]), 1)
        self.assertEqual(self.daemon.admin("GET", "/api/v1/usage/past?since=7d")[0], 400)
        past = self.daemon.get("/api/v1/usage/past?since=2020-01-01T00:00:00Z&namespace=team")
        self.assertEqual([(one["namespace"], one["model"], one["pods"]) for one in past["items"]], [("team", "T4", 1)])
        self.assertEqual(self.daemon.get("/api/v1/usage/past?since=2020-01-01T00:00:00Z&model=A100")["items"], [])
        self.assertEqual(self.daemon.get("/api/v1/usage/past?since=2999-01-01T00:00:00Z")["items"], [])
        self.assertEqual([row[:3] for row in self.run_ctl("usage", "--since", "7d", "--no-headers")], [["team", "T4", "1"]])
        wrong = self.daemon.ctl("usage", "--since", "last week")
        self.assertEqual((wrong.returncode, "--since is last week" in wrong.stderr), (2, True), wrong.stderr)

    def test_usage_history__is_kept(self):
        ledger = self.with_a_ledger()
        made = self.bound("a", 500, namespace="team")
        time.sleep(2.1)
        self.taken(used(made, self.allocation("a")["shares"][0]["gpu"], 250))
        self.assertEqual(self.run_ctl("usage", "--since", "7d")[0],
                         ["NAMESPACE", "MODEL", "PODS", "GPU-HOURS", "MEASURED", "USED", "COVERED", "GIB-HOURS"])
        self.daemon.stop()
        self.daemon.start()
        past = self.daemon.get("/api/v1/usage/past?since=2020-01-01T00:00:00Z")
        for one in (past["items"][0], past["total"]):
            self.assertLessEqual({"measuredMilliHours", "measuredOfMilliHours", "measuredMibHours"}, one.keys())
        with contextlib.closing(sqlite3.connect(ledger)) as db:
            rows = db.execute("SELECT namespace, model, milli_s, of_milli_s FROM measured").fetchall()
        self.assertEqual({row[:2] for row in rows}, {("team", "T4")})
        measured, of = (sum(row[i] for row in rows) for i in (2, 3))
        self.assertEqual(of, 2 * measured)
        self.assertIn(of // 500, range(2, 60), "seconds, from when it was bound")

    def test_usage__goes_with_the_pod(self):
        made = self.bound("a")
        self.taken(used(made, self.allocation("a")["shares"][0]["gpu"]))
        self.assertEqual(self.daemon.admin("DELETE", "/api/v1/standalone/pods/default/a")[0], 200)
        self.daemon.wait(lambda: not self.daemon.get("/api/v1/allocations")["items"], "the end")
        self.assertNotIn("measuredMilli", self.daemon.get("/api/v1/nodes/n1")["gpus"][0])
        self.assertEqual(self.daemon.metric("milligpu_measured_milli"), ['milligpu_measured_milli{model="T4"} 0'])
        self.taken()
        self.assertEqual(self.daemon.metric("milligpu_measured_shares"), ["milligpu_measured_shares 0"])

    def usage(self, daemon):
        return daemon.doctor("usage")

    def test_doctor__says_whether_reports_arrive(self):
        self.assertEqual(self.usage(self.daemon)["status"], "warning")
        self.assertIn("none has reported", self.usage(self.daemon)["text"])
        self.taken()
        self.assertEqual(self.usage(self.daemon)["status"], "ok")
        deaf = self.keep(harness.Daemon(cluster(self.agent)))
        self.assertIn("set report_listen", self.usage(deaf)["fix"])


class Secret(Base):
    def setUp(self):
        home = harness.certificates()
        self.flags = (*self.flags, "--report-cert", str(home / "server.crt"), "--report-key", str(home / "server.key"))
        super().setUp()
        self.context = ssl.create_default_context(cafile=str(home / "ca.crt"))

    def test_report__arrives_over_tls(self):
        body = self.agent.report([])
        connection = http.client.HTTPSConnection("127.0.0.1", self.daemon.port["report"], timeout=harness.PATIENCE, context=self.context)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/usage", body, self.agent.headers(body))
        self.assertEqual(connection.getresponse().status, 204)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.post(body)  # not in the clear


class Keys(Base):
    """A key may come, be taken away and come again, and its Node may go."""

    def setUp(self):
        self.agent = Agent()
        nodes = cluster(self.agent)
        nodes["items"] = nodes["items"][2:]
        self.api = self.keep(harness.Api(nodes))
        self.daemon = harness.ClusterDaemon(self.api, *self.flags)
        self.addCleanup(self.daemon.close)

    def becomes(self, status, part):
        """The next reports get this answer, and none gets one that the agent would not repeat."""
        def answered():
            body = self.agent.report([], node="n3")
            signed = {"Content-Type": "application/json", "Milligpu-Signature": self.agent.sign(body, "n3")}
            got, answer, _ = self.post(body, signed)
            self.assertIn(got, (204, 401, 404), answer)
            return got == status and part in answer.decode()
        self.daemon.wait(answered, f"{status} {part}")

    def shows(self, annotation):
        self.assertEqual(self.api.request("PATCH", "/api/v1/nodes/n3", {"metadata": {"annotations": {
            "milligpu.io/agent": annotation}}})[0], 200)

    def test_report__is_refused_while_its_node_has_no_key(self):
        self.becomes(401, "does not (yet) carry a key")
        for _ in range(2):
            self.shows(self.agent.annotation())
            self.becomes(204, "")
            self.shows(None)
            self.becomes(401, "does not (yet) carry a key")
        self.api.request("DELETE", "/api/v1/nodes/n3")
        self.becomes(404, 'no Node \\"n3\\"')
        self.assertEqual(self.api.request("POST", "/api/v1/nodes", cluster(self.agent)["items"][2])[0], 201)
        self.becomes(401, "does not (yet) carry a key")


class Journey(harness.Case):
    """A real milligpu-node and a real milligpud over TLS; the driver and the runtime are played."""

    def start(self, **containers):
        """A pod with these on GPU-a of n1, each with one process in the driver's eyes: 700, 701 and so on."""
        self.api = self.keep(harness.Api({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}, "status": {}}]}))
        home = harness.certificates()
        self.daemon = daemon = harness.ClusterDaemon(
            self.api, "--report-listen", "127.0.0.1:0", "--report-cert", str(home / "server.crt"), "--report-key",
            str(home / "server.key"))
        self.addCleanup(daemon.close)
        self.node = node = test_node.Node(self.api.url)
        self.addCleanup(node.close)
        for pid, name in enumerate(containers, 700):
            (node.home / f"proc/{pid}").mkdir(parents=True)
            (node.home / f"proc/{pid}/cgroup").write_text(f"0::/kubepods/pod1/id-{name}\n")
            (node.home / f"proc/{pid}/comm").write_text("python3\n")
        node.driver("process GPU-a 700 3000 sm=20\n")
        node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", "--inventory-s", "1", "--meter-s", "1", "--proc-dir",
                   node.home / "proc", "--report-url", f"https://127.0.0.1:{daemon.port['report']}", "--report-ca",
                   home / "ca.crt", "--report-s", "1", env={"FAKE_NVML": str(node.home / "driver"), **node.clock(7200)})
        runtime = node.accept()
        daemon.wait(lambda: daemon.get("/api/v1/nodes")["items"][0]["gpus"], "the GPUs of the node")
        at, said, made = daemon.schedule(harness.pod("web", containers=containers), ["n1"])
        self.assertEqual(at, "n1", said)
        daemon.knows("web")
        bound = self.api.pod("web")["metadata"]["annotations"]["milligpu.io/allocation"]
        self.assertEqual({name: [one["gpu"] for one in gpus] for name, gpus in json.loads(bound)["containers"].items()},
                         {name: ["GPU-a"] for name in containers})
        uid = made["metadata"]["uid"]
        sandbox = test_node.pod(node.sign(bound, uid=uid)).replace(
            test_node.field(3, test_node.UID), test_node.field(3, uid))
        for name in containers:
            runtime.call("CreateContainer", test_node.field(1, sandbox) + test_node.field(2, test_node.container(name)))

    def test_usage__reaches_its_owner_from_the_driver(self):
        self.start(main=300)
        daemon, node = self.daemon, self.node
        share = lambda: daemon.allocation("web")["shares"][0]
        daemon.wait(lambda: share().get("measuredMib"), "what is measured")
        self.assertEqual((share()["measuredMilli"], share()["measuredMib"], share()["peakMib"]), (200, 3000, 3000))
        self.assertNotIn("idleSince", share())
        for ahead_s, percent in ((10800, 30), (3600, 20)):  # never before the certificates were made
            node.clock(ahead_s)
            node.driver(f"process GPU-a 700 3000 sm={percent}\n")
            daemon.wait(lambda: share().get("measuredMilli") == 10 * percent, f"a report, {ahead_s} s ahead")
        top = daemon.get("/api/v1/nodes")["items"][0]["gpus"][0]
        self.assertEqual((top["usedMilli"], top["measuredMilli"]), (300, 200))
        self.assertNotIn("scaled", share())
        node.driver("process GPU-a 700 5000 sm=0\n")  # 4915 MiB were granted
        daemon.wait(lambda: share().get("over") == "seen", "that it is over its memory")
        daemon.wait(lambda: re.search("more.*memory.*share.*web|web.*more.*memory", daemon.logged()), "a line of the log")
        node.wait(lambda: "usage reported" in node.logged(), "a line of the agent's log")

    def measured(self):
        """Of the two containers, and whether it is marked as scaled."""
        return {one["container"]: (one.get("measuredMilli"), one.get("scaled", False))
                for one in self.daemon.allocation("web")["shares"]}

    def marked(self, command):
        """The column MEASURED of the first line."""
        done = self.daemon.ctl(command)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        heads, first = [line.split() for line in done.stdout.splitlines()[:2]]
        return first[heads.index("MEASURED")]

    def test_busy_processes__split_the_use_of_their_gpu(self):
        """As on one H200, where NVML counted for each the time in which it waited for the other."""
        self.start(main=300, side=200)
        two = "process GPU-a 700 3000 sm={}\nprocess GPU-a 701 1000 sm={}\n"
        for sm, busy, milli, scaled in (((30, 20), "busy=60", (300, 200), False), ((99, 89), "busy=91", (479, 430), True),
                                        ((71, 37), "", (657, 342), True), ((30, 20), "busy=50", (300, 200), False)):
            self.node.driver(two.format(*sm), busy)
            expected = {"main": (milli[0], scaled), "side": (milli[1], scaled)}
            self.daemon.wait(lambda: self.measured() == expected, f"{expected}, not {self.measured()}")
            gpu = self.daemon.get("/api/v1/nodes")["items"][0]["gpus"][0]
            self.assertEqual((gpu["measuredMilli"], gpu.get("scaled", False)), (sum(milli), scaled))
            for command in ("top", "allocations"):
                self.assertEqual(self.marked(command), ("~" if scaled else "") + str(sum(milli)), command)


if __name__ == "__main__":
    harness.main(side_by_side=True)
