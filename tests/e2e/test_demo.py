"""demo.sh, in a copy of the folder that is built already."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import harness


class Demo(harness.Case):
    def setUp(self):
        self.home = self.scratch()
        shutil.copy(harness.SOURCE / "demo.sh", self.home)
        shutil.copytree(harness.SOURCE / "demo", self.home / "demo")
        (self.home / "build/release").mkdir(parents=True)
        (self.home / "build/release/bin").symlink_to(harness.BIN)
        for path in ("scripts/install-deps.sh", "path/cmake"):  # nothing is installed or built
            file = self.home / path
            file.parent.mkdir()
            file.write_text("#!/bin/sh\n")
            file.chmod(0o755)
        # The demo takes other ports than the usual ones, which this machine may need.
        taken = self.keep(socket.socket())
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8910))
            taken.listen()
        except OSError:
            pass  # somebody has it already
        self.addCleanup(self.stop)

    def demo(self, *flags):
        path = f"{self.home / 'path'}:{os.environ['PATH']}"
        done = subprocess.run([self.home / "demo.sh", *flags], capture_output=True, text=True,
                              env={**os.environ, "PATH": path})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def server(self):
        """The pid in its file."""
        file = self.home / "build/demo/pid"
        return int(file.read_text()) if file.exists() else None

    def lives(self, pid):
        """It is no child of this process, so its end cannot be waited for."""
        try:
            return "--standalone" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return False

    def stop(self):
        if (pid := self.server()) and self.lives(pid):
            os.kill(pid, signal.SIGTERM)

    def stays(self, *flags):
        """The commands that it names work, until its server is stopped as it says; returns what it wrote."""
        said = self.demo(*flags)
        pid = int(re.search(r"^stop it: kill (\d+)$", said, re.MULTILINE).group(1))
        self.assertEqual(pid, self.server())
        self.assertTrue(self.lives(pid))
        for words in ("history", "doctor"):
            command = re.search(rf"^  (build/release/bin/milligpuctl {words}.*)$", said, re.MULTILINE).group(1)
            done = subprocess.run(command.split(), cwd=self.home, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command + done.stdout)
            self.assertNotEqual(done.stdout, "")
        os.kill(pid, signal.SIGTERM)
        while self.lives(pid):  # ctest has a limit
            harness.pause()
        return said

    def test_demo__leaves_a_server_that_answers(self):
        self.assertIn("no GPU of model H100*", self.stays())

    def test_demo__stops_the_server_of_the_last_run(self):
        self.demo()
        before = self.server()
        self.stays()
        self.assertFalse(self.lives(before))

    def test_once__leaves_nothing(self):
        self.assertIn("all of this is right", self.demo("--once"))
        self.assertIsNone(self.server())

    def test_many__runs_many_pods(self):
        """Each kind has more names than a pipe holds, so a reader that leaves after the first one is noticed."""
        many, long = "m" * 60, "x" * 230

        def pod(name, annotations):
            return json.dumps(harness.pod(name, 20, namespace=many, annotations=annotations))

        pods = [pod(f"fits-{i}-{long}", {}) for i in range(230)]
        pods += [pod(f"waits-{i}-{long}", {"milligpu.io/gpu-model": "H100*"}) for i in range(230)]
        (self.home / "demo/pods.yaml").write_text("\n---\n".join(pods))
        said = self.stays("--cluster", str(self.home / "demo/cluster.json"))
        self.assertTrue(f"milligpuctl pod {many}/waits-0-{long}\n" in said)
        self.assertTrue(f"milligpuctl history {many}/fits-0-{long} " in said)



if __name__ == "__main__":
    harness.main()
