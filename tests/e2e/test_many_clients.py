"""Clients that only connect or send slowly must not keep others from being answered, on the same port or another."""

import contextlib
import json
import resource
import socket
import ssl
import time

import harness

PATIENCE = 60  # seconds; a client that is locked out waits 100 or more, and sanitizers on a busy machine are slow
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
NODES = 40
BINDS = 3000
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def cluster(pods=0):
    """Nodes with room for all of the pods, which are unbound."""
    base = json.loads(harness.DEMO.read_text())["items"][0]
    nodes = []
    for i in range(NODES):
        node = json.loads(json.dumps(base))
        node["metadata"].update(name=f"node-{i}", uid=f"5b0c2f4e-0000-4a53-9f0e-{i:012d}")
        node["metadata"]["labels"]["kubernetes.io/hostname"] = f"node-{i}"
        nodes.append(node)
    waiting = [harness.pod(f"pod-{i}", 10, uid=f"6b0c2f4e-0000-4a53-9f0e-{i:012d}") for i in range(pods)]
    return {"apiVersion": "v1", "kind": "List", "items": nodes + waiting}


def answer(peer):
    """Read one answer; returns its status and body."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = peer.recv(65536)
        if not piece:
            raise ConnectionError(f"it ended after {got!r}")
        got += piece
    head, body = got.split(b"\r\n\r\n", 1)
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += peer.recv(65536)
    return int(head.split(b" ", 2)[1]), body


def post(path, body):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(raw)}\r\n\r\n").encode() + raw


class Connections(harness.Case):
    def setUp(self):
        self.open_peers = self.keep(contextlib.ExitStack())
        self.files(FILES[1])

    def files(self, soft):
        """Limit the open files of this program and of what it starts."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, FILES[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, FILES)

    def daemon_with(self, *flags, of=harness.DEMO):
        return self.keep(harness.Daemon(of, *flags))

    def guarded(self, *flags, of=harness.DEMO):
        """A daemon whose webhooks require a client certificate."""
        made = harness.certificates()
        return self.daemon_with("--webhook-cert", str(made / "server.crt"), "--webhook-key", str(made / "server.key"),
                                "--webhook-client-ca", str(made / "ca.crt"), *flags, of=of)

    def open(self, daemon, port, count, first=b"", source=None):
        """Open count connections that send only first."""
        if FILES[1] < count + 200:
            self.skipTest(f"{count} connections, and this machine allows {FILES[1]} open files")
        peers = []
        for _ in range(count):
            peer = socket.socket()
            self.open_peers.callback(peer.close)
            peer.settimeout(PATIENCE)
            if source:
                peer.bind((source, 0))
            with contextlib.suppress(OSError):
                peer.connect(("127.0.0.1", daemon.port[port]))
                peer.sendall(first)
            peers.append(peer)
        return peers

    def alive(self, daemon, *ports):
        for port in ports or ("admin", "probe"):
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", daemon.port[port]), PATIENCE) as peer:
                    peer.sendall(LIVEZ)
                    self.assertEqual(answer(peer)[0], 200, port)

    def scheduler(self, daemon):
        context = ssl.create_default_context(cafile=str(harness.certificates() / "ca.crt"))
        context.load_cert_chain(harness.certificates() / "client.crt", harness.certificates() / "client.key")
        raw = socket.create_connection(("127.0.0.1", daemon.port["webhook"]), PATIENCE)
        peer = context.wrap_socket(raw, server_hostname="127.0.0.1")
        self.open_peers.callback(peer.close)
        peer.settimeout(PATIENCE)
        return peer

    def schedulers(self, daemon):
        """BINDS of them; fewer, at least 200, if slow handshakes (sanitizers) would leave the first idle too long."""
        peers = []
        began = time.monotonic()
        while len(peers) < BINDS and (len(peers) < 200 or time.monotonic() - began < 60):
            peers.append(self.scheduler(daemon))
        return peers

    def filters(self, peer, name):
        asked = harness.pod(name, 100, uid=f"7b0c2f4e-0000-4a53-9f0e-{abs(hash(name)) % 10**12:012d}")
        peer.sendall(post("/scheduler/filter", {"Pod": asked, "Nodes": None, "NodeNames": ["a100-0"]}))
        status, body = answer(peer)
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(body)["NodeNames"], ["a100-0"])

    def metrics(self, daemon, port="admin"):
        with socket.create_connection(("127.0.0.1", daemon.port[port]), PATIENCE) as peer:
            peer.sendall(LIVEZ.replace(b"/livez", b"/metrics"))
            return answer(peer)[1].decode()

    def total(self, daemon, port, cause):
        text = self.metrics(daemon)
        name = f'milligpu_http_dropped_total{{port="{port}",cause="{cause}"}} '
        return sum(int(line[len(name):]) for line in text.splitlines() if line.startswith(name))


