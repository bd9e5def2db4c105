"""Recorded requests of real kube-schedulers, sent byte for byte, and the exact bytes of the answers."""

import os
import re
import socket

import harness

GOLDEN = harness.SOURCE / "tests/golden"


def node(name):
    return harness.node(name, "8k", uid="uid-" + name, labels={"nvidia.com/gpu.memory": "16384"})


def recorded(path):
    head, body = path.read_bytes().split(b"\r\n\r\n", 1)
    return head + b"\r\n\r\n" + body


def body_of(answer):
    return answer.split(b"\r\n\r\n", 1)[1]


class Golden(harness.Case):
    def setUp(self):
        self.maxDiff = None

    def play(self, version):
        """Start a daemon that has the recorded pods, unbound, and preempt's victim, which holds 300 on node0."""
        folder = GOLDEN / version
        pods = []
        for verb in ("bind", "filter-1500", "preempt"):
            file = folder / f"{verb}.req.http"
            if not file.exists():
                continue
            text = file.read_text()
            name = re.search(r'"(?:PodName|name)":"([^"]+)"', text).group(1)
            uid = re.search(r'"(?:PodUID|uid)":"([^"]+)"', text).group(1)
            pods.append(harness.pod(name, 1500 if "1500" in verb else 300, uid=uid))
            victim = re.search(r'"UID":"([^"]+)"', text)
            if victim:
                held = harness.pod("victim", 300, uid=victim.group(1))
                held["spec"]["nodeName"] = "node0"
                held["status"] = {"phase": "Running"}
                pods.append(held)
        daemon = self.keep(harness.Daemon(harness.objects(node("node0"), node("node1"), node("node2"), *pods)))
        return daemon, folder

    def send(self, daemon, raw):
        with socket.create_connection(("127.0.0.1", daemon.port["webhook"]), harness.PATIENCE) as peer:
            peer.settimeout(harness.PATIENCE)
            peer.sendall(raw)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += peer.recv(65536)
            length = int(re.search(rb"Content-Length: (\d+)", answer).group(1))
            while len(body_of(answer)) < length:
                answer += peer.recv(65536)
        return answer

    def check(self, version):
        daemon, folder = self.play(version)
        for verb in ("filter", "prioritize", "filter-1500", "preempt", "bind"):
            request = folder / f"{verb}.req.http"
            if not request.exists():
                continue
            with self.subTest(version=version, verb=verb):
                answer = self.send(daemon, recorded(request))
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:200])
                self.assertIn(b"Content-Type: application/json\r\n", answer)
                self.assertNotIn(b"Connection: close", answer)
                expected = folder / f"{verb}.res.json"
                if os.environ.get("UPDATE"):
                    expected.write_bytes(body_of(answer))
                self.assertEqual(body_of(answer), expected.read_bytes())

    def test_recorded_requests__are_answered_byte_for_byte(self):
        for version in "1.34", "1.36":
            self.check(version)


if __name__ == "__main__":
    harness.main()
