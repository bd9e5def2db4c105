"""The blocks of the pages that can be run here, run as they stand, in order; what pages show is what comes out.

Each page has a folder of its own, which looks like the root of the tree after a build, with our programs in PATH and a
milligpud that serves the cluster of the demo. Blocks that are marked `run on a cluster`, and those of `run` that another
test runs, are listed here with that test.
"""

import contextlib
import datetime
import fcntl
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
import termios
import time

import harness
import page_pieces
import pages
from gfd_labels import gfd_labels

# Blocks that are run by another test than this one: (a file, what stands there).
RUN_BY = {
    ("CONTRIBUTING.md", "scripts/install-deps.sh --build --test"): ("test.sh", "scripts/install-deps.sh --build --test"),
    ("README.md", "./demo.sh"): ("tests/e2e/test_demo.py", 'harness.SOURCE / "demo.sh"'),
    ("docs/operate/backup.md", "milligpuctl backup ledger-backup.db"): ("tests/e2e/test_restore.py", "docs/operate/backup.md"),
    ("docs/operate/backup.md", "milligpuctl restore ledger-backup.db /var/lib/milligpu/ledger.db"):
        ("tests/e2e/test_restore.py", "docs/operate/backup.md"),
    ("docs/operate/packages.md", "apt-get install ./milligpud_0.1.0_amd64.deb ./milligpuctl_0.1.0_amd64.deb"):
        ("tests/packaging/debian.sh", "apt-get install -y --no-install-recommends /debs/*.deb"),
    ("docs/operate/packages.md", "milligpud --standalone /usr/share/milligpu/demo/cluster.json &"):
        ("tests/packaging/debian.sh", "milligpud --standalone $demo/cluster.json"),
    ("docs/operate/drivers.md", "AGENT=$(kubectl -n milligpu-node get pods -o name --field-selector spec.nodeName=$NODE)"):
        ("tests/e2e/test_node.py", '"--release-driver" in block.text'),
    ("manifests/README.md", "podman build --build-arg COMMIT=$(git rev-parse HEAD) -t milligpud:0.1.0 ."):
        ("tests/manifests/images.sh", "manifests/README.md"),
    ("tests/README.md", "cmake --preset asan && cmake --build --preset asan --target tests-core"): ("test.sh", "build asan"),
}

# A block that is run here must not name anything outside of its folder.
OF_THE_MACHINE = r"(?<![\w.~-])/(var|etc|usr|opt|home|root|run)/|\bsudo\b|~/|\$HOME"

# Pieces of a file that another test feeds to what reads them.
READ_BY = {
    ("docs/operate/autoscalers.md", "apiVersion: kubescheduler.config.k8s.io/v1"):
        ("tests/manifests/check.py", "check_autoscalers_copy"),
    ("docs/operate/nodes.md", "- patch: |"): ("tests/manifests/check.py", "check_node_patches"),
}