class Idle(Connections):
    def test_ports__answer_while_another_is_flooded(self):
        daemon = self.daemon_with()
        for flooded, count in (("probe", 600), ("admin", 600), ("webhook", 4100)):
            with self.subTest(flooded=flooded):
                self.open(daemon, flooded, count // 2)
                self.open(daemon, flooded, count // 2, b"GET /livez HTTP/1.1\r\nX-Slow: ")
                self.alive(daemon)
                for port in ("admin", "probe"):
                    self.assertIn("milligpu_ready 1", self.metrics(daemon, port))
                self.filters(self.open(daemon, "webhook", 1)[0], "beside-" + flooded)

    def test_silent_connection__is_closed_after_five_seconds(self):
        daemon = self.guarded()
        silent = self.open(daemon, "probe", 20) + self.open(daemon, "webhook", 20)
        # A client with a certificate may be idle for longer.
        idle = self.scheduler(daemon)
        for peer in silent:
            peer.settimeout(harness.PATIENCE)
            self.assertEqual(peer.recv(1), b"")
        time.sleep(3)
        self.filters(idle, "after-a-pause")
        daemon.wait(lambda: self.total(daemon, "probe", "silent") == 20, "the count of the silent")
        self.assertEqual(self.total(daemon, "webhook", "silent"), 20)
        self.assertEqual(daemon.logged().count("connections were closed"), 2, "a line for each port")


class Strangers(Connections):
    def test_webhook__serves_the_scheduler_beside_4100_unauthenticated(self):
        daemon = self.guarded()
        first = self.scheduler(daemon)
        self.filters(first, "before")
        self.open(daemon, "webhook", 2050)
        self.open(daemon, "webhook", 2050, b"\x16\x03\x01\x02")
        self.filters(first, "on-the-old-connection")
        for i in range(5):
            self.filters(self.scheduler(daemon), f"on-a-new-one-{i}")
        self.filters(first, "still-on-the-old-one")
        self.alive(daemon)

    def test_binds__of_3000_connections_are_granted(self):
        if FILES[1] < BINDS + 200:
            self.skipTest(f"{BINDS} connections, and this machine allows {FILES[1]} open files")
        for start in (self.daemon_with, self.guarded):
            with self.subTest(start=start.__name__):
                daemon = start("--http-timeout-ms", "60000", of=cluster(BINDS))
                peers = self.schedulers(daemon) if start == self.guarded else self.open(daemon, "webhook", BINDS)
                for i, peer in enumerate(peers):
                    peer.settimeout(harness.PATIENCE)
                    peer.sendall(post("/scheduler/bind", {
                        "PodName": f"pod-{i}", "PodNamespace": "default", "PodUID": f"6b0c2f4e-0000-4a53-9f0e-{i:012d}",
                        "Node": f"node-{i % NODES}"}))
                said = [answer(peer) for peer in peers]
                self.assertEqual({status for status, _ in said}, {200})
                self.assertEqual({json.loads(body)["Error"] for _, body in said}, {""})


class Files(Connections):
    def test_listeners__answer_beside_1200_slow_clients_at_1024_files(self):
        self.files(1024)
        daemon = self.daemon_with()
        self.files(FILES[1])
        self.open(daemon, "webhook", 1200, b"P")
        self.alive(daemon)
        peer = self.open(daemon, "webhook", 1)[0]
        self.filters(peer, "a-pod")

    def test_low_file_limit__lowers_the_connection_limits_and_is_logged(self):
        daemon = self.limited(600)
        self.assertEqual(daemon.logged().count("fewer connections"), 1, daemon.logged())
        self.assertIn("open_files=600", daemon.logged())
        for port in ("webhook", "admin", "probe"):
            self.open(daemon, port, 700)
        self.alive(daemon)
        peer = self.open(daemon, "webhook", 1)[0]
        self.filters(peer, "a-pod")

    def test_hopeless_file_limit__is_refused_at_the_start(self):
        with self.assertRaisesRegex(AssertionError, "open files"):
            self.limited(200)

    def limited(self, hard):
        class Limited(harness.Daemon):
            before = ("bash", "-c", f'ulimit -n {hard}; exec "$@"', "bash")

            def start(self, ready=True):
                try:
                    super().start(ready)
                except AssertionError:
                    self.log.close()
                    self.folder.cleanup()
                    raise

        return self.keep(Limited(harness.DEMO))


class Slow(Connections):
    def test_slow_bodies__leave_memory_for_others(self):
        daemon = self.daemon_with()
        head = (b"POST /scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n")
        quick = self.open(daemon, "webhook", 1)[0]
        self.filters(quick, "before")
        half = 32 << 20
        slow = self.open(daemon, "webhook", 4, head % (half + 1000))
        for peer in slow:
            peer.settimeout(harness.PATIENCE)
            with contextlib.suppress(OSError):
                peer.sendall(b" " * half)
        time.sleep(1.5)
        for i in range(3):
            self.filters(self.open(daemon, "webhook", 1)[0], f"new-{i}")
        large = b" " * (40 << 20) + json.dumps({"Pod": harness.pod("large", 100, uid="8b0c2f4e-0000-4a53-9f0e-000000000000"),
                                                "Nodes": None, "NodeNames": ["a100-0"]}).encode()
        quick.settimeout(harness.PATIENCE)
        quick.sendall(post("/scheduler/filter", large))
        self.assertEqual(answer(quick)[0], 200)


if __name__ == "__main__":
    harness.main()
