"""Runs the real binaries and drives them from outside; every end-to-end test is built on this."""

import concurrent.futures
import contextlib
import http.client
import http.server
import io
import json
import os
import pathlib
import pty
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("MILLIGPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BIN = pathlib.Path(os.environ.get("MILLIGPU_BIN_DIR", SOURCE / "build/dev/bin"))
TESTS = pathlib.Path(os.environ.get("MILLIGPU_BUILD_DIR", BIN.parent)) / "tests"
DEMO = SOURCE / "demo/cluster.json"
PATIENCE = 300  # seconds; a deadline that only a failing test reaches, on a busy machine under a sanitizer, too


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


def objects(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def node(name, milli, **metadata):
    """A Node that advertises this much; its GPUs are NAME/gpu-0 and so on."""
    amounts = {"nvidia.com/vgpu": str(milli)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}, "spec": {},
            "status": {"capacity": amounts, "allocatable": amounts}}


def running(name, milli, node, **more):
    """A pod that somebody else bound."""
    made = pod(name, milli, **more)
    made["spec"]["nodeName"] = node
    made["status"] = {"phase": "Running"}
    return made


ANY_PORTS = ("--webhook-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")


def run(*words, program="milligpuctl", env=None, **more):
    """Runs a program of ours to its end, without the variables of the caller that it would read."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("MILLIGPU_SERVER", "NO_COLOR") and not key.startswith("KUBERNETES_")}
    done = subprocess.run([BIN / program, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                          env={**kept, **(env or {})}, **more)
    if any(word in done.stderr for word in ("Sanitizer", "runtime error", "must:")) or done.returncode < 0:
        raise AssertionError(f"{program} {words}: {done.returncode}\n{done.stderr}")
    return done


def spoil(ledger, *statements):
    """Changes rows of a ledger behind the daemon's back, without the triggers that forbid it."""
    with contextlib.closing(sqlite3.connect(ledger, timeout=PATIENCE, isolation_level=None)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        db.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert db.execute(statement).rowcount > 0, statement
        for _, sql in triggers:
            db.execute(sql)
        db.execute("COMMIT")


def pause():
    """Between two looks at what another process does."""
    time.sleep(0.02)


def terminal(test):
    """Both sides of a pseudo-terminal; skips the test where there is none, as in a bare chroot without /dev/pts."""
    try:
        return pty.openpty()
    except OSError as trouble:
        if os.environ.get("CI") == "true":
            raise
        return test.skipTest(f"no pseudo-terminal here (openpty: {trouble}); mount /dev/pts")


def is_race_test():
    """Are the programs built with ThreadSanitizer?"""
    return b"__tsan_init" in (BIN / "milligpud").read_bytes()


def is_sanitized():
    """Are the programs built with a sanitizer, which makes them many times slower?"""
    return is_race_test() or b"__asan_init" in (BIN / "milligpud").read_bytes()


def wall_clock(folder, ahead_s):
    """The wall clock of a program that starts with the variables returned is ahead by so much, until the next call."""
    (folder / "ahead.next").write_text(str(ahead_s))
    (folder / "ahead.next").rename(folder / "ahead")
    return {"LD_PRELOAD": str(TESTS / "libfake-clock.so"), "FAKE_CLOCK": str(folder / "ahead"),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Logged:
    """A process of ours, whose log is in its folder: self.process, self.home."""

    program = "milligpud"

    def wait(self, condition, what, seconds=PATIENCE):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.program} ended with {self.process.returncode}:\n{self.logged()}")
            try:
                if condition():
                    return
            except OSError:
                pass
            pause()
        raise AssertionError(f"waited {seconds} s for {what}:\n{self.logged()}")

    def logged(self):
        return (self.home / "log").read_text(errors="replace")[-8000:]


class Daemon(Logged):
    """milligpud --standalone on free ports, in a folder of its own."""

    before = ()  # a command that starts it, put before its own command line

    def __init__(self, cluster=DEMO, *flags, env=None, ledger=None):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-")
        self.home = pathlib.Path(self.folder.name)
        self.cluster = cluster
        if isinstance(cluster, dict):
            self.cluster = self.home / "cluster.json"
            self.cluster.write_text(json.dumps(cluster))
        self.prepare(flags, ledger, env)
        self.start()

    def prepare(self, flags, ledger=None, env=None):
        self.flags = list(flags)
        if "--policy" not in flags:
            self.flags += ["--policy", "binpack"]  # the stories about places count on it
        if ledger:
            self.flags += ["--ledger", str(self.home / ledger)]
        self.env = {**os.environ, **(env or {})}

    def source(self):
        return ["--standalone", str(self.cluster)]

    def start(self, ready=True):
        ports = self.home / "ports"
        ports.unlink(missing_ok=True)
        self.log = open(self.home / "log", "ab")  # closed by kill() or stop()
        self.process = subprocess.Popen(
            [*self.before, BIN / "milligpud", *self.source(), "--webhook-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
             "--probe-listen", "127.0.0.1:0", "--port-file", str(ports), *self.flags],
            stderr=self.log, stdout=self.log, env=self.env)
        self.wait(ports.exists, "the port file")
        self.port = {}
        for line in ports.read_text().splitlines():
            name, address = line.split()
            self.port[name] = int(address.rsplit(":", 1)[1])
        if ready:
            self.await_ready()

    def await_ready(self):
        self.wait(self.ready, "ready")

    def ready(self):
        return self.admin("GET", "/readyz")[0] == 200

    def request(self, port, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port[port], timeout=PATIENCE)
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

    def doctor(self, name):
        """A check of doctor; None where it is absent."""
        return next((check for check in self.get("/api/v1/doctor")["checks"] if check["name"] == name), None)

    def metrics(self):
        return self.admin("GET", "/metrics")[1].decode()

    def metric(self, name):
        """The samples whose lines begin like this."""
        return [line for line in self.metrics().splitlines() if line.startswith(name)]

    def view(self, name, namespace="default"):
        """What REST shows of a pod, once the watch has shown it."""
        path = f"/api/v1/pods/{namespace}/{name}"
        self.wait(lambda: self.admin("GET", path)[0] == 200, path)
        return self.get(path)

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

    def ask_to_bind(self, made, node):
        meta = made["metadata"]
        status, body = self.webhook("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"],
                                             "PodUID": meta["uid"], "Node": node})
        assert status == 200, (status, body)
        return json.loads(body)["Error"]

    def bind(self, made, node):
        """Bind, and wait until REST shows the pod as bound, which is written a moment after the answer."""
        error = self.ask_to_bind(made, node)
        if error == "":
            self.settle(made["metadata"]["name"], made["metadata"]["namespace"])
        return error

    def settle(self, name, namespace):
        def is_written():
            status, body, _ = self.admin("GET", f"/api/v1/pods/{namespace}/{name}")
            held = json.loads(body).get("allocation") if status == 200 else None
            return (held or {}).get("state") != "reserved" or not self.ready()

        self.wait(is_written, f"{name} to be written as bound")

    def schedule(self, wanted, names=None):
        """Filter, prioritize and bind as kube-scheduler would; returns the node or None, the answer, and the pod."""
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

    def ctl(self, *words, **more):
        return run(*words, "--port-file", self.home / "ports", **more)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.log.close()

    def ended(self, seconds=PATIENCE):
        """Wait until it ends by itself; returns its exit status."""
        status = self.process.wait(seconds)
        self.log.close()
        return status

    def stop(self):
        """Stop it; returns its exit status, which is not 0 if a sanitizer found something."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
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


def certificates():
    """A folder with .crt and .key of ca, other-ca, server and client, made once per process."""
    with certificates.lock:
        if not certificates.folder:
            certificates.folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-tls-")
            make_certificates(pathlib.Path(certificates.folder.name))
    return pathlib.Path(certificates.folder.name)


certificates.folder = None
certificates.lock = threading.Lock()


def make_certificates(home):
    (home / "openssl.cnf").write_text(
        "[req]\ndistinguished_name = dn\n[dn]\n[ca]\nbasicConstraints = critical, CA:TRUE\n"
        "subjectKeyIdentifier = hash\n[leaf]\nbasicConstraints = critical, CA:FALSE\n"
        "subjectAltName = IP:127.0.0.1\nextendedKeyUsage = serverAuth, clientAuth\n")
    for name in ("ca", "other-ca", "server", "client"):
        issuer = ["-extensions", "ca"] if name.endswith("ca") else [
            "-extensions", "leaf", "-CA", home / "ca.crt", "-CAkey", home / "ca.key"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-config", home / "openssl.cnf", "-subj", "/CN=" + name,
                        "-keyout", home / f"{name}.key", "-out", home / f"{name}.crt", *issuer],
                       check=True, capture_output=True)


class Api:
    """tests/programs/fake_api, an API server that serves a cluster file; its header comment lists the commands."""

    def __init__(self, cluster=DEMO, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-api-")
        self.home = pathlib.Path(self.folder.name)
        if isinstance(cluster, dict):
            file = self.home / "cluster.json"
            file.write_text(json.dumps(cluster))
            cluster = file
        self.lock = threading.Lock()
        self.errors = open(self.home / "log", "wb")
        self.process = subprocess.Popen(
            [TESTS / "fake_api", "--cluster", str(cluster), "--port-file", self.home / "url", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.do("compact")  # answers once it serves
        self.url = (self.home / "url").read_text().strip()

    def do(self, what, **more):
        with self.lock:
            self.process.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        answer = json.loads(line or '{"error": "fake_api has ended"}')
        if "error" in answer:
            raise AssertionError(f"{what} {more}: {answer['error']}")
        return answer

    def fault(self, match, kind, times=1, number=0, text="", retry_after=0):
        """kind: status lose refuse truncate drip half-open silent slow stream lie (tests/support/fake_api.h)."""
        self.do("fault", match=match, kind=kind, times=times, number=number, text=text, retryAfter=retry_after)

    def seen(self, part):
        return self.do("seen", part=part)["count"]

    def request(self, method, path, body=None):
        """What somebody else does to the cluster; not sent over HTTP, so faults do not apply."""
        answer = self.do("request", method=method, path=path, **({} if body is None else {"body": body}))
        return answer["status"], json.loads(answer["body"])

    def pod(self, name, namespace="default"):
        return self.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")[1]

    def version(self):
        return int(self.request("GET", "/api/v1/pods?limit=1")[1]["metadata"]["resourceVersion"])

    def create(self, wanted):
        status, made = self.request("POST", f"/api/v1/namespaces/{wanted['metadata']['namespace']}/pods", wanted)
        assert status == 201, made
        return made

    def gone(self, name, namespace="default"):
        status, said = self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")
        assert status == 200, said

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()
        text = (self.home / "log").read_text(errors="replace")
        self.folder.cleanup()
        if status != 0:
            raise AssertionError(f"fake_api ended with {status}:\n{text}")


def kubeconfig(server, *, user=None, ca=None, namespace="gpu"):
    """A kubeconfig as a dict; it is written as JSON, which is valid YAML."""
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server, **({"certificate-authority": str(ca)} if ca else {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
    }


NOTE = "milligpu.io/allocation"


class ClusterDaemon(Daemon):
    """milligpud against an Api, with a ledger of its own on disk."""

    def __init__(self, api, *flags, user=None, ca=None, ready=True, env=None):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-")
        self.home = pathlib.Path(self.folder.name)
        self.api = api
        self.connect(api.url, user=user, ca=ca)
        self.prepare(flags, "ledger.db", env)
        self.start(ready)

    def connect(self, url, **more):
        (self.home / "kubeconfig").write_text(json.dumps(kubeconfig(url, **more)))

    def source(self):
        return ["--kubeconfig", str(self.home / "kubeconfig")]

    def create(self, wanted):
        return self.api.create(wanted)

    def logs(self, text):
        """Wait until the log contains this text."""
        self.wait(lambda: text in self.logged(), repr(text))

    def allocation(self, name, namespace="default"):
        """The pod's newest allocation, even if released; None if there was none."""
        status, body, _ = self.admin("GET", f"/api/v1/pods/{namespace}/{name}")
        return json.loads(body).get("allocation") if status == 200 else None

    def knows(self, name, state="bound"):
        self.wait(lambda: (self.allocation(name) or {}).get("state") == state, f"{name} to be {state}")

    def forgets(self, name):
        self.wait(lambda: not self.holds(name), f"{name} to hold nothing")

    def holds(self, name):
        return (self.allocation(name) or {}).get("state") in ("reserved", "bound")

    def all(self, path):
        """The items of all pages."""
        items, token = [], ""
        while True:
            page = self.get(f"{path}{'&' if '?' in path else '?'}limit=200{token}")
            items += page["items"]
            if not page.get("continue"):
                return items
            token = "&continue=" + page["continue"]

    def drive(self, made, seconds=PATIENCE):
        """Filter and bind, as kube-scheduler does, until the pod is bound; returns its node."""
        until = time.monotonic() + seconds
        said = None
        while time.monotonic() < until:
            node = self.api.pod(made["metadata"]["name"])["spec"].get("nodeName")
            if node:
                return node
            try:
                said = self.filter(made)
                for node in (said.get("NodeNames") or [])[:1]:
                    said = self.bind(made, node)
                    if said == "":
                        return node
            except (OSError, http.client.HTTPException) as trouble:
                said = trouble
            time.sleep(0.05)
        raise AssertionError(f"{made['metadata']['name']} was not bound: {said}\n{self.logged()}")

    def check(self):
        """The REST API, the database and the pods' annotations agree, and no GPU is overused."""
        try:
            self.wait(lambda: not self.differences(), "agreement")
        except AssertionError as trouble:
            raise AssertionError(f"{trouble}\nthey differ: {self.differences()}") from None

    def differences(self):
        """What disagrees; after a change the watch may need a moment."""
        wrong = []
        pods = {pod["metadata"]["uid"]: pod for pod in self.api.request("GET", "/api/v1/pods")[1]["items"]
                if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")}
        held = {}
        for allocation in self.all("/api/v1/allocations"):
            pod = pods.get(allocation["uid"], {"spec": {}, "metadata": {}})
            if allocation["state"] != "bound" or pod["spec"].get("nodeName") != allocation["node"]:
                wrong.append(("allocation", allocation))
            shares = {(share["container"], share["gpu"], share["milli"]) for share in allocation["shares"]}
            noted = json.loads(pod["metadata"].get("annotations", {}).get(NOTE, '{"containers":{}}'))
            if not allocation["presumed"] and shares != {
                    (name, share["gpu"], share["milli"])
                    for name, list_ in noted["containers"].items() for share in list_}:
                wrong.append(("annotation", allocation, noted))
            for charge in allocation["charges"]:
                held[charge["gpu"]] = held.get(charge["gpu"], 0) + charge["milli"]
            held[allocation["uid"]] = allocation["node"]
        for uid, pod in pods.items():
            if NOTE in pod["metadata"].get("annotations", {}) and uid not in held:
                wrong.append(("no allocation", pod["metadata"]["name"]))
        for node in self.all("/api/v1/nodes"):
            wrong += [("gpu", gpu) for gpu in node["gpus"]
                      if gpu["usedMilli"] > gpu["milli"] or gpu["usedMilli"] != held.get(gpu["id"], 0)]
        with contextlib.closing(sqlite3.connect(f"file:{self.home}/ledger.db?mode=ro", uri=True)) as ledger:
            rows = dict(ledger.execute("SELECT uid, node FROM allocation WHERE state <> 'released'").fetchall())
        if rows != {uid: node for uid, node in held.items() if uid in rows or uid in pods}:
            wrong.append(("database", rows, held))
        return wrong


class Case(unittest.TestCase):
    """What a test keeps ends with it."""

    def keep(self, thing):
        """Close a daemon, a server or another thing when the test ends."""
        self.addCleanup(thing.close)
        return thing

    def pair(self, *flags, cluster=DEMO):
        """An API server of this cluster, and milligpud against it."""
        api = self.keep(Api(cluster))
        return api, self.keep(ClusterDaemon(api, *flags))

    def http(self, answer):
        """The address of a server until the test ends; answer(path) returns the status and the body."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        return f"127.0.0.1:{server.server_port}"

    def scratch(self):
        """A folder that is removed when the test ends."""
        folder = tempfile.TemporaryDirectory(prefix="milligpu-e2e-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)


class Story(Case):
    """One daemon for the whole class unless a test starts its own."""

    cluster = DEMO
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(cls.cluster, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()


class SideBySide(unittest.TextTestRunner):
    """Runs several tests at a time, because those with daemons of their own mostly wait; reports them in order."""

    def run(self, test):
        def flat(suite):
            for one in suite:
                if isinstance(one, unittest.TestSuite):
                    yield from flat(one)
                else:
                    yield one

        def play(one):
            report = io.StringIO()
            result = unittest.TextTestRunner(report, verbosity=2, resultclass=self.resultclass).run(one)
            return result, report.getvalue()

        whole = unittest.TestResult()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for result, report in pool.map(play, flat(test)):
                whole.testsRun += result.testsRun
                whole.failures += result.failures
                whole.errors += result.errors
                print(report if not result.wasSuccessful() else report.split("\n")[0], flush=True)
        print(f"{whole.testsRun} stories, {len(whole.failures) + len(whole.errors)} went wrong")
        return whole


def main(side_by_side=False):
    unittest.main(verbosity=2, testRunner=SideBySide if side_by_side else None)
