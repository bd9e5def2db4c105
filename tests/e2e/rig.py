"""The real binaries on a cluster file, driven from outside: what every story here begins with."""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("MILLIGPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BIN = pathlib.Path(os.environ.get("MILLIGPU_BIN_DIR", SOURCE / "build/dev/bin"))
DEMO = SOURCE / "demo/cluster.json"


def pod(name, milli=None, *, namespace="default", uid=None, annotations=None, containers=None, init=None):
    """A Pod as kube-scheduler sends it; containers: {name: milli}."""
    def container(key, amount):
        limits = {} if amount is None else {"nvidia.com/vgpu": str(amount)}
        return {"name": key, "image": "none", "resources": {"limits": limits, "requests": dict(limits)}}

    containers = containers if containers is not None else {"c": milli}
    spec = {"containers": [container(k, v) for k, v in containers.items()]}
    if init:
        spec["initContainers"] = [container(k, v) for k, v in init.items()]
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {},
                     **({"uid": uid} if uid else {})},
        "spec": spec, "status": {"phase": "Pending"},
    }


class Daemon:
    """milligpud --standalone on free ports, in a folder of its own."""

    def __init__(self, cluster=DEMO, *flags, env=None, ledger=None):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-")
        self.home = pathlib.Path(self.folder.name)
        self.cluster = cluster
        if isinstance(cluster, dict):
            self.cluster = self.home / "cluster.json"
            self.cluster.write_text(json.dumps(cluster))
        self.flags = list(flags)
        if ledger:
            self.flags += ["--ledger", str(self.home / ledger)]
        self.env = {**os.environ, **(env or {})}
        self.start()

    def start(self):
        ports = self.home / "ports"
        ports.unlink(missing_ok=True)
        self.log = open(self.home / "log", "ab")
        self.process = subprocess.Popen(
            [BIN / "milligpud", "--standalone", str(self.cluster), "--webhook-listen", "127.0.0.1:0",
             "--admin-listen", "127.0.0.1:0", "--probe-listen", "127.0.0.1:0",
             "--port-file", str(ports), *self.flags],
            stderr=self.log, stdout=self.log, env=self.env)
        self.wait(ports.exists, "the port file")
        self.port = {}
        for line in ports.read_text().splitlines():
            name, address = line.split()
            self.port[name] = int(address.rsplit(":", 1)[1])
        self.wait(lambda: self.admin("GET", "/readyz")[0] == 200, "ready")

    def wait(self, condition, what, seconds=30):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"milligpud ended with {self.process.returncode}:\n{self.logged()}")
            try:
                if condition():
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds} s for {what}:\n{self.logged()}")

    def logged(self):
        return (self.home / "log").read_text(errors="replace")[-8000:]

    def request(self, port, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port[port], timeout=20)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def admin(self, method, path, body=None):
        return self.request("admin", method, path, body)

    def get(self, path):
        status, body, _ = self.admin("GET", path)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {body[:300]}")
        return json.loads(body)

    def webhook(self, verb, body):
        status, answer, _ = self.request("webhook", "POST", "/scheduler/" + verb, body)
        return status, answer

    def nodes(self):
        return [node["name"] for node in self.get("/api/v1/nodes")["items"]]

    def create(self, wanted):
        status, body, _ = self.admin("POST", "/api/v1/standalone/pods", wanted)
        if status != 201:
            raise AssertionError(f"creating {wanted['metadata']['name']}: {status} {body}")
        return json.loads(body)

    def filter(self, made, names=None):
        status, body = self.webhook("filter", {"Pod": made, "Nodes": None, "NodeNames": names or self.nodes()})
        assert status == 200, (status, body)
        return json.loads(body)

    def bind(self, made, node):
        meta = made["metadata"]
        status, body = self.webhook("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"],
                                             "PodUID": meta["uid"], "Node": node})
        assert status == 200, (status, body)
        return json.loads(body)["Error"]

    def schedule(self, wanted, names=None):
        """As kube-scheduler would: filter, prioritize, bind.  The node, or None with the answer."""
        made = self.create(wanted)
        answer = self.filter(made, names)
        if not answer.get("NodeNames"):
            return None, answer, made
        node = answer["NodeNames"][0]
        if len(answer["NodeNames"]) > 1:
            _, body = self.webhook("prioritize", {"Pod": made, "Nodes": None, "NodeNames": answer["NodeNames"]})
            node = max(json.loads(body), key=lambda host: host["Score"])["Host"]
        error = self.bind(made, node)
        return (node if error == "" else None), error, made

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self):
        """Its exit status; sanitizers speak through it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("milligpud did not stop:\n" + self.logged()) from None
        self.log.close()
        return self.process.returncode

    def close(self):
        status = self.stop()
        text = self.logged()
        self.folder.cleanup()
        if status != 0 or "ERROR: AddressSanitizer" in text or "runtime error" in text:
            raise AssertionError(f"milligpud ended with {status}:\n{text}")


class Story(unittest.TestCase):
    """One daemon for the whole class unless a test starts its own."""

    cluster = DEMO
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(cls.cluster, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()


def main():
    unittest.main(verbosity=2)
