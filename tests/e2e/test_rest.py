"""The REST API as HTTP clients use it: ETags, paths with a slash at the end, formats of the metrics."""

import json
import os
import pathlib
import re
import socket
import time
import unittest

import harness
import metric_table

TAGGED = ("/api/v1/summary", "/api/v1/nodes", "/api/v1/nodes/alpha", "/api/v1/allocations", "/api/v1/drift",
          "/api/v1/allocations?state=bound&limit=1")
UNTAGGED = ("/api/v1/waiting", "/api/v1/history?gpu=GPU-1", "/api/v1/doctor", "/api/v1/settings", "/openapi.json",
            "/api/v1/allocations?state=released", "/metrics", "/readyz")


def cluster():
    return harness.objects(harness.node("alpha", 4000), harness.node("beta", 4000))


class Tags(harness.Case):
    def setUp(self):
        self.daemon = self.keep(harness.Daemon(cluster(), ledger="ledger.db"))

    def ask(self, path, tags=None, method="GET"):
        return self.daemon.request("admin", method, path, None, {} if tags is None else {"If-None-Match": tags})

    def tag(self, path):
        status, _, headers = self.ask(path)
        self.assertEqual(status, 200, path)
        self.assertRegex(headers["ETag"], '^"[!#-~]+"$')
        return headers["ETag"]

    def test_unchanged_answer__is_304_without_a_body(self):
        for path in TAGGED:
            tag = self.tag(path)
            length = len(self.ask(path)[1])
            for method in ("GET", "HEAD"):
                status, body, headers = self.ask(path, tag, method)
                self.assertEqual((status, body), (304, b""), path)
                self.assertEqual(headers["ETag"], tag)
                self.assertEqual(headers["Cache-Control"], "no-cache")
                self.assertNotIn("Content-Type", headers)
                self.assertEqual(headers["Content-Length"], str(length), "that of the whole answer, or none")

    def test_connection__survives_304(self):
        tag = self.tag("/api/v1/nodes")
        connection = harness.http.client.HTTPConnection("127.0.0.1", self.daemon.port["admin"], timeout=harness.PATIENCE)
        self.addCleanup(connection.close)
        for _ in range(3):
            connection.request("GET", "/api/v1/nodes", headers={"If-None-Match": tag})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (304, b""))
            connection.request("GET", "/api/v1/nodes")
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            self.assertEqual(len(json.loads(answer.read())["items"]), 2)

    def test_if_none_match__accepts_lists_weak_tags_and_a_star(self):
        tag = self.tag("/api/v1/nodes")
        for good in ("*", tag, "W/" + tag, '"a", ' + tag, 'W/"a" ,W/' + tag + ', "z"', ' ,, ' + tag, '"a,b",' + tag):
            self.assertEqual(self.ask("/api/v1/nodes", good)[0], 304, good)
        for bad in ('"a"', tag.strip('"'), tag[:-1], tag[:-2] + '"', '"' + tag[2:], "w/" + tag, "", ",", 'W/', '"',
                    'x ' + tag, '"a" b "c"'):
            status, body, _ = self.ask("/api/v1/nodes", bad)
            self.assertEqual((status, len(json.loads(body)["items"])), (200, 2), bad)

    def test_etag__belongs_to_its_target(self):
        tags = [self.tag(path) for path in TAGGED] + [self.tag("/api/v1/nodes?limit=1"), self.tag("/api/v1/nodes/beta"),
                                                      self.tag("/api/v1/allocations?node=alpha")]
        self.assertEqual(len(set(tags)), len(tags))

    def test_etag__changes_with_every_ledger_change(self):
        for number in range(3):
            before = {path: self.tag(path) for path in TAGGED}
            self.assertIsNotNone(self.daemon.schedule(harness.pod("web-%d" % number, 300))[0])
            for path, tag in before.items():
                status, body, headers = self.ask(path, tag)
                self.assertEqual(status, 200, path)
                self.assertNotEqual(headers["ETag"], tag, path)
                self.assertTrue(json.loads(body))

    def test_summary_etag__covers_state_outside_of_the_ledger(self):
        before = self.tag("/api/v1/summary")
        made = self.daemon.create(harness.pod("big", 100000))
        self.daemon.wait(lambda: self.ask("/api/v1/pods/default/big")[0] == 200, "the pod")
        self.daemon.filter(made)
        status, body, _ = self.ask("/api/v1/summary", before)
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(body)["waitingPods"], 1)

    def test_etag__does_not_outlive_the_process(self):
        before = {path: self.tag(path) for path in TAGGED}
        self.daemon.kill()
        self.daemon.start()
        for path, tag in before.items():
            self.assertEqual(self.ask(path, tag)[0], 200, path)

    def test_uncacheable_answer__has_no_etag(self):
        for path in UNTAGGED:
            status, _, headers = self.ask(path, "*")
            self.assertEqual(status, 200, path)
            self.assertNotIn("ETag", headers)
            self.assertEqual(headers["Cache-Control"], "no-store")

    def test_error__is_no_304_and_has_no_etag(self):
        for path, expected in (("/api/v1/nodes?limit=0", 400), ("/api/v1/nodes/gamma", 404),
                               ("/api/v1/nodes/", 404)):
            status, _, headers = self.ask(path, "*")
            self.assertEqual(status, expected)
            self.assertNotIn("ETag", headers)

    def test_openapi__marks_routes_with_etags(self):
        described = {path for path, methods in self.daemon.get("/openapi.json")["paths"].items()
                     if "304" in methods.get("get", {}).get("responses", {})}
        self.assertEqual(described, {path.split("?")[0].replace("alpha", "{name}") for path in TAGGED})


PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
              "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
              "text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
OLDER = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75," \
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\})? (-?[0-9.]+)')


def families(test, text):
    """Reads OpenMetrics as its standard wants it: {family: (type, [(sample, labels, value)])}."""
    test.assertTrue(text.endswith("\n# EOF\n"))
    found, name, seen = {}, None, set()
    for line in text[:-len("# EOF\n")].splitlines():
        head = re.fullmatch(r"# (HELP|TYPE|UNIT) ([a-z_]+) (.+)", line)
        if head and head[1] == "HELP":
            name = head[2]
            test.assertNotIn(name, found, "a family is in one piece")
            found[name] = ["", []]
            test.assertNotIn('"', head[3])
        elif head and head[1] == "TYPE":
            test.assertEqual(head[2], name)
            test.assertIn(head[3], ("counter", "gauge", "histogram"))
            test.assertFalse(name.endswith(("_total", "_bucket", "_count", "_sum", "_created")), name)
            found[name][0] = head[3]
        elif head:
            test.assertEqual(head[2], name)
            test.assertTrue(name.endswith("_" + head[3]), line)
        else:
            sample = SAMPLE.fullmatch(line)
            test.assertIsNotNone(sample, line)
            endings = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
            test.assertIn(sample[1], [name + end for end in endings[found[name][0]]], line)
            test.assertNotIn((sample[1], sample[2]), seen)
            seen.add((sample[1], sample[2]))
            bound = re.search(r'(?:^|,)le="([^"]+)"', sample[2] or "")
            if bound and bound[1] != "+Inf":
                test.assertEqual(bound[1], repr(float(bound[1])), "a number as OpenMetrics writes it")
            found[name][1].append((sample[1], sample[2] or "", float(sample[3])))
    return found