DAEMON = "TestMilligpudRunsFromItsImageAndItsStatefulSet"
HERE = "TestTheCommandsOfThePagesOnAnInstalledCluster"
TLS = "TestMutualTLSBetweenKubeSchedulerAndMilligpud"
# The test of tests/controlplane that runs the commands of a block that is marked `run on a cluster`.
ON_A_CLUSTER = {
    ("manifests/README.md", "tests/manifests/policies.sh KUBECONFIG"): "TestThePoliciesDoWhatTheirScriptSays",
    ("manifests/README.md", "kubectl apply -k manifests/overlays/second-scheduler"): DAEMON,
    ("manifests/README.md", "kubectl -n milligpu-system exec milligpu-0 -c milligpud -- milligpuctl verify /var/lib/milligpu/ledger.db"):
        DAEMON,
    ("manifests/README.md", "kubectl -n milligpu-system scale statefulset/milligpu --replicas=0"): DAEMON,
    ("manifests/README.md", "kubectl delete -k manifests/overlays/second-scheduler"): DAEMON,
    ("manifests/overlays/default-scheduler/README.md", "./certs.sh certs 10.96.0.210"): TLS,
    ("manifests/overlays/default-scheduler/README.md", "kubectl apply -k ."): TLS,
    ("manifests/overlays/default-scheduler/README.md", "install -d -m 0700 /etc/kubernetes/milligpu"): TLS,
}
# The same for all blocks of a page, or of a section, which a test runs from the page itself.
FOLLOWED = {
    "charts/milligpu/README.md": "TestTheChartsStatefulSetByItsPage",
    "docs/DEFRAG.md#how-to-use-one": HERE,
    "docs/NODE.md#install-it-beside-a-gpu-operator": HERE,
    "docs/NODE.md#mps": HERE,
    "docs/NODE.md#sick-gpus": HERE,
    "docs/NODE.md#the-node-side-milligpu-node": HERE,
    "docs/NODE.md#uninstall": HERE,
    "docs/NODE.md#usage": HERE,
    "docs/operate/runbooks.md": HERE,
    "docs/use.md#how-the-container-gets-its-gpu": HERE,
    "manifests/overlays/default-scheduler/README.md#check-the-installation": HERE,
    "README.md#install-it": "TestAStatefulSetByTheFirstLinesOfTheReadme",
    "docs/operate/backup.md#back-up-each-night": "TestBackupsOfTheStatefulSetEachNight",
    "docs/operate/backup.md#back-up-and-restore": "TestTheFirstHourOfAStatefulSetAndItsDaemonSet",
    "docs/operate/backup.md#restore-a-backup": "TestTheFirstHourOfAStatefulSetAndItsDaemonSet",
    "docs/operate/packages.md#if-the-cluster-is-reached-by-a-credential-plugin": "TestACredentialPluginByKubectlProxy",
    "docs/operate/install.md": "TestTheFirstHourOfAStatefulSetAndItsDaemonSet",
    "docs/operate/upgrade.md#roll-back": "TestTheUpgradeOfAStatefulSetAndTheWayBack",
    "docs/operate/upgrade.md#upgrade": "TestTheUpgradeOfAStatefulSetAndTheWayBack",
}

# The words of a shell stand for what a user has.
STANDS_FOR = {"NAMESPACE/NAME": "batch/wants-h100", "NAMESPACE": "batch", "POD": "wants-h100", "NODE": "t4-0"}

# Exit statuses other than 0.
STATUS = {
    ("docs/migrate.md", "milligpuctl convert --gpu-memory 40960 app.yaml > app.milligpu.yaml"): 1,  # no counterpart
    ("docs/migrate.md", "$ milligpuctl convert --gpu-memory 40960 app.yaml"): 1,
    ("docs/NODE.md", "$ kubectl milligpu doctor --nodes"): 1,
}

# kubectl as far as these pages need it: it starts plugins, and it lists what is in a file.
KUBECTL = """#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
if words[0] == "milligpu":
    os.execvp("kubectl-milligpu", ["kubectl-milligpu", *words[1:]])
if words[0] != "get":
    sys.exit(f"no cluster is here for: kubectl {' '.join(words)}")
kinds = {kind.rstrip("s").capitalize() for kind in words[1].split(",")}
items = json.loads(pathlib.Path(os.environ["CLUSTER_OF_KUBECTL"]).read_text())["items"]
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": [one for one in items if one["kind"] in kinds]}))
"""


def node(name, gpus=1, labels=None, annotations=None, **info):
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": "uid-" + name, "annotations": annotations or {},
                         "labels": {"kubernetes.io/hostname": name, **gfd_labels(gpus), **(labels or {})}},
            "spec": {}, "status": {"capacity": {"cpu": "64", "memory": "512Gi", "pods": "110"},
                                   "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
                                   "conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": info}}


cluster = harness.objects


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def lives(group):
    """Whether a process of this group runs; what has ended may stay a zombie where nobody reaps it."""
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = file.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state not in "ZX":
                return True
    return False


