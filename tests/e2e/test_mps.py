"""milligpu-node with MPS: a runtime that test_node.py plays, and a control daemon that tests/fake_mps plays."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness
import test_node
from test_node import Refused, field, parse

CONTROL = harness.SOURCE / "tests/fake_mps/nvidia-cuda-mps-control"
UP = 'milligpu_node_mps_daemons{state="up"} 2\n'


def share(*gpus, milli=300):
    return json.dumps({"v": 1, "containers": {"main": [
        {"gpu": gpu, "index": 0, "milli": milli, "mib": 4915} for gpu in gpus]}})


def other(number):
    """A second pod: its uid and its sandbox."""
    return f"3f6c1a2e-0000-4000-8000-00000000000{number}", f"sandbox{number}"


class Node(test_node.Node):
    """The node of test_node.py with two GPUs, and MPS on both."""

    def control(self):
        """The stand-in, by this interpreter and without its packages: three starts of it count against the agent's five seconds."""
        program = self.home / "nvidia-cuda-mps-control"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {CONTROL} "$@"\n')
        program.chmod(0o755)
        return program

    def run(self, *flags, mps="on", control=None, shm="/dev/shm"):
        self.driver("")
        (self.home / "fake").mkdir(exist_ok=True)
        self.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", "--mps", mps, "--mps-control", control or self.control(),
                   "--mps-dir", self.home / "mps", "--mps-shm", shm, "--mps-look-s", "1", "--inventory-s", "1", *flags,
                   env={"FAKE_NVML": str(self.home / "driver"), "FAKE_MPS": str(self.home / "fake")})

    def tell(self, word, gpu="GPU-a", content=""):
        (self.home / f"fake/{word}-{gpu}").write_text(content)

    def take_back(self, word, gpu="GPU-a"):
        (self.home / f"fake/{word}-{gpu}").unlink()

    def pid(self, gpu="GPU-a"):
        return int((self.home / f"mps/{gpu}/daemon").read_text().split()[0])

    def shows(self, line):
        self.wait(lambda: line in self.page("/metrics")[1], line)

    def close(self):
        self.close_process()
        for record in self.home.glob("mps/*/daemon"):
            try:
                os.kill(int(record.read_text().split()[0]), signal.SIGKILL)
            except ProcessLookupError:
                pass
        super().close()


def ask(allocation, node, user=1000, number=1, name="web", env=()):
    """What the runtime asks about the one container of a pod."""
    uid, sandbox = other(number)
    sandboxed = field(1, sandbox) + field(2, name) + field(3, uid) + field(4, "default") + b"".join(
        test_node.pair(6, key, value) for key, value in node.sign(allocation, uid).items())
    container = field(1, f"id-{number}") + field(2, sandbox) + field(3, "main") + b"".join(
        field(8, one) for one in env) + field(11, field(5, f"/kubepods/pod{number}/id"))
    return sandboxed, container + (b"" if user is None else field(21, field(1, user)))


def create(runtime, *args, **more):
    """(variables, {destination: source}) of what the agent answers."""
    sandboxed, container = ask(*args, **more)
    answer = runtime.call("CreateContainer", field(1, sandboxed) + field(2, container))
    adjust = parse(answer[1][0])
    mounts = [parse(mount) for mount in adjust.get(3, [])]
    return ({parse(one)[1][0].decode(): parse(one)[2][0].decode() for one in adjust.get(4, [])},
            {mount[1][0].decode(): mount[3][0].decode() for mount in mounts})