class Metrics(harness.Story):
    def ask(self, accept=None, port="admin", method="GET"):
        headers = {} if accept is None else {"Accept": accept}
        status, body, headers = self.daemon.request(port, method, "/metrics", None, headers)
        self.assertEqual(status, 200)
        return headers["Content-Type"], body.decode()

    def value(self, name):
        return float(re.search(rf"^{name} (.*)$", self.ask()[1], re.M)[1])

    def test_prometheus__gets_openmetrics_on_both_ports(self):
        for accept in (PROMETHEUS, OLDER, "application/openmetrics-text"):
            for port in ("admin", "probe"):
                kind, text = self.ask(accept, port)
                self.assertEqual(kind, OPEN, accept)
                found = families(self, text)
                self.assertEqual(found["milligpu_ready"], ["gauge", [("milligpu_ready", "", 1.0)]])
                self.assertEqual(found["milligpu_commit_failures"][0], "counter")
                self.assertEqual(found["milligpu_commit_seconds"][0], "histogram")
                self.assertEqual(found["process_cpu_seconds"][0], "counter")
                self.assertIn("milligpu_free_milli", found)

    def test_other_clients__get_the_plain_text_format(self):
        for accept in (None, "", "*/*", "text/plain", "text/*", "text/html,*/*;q=0.8", "application/*", "application/json",
                       "application/openmetrics-text;version=0.0.1", "application/openmetrics-text;version=2.0.0",
                       "application/openmetrics-text;q=0", "application/openmetrics-text;q=0.0,*/*",
                       "application/openmetrics-text;q=0.3,text/plain;q=0.4",
                       "application/openmetrics-text;q=0.3,text/*;q=0.301", "application/openmetrics-textual",
                       "application/openmetrics-text;q=0.2,*/*;q=0.9", ",;=,;q", "\xff"):
            kind, text = self.ask(accept)
            self.assertEqual(kind, PLAIN, accept)
            self.assertNotIn("# EOF", text)
            self.assertNotIn("# UNIT", text)
            self.assertIn("# TYPE milligpu_commit_failures_total counter\n", text)

    def test_metrics__match_their_documentation(self):
        metric_table.follows_its_table(self, self.ask()[1], "docs/METRICS.md")
        nodes = self.daemon.request("admin", "GET", "/metrics/nodes")[1].decode()
        metric_table.follows_its_table(self, nodes, "docs/METRICS.md")

    def test_accept__follows_weights_and_the_closest_range(self):
        for accept in ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.5",
                       "text/plain;q=0.1, application/openmetrics-text ; q=0.2", "APPLICATION/OpenMetrics-Text",
                       'application/openmetrics-text;version="1.0.0"', "application/openmetrics-text;q=1.000,*/*",
                       "text/*;q=0.9,text/plain;q=0.1,application/openmetrics-text;q=0.2"):
            self.assertEqual(self.ask(accept)[0], OPEN, accept)

    def test_head__has_the_same_content_type(self):
        self.assertEqual(self.ask(PROMETHEUS, method="HEAD"), (OPEN, ""))
        self.assertEqual(self.ask(method="HEAD"), (PLAIN, ""))

    def plain_samples(self):
        return {line.split("{")[0].split(" ")[0] for line in self.ask()[1].splitlines() if not line.startswith("#")}

    def test_formats__have_the_same_samples(self):
        """A counter with labels has its first sample when it has counted, so the formats are compared between two equal texts."""
        def compared():
            before = self.plain_samples()
            found = families(self, self.ask(PROMETHEUS)[1])
            if self.plain_samples() != before:
                return False
            self.assertEqual({sample[0] for _, samples in found.values() for sample in samples}, before)
            return True
        self.daemon.wait(compared, "no new sample between two texts")

    def test_process_metrics__work_inside_the_sandbox(self):
        self.assertNotIn("sandbox", " ".join(self.flags), "the sandbox is on unless a flag says otherwise")
        proc = pathlib.Path(f"/proc/{self.daemon.process.pid}")
        stat = (proc / "stat").read_text().rsplit(")", 1)[1].split()
        ticks = os.sysconf("SC_CLK_TCK")
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self.assertAlmostEqual(self.value("process_start_time_seconds"), booted + int(stat[19]) / ticks, delta=0.5)
        self.assertEqual(self.value("process_start_time_seconds"), self.value("process_start_time_seconds"))
        self.assertAlmostEqual(self.value("process_cpu_seconds_total"), (int(stat[11]) + int(stat[12])) / ticks, delta=1)
        self.assertGreater(self.value("process_resident_memory_bytes"), 1 << 20)
        self.assertLessEqual(self.value("process_resident_memory_bytes"), self.value("process_virtual_memory_bytes"))
        limits = (proc / "limits").read_text()
        self.assertEqual(self.value("process_max_fds"), int(re.search(r"Max open files +([0-9]+)", limits)[1]))

    def test_open_files__are_counted(self):
        before = self.value("process_open_fds")
        peers = [socket.create_connection(("127.0.0.1", self.daemon.port["webhook"])) for _ in range(20)]
        try:
            self.daemon.wait(lambda: self.value("process_open_fds") >= before + 18, "20 more files")
        finally:
            for peer in peers:
                peer.close()
        self.daemon.wait(lambda: self.value("process_open_fds") <= before + 2, "as many files as before")

    def test_build_info__is_exported(self):
        self.assertRegex(self.ask()[1], r'\nmilligpu_build_info\{version="[^"]+",commit="[^"]+"\} 1\n')


if __name__ == "__main__":
    unittest.main(verbosity=2)