class Page(harness.Case):
    """One page: its folder, and the milligpud that its commands find."""

    maxDiff = None

    def setUp(self):
        folder = self.scratch()
        self.home = folder / "milligpu"
        shutil.copytree(harness.SOURCE, self.home, symlinks=True,
                        ignore=lambda path, names: {"build", "tests", "shared", ".git", ".ci"} & set(names)
                        if pathlib.Path(path) == harness.SOURCE else ())
        (self.home / "tests").symlink_to(harness.SOURCE / "tests")
        (self.home / "build/release").mkdir(parents=True)
        (self.home / "build/release/bin").symlink_to(harness.BIN)
        tools = folder / "tools"
        tools.mkdir()
        (tools / "kubectl").write_text(KUBECTL)
        (tools / "kubectl").chmod(0o755)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MILLIGPU_")}
        self.env |= {"PATH": f"{tools}:{harness.BIN}:{os.environ['PATH']}", "CLUSTER_OF_KUBECTL": str(harness.DEMO),
                     "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self.daemon = self.reader = None

    def serve(self, of=harness.DEMO, *flags, env=None):
        """With the policy that is the default."""
        self.daemon = self.keep(harness.Daemon(of, *(flags or ("--policy", "mixed")), ledger="ledger.db", env=env))
        self.env["MILLIGPU_SERVER"] = f"127.0.0.1:{self.daemon.port['admin']}"

    def shell(self, text, status=0):
        """What it writes to standard output and to standard error. What it leaves running is ended after the test."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", text], cwd=self.home, env=self.env, stdout=out,
                                       stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
            self.addCleanup(self.end, process)
            process.wait(harness.PATIENCE)
            out.seek(0)
            err.seek(0)
            said = out.read(), err.read()
        self.assertEqual(process.returncode, status, f"{text}\n{said[0]}{said[1]}")
        self.assertNotIn("Sanitizer", said[1])
        return said

    def end(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + harness.PATIENCE
        while lives(process.pid):
            if time.monotonic() > until:
                raise AssertionError(f"what {process.args[-1]!r} left does not end")
            harness.pause()

    def ready(self):
        """A user types the next command when the milligpud of the one before has started."""
        until = time.monotonic() + harness.PATIENCE
        while subprocess.run(["milligpuctl", "summary"], env=self.env, capture_output=True).returncode != 0:
            if time.monotonic() > until:
                self.fail("milligpud does not start")
            harness.pause()

    def run_text(self, text, status=0):
        """The same, with a pause after what goes on in the background."""
        said = ["", ""]
        for part in re.split(r"(?<=&)\n", text):
            for at, more in enumerate(self.shell(part, status)):
                said[at] += more
            if part.endswith("&"):
                self.ready()
        return said

    def play_page(self, page):
        """All of its blocks; others than `run` and `shown` are left to other tests."""
        blocks = pages.blocks(page)
        if any(block.mark == "run" and (page, block.first) not in RUN_BY for block in blocks):
            SCENES.get(page, demo)(self)
        for block in blocks:
            if block.file and block.mark in ("run", "shown"):
                (self.home / block.file).write_text(block.text)
        said, heading, on_a_cluster = None, None, False
        for block in blocks:
            if block.heading != heading:
                said, heading, on_a_cluster = None, block.heading, False
            key = page, block.first
            with self.subTest(str(block)):
                if block.mark == "run":
                    said, on_a_cluster = None, False
                    if key not in RUN_BY:
                        said = self.run_block(block)
                elif block.mark != "shown":
                    said = None
                    on_a_cluster = block.mark == "run on a cluster"
                elif key in MADE_BY:
                    self.compare(block, MADE_BY[key](self))
                elif key in SAID_BY:
                    self.assertTrue(page_pieces.says(SAID_BY[key], block.text), f"{block}: {SAID_BY[key]} does not say so")
                elif said and not block.file:
                    self.compare(block, said[block.language == "stderr"])
                elif block.file:
                    self.assertTrue(any(block.file in one.text for one in blocks if one.mark == "run"),
                                    f"{block}: no command uses {block.file}")
                elif key not in READ_BY and not (on_a_cluster and not page_pieces.is_object(block)):
                    self.read(block)

    def run_block(self, block):
        self.assertNotRegex(block.text, OF_THE_MACHINE, f"{block}: this would change the machine; let a test of its own run it, and "
                            "name that in RUN_BY")
        if before := BEFORE.get((block.page, block.first)):
            before(self)
        said = ["", ""]
        for command, shown in pages.commands(block):
            for word, meant in STANDS_FOR.items():
                command = re.sub(rf"(?<![\w$/-]){word}(?![\w/-])", meant, command)
            now = self.run_text(command, STATUS.get((block.page, block.first), 0))
            if shown:
                self.compare(block, "".join(now), shown)
            said = [said[0] + now[0], said[1] + now[1]]
        return said

    def read(self, block):
        """On a milligpud of its own, where nothing is placed."""
        if not self.reader:
            self.reader = self.keep(harness.Daemon())
        try:
            page_pieces.read(f"127.0.0.1:{self.reader.port['admin']}", block)
        except page_pieces.Wrong as wrong:
            self.fail(f"{block}: {wrong}")

    def kubectl_shows(self, *items):
        file = self.home.parent / "cluster-of-kubectl.json"
        file.write_text(json.dumps(cluster(*items)))
        self.env["CLUSTER_OF_KUBECTL"] = str(file)

    def compare(self, block, said, shown=None):
        shown = block.text if shown is None else shown
        wrong = pages.agrees(shown, said)
        self.assertIsNone(wrong, f"{block}: the page and the output differ in this line, where dates, ids and the like are "
                          f"masked; this came out:\n{said}")


# State before the first block of a page


def demo(page):
    page.serve()
    page.shell("milligpuctl play demo/pods.yaml")


def agents():
    """Three nodes for `doctor --nodes`: a good one, one without an agent, and one without CDI."""
    def served(name, **more):
        agent = {"v": 1, "pod": {"uid": "agent-" + name}, "version": "0.1.0", "driver": "570.124.06", "validator": True, **more}
        gpus = [{"uuid": f"GPU-{name}-{at}", "index": at, "milli": 1000} for at in range(8)]
        return node(name, 8, annotations={"milligpu.io/agent": json.dumps(agent), "milligpu.io/gpus": json.dumps(gpus)},
                    bootID="boot", containerRuntimeVersion="containerd://2.3.7")

    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "milligpu-node", "uid": "agent-" + name},
             "spec": {"nodeName": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            for name in ("gpu-1", "gpu-3")]
    return (served("gpu-1", cdi={"kind": "nvidia.com/gpu", "gpus": 8, "named": 8}),
            node("gpu-2", 8, containerRuntimeVersion="containerd://2.3.7"),
            served("gpu-3", cdi={"gpus": 8, "named": 0}), *pods)


def nodes_of_agents(page):
    demo(page)
    page.kubectl_shows(*agents())


def troubleshoot(page):
    demo(page)
    page.kubectl_shows(*(one for one in agents() if "gpu-1" in json.dumps(one)))


def runbooks(page):
    demo(page)
    shutil.copy(harness.SOURCE / "policy/mixed.yaml", page.home / "policy.yaml")


def trace(page):
    """As small as the benchmark takes it."""
    (page.home / "DIR").mkdir()
    (page.home / "DIR/openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{at},64000,262144,4,T4\n" for at in range(8)))
    (page.home / "DIR/openb_pod_list_default.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
            f"p{at},1000,1024,{1 + at % 5 // 4},{1000 if at % 5 > 2 else 300 + 100 * (at % 3)},\n" for at in range(20)))
    page.addCleanup(lambda: page.assertIn("<svg", (page.home / "docs/placement.svg").read_text()[:200]))


def what_if(page):
    page.env["MILLIGPU_SERVER"] = f"127.0.0.1:{free_port()}"
    page.env["MILLIGPU_ADMIN_LISTEN"] = page.env["MILLIGPU_SERVER"]
    page.env["MILLIGPU_WEBHOOK_LISTEN"] = "127.0.0.1:0"
    shutil.copy(harness.SOURCE / "examples/deployment.yaml", page.home / "web.yaml")
    shutil.copy(harness.SOURCE / "policy/inference.yaml", page.home / "own.yaml")
    (page.home / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,16000,32768,2,T4\nb,16000,32768,4,V100\n")
    (page.home / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
        f"p{at},500,512,1,{100 + 100 * (at % 7)},\n" for at in range(20)) + "pair,500,512,2,1000,\n")


def defrag(page):
    """Three shares that lie apart, where pods of a whole GPU are what comes."""
    page.serve(cluster(*(node(name) for name in ("gpu-a", "gpu-b", "gpu-c"))), "--policy", "binpack")
    for _ in range(3):
        for at in "abc":
            page.daemon.schedule(harness.pod("big", 1000), [f"gpu-{at}"])
            page.daemon.admin("DELETE", "/api/v1/standalone/pods/default/big")
    for name, at in (("web-0", "gpu-a"), ("web-1", "gpu-b"), ("web-2", "gpu-c")):
        page.daemon.schedule(harness.pod(name, 500), [at])


SCENES = {
    "docs/NODE.md": nodes_of_agents, "docs/troubleshoot.md": troubleshoot, "docs/migrate.md": lambda page: None, "docs/DEFRAG.md": defrag, "docs/policy.md": trace, "docs/what-if.md": what_if, "docs/operate/runbooks.md": runbooks,
}


# State before one block


def past(page, start_s, days_before=0):
    """A ledger of two small pods that lie apart and a whole one that waits 40 minutes for the end of one of them; before
    that, for so many days, one pod each half day."""
    clock = page.home.parent / f"clock-{start_s}"
    clock.mkdir()
    at = lambda minutes: harness.wall_clock(clock, round(start_s + 60 * minutes - time.time()))
    daemon = harness.Daemon(cluster(node("n1"), node("n2")), "--policy", "spread", ledger="ledger.db", env=at(-1440 * days_before - 60))
    page.addCleanup(daemon.close)
    made = {}

    def arrives(name, milli, minutes):
        at(minutes)
        _, _, made[name] = daemon.schedule(harness.pod(name, milli, namespace="team"))

    def ends(name, minutes):
        at(minutes)
        daemon.admin("DELETE", f"/api/v1/standalone/pods/team/{name}")
        daemon.wait(lambda: name not in json.dumps(daemon.get("/api/v1/allocations")), f"{name} to be gone")

    for day in range(2 * days_before, 0, -1):  # a clock that jumps a whole day would be taken for a wrong one
        arrives(f"of-day-{day}", 100, -720 * day)
        ends(f"of-day-{day}", -720 * day + 60)
    arrives("first", 300, 1)
    arrives("second", 300, 10)
    arrives("whole", 1000, 20)
    ends("second", 60)
    daemon.bind(made["whole"], daemon.filter(made["whole"])["NodeNames"][0])
    ends("first", 100)
    ends("whole", 120)
    daemon.stop()
    shutil.copy(daemon.home / "ledger.db", page.home)


BEFORE = {
    ("docs/what-if.md", "milligpuctl simulate --nodes nodes.csv --arrivals pods.csv"):
        lambda page: past(page, round(time.time()) - 86400, 30),
    ("docs/what-if.md", "$ milligpuctl simulate --ledger ledger.db --policy binpack,spread --to 2026-01-01T01:10:00Z"):
        lambda page: past(page, round(datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc).timestamp())),
}


# Makers of output that a page shows without the command


def of_the_demo(page):
    """On a terminal of 80 columns."""
    page.serve()
    said = page.shell("milligpuctl play demo/pods.yaml")[0]
    main, side = harness.terminal(page)
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(["milligpuctl", "top"], stdout=side, env=page.env | {"TERM": "xterm"}):
        os.close(side)
        with contextlib.suppress(OSError):  # the other side is closed
            while part := os.read(main, 65536):
                said += part.decode()
    os.close(main)
    return said


def of_rules(page, milli):
    """At noon of a Wednesday, when no rule of the night holds; one idle host is all that there is of the pool."""
    text = next(block.text for block in pages.blocks("policy/README.md") if "kind: Policy" in block.text)
    (page.home / "page.yaml").write_text(text)
    now = datetime.datetime.now(datetime.timezone.utc)
    noon = (now + datetime.timedelta(days=(2 - now.weekday()) % 7)).replace(hour=12, minute=0)
    page.serve(cluster(node("t-0", 2, labels={"pool": "training"})), "--policy", page.home / "page.yaml",
               env=harness.wall_clock(page.home.parent, round((noon - now).total_seconds())))
    page.daemon.schedule(harness.pod("pod", milli, namespace="research"))
    page.daemon.view("pod", "research")
    return re.search(r"policy rule.*?(?=  )", page.shell("milligpuctl pod research/pod")[0])[0]


MADE_BY = {
    ("README.md", "research/notebook-ada    placed   t4-0  GPU:milli 0:300"): of_the_demo,
    ("policy/README.md", "policy rule 2 (training): shares of at least 100 milli here"):
        lambda page: of_rules(page, 50),
    ("policy/README.md", "policy rule 2 (training): keeps 2 idle hosts for pods of several GPUs, and 1 is idle"):
        lambda page: of_rules(page, 500),
}

# Messages that only a node has: the source file of their words.
SAID_BY = {
    ("docs/NODE.md", "milligpu: GPU GPU-... has no 700 milli free for its pod yet; will be retried automatically. Other "
     "pods still run there"): "src/agent/grant/overlap.c",
}


class Known(harness.Case):
    """Each block belongs to a test, and each entry of a list to a block."""

    def test_lists__name_existing_blocks(self):
        firsts = {(page, block.first) for page in pages.names() for block in pages.blocks(page)}
        for entries in (RUN_BY, READ_BY, STATUS, BEFORE, MADE_BY, SAID_BY):
            self.assertEqual(sorted(set(entries) - firsts), [])

    def test_cluster_blocks__have_a_test_there(self):
        blocks = [block for page in pages.names() for block in pages.blocks(page) if block.mark == "run on a cluster"]
        names = set()
        without = []
        for block in blocks:
            name = (ON_A_CLUSTER.get((block.page, block.first)) or FOLLOWED.get(block.page) or
                    FOLLOWED.get(f"{block.page}#{block.heading}"))
            if name:
                names.add(name)
            else:
                without.append(str(block))
        self.assertEqual(without, [], "no test of tests/controlplane runs these: write one, and name it here")
        self.assertEqual(sorted(set(ON_A_CLUSTER) - {(block.page, block.first) for block in blocks}), [])
        self.assertEqual(sorted(set(FOLLOWED) - {block.page for block in blocks}
                                - {f"{block.page}#{block.heading}" for block in blocks}), [])
        tests = "".join(path.read_text() for path in (harness.SOURCE / "tests/controlplane").glob("*_test.go"))
        self.assertEqual([name for name in names if f"func {name}(" not in tests], [])

    def test_block_tests__exist(self):
        for file, words in (*RUN_BY.values(), *READ_BY.values()):
            self.assertIn(words, (harness.SOURCE / file).read_text(), file)


for name in pages.names():
    if any(block.mark in ("run", "shown") for block in pages.blocks(name)):
        setattr(Page, "test_" + re.sub(r"\W", "_", name), lambda self, name=name: self.play_page(name))


if __name__ == "__main__":
    harness.main(side_by_side=True)