class Mps(harness.Case):
    def node(self, *flags, url="http://127.0.0.1:9", **more):
        node = self.keep(Node(url))
        node.run(*flags, **more)
        return node

    def up(self, *flags, **more):
        node = self.node(*flags, **more)
        runtime = node.accept()
        node.shows(UP)
        return node, runtime

    def lives(self, pid):
        return pathlib.Path(f"/proc/{pid}/stat").exists()

    def test_foreign_process__named_as_mps_is_metered_as_any_other(self):
        """Of the daemon on GPU-a and a program of its name on GPU-b, the second is used by somebody."""
        node, _ = self.up("--meter-s", "1")
        named = node.home / "nvidia-cuda-mps-server"
        shutil.copy(shutil.which("sleep"), named)
        stranger = subprocess.Popen([named, "600"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        node.driver(f"process GPU-a {node.pid()} 30\nprocess GPU-b {stranger.pid} 30\n")
        node.shows('milligpu_node_gpu_outside{gpu="GPU-b"} 1\n')
        self.assertIn('milligpu_node_gpu_outside{gpu="GPU-a"} 0\n', node.page("/metrics")[1])
        pid = node.pid()
        node.stop(signal.SIGKILL)  # the next agent finds its daemons
        node.run("--meter-s", "1")
        node.driver(f"process GPU-a {pid} 30\nprocess GPU-b {stranger.pid} 30\n")
        node.accept()
        node.shows('milligpu_node_gpu_outside{gpu="GPU-b"} 1\n')
        self.assertIn('milligpu_node_gpu_outside{gpu="GPU-a"} 0\n', node.page("/metrics")[1])

    def test_share__is_an_mps_client_whatever_its_pod_sets(self):
        node, runtime = self.up()
        env, mounts = create(runtime, share("GPU-a"), node, env=[
            "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=80G"])
        self.assertEqual(env, {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_MPS_PIPE_DIRECTORY": "/run/milligpu/mps",
                               "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
                               "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4915M"})
        self.assertEqual(mounts, {"/run/milligpu/mps": f"{node.home}/mps/GPU-a/pipe", "/dev/shm": "/dev/shm"})
        self.assertEqual(create(runtime, share("GPU-b"), node, number=2)[0], env)  # also if it has set nothing
        self.assertRegex((node.home / "mps/GPU-b/log/control.log").read_text(), "^(\\d+ session \\d+ sees GPU-b\n)+$")
        pid, session = (node.home / "mps/GPU-a/log/control.log").read_text().split()[0:3:2]
        self.assertEqual(pid, session)  # what ends the agent's session does not end it

    def test_mps__skips_whole_gpus_and_refuses_shares_of_two(self):
        node, runtime = self.up()
        env, mounts = create(runtime, share("GPU-a", milli=1000), node, env=["CUDA_MPS_PIPE_DIRECTORY=/x"])
        self.assertEqual((env["CUDA_MPS_PIPE_DIRECTORY"], mounts), ("/run/milligpu/no-mps", {}))
        runtime.call("StopPodSandbox", field(1, ask(share("GPU-a", milli=1000), node)[0]))
        self.assertEqual(create(runtime, share("GPU-a", "GPU-b", milli=1000), node, number=2)[1], {})
        with self.assertRaisesRegex(Refused, "shares of 2 GPUs, and a client of MPS.* uses one: give each"):
            create(runtime, share("GPU-a", "GPU-b"), node, number=3)

    def test_dead_daemon__is_restarted_and_blocks_starts_meanwhile(self):
        node, runtime = self.up()
        node.tell("refuse")
        first = node.pid()
        os.kill(first, signal.SIGKILL)
        node.shows('milligpu_node_mps_daemons{state="down"} 1\n')
        self.assertFalse(self.lives(first))  # no zombie
        with self.assertRaisesRegex(Refused, "MPS daemon of its GPU GPU-a is not up yet: it ended.*will be retried automatically"):
            create(runtime, share("GPU-a"), node)
        self.assertIn("/dev/shm", create(runtime, share("GPU-b"), node, number=2)[1])
        node.take_back("refuse")
        node.shows(UP)
        self.assertNotEqual(node.pid(), first)
        self.assertIn("/dev/shm", create(runtime, share("GPU-a"), node)[1])
        self.assertRegex(node.page("/metrics")[1], "milligpu_node_mps_ends_total [1-9]")

    def test_daemon__that_cannot_start_gives_the_reason(self):
        node = self.node(control="/nowhere/mps-control")
        runtime = node.accept()
        node.shows('milligpu_node_mps_daemons{state="down"} 2\n')
        with self.assertRaisesRegex(Refused, "is not up yet: /nowhere/mps-control: No such file"):
            create(runtime, share("GPU-a"), node)
        apart = self.node(shm=str(node.home))
        runtime = apart.accept()
        apart.shows('milligpu_node_mps_daemons{state="down"} 2\n')
        with self.assertRaisesRegex(Refused, "not what the agent has at /dev/shm.*mount it"):
            create(runtime, share("GPU-a"), apart)

    def test_second_user__is_refused_until_the_first_pod_ends(self):
        node, runtime = self.up()
        create(runtime, share("GPU-a"), node, user=1000, name="first")
        create(runtime, share("GPU-a"), node, user=1000, number=2)
        runtime.call("StopPodSandbox", field(1, ask(share("GPU-a"), node, number=2)[0]))
        with self.assertRaisesRegex(Refused, "GPU GPU-a that is user 1000, of pod default/first, while it is user 0: "
                                             "set runAsUser: 1000"):
            create(runtime, share("GPU-a"), node, user=0, number=3)
        create(runtime, share("GPU-b"), node, user=0, number=4)
        with self.assertRaisesRegex(Refused, "does not say which user it runs as: containerd 2.2"):
            create(runtime, share("GPU-a"), node, user=None, number=5)
        runtime.call("StopPodSandbox", field(1, ask(share("GPU-a"), node, name="first")[0]))
        self.assertIn("/dev/shm", create(runtime, share("GPU-a"), node, user=0, number=3)[1])

    def test_next_agent__keeps_daemons_and_their_users(self):
        node, runtime = self.up()
        first = node.pid()
        env, _ = create(runtime, share("GPU-a"), node, name="first")
        create(runtime, share("GPU-b"), node, number=3)  # without clients, it may be replaced on a busy machine
        before = node.pid("GPU-b")
        for how in (signal.SIGKILL, signal.SIGTERM):
            node.stop(how)
            self.assertTrue(self.lives(first))
            runtime.ends()
            node.run()
            connection = node.peer()
            connection.welcome()
            connection.configure()
            runs = [ask(share(gpu), node, number=number, name=name, env=[f"{key}={value}" for key, value in env.items()])
                    for gpu, number, name in (("GPU-a", 1, "first"), ("GPU-b", 3, "web"))]
            connection.call("Synchronize", b"".join(field(1, sandboxed) for sandboxed, _ in runs) +
                            b"".join(field(2, container + field(4, 3)) for _, container in runs))
            node.shows(UP)
            self.assertEqual((node.pid(), node.pid("GPU-b")), (first, before))
            self.assertIn("milligpu_node_mps_starts_total 0\n", node.page("/metrics")[1])
            with self.assertRaisesRegex(Refused, "is user 1000, of pod default/first"):
                create(connection, share("GPU-a"), node, user=0, number=2)
            runtime = connection

    def test_created_client__does_not_start_without_its_daemon(self):
        node, runtime = self.up()
        sandboxed, container = ask(share("GPU-a"), node, env=["CUDA_MPS_PIPE_DIRECTORY=/run/milligpu/mps"])
        start = lambda: runtime.call("StartContainer", field(1, sandboxed) + field(2, container))
        create(runtime, share("GPU-a"), node)
        start()
        node.tell("refuse")
        os.kill(node.pid(), signal.SIGKILL)
        node.shows('milligpu_node_mps_daemons{state="down"} 1\n')
        with self.assertRaisesRegex(Refused, "milligpu: the MPS daemon of its GPU GPU-a is not up yet"):
            start()

    def test_fatal_fault__blocks_starts_until_the_server_recovers(self):
        node, runtime = self.up()
        create(runtime, share("GPU-a"), node, number=3)
        first = node.pid()
        node.tell("fault")
        node.shows('milligpu_node_mps_daemons{state="fault"} 1\n')
        with self.assertRaisesRegex(Refused, "had a fatal fault, and none is taken.*delete their pods"):
            create(runtime, share("GPU-a"), node)
        self.assertIn("/dev/shm", create(runtime, share("GPU-b"), node, number=2)[1])
        self.assertRegex(node.logged(), "takes no clients.*gpu=GPU-a")
        node.take_back("fault")
        node.tell("client")
        node.shows(UP)
        self.assertIn("/dev/shm", create(runtime, share("GPU-a"), node)[1])
        self.assertEqual(node.pid(), first)

    def is_replaced_when_told(self, word):
        node, _ = self.up()
        pid = node.pid()
        node.tell(word)
        node.wait(lambda: not self.lives(pid), "its end")
        node.take_back(word)
        node.shows(UP)

    def test_unrecovered_server__without_clients_is_replaced(self):
        self.is_replaced_when_told("fault")

    def test_hanging_daemon__is_left_to_its_clients(self):
        node, runtime = self.up()
        create(runtime, share("GPU-a"), node)
        pid = node.pid()
        node.tell("hang")
        node.shows('milligpu_node_mps_daemons{state="down"} 1\n')
        with self.assertRaisesRegex(Refused, "GPU-a does not answer"):
            create(runtime, share("GPU-a"), node, number=2)
        time.sleep(5)
        self.assertTrue(self.lives(pid))
        node.stop()  # though it is being asked

    def test_hanging_daemon__without_clients_is_replaced(self):
        self.is_replaced_when_told("hang")

    def test_hanging_daemon__is_replaced_after_three_questions(self):
        """Two questions take as long as three looks, when each waits for its timeout."""
        node, _ = self.up()
        node.stop()
        node.tell("hang")
        node.run()
        node.accept()
        said = lambda: re.search(r"an MPS daemon without clients is ended.*gpu=GPU-a.*unanswered=(\d+)", node.logged())
        node.wait(said, "its end")
        self.assertGreaterEqual(int(said()[1]), 3, said()[0])

    def test_node_label__switches_mps_after_clients_end(self):
        api = self.keep(harness.Api())
        name = json.loads(harness.DEMO.read_text())["items"][0]["metadata"]["name"]
        path = f"/api/v1/nodes/{name}"
        sign = Node.sign
        node = Node(api.url)
        node.sign = lambda allocation, uid: sign(node, allocation, uid, name)
        self.addCleanup(node.close)
        api.do("stop")
        node.run("--node", name, mps="label")
        runtime = node.accept()
        node.wait(lambda: "GPU-a" in node.page("/metrics")[1], "a reading")
        with self.assertRaisesRegex(Refused, "not known yet whether this node has the label milligpu.io/mps=on"):
            create(runtime, share("GPU-a"), node)
        api.do("start")
        node.wait(lambda: "MPS, by the label of the node" in node.logged(), "the label")
        self.assertEqual(create(runtime, share("GPU-a"), node)[1], {})
        self.assertFalse((node.home / "mps").exists())
        label = lambda value: api.request("PATCH", path, {"metadata": {"labels": {"milligpu.io/mps": value}}})
        label("on")
        node.shows(UP)
        agent = lambda: json.loads(api.request("GET", path)[1]["metadata"]["annotations"]["milligpu.io/agent"])
        node.wait(lambda: agent().get("mps") == {"gpus": 2, "up": 2}, "the Node to say so")
        self.assertIn("/dev/shm", create(runtime, share("GPU-b"), node, number=2)[1])
        pids = [node.pid(gpu) for gpu in ("GPU-a", "GPU-b")]
        label(None)
        node.wait(lambda: not self.lives(pids[0]), "the daemon without clients to quit")
        node.wait(lambda: "mps" not in agent(), "the Node to say so")
        self.assertTrue(self.lives(pids[1]))
        self.assertEqual(create(runtime, share("GPU-b"), node, number=3)[1], {})
        runtime.call("StopPodSandbox", field(1, ask(share("GPU-b"), node, number=2)[0]))
        node.wait(lambda: not self.lives(pids[1]), "the daemon to quit after its clients")
        self.assertEqual((node.home / "state/mps").read_text(), "off\n")

    def test_driver_release__stops_idle_daemons_and_keeps_busy_ones(self):
        node, runtime = self.up()
        create(runtime, share("GPU-b"), node)
        pids = [node.pid(gpu) for gpu in ("GPU-a", "GPU-b")]
        order = lambda what: subprocess.Popen(
            [harness.BIN / "milligpu-node", "--node", "n1", "--state-dir", node.home / "state", what])
        release = order("--release-driver")
        self.addCleanup(release.wait)
        self.addCleanup(release.kill)
        node.wait(lambda: not self.lives(pids[0]), "the daemon without clients to quit")
        node.wait(lambda: re.search("told to let go of.*MPS daemons run, which keep the driver while they have clients",
                                    node.page("/readyz")[1]), "the reason")
        self.assertTrue(self.lives(pids[1]))
        self.assertIsNone(release.poll())  # it waits for the clients
        runtime.call("StopPodSandbox", field(1, ask(share("GPU-b"), node)[0]))
        self.assertEqual(release.wait(harness.PATIENCE), 0)
        self.assertFalse(self.lives(pids[1]))
        with self.assertRaisesRegex(Refused, "no container with a share of a GPU starts now"):
            create(runtime, share("GPU-a"), node, number=2)
        self.assertEqual(order("--take-driver").wait(harness.PATIENCE), 0)
        node.shows(UP)
        self.assertIn("/dev/shm", create(runtime, share("GPU-a"), node, number=2)[1])

    def greedy(self, *, clients=(), stuck=False):
        """The node, and how a container that is over its memory ended: the commands that the daemon got before."""
        with test_node.process_in_cgroup("id-1") as process:
            lines = f"process GPU-a {process.pid} 4916 mps\n"
            node, runtime = self.up("--meter-s", "1", "--over-memory", "kill", "--over-grace-s", "1")
            node.tell("client", content="\n".join(map(str, [*clients, process.pid])))
            if stuck:
                node.tell("stuck")
            create(runtime, share("GPU-a"), node)
            node.driver(lines)
            self.assertEqual(process.wait(harness.PATIENCE), -signal.SIGKILL)
            node.wait(lambda: 'milligpu_node_over_memory_total{outcome="killed"} 1\n' in node.page("/metrics")[1],
                      "the count of the kill")
            return node, process.pid

    def test_memory_kill__ends_the_mps_work_first(self):
        node, pid = self.greedy(clients=[1, 2])
        self.assertEqual((node.home / "fake/ended-GPU-a").read_text(), f"4242 {pid} runs\n")
        self.assertIn('milligpu_node_mps_clients_ended_total{outcome="ok"} 1\n', node.page("/metrics")[1])
        self.assertNotIn("in the middle of their work", node.logged())

    def test_memory_kill__ends_the_client_although_mps_does_not_answer(self):
        node, pid = self.greedy(stuck=True)
        self.assertFalse((node.home / "fake/ended-GPU-a").exists())
        self.assertIn('milligpu_node_mps_clients_ended_total{outcome="failed"} 1\n', node.page("/metrics")[1])
        self.assertRegex(node.logged(), "warn .*killed in the middle of their work.*gpu=GPU-a clients=1 why=.*"
                                        "it does not answer")
        node.take_back("stuck")
        node.shows(UP)

    def test_mps_off__changes_nothing(self):
        node = self.keep(test_node.Node())
        node.driver("")
        node.start("--nvml", harness.TESTS / "libnvidia-ml.so.1", env={"FAKE_NVML": str(node.home / "driver")})
        runtime = node.accept()
        self.assertEqual(create(runtime, share("GPU-a"), node), ({"NVIDIA_VISIBLE_DEVICES": "void"}, {}))
        self.assertEqual(create(runtime, share("GPU-a"), node, user=0, number=2)[1], {})
        self.assertIn('milligpu_node_mps_daemons{state="up"} 0\n', node.page("/metrics")[1])

    def test_client_tmpfs__is_mounted_once(self):
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("mounts cannot be made here")
        with tempfile.TemporaryDirectory() as home:
            shm = f"{home}/run/mps/shm"
            prepare = f"{harness.BIN}/milligpu-node --node n1 --mps-shm {shm} --mps-shm-mib 16 --prepare-mps"
            done = subprocess.run(["unshare", "-m", "sh", "-ec", f"{prepare}; touch {shm}/kept; {prepare}; ls {shm}; "
                                   f"grep -c ' {shm} ' /proc/self/mounts; stat -f -c '%T %b %S' {shm}; "
                                   f"stat -c %a {shm}"], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout.split(), ["kept", "1", "tmpfs", "4096", "4096", "1777"])
        done = subprocess.run([harness.BIN / "milligpu-node", "--node", "n1", "--mps-shm", "/proc/x/shm",
                               "--prepare-mps"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--mps-shm: /proc/x: ", done.stderr)

    def test_mps_flags__are_refused_when_wrong(self):
        home = self.scratch()
        (home / "kubeconfig").write_text(json.dumps(harness.kubeconfig("http://127.0.0.1:9")))
        for flags, words in ((["--mps", "yes"], 'mps: "yes" is none of: off on label'),
                             (["--mps", "on", "--nvml", ""], "--mps: needs NVML"),
                             (["--mps-dir", "mps"], '--mps-dir: "mps" does not begin with /'),
                             (["--mps-control", ""], "--mps-control is not set"),
                             (["--mps", "on", "--mps-dir", "/" + "x" * 90], "--mps-dir: too long for the sockets")):
            done = harness.run("--node", "n1", "--state-dir", home, "--kubeconfig", home / "kubeconfig", "--nvml", "none.so", *flags,
                               program="milligpu-node")
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    harness.main(side_by_side=True)
