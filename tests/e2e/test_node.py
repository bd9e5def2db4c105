"""milligpu-node against a container runtime that this file plays: what happens on the socket, and to the process."""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import harness
import metric_table
import pages

PLUGIN, RUNTIME = 1, 2  # connections of the mux: who is called
UID = "3f6c1a2e-0000-4000-8000-000000000001"
ALLOCATION = json.dumps({"v": 1, "containers": {"main": [{"gpu": "GPU-a", "index": 0, "milli": 300, "mib": 4915}]}})
SPEC = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
        "devices": [{"name": name, "containerEdits": {"env": [name + "=1"]}} for name in ("GPU-a", "GPU-b")]}

# Samples of the GPUs of Node.driver() and of the container of metered(), in the order of the page. The driver does not tell
# the power of GPU-b; a power cap is no throttling.
SAMPLES = """\
milligpu_node_gpu_memory_total_mib{gpu="GPU-a"} 16384
milligpu_node_gpu_memory_total_mib{gpu="GPU-b"} 16384
milligpu_node_gpu_memory_used_mib{gpu="GPU-a"} 5100
milligpu_node_gpu_memory_used_mib{gpu="GPU-b"} 0
milligpu_node_gpu_temperature_celsius{gpu="GPU-a"} 61
milligpu_node_gpu_temperature_celsius{gpu="GPU-b"} 0
milligpu_node_gpu_power_watts{gpu="GPU-a"} 70.500
milligpu_node_gpu_throttled{gpu="GPU-a"} 1
milligpu_node_gpu_throttled{gpu="GPU-b"} 0
milligpu_node_gpu_ecc_errors_total{gpu="GPU-a",kind="corrected"} 1000
milligpu_node_gpu_ecc_errors_total{gpu="GPU-a",kind="uncorrected"} 2
milligpu_node_gpu_xids_total{gpu="GPU-a"} 0
milligpu_node_gpu_xids_total{gpu="GPU-b"} 0
milligpu_node_gpu_application_xids_total{gpu="GPU-a"} 1
milligpu_node_gpu_application_xids_total{gpu="GPU-b"} 0
milligpu_node_gpu_health{gpu="GPU-a",health="healthy"} 1
milligpu_node_gpu_health{gpu="GPU-a",health="xid"} 0
milligpu_node_gpu_health{gpu="GPU-a",health="ecc"} 0
milligpu_node_gpu_health{gpu="GPU-a",health="reset_required"} 0
milligpu_node_gpu_health{gpu="GPU-a",health="lost"} 0
milligpu_node_gpu_health{gpu="GPU-a",health="unknown"} 0
milligpu_node_gpu_health{gpu="GPU-b",health="healthy"} 1
milligpu_node_gpu_health{gpu="GPU-b",health="xid"} 0
milligpu_node_gpu_health{gpu="GPU-b",health="ecc"} 0
milligpu_node_gpu_health{gpu="GPU-b",health="reset_required"} 0
milligpu_node_gpu_health{gpu="GPU-b",health="lost"} 0
milligpu_node_gpu_health{gpu="GPU-b",health="unknown"} 0
milligpu_node_gpu_outside{gpu="GPU-a"} 0
milligpu_node_gpu_outside{gpu="GPU-b"} 1
milligpu_node_container_granted_milli{namespace="default",pod="web",container="main",gpu="GPU-a"} 300
milligpu_node_container_granted_mib{namespace="default",pod="web",container="main",gpu="GPU-a"} 4915
milligpu_node_container_used_milli{namespace="default",pod="web",container="main",gpu="GPU-a"} 200
milligpu_node_container_used_mib{namespace="default",pod="web",container="main",gpu="GPU-a"} 5000
milligpu_node_container_over{namespace="default",pod="web",container="main",gpu="GPU-a"} 1
"""


# --- protobuf, by hand ---

def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def pair(number, key, value):
    return field(number, field(1, key) + field(2, value))


