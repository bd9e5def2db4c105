"""What the listeners refuse before our handlers see it: requests of browser pages, HTTP that can be read in two ways,
and bodies that no handler takes."""

import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import harness

PEERS = 100
BODY = 1024 * 1024


def ask(port, raw):
    """Send raw; returns everything received until the daemon closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), harness.PATIENCE) as peer:
        peer.sendall(raw)
        try:
            while piece := peer.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return answer


def post(path, body, *headers, host="127.0.0.1", kind="application/json"):
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", *([f"Content-Type: {kind}"] if kind else []),
             f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def status(answer):
    return int(answer.split(b" ", 2)[1])


class Browsers(harness.Story):
    def bind(self, name):
        """The body of a bind request that would be granted."""
        meta = self.daemon.create(harness.pod(name, 100))["metadata"]
        self.daemon.wait(lambda: self.daemon.admin("GET", "/api/v1/pods/default/" + name)[0] == 200,
                         "the watch to show " + name)
        return json.dumps({"PodName": name, "PodNamespace": "default", "PodUID": meta["uid"],
                           "Node": "a100-0"}).encode()

    def state(self, name):
        return (self.daemon.view(name).get("allocation") or {}).get("state")

    def test_browser_page__cannot_bind_pods(self):
        body = self.bind("page")
        port = self.daemon.port["webhook"]
        path = "/scheduler/bind"
        for raw, expected in ((post(path, body, "Origin: http://evil.example"), 403),
                              (post(path, body, "Origin: null"), 403),
                              (post(path, body, host="evil.example:8910"), 403),
                              (post(path, body, kind="text/plain"), 415),
                              (post(path, body, kind="application/x-www-form-urlencoded"), 415),
                              (post(path, body, kind=None), 415)):
            with self.subTest(raw=raw):
                self.assertEqual(status(ask(port, raw)), expected)
                self.assertIsNone(self.state("page"))
        self.assertEqual(status(ask(port, post(path, body))), 200)
        self.daemon.settle("page", "default")
        self.assertEqual(self.state("page"), "bound")

    def test_browser_page__cannot_create_pods_or_read_answers(self):
        body = json.dumps(harness.pod("made-by-a-page", 100)).encode()
        path = "/api/v1/standalone/pods"
        port = self.daemon.port["admin"]
        self.assertEqual(status(ask(port, post(path, body, "Origin: http://evil.example"))), 403)
        self.assertEqual(status(ask(port, post(path, body, host="evil.example"))), 403)
        self.assertEqual(status(ask(port, post(path, body, kind="text/plain"))), 415)
        for name in ("webhook", "admin", "probe"):
            get = b"GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
            self.assertEqual(status(ask(self.daemon.port[name], get)), 403, name)
        self.assertEqual(self.daemon.admin("GET", "/api/v1/pods/default/made-by-a-page")[0], 404)

    def test_ambiguous_request__never_runs_a_smuggled_second_request(self):
        for i, header in enumerate((b"Content-Length : %d", b"Content-Length:\r\n %d", b"Host: localhost\r\nX: %d",
                                    b"Content-Length: 0\r\nContent-Length: %d",
                                    b"Transfer-Encoding: chunked\r\nContent-Length: %d",
                                    b"Transfer-Encoding: identity\r\nX: %d", b"Expect: bogus\r\nX: %d")):
            with self.subTest(header=header):
                hidden = post("/scheduler/bind", self.bind(f"hidden-{i}"))
                answer = ask(self.daemon.port["webhook"],
                             b"POST /scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                             + header % len(hidden) + b"\r\n\r\n" + hidden)
                self.assertIn(status(answer), (400, 417, 501))
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
                self.assertIsNone(self.state(f"hidden-{i}"))


class Names(harness.Case):
    def start(self, *flags):
        return self.keep(harness.Daemon(harness.DEMO, *flags))

    def reach(self, daemon, port, host):
        get = f"GET /nothing HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        return status(ask(daemon.port[port], get))

    def test_host_names__include_those_of_the_setting(self):
        daemon = self.start("--webhook-hosts", "host.docker.internal", "--admin-hosts", "desk.example,10.0.0.7")
        self.assertEqual(self.reach(daemon, "webhook", "host.docker.internal:8910"), 404)
        self.assertEqual(self.reach(daemon, "webhook", "desk.example"), 403)
        for port in ("admin", "probe"):
            self.assertEqual(self.reach(daemon, port, "desk.example:1"), 404)
            self.assertEqual(self.reach(daemon, port, "10.0.0.7"), 404)
            self.assertEqual(self.reach(daemon, port, "host.docker.internal"), 403)

    def test_host_names__are_unchecked_off_loopback_unless_set(self):
        daemon = self.start("--webhook-listen", "0.0.0.0:0", "--insecure-webhooks", "--probe-listen", "0.0.0.0:0")
        self.assertEqual(self.reach(daemon, "webhook", "milligpu.milligpu-system.svc:8910"), 404)
        self.assertEqual(self.reach(daemon, "probe", "10.244.0.7:8912"), 404)
        self.assertEqual(self.reach(daemon, "admin", "10.244.0.7:8911"), 403)
        daemon = self.start("--webhook-listen", "0.0.0.0:0", "--insecure-webhooks", "--webhook-hosts", "10.96.0.210")
        self.assertEqual(self.reach(daemon, "webhook", "10.96.0.210:8910"), 404)
        self.assertEqual(self.reach(daemon, "webhook", "127.0.0.1"), 404)
        self.assertEqual(self.reach(daemon, "webhook", "10.96.0.211:8910"), 403)


class Holders(harness.Case):
    """Two clients with certificates of the same CA: client and server."""

    def open(self, *lines):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "config.yaml")
        self.write(*lines)
        return self.keep(harness.Daemon(harness.DEMO, "--config", str(self.file)))

    def write(self, *lines):
        home = harness.certificates()
        self.file.write_text("\n".join([f"webhook_cert: {home}/server.crt", f"webhook_key: {home}/server.key",
                                        f"webhook_client_ca: {home}/ca.crt", *lines, ""]))

    def ask(self, daemon, holder):
        home = harness.certificates()
        context = ssl.create_default_context(cafile=home / "ca.crt")
        context.load_cert_chain(home / f"{holder}.crt", home / f"{holder}.key")
        peer = http.client.HTTPSConnection("127.0.0.1", daemon.port["webhook"], timeout=harness.PATIENCE, context=context)
        try:
            peer.request("POST", "/scheduler/bind", "{}", {"Content-Type": "application/json"})
            answer = peer.getresponse()
            return answer.status, answer.read().decode()
        finally:
            peer.close()

    def test_client_names__decide_which_clients_bind_and_follow_a_sighup(self):
        daemon = self.open("webhook_client_names: client")
        self.assertEqual(self.ask(daemon, "client")[0], 200)
        status, said = self.ask(daemon, "server")
        self.assertEqual(status, 403)
        self.assertIn("shows CN server, and webhook_client_names lists none of these", said)
        self.assertIn("shows CN server", daemon.logged())
        self.write("webhook_client_names: other,server")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: "certificates reloaded" in daemon.logged(), "the reload")
        self.assertEqual(self.ask(daemon, "server")[0], 200)
        self.assertEqual(self.ask(daemon, "client")[0], 403)
        self.assertNotIn("any certificate", daemon.logged())

    def test_client_names__when_unset_admit_the_ca_with_a_warning(self):
        daemon = self.open()
        self.assertEqual(self.ask(daemon, "client")[0], 200)
        self.assertEqual(self.ask(daemon, "server")[0], 200)
        self.assertIn("any client with a certificate of webhook_client_ca can bind pods", daemon.logged())
        found = daemon.doctor("webhooks")
        self.assertEqual(found["status"], "warning")
        self.assertIn("webhook_client_names", found["fix"])


class Ends(harness.Case):
    """/metrics says when the certificate in use ends, also of one that has replaced another."""

    def shown(self, daemon):
        page = daemon.request("probe", "GET", "/metrics")[1].decode()
        return [int(end) for end in re.findall(
            r'^milligpu_certificate_expiry_timestamp_seconds{port="webhook"} (\d+)$', page, re.M)]

    def test_certificate__shows_its_new_expiry_after_renewal(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = pathlib.Path(folder.name, "tls.crt"), pathlib.Path(folder.name, "tls.key")
        ends = []

        def make(days):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-days", str(days), "-subj", "/CN=server", "-keyout", key, "-out", cert],
                           check=True, capture_output=True)
            shown = subprocess.run(["openssl", "x509", "-in", cert, "-noout", "-enddate"], check=True,
                                   capture_output=True, text=True).stdout
            ends.append(ssl.cert_time_to_seconds(shown.strip().removeprefix("notAfter=")))

        make(2)
        daemon = self.keep(harness.Daemon(harness.DEMO, "--webhook-cert", str(cert), "--webhook-key", str(key)))
        self.assertEqual(self.shown(daemon), ends)
        self.doctor(daemon, "warning", f"webhook certificate ends at {self.date(ends[0])}")
        make(9)
        daemon.wait(lambda: self.shown(daemon) == ends[1:], "the end of the new certificate")
        self.doctor(daemon, "warning", f"webhook certificate ends at {self.date(ends[1])}")
        make(40)
        daemon.wait(lambda: self.shown(daemon) == ends[2:], "the end of the new certificate")
        self.doctor(daemon, "ok", f"webhook certificate ends at {self.date(ends[2])}")

    def date(self, seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))

    def doctor(self, daemon, status, text):
        found = daemon.doctor("tls")
        self.assertEqual((found["status"], found["text"]), (status, text))
        self.assertEqual("renew it" in found["fix"], status != "ok")

    def test_doctor__reports_the_certificate_that_expires_first(self):
        home = harness.certificates()  # for two days
        daemon = self.keep(harness.Daemon(harness.DEMO, "--webhook-cert", str(home / "server.crt"), "--webhook-key",
                                          str(home / "server.key"), "--report-listen", "127.0.0.1:0", "--report-cert",
                                          str(home / "client.crt"), "--report-key", str(home / "client.key"),
                                          env=harness.wall_clock(self.clock(), 0)))
        ends = [ssl.cert_time_to_seconds(subprocess.run(
            ["openssl", "x509", "-in", home / f"{name}.crt", "-noout", "-enddate"], check=True, capture_output=True,
            text=True).stdout.strip().removeprefix("notAfter=")) for name in ("server", "client")]
        for ahead_s, status in ((0, "warning"), (3 * 86400, "failed"), (-20 * 86400, "ok")):
            harness.wall_clock(self.home, ahead_s)
            word = "ended" if ahead_s > 0 else "ends"
            self.doctor(daemon, status, f"webhook certificate {word} at {self.date(ends[0])}, "
                                        f"report certificate {word} at {self.date(ends[1])}")

    def clock(self):
        self.home = self.scratch()
        return self.home

    def test_certificate__has_no_expiry_without_tls(self):
        daemon = self.keep(harness.Daemon(harness.DEMO))
        self.assertEqual(self.shown(daemon), [])
        self.assertIsNone(daemon.doctor("tls"))


class Bodies(harness.Story):
    def memory(self):
        """The daemon's resident memory in bytes."""
        for line in pathlib.Path(f"/proc/{self.daemon.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def test_probe_port__buffers_no_body(self):
        before = self.memory()
        peers = []
        for i in range(PEERS):
            peer = self.keep(socket.create_connection(("127.0.0.1", self.daemon.port["probe"]), harness.PATIENCE))
            path = (b"GET /livez", b"POST /livez", b"POST /nowhere")[i % 3]
            peer.sendall(path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 4194304\r\n\r\n")
            try:
                peer.sendall(b"x" * BODY)
            except OSError:
                pass  # the daemon closed the connection, as it should
            peers.append(peer)
        most = before
        for _ in range(20):  # it may still be reading what was sent
            most = max(most, self.memory())
            time.sleep(0.02)
        self.assertLess(most - before, PEERS * BODY // 4)
        self.assertEqual(self.daemon.request("probe", "GET", "/livez")[0], 200)

    def test_unexpected_body__is_refused_before_the_client_sends_it(self):
        for port, start, expected in (("probe", "GET /livez", 413), ("probe", "POST /livez", 405),
                                      ("probe", "POST /nowhere", 404), ("admin", "GET /api/v1/nodes", 413),
                                      ("admin", "POST /api/v1/nodes", 405), ("admin", "PUT /nowhere", 404),
                                      ("webhook", "GET /scheduler/filter", 405), ("webhook", "POST /filter", 404),
                                      ("webhook", "POST /scheduler/filter/", 404)):
            for size in ("Content-Length: 4194304", "Transfer-Encoding: chunked"):
                with self.subTest(port=port, start=start, size=size):
                    head = f"{start} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{size}\r\n\r\n"
                    self.assertEqual(status(ask(self.daemon.port[port], head.encode())), expected)


if __name__ == "__main__":
    harness.main()
