"""GET /api/v1/events: what changes in the ledger as server-sent events, read as a client reads them."""

import json
import socket

import harness

STREAMS = 16


def cluster():
    return harness.objects(harness.node("alpha", 4000), harness.node("beta", 4000))


class Stream:
    """One connection that follows; HTTP/1.1, so the body comes in chunks."""

    def __init__(self, daemon, query="", **headers):
        self.socket = socket.create_connection(("127.0.0.1", daemon.port["admin"]), harness.PATIENCE)
        lines = [f"GET /api/v1/events{query} HTTP/1.1", "Host: localhost",
                 *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, value = line.decode().split(": ", 1)
            if name.lower() in self.headers:
                raise AssertionError(f"{name} comes twice")
            self.headers[name.lower()] = value
        self.left = b""

    def text(self):
        """The next piece of the body; b"" at its end."""
        if "content-length" in self.headers:
            return self.file.read(int(self.headers["content-length"]))
        size = int(self.file.readline() or b"0", 16)
        piece = self.file.read(size)
        self.file.readline()
        return piece

    def event(self, seconds=harness.PATIENCE):
        """The next event as (id, kind, data); None at the end of the stream. Comments are skipped."""
        self.socket.settimeout(seconds)
        while True:
            while b"\n\n" not in self.left:
                piece = self.text()
                if not piece:
                    return None
                self.left += piece
            block, self.left = self.left.split(b"\n\n", 1)
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            if fields:
                return fields.get("id"), fields["event"], json.loads(fields["data"])

    def until(self, kind, name=None, seconds=harness.PATIENCE):
        """Reads on to the event of this kind about this pod; returns what was read."""
        read = []
        while True:
            event = self.event(seconds)
            if event is None:
                raise AssertionError(f"the stream ended before {kind} {name}: {read}")
            read.append(event)
            if event[1] == kind and name in (None, event[2]["command"].get("name"),
                                             event[2].get("result", {}).get("allocation", {}).get("name")):
                return read

    def close(self):
        self.file.close()
        self.socket.close()


class Events(harness.Case):
    ledger = "ledger.db"

    def setUp(self):
        self.daemon = self.keep(harness.Daemon(cluster(), ledger=self.ledger))

    def follow(self, query="", **headers):
        return self.keep(Stream(self.daemon, query, **headers))

    def test_stream__sends_each_change_with_its_number(self):
        stream = self.follow()
        self.assertEqual((stream.status, stream.headers["content-type"]), (200, "text/event-stream"))
        number, kind, start = stream.event()
        self.assertEqual((int(number), kind), (start["seq"], "start"))
        self.assertIsNotNone(self.daemon.schedule(harness.pod("web-0", 300))[0])
        read = stream.until("confirm", "web-0")
        numbers = [int(number) for number, _, _ in read]
        self.assertEqual(numbers, list(range(start["seq"] + 1, start["seq"] + 1 + len(numbers))), "no gap")
        for number, kind, data in read:
            self.assertEqual((data["seq"], data["command"]["kind"]), (int(number), kind))
            self.assertRegex(data["at"], r"^2[0-9-]+T[0-9:.]+Z$")
        self.assertEqual(read[-1][2]["result"]["allocation"]["state"], "bound")

    def test_stream__resumes_where_the_client_stopped(self):
        self.daemon.schedule(harness.pod("web-0", 300))
        first = self.follow("?since=0")
        self.assertEqual(first.event()[2], {"seq": 0})
        read = first.until("confirm", "web-0")
        middle = read[len(read) // 2][0]
        for stream in (self.follow("?since=" + middle), self.follow(Last_Event_ID=middle)):
            self.assertEqual(stream.event()[2], {"seq": int(middle)})
            self.assertEqual(stream.until("confirm", "web-0"), read[len(read) // 2 + 1:])

    def test_stream__sends_a_long_journal_in_order(self):
        for number in range(40):
            made = self.daemon.create(harness.pod("web-%d" % number, 100))
            self.daemon.filter(made)
            self.daemon.bind(made, ("alpha", "beta")[number % 2])
        streams = [self.follow("?since=0") for _ in range(3)]
        texts = [[event[0] for event in stream.until("confirm", "web-39", 20)] for stream in streams]
        self.assertEqual(texts[0], [str(number) for number in range(len(texts[0]))])
        self.assertGreater(len(texts[0]), 80)
        self.assertEqual(texts[1:], texts[:1] * 2)

    def test_cursor__is_410_when_unknown_and_400_when_invalid(self):
        for query, headers, status, part in (
                ("?since=99999", {}, 410, "another ledger"), ("", {"Last_Event_ID": "99999"}, 410, "another ledger"),
                ("?since=-1", {}, 400, "since is -1"), ("?since=", {}, 400, "since is empty"),
                ("", {"Last_Event_ID": "x"}, 400, "Last-Event-ID is x")):
            stream = self.follow(query, **headers)
            self.assertEqual((stream.status, stream.headers["content-type"]), (status, "application/problem+json"))
            self.assertIn(part, json.loads(stream.text())["detail"])

    def test_streams__are_limited_and_freed(self):
        streams = [self.follow() for _ in range(STREAMS)]
        self.assertEqual([stream.status for stream in streams], [200] * STREAMS)
        over = self.follow()
        self.assertEqual(over.status, 503)
        self.assertIn("16 streams are open already", json.loads(over.text())["detail"])
        self.daemon.wait(lambda: "\nmilligpu_streams 16\n" in self.daemon.metrics(), "the number in the metrics")
        self.assertEqual(self.daemon.admin("GET", "/api/v1/summary")[0], 200, "no thread is held")
        streams[3].close()
        self.daemon.wait(lambda: 'milligpu_streams_ended_total{cause="gone"} 1\n' in self.daemon.metrics(), "the place")
        self.assertEqual(self.follow().status, 200)
        self.daemon.schedule(harness.pod("web-0", 100))
        streams[15].until("confirm", "web-0")

    def test_slow_reader__delays_no_other_client(self):
        lazy = self.follow("?since=0")
        lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        quick = self.follow()
        for number in range(20):
            self.assertIsNotNone(self.daemon.schedule(harness.pod("web-%d" % number, 100))[0])
            quick.until("confirm", "web-%d" % number)
        self.assertIn("\nmilligpu_streams 2\n", self.daemon.metrics(), "its own is open all that time")

    def test_shutdown__ends_the_streams(self):
        streams = [self.follow() for _ in range(4)]
        for stream in streams:
            stream.event()
        self.assertEqual(self.daemon.stop(), 0)
        for stream in streams:
            self.assertIsNone(stream.event())

    def test_head__leaves_the_connection_usable(self):
        for _ in range(3):
            status, body, headers = self.daemon.request("admin", "HEAD", "/api/v1/events", None, {})
            self.assertEqual((status, body, headers["Content-Type"]), (200, b"", "text/event-stream"))
        self.daemon.wait(lambda: "\nmilligpu_streams 0\n" in self.daemon.metrics(), "no stream")

    def test_quiet_stream__sends_comments(self):
        stream = self.follow()
        stream.event()
        while not stream.left.startswith(b":"):
            stream.socket.settimeout(harness.PATIENCE)
            self.assertTrue(piece := stream.text())
            stream.left += piece


class InMemory(Events):
    """A ledger in memory has one connection, which the writer and the readers of the journal share."""
    ledger = None


class FullListener(harness.Case):
    def test_stream__gives_way_to_a_new_connection(self):
        daemon = self.keep(harness.Daemon(cluster(), "--admin-connections", str(STREAMS)))
        streams = [Stream(daemon) for _ in range(STREAMS)]
        for stream in streams:
            self.addCleanup(stream.close)
            self.assertEqual(stream.status, 200)
        daemon.wait(lambda: daemon.admin("GET", "/api/v1/summary")[0] == 200, "an answer")
        daemon.wait(lambda: 'milligpu_streams_ended_total{cause="gone"} ' in daemon.metrics(), "it")
        daemon.wait(lambda: daemon.metric('milligpu_http_dropped_total{port="admin",cause="gave_way"} '), "what gave way")


class Retention(harness.Case):
    def test_retention__gives_410_for_the_dropped_part_only(self):
        daemon = self.keep(harness.Daemon(cluster(), "--retention-days", "1", ledger="ledger.db"))
        for number in range(5):
            daemon.schedule(harness.pod("web-%d" % number, 100))
        self.assertEqual(daemon.stop(), 0)
        harness.spoil(daemon.home / "ledger.db", "UPDATE journal SET at = at - 3 * 86400000 WHERE seq <= 6")
        daemon.start()

        def answer(query):
            return self.keep(Stream(daemon, query))

        daemon.wait(lambda: answer("?since=0").status == 410, "retention")
        for since in (0, 5):
            self.assertIn("events up to 6 are no longer kept", json.loads(answer(f"?since={since}").text())["detail"])
        follows = answer("?since=6")
        self.assertEqual([follows.event()[2]["seq"], follows.event()[2]["seq"]], [6, 7])


class Slow(harness.Case):
    def test_stalled_client__is_disconnected(self):
        gpus = [{"uuid": "GPU-%032d" % index, "index": index, "milli": 1000, "mib": 81920, "model": "m" * 100}
                for index in range(64)]
        one = harness.node("alpha", 64000, annotations={"milligpu.io/gpus": json.dumps(gpus)})
        api, daemon = self.pair(cluster=harness.objects(one))
        for number in range(800):  # some megabytes: more than the kernel holds for a connection
            api.request("PATCH", "/api/v1/nodes/alpha",
                        {"metadata": {"annotations": {"milligpu.io/cordon": ("all", "")[number % 2]}}})
        lazy = [socket.socket() for _ in range(3)]
        for one in lazy:
            self.addCleanup(one.close)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)  # before it connects, so that it stays so
            one.connect(("127.0.0.1", daemon.port["admin"]))
            one.sendall(b"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        quick = self.keep(Stream(daemon, "?since=0"))
        size = 0
        while (event := quick.event()) and event[2]["seq"] < 500:
            size += len(json.dumps(event))
        self.assertGreater(size, 5 << 20)

        daemon.wait(lambda: "\nmilligpu_streams 4\n" in daemon.metrics(), "the streams")
        daemon.wait(lambda: 'milligpu_streams_ended_total{cause="slow"} 3\n' in daemon.metrics(), "their end", 50)
        daemon.wait(lambda: "\nmilligpu_streams 1\n" in daemon.metrics(), "the quick one")


if __name__ == "__main__":
    harness.main(side_by_side=True)