def parse(data):
    """{field: [values]}; a nested message is bytes."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            at += 1
            if data[at - 1] < 0x80:
                return value
            shift += 7

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
        found.setdefault(key >> 3, []).append(value)
    return found


def pod(annotations, sandbox="sandbox"):
    return (field(1, sandbox) + field(2, "web") + field(3, UID) + field(4, "default") +
            b"".join(pair(6, key, value) for key, value in annotations.items()))


def container(name="main", *env):
    cgroup = field(11, field(5, "/kubepods/pod1/id-" + name))
    return field(1, "id-" + name) + field(2, "sandbox") + field(3, name) + b"".join(field(8, e) for e in env) + cgroup


BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
POD = "7d0a5c1e-0000-4000-8000-000000000007"


def one_node(boot=BOOT, **metadata):
    """A cluster of one Node, which has booted this machine."""
    return {"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", **metadata},
         "status": {"nodeInfo": {"bootID": boot}}}]}


class Refused(Exception):
    pass


class Connection:
    """One plugin that has dialed."""

    def __init__(self, peer):
        self.peer = peer
        self.peer.settimeout(harness.PATIENCE)
        self.stream = -1

    def bytes(self, count):
        data = b""
        while len(data) < count:
            more = self.peer.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def message(self):
        """(connection, stream, type, data), out of its frames."""
        data, wanted = b"", 10
        while len(data) < wanted:
            connection, length = struct.unpack(">II", self.bytes(8))
            assert length <= 4096, f"a frame of {length} bytes: the runtime's reader would give up"
            data += self.bytes(length)
            wanted = 10 + struct.unpack(">I", data[:4])[0]
        _, stream, kind, _ = struct.unpack(">IIBB", data[:10])
        return connection, stream, kind, data[10:]

    def send(self, connection, stream, kind, data):
        message = struct.pack(">IIBB", len(data), stream, kind, 0) + data
        self.peer.sendall(struct.pack(">II", connection, len(message)) + message)

    def welcome(self):
        connection, stream, kind, data = self.message()
        call = parse(data)
        assert (connection, kind) == (RUNTIME, 1) and call[2] == [b"RegisterPlugin"], call
        assert parse(call[3][0])[1] == [b"milligpu"] and parse(call[3][0])[2] == [b"20"], call
        self.send(RUNTIME, stream, 2, b"")

    def call(self, method, payload):
        self.stream += 2
        request = field(1, "nri.pkg.api.v1alpha1.Plugin") + field(2, method) + field(3, payload)
        self.send(PLUGIN, self.stream, 1, request)
        connection, stream, kind, data = self.message()
        assert (connection, stream, kind) == (PLUGIN, self.stream, 2)
        answer = parse(data)
        status = parse(answer.get(1, [b""])[0])
        if status.get(1, [0])[0] != 0:
            raise Refused(status.get(2, [b""])[0].decode())
        return parse(answer.get(2, [b""])[0])

    def configure(self, version="v2.3.7"):
        return self.call("Configure", field(2, "containerd") + field(3, version))

    def synchronize(self, *pods):
        return self.call("Synchronize", b"".join(field(1, one) for one in pods))

    def create(self, annotations, *env):
        answer = self.call("CreateContainer", field(1, pod(annotations)) + field(2, container("main", *env)))
        adjust = parse(answer.get(1, [b""])[0])
        env = {parse(one)[1][0].decode(): parse(one)[2][0].decode() for one in adjust.get(4, [])}
        return [parse(device)[1][0].decode() for device in adjust.get(8, [])], env

    def start(self, annotations):
        self.call("StartContainer", field(1, pod(annotations)) + field(2, container()))

    def ends(self):
        try:
            while self.peer.recv(65536):
                pass
        except ConnectionResetError:
            pass


class Node(harness.Logged):
    """A folder that is the node: socket, CDI, keys, state; and the agent."""

    program = "milligpu-node"

    def __init__(self, url="http://127.0.0.1:9"):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-node-")
        self.home = pathlib.Path(self.folder.name)
        for name in ("cdi", "keys", "cgroups"):
            (self.home / name).mkdir()
        (self.home / "cdi/nvidia.json").write_text(json.dumps(SPEC))
        (self.home / "kubeconfig").write_text(json.dumps(harness.kubeconfig(url)))
        self.key = self.home / "key.pem"
        self.openssl("genpkey", "-algorithm", "ed25519", "-out", self.key)
        public = self.openssl("pkey", "-in", self.key, "-pubout", "-outform", "DER")[-32:]
        self.key_id = hashlib.sha256(public).hexdigest()[:16]
        (self.home / "keys" / self.key_id).write_text(base64.b64encode(public).decode())
        self.peers = []
        self.listen()

    def openssl(self, *words):
        return subprocess.run(["openssl", *words], check=True, capture_output=True).stdout

    def sign(self, allocation=ALLOCATION, uid=UID, node="n1"):
        text = self.home / "signed"
        text.write_bytes(b"\0".join(part.encode() for part in ("milligpu.io/allocation/v1", uid, node, allocation)))
        made = self.openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.key, "-in", text)
        return {"milligpu.io/allocation": allocation,
                "milligpu.io/signature": f"v1:{self.key_id}:{base64.b64encode(made).decode()}"}

    def listen(self):
        """A runtime that starts: its socket is a new one."""
        (self.home / "nri.sock").unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.home / "nri.sock"))
        self.socket.listen(4)
        self.socket.settimeout(harness.PATIENCE)

    def start(self, *flags, env=None):
        (self.home / "ports").unlink(missing_ok=True)
        self.log = open(self.home / "log", "ab")
        self.process = subprocess.Popen(
            [harness.BIN / "milligpu-node", "--node", "n1", "--nri-socket", self.home / "nri.sock",
             "--state-dir", self.home / "state", "--keys-dir", self.home / "keys", "--cdi-dirs", self.home / "cdi",
             "--cgroup-dir", self.home / "cgroups", "--kubeconfig", self.home / "kubeconfig", "--nvml", "",
             "--probe-listen", "127.0.0.1:0", "--port-file", self.home / "ports", *flags], stderr=self.log, env={**os.environ, **(env or {})})

    def clock(self, ahead_s):
        """From now on the agent's wall clock is ahead by so much. Returns the variables that make it so."""
        return harness.wall_clock(self.home, ahead_s)

    def driver(self, lines, of_a=""):
        """What NVIDIA's driver says from now on: two GPUs, more of the first, and these lines."""
        following = self.home / "driver.next"
        following.write_text("driver 615.10\ngpu GPU-a NVIDIA_T4 16384 used=5100 temperature=61 power=70500 clocks=64 "
                             f"ecc=2 {of_a}\ngpu GPU-b NVIDIA_T4 16384 clocks=5\n" + lines)
        following.rename(self.home / "driver")

    def peer(self):
        connection = Connection(self.socket.accept()[0])
        self.peers.append(connection)
        return connection

    def accept(self, *pods, version="v2.3.7"):
        """The agent's next connection, up to the end of the list of what runs."""
        connection = self.peer()
        connection.welcome()
        connection.configure(version)
        connection.synchronize(*pods)
        return connection

    def page(self, path):
        port = int((self.home / "ports").read_text().rsplit(":", 1)[1])
        peer = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.PATIENCE)
        try:
            peer.request("GET", path)
            answer = peer.getresponse()
            return answer.status, answer.read().decode()
        finally:
            peer.close()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(harness.PATIENCE)
        self.log.close()
        text = self.logged()
        assert status == (0 if how == signal.SIGTERM else -how), text
        assert "ERROR: AddressSanitizer" not in text and "runtime error" not in text, text

    def close_process(self):
        if self.process.poll() is None:
            self.stop()

    def close(self):
        self.close_process()
        for peer in self.peers:
            peer.peer.close()
        self.socket.close()
        self.folder.cleanup()


def stat(pid, name):
    """What /proc/PID/stat says of a child of init, of any name."""
    return f"{pid} ({name}) S 1" + " 0" * 17 + " 4711 0\n"


@contextlib.contextmanager
def process_in_cgroup(name):
    """A process of its own in a new cgroup of this name; skips where no cgroup can be made."""
    mount = pathlib.Path("/sys/fs/cgroup")
    top = mount if (mount / "cgroup.controllers").exists() else mount / "pids"
    own = top / f"milligpu-e2e-{os.getpid()}-{threading.get_ident()}"  # stories run side by side
    made = [own, own / name]
    process = subprocess.Popen(["sleep", "600"])
    try:
        for folder in made:
            folder.mkdir()
        (made[1] / "cgroup.procs").write_text(str(process.pid))
    except OSError as why:
        process.kill()
        process.wait()
        for folder in reversed(made):
            if folder.exists():
                folder.rmdir()
        raise unittest.SkipTest(f"no cgroup can be made here: {why}") from why
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for folder in reversed(made):
            folder.rmdir()


class Agent(harness.Case):
    def node(self, *flags, url="http://127.0.0.1:9", env=None):
        node = Node(url)
        node.start(*flags, env=env)
        self.addCleanup(node.close)
        return node

    def api(self, cluster):
        api = self.keep(harness.Api(cluster))
        api.node = lambda: api.request("GET", "/api/v1/nodes/n1")[1]
        api.says = lambda what, none: json.loads(api.node()["metadata"].get("annotations", {}).get(f"milligpu.io/{what}", none))
        api.agent = lambda: api.says("agent", "{}")
        api.gpus = lambda: api.says("gpus", "[]")
        return api

    def unready(self, node, words):
        """It is not ready for this reason, and not to be restarted for it."""
        node.wait(lambda: re.search(words, node.page("/readyz")[1]), words)
        self.assertEqual(node.page("/readyz")[0], 503)
        self.assertEqual(node.page("/livez")[0], 200)

    def ready(self, node):
        node.wait(lambda: node.page("/readyz") == (200, "ok\n"), "ready")

    def test_agent__is_ready_once_seen_and_stays_so_without_the_api_server(self):
        api = self.api(one_node())
        node = self.node("--pod-uid", POD, url=api.url)
        self.unready(node, "^the container runtime does not ask this agent.*\nthe Node has not yet shown.*\n$")
        runtime = node.accept()
        self.ready(node)
        self.assertEqual(api.agent()["pod"], {"uid": POD, "node": api.node()["metadata"]["uid"], "boot": BOOT})
        self.assertEqual(api.seen("PATCH /api/v1/nodes/n1"), 2)  # the first could not name the Node
        self.assertIn("ready: the GPUs of this node may be handed out\n", node.logged())
        self.assertIn('milligpu_node_ready{condition="node"} 1\n', node.page("/metrics")[1])
        api.do("fault", match="PATCH", kind="refuse", times=1000)
        runtime.peer.close()
        self.unready(node, "^the container runtime does not ask this agent")
        self.assertIn('milligpu_node_ready{condition="runtime"} 0\n', node.page("/metrics")[1])
        runtime = node.accept(version="v2.3.8")  # which is news for the Node
        node.wait(lambda: "the node cannot be reported" in node.logged(), "the patch to fail")
        self.ready(node)
        self.assertEqual(node.logged().count("not ready: the GPUs of this node may not be handed out"), 2 + 1)

    def test_recreated_node__is_named_by_its_new_uid(self):
        api = self.api(one_node())
        node = self.node("--pod-uid", POD, url=api.url)
        runtime = node.accept()
        self.ready(node)
        api.request("DELETE", "/api/v1/nodes/n1")
        made = one_node()["items"][0]
        self.assertEqual(api.request("POST", "/api/v1/nodes", made)[0], 201)
        runtime.peer.close()
        node.accept(version="v2.3.8")  # which is news, so nobody waits a minute for the next look
        node.wait(lambda: api.agent().get("pod", {}).get("node") == api.node()["metadata"]["uid"], "the new uid")
        self.ready(node)

    def test_cloned_machine__is_not_ready_and_serves_on(self):
        other = "11111111-2222-4333-8444-555555555555"
        api = self.api(one_node(other))
        node = self.node("--pod-uid", POD, url=api.url)
        runtime = node.accept()
        self.unready(node, f'^the Node says.*boot id "{other}".*"{BOOT}": do two machines have the name n1')
        self.assertRegex(node.logged(), "not ready: .*do two machines have the name n1")
        self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
        kernel = node.home / "proc/sys/kernel/random"
        kernel.mkdir(parents=True)
        node.stop()
        node.start("--pod-uid", POD, "--proc-dir", node.home / "proc")
        node.accept()
        self.unready(node, "boot_id cannot be read in --proc-dir")
        node.wait(lambda: "pod" not in api.agent(), "the new word of the agent")
        node.stop()
        (kernel / "boot_id").write_text(other + "\n")
        node.start("--pod-uid", POD, "--proc-dir", node.home / "proc")
        node.accept()
        self.ready(node)
        self.assertEqual(api.agent()["pod"]["boot"], other)

    def test_validator__missing_is_ready_unless_required(self):
        api = self.api(one_node())
        node = self.node("--validator", "require", url=api.url)
        runtime = node.accept(version="v2.1.6")
        self.unready(node, "^the container runtime has no validator, which --validator=require needs.*\n$")
        self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
        runtime.peer.close()
        runtime = node.accept(version="v2.3.7")
        self.ready(node)
        for rule in ("auto", "waive"):
            node.stop()
            node.start("--validator", rule)
            node.accept(version="v2.1.6")
            self.ready(node)

    def test_validator__off_is_unready_unless_waived(self):
        for rule in ("auto", "waive"):
            node = self.node("--validator", rule, url=self.api(one_node()).url)
            runtime = node.accept()
            self.ready(node)  # nobody has seen it yet
            # the plugins that the runtime asked, and the built-in validator is none of them
            runtime.call("ValidateContainerAdjustment", field(1, pod({})) + field(2, container()) +
                         field(6, field(1, "milligpu") + field(2, "20")))
            node.wait(lambda: 'milligpu_node_validator{state="off"} 1\n' in node.page("/metrics")[1], "it to be off")
            if rule == "auto":
                self.unready(node, "^the validator of the container runtime is off")
            else:
                self.ready(node)

    def test_signed_pod__gets_only_its_gpu_without_the_api_server(self):
        node = self.node()
        runtime = node.accept()
        self.assertEqual(runtime.create({}), ([], {}))  # a pod of others is not changed
        devices, env = runtime.create(node.sign(), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100")
        self.assertEqual(devices, ["nvidia.com/gpu=GPU-a"])
        self.assertEqual(env, {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30"})
        other = ALLOCATION.replace("GPU-a", "GPU-b")
        with self.assertRaisesRegex(Refused, "milligpu: .*was changed.*delete the pod"):
            runtime.create(node.sign(other))
        with self.assertRaisesRegex(Refused, "is gone"):
            runtime.create({})
        self.assertIn('milligpu_node_containers_total{outcome="gpus"} 1\n', node.page("/metrics")[1])
        self.assertIn('milligpu_node_containers_total{outcome="refused"} 2\n', node.page("/metrics")[1])

    def test_forged_allocation__from_before_the_agent_gets_nothing(self):
        node = self.keep(Node())
        for gpu in ("all", "GPU-a", "0"):
            node.start()
            forged = {"milligpu.io/allocation": ALLOCATION.replace("GPU-a", gpu)}
            runtime = node.accept(pod(forged))  # the first look of this node
            with self.assertRaisesRegex(Refused, "not signed by milligpud"):
                runtime.create(forged)
            self.assertIn("a pod runs with GPUs that milligpud did not sign", node.logged())
            node.stop(signal.SIGKILL)
            node.start()
            with self.assertRaisesRegex(Refused, "not signed by milligpud"):
                node.accept(pod(forged)).create(forged)
            node.stop()
            shutil.rmtree(node.home / "state")

    def test_unseen_container__is_named_after_a_restart(self):
        node = self.node()
        node.accept()
        node.stop(signal.SIGKILL)
        node.start()
        connection = node.peer()
        connection.welcome()
        connection.configure()
        connection.call("Synchronize", field(1, pod(node.sign())) + field(2, container("main", "HOME=/")))
        node.wait(lambda: "did not pass the agent" in node.logged(), "the warning")
        self.assertRegex(node.logged(), r"did not pass the agent.*namespace=default pod=web container=main")
        self.assertIn("milligpu_node_strangers_total 1\n", node.page("/metrics")[1])

    def test_agent__reconnects_when_the_runtime_restarts(self):
        node = self.node(url=self.api(one_node()).url)
        runtime = node.accept()
        node.wait(lambda: node.page("/readyz")[0] == 200, "ready")
        node.socket.close()
        runtime.peer.close()
        node.wait(lambda: node.page("/readyz")[0] == 503, "not ready")
        self.assertEqual(node.page("/livez")[0], 200)
        self.assertEqual(node.page("/other")[0], 404)
        node.listen()
        self.assertEqual(node.accept().create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])

    def test_runtime__that_closes_before_its_list_is_named(self):
        node = self.node()
        runtime = node.peer()
        runtime.welcome()
        runtime.configure()
        runtime.peer.close()
        node.wait(lambda: "closed the connection before it had told what runs" in node.logged(), "the reason")

    def test_rubbish__ends_the_connection_but_not_the_agent(self):
        node = self.node(url=self.api(one_node()).url)
        for rubbish in (b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", struct.pack(">II", PLUGIN, 1 << 31)):
            connection = node.peer()
            connection.peer.sendall(rubbish)
            connection.peer.shutdown(socket.SHUT_WR)
            connection.ends()
        runtime = node.accept()
        with self.assertRaises(Refused):
            runtime.call("CreateContainer", b"\xff\xff\xff")
        with self.assertRaises(Refused):
            runtime.call("NoSuchMethod", b"")
        self.ready(node)
        self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])

    def test_old_runtime__is_logged_once_until_it_changes(self):
        node = self.node()
        refusals = lambda: node.logged().count("this container runtime cannot be served")
        for version, lines in (("v1.7.29", 1), ("v1.7.29", 1), ("v2.0.5", 2), ("v2.3.7", 2), ("v2.0.5", 3)):
            connection = node.peer()
            connection.welcome()
            if version == "v2.3.7":
                connection.configure(version)
            else:
                with self.assertRaisesRegex(Refused, f"containerd {version} is too old.*2.2 or later"):
                    connection.configure(version)
            connection.peer.close()
            self.assertEqual(refusals(), lines, version)
            self.assertEqual(node.page("/readyz")[0], 503)

    def test_report_key__is_shown_only_where_reports_are_sent(self):
        for flags in (), ("--report-url", "https://127.0.0.1:9"):
            api = self.api(one_node())
            node = self.node(*flags, url=api.url)
            node.accept()
            node.wait(api.agent, "the annotation")
            self.assertEqual("key" in api.agent(), flags != ())
        file = node.home / "state/report.key"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        public = node.openssl("pkey", "-in", file, "-pubout", "-outform", "DER")[-32:]
        self.assertEqual(base64.b64decode(api.agent()["key"]), public)

    def test_agent_annotation__is_written_once_and_lasts_until_uninstall(self):
        api = self.api(one_node())
        node = self.node(url=api.url)
        patches = lambda: api.seen("PATCH /api/v1/nodes/n1")
        time.sleep(0.3)
        self.assertEqual(patches(), 0)  # not before it has served the runtime
        node.accept()
        node.wait(api.agent, "the annotation")
        self.assertEqual(api.agent()["runtime"], "containerd v2.3.7")
        time.sleep(1.5)
        self.assertEqual(patches(), 1)
        node.stop()
        self.assertNotIn("leaving", api.agent())
        for name in "n1", "gone":
            subprocess.run([harness.BIN / "milligpu-node", "--node", name, "--kubeconfig", node.home / "kubeconfig",
                            "--uninstall"], check=True)
        self.assertEqual(api.agent(), {"leaving": "uninstalled"})

    def with_driver(self, *flags, says=""):
        """An agent with a driver that has GPU-a and GPU-b, and what the Node says of them."""
        api = self.api(one_node())
        node = self.keep(Node(api.url))
        fake = node.home / "driver"
        fake.write_text("driver 570.1\ngpu GPU-a NVIDIA_T4 16384\ngpu GPU-b NVIDIA_T4 16384\n" + says)
        node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", *flags, env={"FAKE_NVML": str(fake)})
        node.agent = api.agent
        return node, api.gpus

    def test_inventory__comes_from_nvml(self):
        node, gpus = self.with_driver()
        node.accept()
        node.wait(lambda: [gpu["uuid"] for gpu in gpus()] == ["GPU-a", "GPU-b"], "the inventory")
        self.assertEqual({gpu["health"] for gpu in gpus()}, {"healthy"})

    def test_old_driver__is_logged_as_blind_to_xids(self):
        node, gpus = self.with_driver("--nvml", harness.TESTS / "libnvidia-ml-old.so.1")
        node.accept()
        node.wait(lambda: len(gpus()) == 2, "the inventory")
        self.assertIn('warn  NVIDIA\'s driver is="ready: it does not report XIDs, so they are not seen"', node.logged())

    def test_node__shows_its_driver_and_its_cdi_specification(self):
        node, gpus = self.with_driver()
        node.accept()
        node.wait(lambda: node.agent().get("cdi") == {"gpus": 2, "named": 2, "kind": "nvidia.com/gpu"}, "both names")
        self.assertEqual(node.agent()["driver"], "570.1")
        (node.home / "cdi/nvidia.json").unlink()
        node.wait(lambda: node.agent().get("cdi") == {"gpus": 2, "named": 0}, "the names to go")
        closed = {"held": "unknown", "reason": "no CDI specification of its node names it"}
        said = lambda: [{key: gpu[key] for key in closed if key in gpu} for gpu in gpus()]
        node.wait(lambda: said() == [closed, closed], "both GPUs to be closed")
        self.ready(node)  # it is these GPUs, and not the node
        (node.home / "cdi/one.json").write_text(json.dumps({**SPEC, "devices": SPEC["devices"][:1]}))
        node.wait(lambda: node.agent().get("cdi", {}).get("named") == 1, "one name")
        node.wait(lambda: said() == [{}, closed], "the other GPU to be closed")

    def test_node__shows_whether_driver_memory_limits_work(self):
        node, _ = self.with_driver("--nvml", harness.TESTS / "libnvidia-ml-old.so.1")
        limits = lambda: node.agent().get("limits")
        node.accept()
        node.wait(lambda: limits() == "absent", "a driver without limits")
        for says, word in (("limits refused\n", "refused"), ("limits real\n", "ok")):
            node, _ = self.with_driver("--inventory-s", "1", says=says)
            node.accept()
            node.wait(lambda: limits() == word, f"limits to be {word}")
            self.assertEqual(list((node.home / "cgroups").iterdir()), [])
        self.assertRegex(node.logged(), 'info  limits of GPU memory by the driver are=ok')
        node.driver("count 1\n")
        node.wait(lambda: limits() is None, "a driver that is away to say nothing")
        node.driver("limits bare\n")
        node.wait(lambda: limits() == "no_controller", "the driver that came back to be tried anew")
        self.assertRegex(node.logged(), 'warn  limits of GPU memory by the driver are=no_controller why="the cgroup has')

    def test_hanging_driver__does_not_block_containers(self):
        node, gpus = self.with_driver("--inventory-s", "1")
        connection = node.accept()
        node.wait(lambda: len(gpus()) == 2, "the inventory")
        node.driver("hang any 600000\n")
        node.wait(lambda: " hangs\n" in node.logged(), "a call that hangs")
        self.assertEqual(connection.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
        connection.start(node.sign())
        self.assertEqual(node.page("/livez")[0], 200)
        self.assertIn("milligpu_node_", node.page("/metrics")[1])

    def test_lost_driver__makes_the_node_unready_but_a_sick_gpu_does_not(self):
        node, gpus = self.with_driver("--inventory-s", "1")
        runtime = node.accept()
        self.ready(node)
        node.driver("event 1 GPU-b 8 79\n")
        node.wait(lambda: gpus()[1]["health"] == "failed", "GPU-b to fail")
        self.ready(node)
        node.driver("init 9\ncount 9\n")
        self.unready(node, "^the driver: nvml.*\n$")
        self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
        node.driver("")
        self.ready(node)

    def holds_driver(self, node):
        """Has the agent a file of the driver open, or its library mapped?"""
        home = pathlib.Path(f"/proc/{node.process.pid}")
        links = []
        for fd in (home / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                links.append(os.readlink(fd))
        return any(link.startswith(str(node.home / "driver")) for link in links) or (
            "libnvidia-ml" in (home / "maps").read_text())

    def with_library(self, *flags, labels=None, env=None):
        """An agent on n1 with a library that can be replaced; no look at the Node is due for a minute."""
        api = self.api(one_node(labels=labels or {}))
        node = self.keep(Node(api.url))
        shutil.copy(harness.TESTS / "libnvidia-ml.so.1", node.home / "libnvidia-ml.so.1")
        node.driver("")
        node.flags = ("--nvml", node.home / "libnvidia-ml.so.1", "--inventory-s", "1", *flags)
        node.env = {"FAKE_NVML": str(node.home / "driver"), **(env or {})}
        node.start(*node.flags, env=node.env)
        api.label = lambda word: self.assertEqual(200, api.request(
            "PATCH", "/api/v1/nodes/n1",
            {"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": word}}})[0])
        return api, node

    def let_go(self, api, node, word, reason):
        """All that is to be seen of an agent that has let go of the driver."""
        self.unready(node, reason)
        node.wait(lambda: api.agent().get("leaving") == word, word)
        node.wait(lambda: [gpu.get("held") for gpu in api.gpus()] == ["unknown"] * 2, "both GPUs to be closed")
        self.assertEqual([gpu["health"] for gpu in api.gpus()], ["healthy"] * 2)
        self.assertEqual(api.gpus()[0]["reason"], "the agent of its node lets go of the driver")
        node.wait(lambda: (node.home / "state/driver/released").exists(), "the driver to be let go of")
        self.assertFalse(self.holds_driver(node))

    def is_back(self, api, node, driver):
        self.ready(node)
        node.wait(lambda: api.agent().get("driver") == driver and "leaving" not in api.agent(), driver)
        node.wait(lambda: ["held" in gpu for gpu in api.gpus()] == [False] * 2, "both GPUs to be open")
        self.assertTrue(self.holds_driver(node))
        self.assertFalse((node.home / "state/driver/released").exists())

    def test_driver_recipe__replaces_the_driver_under_a_running_agent(self):
        """The commands of docs/NODE.md, as they stand there; kubectl and ssh are shims."""
        api, node = self.with_library("--pod-uid", POD)
        runtime = node.accept()
        self.is_back(api, node, "615.10")
        runtime.create(node.sign())
        tools = node.home / "tools"
        tools.mkdir()
        (tools / "kubectl").write_text(
            '#!/bin/sh\ncase "$*" in\n*" get "*) echo pod/agent ;;\n*" exec "*) [ "$4" = pod/agent ] || exit 1\n'
            '    while [ "$1" != -- ]; do shift; done\n    shift\n    exec "$@" ;;\nesac\n'
            f'echo "$*" >> {node.home}/calls\n')
        (tools / "ssh").write_text(f"#!/bin/sh\nexec {node.home}/replace\n")
        # modprobe -r, in small: it fails while a process has the driver
        (node.home / "replace").write_text(
            f"#!/bin/sh\nset -e\n! ls -l /proc/{node.process.pid}/fd | grep -q {node.home}/driver\n"
            f"! grep -q libnvidia-ml /proc/{node.process.pid}/maps\n"
            f"rm {node.home}/libnvidia-ml.so.1\ncp {harness.TESTS}/libnvidia-ml-old.so.1 {node.home}/libnvidia-ml.so.1\n"
            f"sed s/615.10/620.20/ {node.home}/driver > {node.home}/driver.next\n"
            f"mv {node.home}/driver.next {node.home}/driver\ntouch {node.home}/replaced\n")
        for file in (tools / "kubectl", tools / "ssh", node.home / "replace"):
            file.chmod(0o755)
        recipe = next(block for block in pages.blocks("docs/operate/drivers.md") if "--release-driver" in block.text)
        commands = recipe.text.splitlines()
        self.assertEqual(len([line for line in commands if "--release-driver" in line or "--take-driver" in line]), 2)
        env = {**os.environ, "PATH": f"{tools}:{harness.BIN}:{os.environ['PATH']}", "NODE": "n1",
               "REPLACE_DRIVER": "it", "MILLIGPU_NODE_NODE": "n1",
               "MILLIGPU_NODE_STATE_DIR": str(node.home / "state")}
        at = next(i for i, line in enumerate(commands) if line.startswith("ssh"))
        script = lambda lines: subprocess.run(["sh", "-euc", "\n".join(lines)], env=env, check=True)
        script(commands[:at])
        self.let_go(api, node, "told", "the agent of this node was told to let go of the NVIDIA driver")
        for call in (lambda: runtime.create(node.sign()), lambda: runtime.start(node.sign())):
            with self.assertRaisesRegex(Refused, "milligpu: no container with a share of a GPU starts now: .*told"):
                call()
        other = field(1, "elsewhere") + field(2, "other") + field(3, "uid-other") + field(4, "default")
        self.assertNotIn(8, runtime.call("CreateContainer", field(1, other) + field(2, container("other"))))
        node.wait(lambda: "milligpu_node_metering 0\n" in node.page("/metrics")[1], "the meter to stand still")
        script(commands[:1] + commands[at:])
        self.assertTrue((node.home / "replaced").exists())
        self.is_back(api, node, "620.20")
        self.assertIn("it does not report XIDs", node.logged())  # the library is another one
        self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
        runtime.start(node.sign())
        calls = (node.home / "calls").read_text()
        self.assertRegex(calls, r"(?s)drain n1 .*wait --for=condition=Ready .*spec.nodeName=n1\nuncordon n1\n$")

    def test_operator_upgrade__releases_the_driver_until_done(self):
        api, node = self.with_library(labels={"nvidia.com/gpu-driver-upgrade-state": "cordon-required"})
        runtime = node.accept()
        self.is_back(api, node, "615.10")
        api.label("pod-deletion-required")
        self.let_go(api, node, "driver-upgrade", "driver of this node is being upgraded")
        with self.assertRaisesRegex(Refused, "is being upgraded.*nvidia.com/gpu-driver-upgrade-state"):
            runtime.create(node.sign())
        node.stop(signal.SIGKILL)  # and the next one does not take it before it has read the label
        api.label("pod-restart-required")
        node.start(*node.flags, env=node.env)
        runtime = node.accept()
        self.unready(node, "driver of this node is being upgraded")
        node.wait(lambda: api.agent().get("leaving") == "driver-upgrade", "the word")
        self.assertFalse(self.holds_driver(node))
        self.assertEqual([gpu["uuid"] for gpu in api.gpus()], ["GPU-a", "GPU-b"])
        self.assertNotIn("is taken again", node.logged())
        (node.home / "libnvidia-ml.so.1").unlink()
        api.label("upgrade-failed")
        self.unready(node, "^the driver: the NVIDIA driver's library cannot be loaded")
        self.assertEqual(runtime.call("CreateContainer", field(1, pod({})) + field(2, container())), {})
        shutil.copy(harness.TESTS / "libnvidia-ml.so.1", node.home / "libnvidia-ml.so.1")
        self.is_back(api, node, "615.10")

    def test_driver_mismatch__ends_an_agent_in_a_pod_once(self):
        api, node = self.with_library("--pod-uid", POD)
        node.accept()
        self.is_back(api, node, "615.10")
        order = lambda what: subprocess.run(
            [harness.BIN / "milligpu-node", "--node", "n1", "--state-dir", node.home / "state", what], check=True)
        order("--release-driver")
        node.driver("init 18\n")  # RM and library are of different versions
        order("--take-driver")
        self.assertEqual(node.process.wait(harness.PATIENCE), 0)
        self.assertIn("the agent exits, so that its container is recreated", node.logged())
        node.log.close()
        node.start(*node.flags, env=node.env)
        node.accept()
        self.unready(node, "^the driver: nvmlInit_v2: ")
        node.driver("")
        self.is_back(api, node, "615.10")

    def test_sick_gpu__shows_its_reason_until_cleared(self):
        node, gpus = self.with_driver()
        node.accept()
        node.wait(lambda: [gpu["health"] for gpu in gpus()] == ["healthy"] * 2, "two healthy GPUs")
        node.driver("event 1 GPU-b 8 79\n")
        node.wait(lambda: gpus()[1]["health"] == "failed", "GPU-b to fail")
        self.assertRegex(gpus()[1]["reason"], "XID 79")
        self.assertRegex(gpus()[1]["since"], r"^\d{4}-\d\d-\d\dT")
        self.assertNotIn("reason", gpus()[0])
        clear = lambda gpu, folder="state", flag="--clear-fault": subprocess.run(
            [harness.BIN / "milligpu-node", "--node", "n1", "--state-dir", node.home / folder, flag, gpu],
            capture_output=True, text=True)
        self.assertEqual(clear("GPU-b").returncode, 0)
        node.wait(lambda: gpus()[1]["health"] == "healthy", "GPU-b to be healthy")
        self.assertEqual(clear("GPU-z").returncode, 0)  # taken by the agent, whose log says the rest
        self.assertRegex(node.logged(), "cannot clear the fault of a GPU.*GPU-z.*no GPU GPU-z")
        for wrong in ("", "0", "../GPU-a", "GPU-a/b"):
            self.assertIn("is no UUID of a GPU", clear(wrong).stderr)
        former = clear("GPU-b", flag="--forgive")
        self.assertEqual(former.returncode, 0)
        self.assertIn("--forgive is now --clear-fault; the next version does not accept --forgive", former.stderr)
        (node.home / "idle").mkdir()
        self.assertIn("no agent with the state folder", clear("GPU-b", "idle").stderr)

    def test_clear_fault__needs_no_api_server_and_no_runtime(self):
        """One is refused, or answers nothing; the runtime was never there."""
        api = self.api(one_node())
        api.fault("/api/v1/nodes/n1", "silent", times=1000)
        for url in ("http://127.0.0.1:9", api.url):
            node = self.keep(Node(url))
            node.driver("")
            node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", "--inventory-s", "1",
                       env={"FAKE_NVML": str(node.home / "driver")})
            runtime = node.accept() if url == api.url else None  # connected, it writes to the Node
            shows = lambda health: f'milligpu_node_gpu_health{{gpu="GPU-b",health="{health}"}} 1\n' in node.page("/metrics")[1]
            node.wait(lambda: shows("healthy"), "a reading")
            node.driver("event 1 GPU-b 8 79\n")
            node.wait(lambda: shows("xid"), "GPU-b to fail")
            if runtime:
                node.wait(lambda: api.seen("PATCH /api/v1/nodes/n1") > 0, "a report that hangs")
            done = subprocess.run([harness.BIN / "milligpu-node", "--node", "n1", "--state-dir", node.home / "state",
                                   "--clear-fault", "GPU-b"], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            node.wait(lambda: shows("healthy"), "GPU-b to be healthy")

    def test_whole_gpu__from_kubelet_is_held_until_its_pod_ends(self):
        node, gpus = self.with_driver()
        connection = node.accept()
        held = lambda: [gpu.get("held") for gpu in gpus()]
        other = field(1, "elsewhere") + field(2, "train") + field(3, "uid-train") + field(4, "batch")
        trains = field(1, "id-train") + field(2, "elsewhere") + field(3, "main") + field(
            20, field(1, "nvidia.com/gpu=GPU-b"))
        node.wait(lambda: held() == [None, None], "an inventory that nobody holds")
        connection.call("CreateContainer", field(1, other) + field(2, trains))
        node.wait(lambda: held() == [None, "pod:uid-train"], "the holder of GPU-b")
        connection.call("StopContainer", field(1, other) + field(2, trains))
        connection.call("StopPodSandbox", field(1, other))
        node.wait(lambda: held() == [None, None], "GPU-b to be free")
        self.assertEqual(connection.create(node.sign(ALLOCATION.replace("GPU-a", "GPU-b")))[0],
                         ["nvidia.com/gpu=GPU-b"])
        with self.assertRaisesRegex(Refused, "it would have GPU GPU-b whole, of which pods have shares"):
            connection.call("CreateContainer", field(1, other) + field(2, trains))

    def metered(self, driver, *flags):
        """A node with GPU-a and the driver that these lines are; the runtime has made and started one container."""
        node = self.keep(Node(self.api(one_node()).url))
        node.driver(driver)
        node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", "--inventory-s", "1", "--meter-s", "1", *flags,
                   env={"FAKE_NVML": str(node.home / "driver"), **node.clock(0)})
        runtime = node.accept()
        node.wait(lambda: "milligpu_node_gpu_memory_total_mib" in node.page("/metrics")[1] and
                  'gpu="GPU-a"' in node.page("/metrics")[1], "a reading")
        runtime.create(node.sign())
        return node, runtime

    def samples(self, node):
        """{name and labels: number}; the page is one that Prometheus reads."""
        found, families, family = {}, set(), None
        for line in node.page("/metrics")[1].splitlines():
            if line.startswith("# TYPE "):
                family = line.split()[2]
                self.assertNotIn(family, families)
                families.add(family)
            elif not line.startswith("#"):
                name, number = line.rsplit(" ", 1)
                self.assertEqual(name.partition("{")[0], family)
                self.assertNotIn(name, found)
                found[name] = float(number)
        return found

    def test_metrics__show_use_beside_the_grant(self):
        proc = self.scratch()
        for pid, cgroup in ((700, "0::/kubepods/pod1/id-main\n"), (701, "0::/user.slice\n")):
            (proc / str(pid)).mkdir()
            (proc / f"{pid}/cgroup").write_text(cgroup)
            (proc / f"{pid}/stat").write_text(stat(pid, "nvidia-cuda-mps"))
        lines = "process GPU-a 700 5000 sm=20\nprocess GPU-b 701 9 sm=1\nevent 1 GPU-a 8 31\n"
        node, runtime = self.metered(lines, "--proc-dir", proc, "--over-memory", "report")
        of = '{namespace="default",pod="web",container="main",gpu="GPU-a"}'
        node.wait(lambda: self.samples(node).get("milligpu_node_container_over" + of) == 1, "over its memory")
        page = self.samples(node)
        self.assertEqual(page["milligpu_node_metering"], 1)
        self.assertEqual(page['milligpu_node_over_memory_total{outcome="seen"}'], 1)
        self.assertEqual(page['milligpu_node_over_memory_total{outcome="killed"}'], 0)
        self.assertRegex(node.logged(), "more of a GPU's memory than its share.*namespace=default pod=web "
                                        "container=main gpu=GPU-a used_mib=5000 granted_mib=4915")
        node.wait(lambda: self.samples(node)['milligpu_node_gpu_outside{gpu="GPU-b"}'] == 1, "the process outside")
        text = node.page("/metrics")[1]
        self.assertEqual("".join(re.findall(r"^milligpu_node_(?:gpu|container)_.*\n", text, re.M)), SAMPLES)
        described, shown = metric_table.follows_its_table(self, text, "docs/NODE_REFERENCE.md")
        self.assertEqual(shown, described)  # in the order of the tables
        node.stop()
        node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", "--container-metrics", "off",
                   env={"FAKE_NVML": str(node.home / "driver")})
        node.accept().create(node.sign())
        node.wait(lambda: "GPU-a" in node.page("/metrics")[1], "a reading")
        self.assertNotIn("web", node.page("/metrics")[1])

    def test_wall_clock__steps_change_displayed_times_only(self):
        with tempfile.TemporaryDirectory() as proc:
            (pathlib.Path(proc) / "700").mkdir()
            (pathlib.Path(proc) / "700/cgroup").write_text("0::/kubepods/pod1/id-main\n")
            node, runtime = self.metered("process GPU-a 700 3000 sm=20\nevent 1 GPU-b 8 79\n", "--proc-dir", proc)
            used = 'milligpu_node_container_used_milli{namespace="default",pod="web",container="main",gpu="GPU-a"}'
            sick = 'milligpu_node_gpu_health{gpu="GPU-b",health="xid"}'
            node.wait(lambda: self.samples(node).get(used) == 200 and self.samples(node)[sick] == 1, "20 % of GPU-a")
            for ahead_s, percent in ((3600, 30), (-3600, 40), (10 * 365 * 86400, 50), (0, 60)):
                node.clock(ahead_s)
                node.driver(f"process GPU-a 700 3000 sm={percent}\n")
                node.wait(lambda: self.samples(node).get(used) == 10 * percent, f"{percent} %, {ahead_s} s ahead")
                self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
                self.assertEqual(node.page("/readyz")[0], 200)
                self.assertEqual(self.samples(node)[sick], 1)  # it is quiet for less than 10 minutes

    def test_quiet_time__ends_although_the_wall_clock_steps_back(self):
        node, _ = self.metered("", "--quiet-s", "10")  # long enough to be seen
        healthy = 'milligpu_node_gpu_health{gpu="GPU-b",health="healthy"}'
        node.driver("event 1 GPU-b 8 79\n")
        node.wait(lambda: "XID 79" in node.logged() or self.samples(node)[healthy] == 0, "the fault")
        node.clock(-7200)
        node.driver("")
        node.wait(lambda: self.samples(node)[healthy] == 1, "GPU-b to be healthy")

    def test_over_memory__kills_only_the_offending_container(self):
        bystander = subprocess.Popen(["sleep", "600"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        with process_in_cgroup("id-main") as process:
            lines = f"process GPU-a {process.pid} %d\nprocess GPU-a {bystander.pid} 9000\n"
            node, runtime = self.metered(lines % 4915, "--over-memory", "kill", "--over-grace-s", "1")
            runtime.start(node.sign())
            of = '{namespace="default",pod="web",container="main",gpu="GPU-a"}'
            node.wait(lambda: self.samples(node).get("milligpu_node_container_used_mib" + of) == 4915, "its share")
            time.sleep(2.5)
            self.assertIsNone(process.poll())
            node.driver(lines % 4916)
            self.assertEqual(process.wait(harness.PATIENCE), -signal.SIGKILL)
            self.assertIsNone(bystander.poll())
            node.wait(lambda: self.samples(node)['milligpu_node_over_memory_total{outcome="killed"}'] == 1, "the count")
            said = "killed: a container used more.*pod=web container=main gpu=GPU-a used_mib=4916 granted_mib=4915"
            node.wait(lambda: re.search(said, node.logged()), said)  # logged after it was counted

    def test_memory_limit__is_set_before_the_container_starts(self):
        node, runtime = self.metered("", "--memory-limit", "require", "--cgroup-dir", "/sys/fs/cgroup")

        def refused():
            """kubelet tries again, and a driver that is slow for once is refused, too."""
            try:
                runtime.start(node.sign())
            except Refused as why:
                return str(why)

        node.wait(lambda: refused() is None, "the start with a limit")
        limits = (node.home / "driver.limits").read_text().splitlines()
        self.assertEqual({line for line in limits if "/milligpu-scratch-" not in line},
                         {f"GPU-a /sys/fs/cgroup/kubepods/pod1/id-main 0 {4915 << 20}"})
        node.driver("limits differ\n")
        node.wait(lambda: re.search("milligpu: its GPU memory cannot be limited.*something else sets limits.*"
                                    f"is {4915 << 19} bytes after it was set to {4915 << 20}", refused() or ""),
                  "the limit that is read to count")
        self.assertFalse((node.home / "driver.reserved").exists())  # of containers that have ended
        node.driver("limits no\n")
        node.wait(lambda: re.search("milligpu: its GPU memory cannot be limited.*--memory-limit=auto.*"
                                    "DeviceSetMemoryLimits", refused() or ""), "the driver to refuse")
        node.stop()
        node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", env={"FAKE_NVML": str(node.home / "driver")})
        runtime = node.accept()
        node.wait(lambda: "GPU-a" in node.page("/metrics")[1], "a reading")
        runtime.start(node.sign())
        self.assertIn("starts without a limit of its GPU memory", node.logged())
        self.assertEqual(self.samples(node)['milligpu_node_memory_limits_total{outcome="failed"}'], 1)

    def asks(self, runtime, call, name, milli, id_, *more, kind="main", state=1):
        """A call about a container of a pod of this name, whose container main has so many milli of GPU-a."""
        allocation = json.loads(ALLOCATION)
        allocation["containers"]["main"][0]["milli"] = milli
        signed = runtime.node.sign(json.dumps(allocation), uid="uid-" + name)
        of = (field(1, "sandbox-" + name) + field(2, name) + field(3, "uid-" + name) + field(4, "shop") +
              b"".join(pair(6, key, value) for key, value in signed.items()))
        one = (field(1, id_) + field(2, "sandbox-" + name) + field(3, kind) + field(4, state) +
               field(8, "NVIDIA_VISIBLE_DEVICES=void") + field(11, b"".join(more) + field(5, "/kubepods/" + id_)))
        return runtime.call(call, field(1, of) + field(2, one))

    def served(self, *flags):
        node = self.node(*flags)
        runtime = node.accept()
        runtime.node = node
        return node, runtime

    def test_successor__waits_for_the_end_of_a_force_deleted_pod(self):
        node, runtime = self.served()
        for call in ("CreateContainer", "StartContainer"):
            self.asks(runtime, call, "old", 700, "1")
        says = (r"milligpu: GPU GPU-a has no 400 milli free for its pod yet; will be retried automatically.* 700 milli "
                r"\(one that was deleted by force.*: shop/old \(700\)$")
        with self.assertRaisesRegex(Refused, says):
            self.asks(runtime, "CreateContainer", "new", 400, "2")
        self.asks(runtime, "CreateContainer", "small", 300, "3")
        self.asks(runtime, "StopPodSandbox", "small", 300, "3")
        node.stop(signal.SIGKILL)  # the next agent learns from the list who runs
        runtime.ends()
        node.start()
        runtime = node.peer()
        runtime.node = node
        runtime.welcome()
        runtime.configure()
        self.asks(runtime, "Synchronize", "old", 700, "1", state=3)
        with self.assertRaisesRegex(Refused, says):
            self.asks(runtime, "CreateContainer", "new", 400, "4")
        self.assertIn("milligpu_node_overlaps_total 1\n", node.page("/metrics")[1])
        self.assertRegex(node.logged(), "container refused namespace=shop pod=new container=main why=.*shop/old")
        self.asks(runtime, "StopContainer", "old", 700, "1")
        self.asks(runtime, "CreateContainer", "new", 400, "5")
        with self.assertRaisesRegex(Refused, r"shop/new \(400\)"):
            self.asks(runtime, "CreateContainer", "old", 700, "6")

    def test_privileged_container__is_warned_of_refused_or_allowed(self):
        device = lambda minor: field(2, field(1, f"/dev/nvidia{minor}") + field(2, "c") + field(3, 195) + field(4, minor))
        devices = device(0) + device(1) + device(2) + field(3, field(7, field(1, 1) + field(5, "rwm")))
        total = 'milligpu_node_privileged_total{outcome="%s"} %d\n'
        node, runtime = self.served()
        create = lambda kind: self.asks(runtime, "CreateContainer", "web", 300, kind, devices, kind=kind)
        create("main")
        create("debugger")
        node.wait(lambda: "container=debugger" in node.logged(), "the warning")
        for kind, gpus in ("main", 2), ("debugger", 3):
            self.assertRegex(node.logged(), f"warn  a privileged container sees GPUs.* namespace=shop pod=web "
                                            f"container={kind} gpus={gpus} why=.*securityContext.privileged")
        self.assertEqual(node.logged().count("a privileged container sees GPUs"), 2)
        self.assertIn(total % ("warned", 2), node.page("/metrics")[1])
        plain = field(1, "sandbox-plain") + field(2, "plain") + field(3, "uid-plain") + field(4, "shop")
        plugin = field(1, "plugin") + field(2, "sandbox-plain") + field(3, "main") + field(11, devices)
        for how, refused in ("refuse", 2), ("allow", 0):
            node.stop()
            node.start("--privileged", how)
            runtime = node.accept()
            runtime.node = node
            for kind in "main", "debugger":
                if refused:
                    with self.assertRaisesRegex(Refused, r"milligpu: it is privileged \(securityContext.privileged: "
                                                         r"true\), so it can open \d GPUs.*sysadmin"):
                        create(kind)
                else:
                    create(kind)
            runtime.call("CreateContainer", field(1, plain) + field(2, plugin))
            self.assertIn(total % ("refused", refused), node.page("/metrics")[1])
            self.assertIn(total % ("warned", 0), node.page("/metrics")[1])
        self.assertEqual(node.logged().count("a privileged container sees GPUs"), 2)

    def test_agent__is_small(self):
        if harness.BIN.parent.name in ("asan", "tsan"):
            self.skipTest("a sanitizer's build is not: ./test.sh release runs this test")
        node = self.node()
        node.accept()
        time.sleep(2)
        stat = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        rss = int(stat[21]) * os.sysconf("SC_PAGE_SIZE")
        self.assertLess(rss, 16 << 20)

    def test_largest_list__is_read_in_little_memory_and_excess_is_named(self):
        """
        Messages of 4 MiB, the most that a runtime sends, full of the smallest fields that there are. What a tenant can put
        into them does not make the node unready.
        """
        node = self.node(url=self.api(one_node()).url)
        runtime = node.peer()
        runtime.welcome()
        runtime.configure()
        most = (4 << 20) - 4096
        whole = pod(node.sign())
        many = lambda field_number, count: (varint(field_number << 3 | 2) + b"\0") * count
        huge = container() + field(22, b"x" * (1 << 20))
        for members in (
                field(2, container("args") + many(7, most // 2 - 1000)),  # not read
                field(2, container("env") + many(8, most // 2 - 1000)),  # more than is read
                field(1, pod({}, "other") + many(6, most // 2 - 1000)),
                field(2, container("dev") + field(11, many(2, most // 2 - 1000))),
                field(2, container("part") + many(8, 1000000)),
                b"".join(field(1, pod({"milligpu.io/allocation": "x" * 200000}, f"sandbox-{i}")) for i in range(20)),
                field(2, huge) * 3,
                many(9, most // 2)):
            self.assertLess(len(members), 4 << 20)
            for _ in range(3):
                self.assertEqual(runtime.call("Synchronize", members + field(3, 1))[2], [1])
        runtime.call("Synchronize", field(1, whole))
        self.assertEqual(runtime.create(node.sign())[0], ["nvidia.com/gpu=GPU-a"])
        long = field(1, whole) + field(2, container("main") + many(7, most // 2 - 1000))
        runtime.call("CreateContainer", long)
        with self.assertRaisesRegex(Refused, "milligpu: it has too many environment variables or devices"):
            runtime.call("CreateContainer", field(1, whole) + field(2, container("main") + many(8, most // 2 - 1000)))
        logged = (node.home / "log").read_text()
        for kind, name in (("pod", "pod=web container=\"\""), ("container", "container=env"), ("container", "container=dev")):
            self.assertRegex(logged, f"warn .*only partly readable.*{name}", kind)
        self.assertNotRegex(logged, "only partly readable.*container=(args|part|main)")
        self.assertIn('milligpu_node_unread_total{kind="pod"} 3\n', node.page("/metrics")[1])
        self.assertIn('milligpu_node_unread_total{kind="container"} 7\n', node.page("/metrics")[1])
        self.ready(node)
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{node.process.pid}/status").read_text())[1])
        if harness.BIN.parent.name not in ("asan", "tsan"):
            self.assertLess(peak, 64 << 10)  # the DaemonSet's limit is 128 MiB

    def test_flags__are_refused_when_wrong(self):
        home = self.scratch()
        for flags, words in ((["--nodes=1"], "--nodes is no flag"), (["--node", "n1", "--state-dir", "/proc/x"], "/proc/x"),
                             (["--node", "n1", "--kubeconfig", "/nowhere"], "/nowhere"),
                             (["--node", "n1", "--kubeconfig", "/nowhere", "--uninstall"], "/nowhere")):
            done = harness.run("--state-dir", home / "state", *flags, program="milligpu-node")
            self.assertIn(words, done.stderr)
            self.assertIn(done.returncode, (1, 2))

    def test_settings_file__is_checked(self):
        file = self.scratch() / "node.yaml"
        for text, said in ("node: n1\nquiet_s: 30\n", ""), ("node: n1\nquiet: 30\n", f'{file}:2: no setting is called "quiet"'):
            file.write_text(text)
            done = harness.run("--config", file, "--check-config", program="milligpu-node")
            self.assertIn(said, done.stderr)
            self.assertEqual((done.returncode, done.stdout), (2, "") if said else (0, "the settings are fine\n"))


if __name__ == "__main__":
    harness.main(side_by_side=True)
