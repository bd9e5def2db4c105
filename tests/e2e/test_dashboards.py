"""The Grafana dashboards: each expression has data in a real Prometheus that reads a cluster in which things happen."""

import copy
import json
import socket
import subprocess
import tempfile
import unittest

import harness
import prometheus
import test_node
from harness import pod

BINDING = "/binding"
USES = "process GPU-a 700 5000 sm=20\nprocess GPU-a 701 100 sm=0\nprocess GPU-b 702 9 sm=1\n"
SICK = "event 1 GPU-b 8 79\nevent 2 GPU-a 8 31\n"


class Cluster:
    """A milligpud, two agents, and what makes their numbers move."""

    def __init__(self, cleanup):
        self.cleanup = cleanup
        self.api = self.closed_later(harness.Api())
        certificates = harness.certificates()
        self.daemon = self.closed_later(harness.ClusterDaemon(
            self.api, "--require-agent", "never", "--verify-interval-s", "1", "--report-listen", "127.0.0.1:0",
            "--report-cert", str(certificates / "server.crt"), "--report-key", str(certificates / "server.key")))
        self.agent = self.closed_later(test_node.Node(self.api.url))
        self.start_agent(self.agent, "a100-0", "--report-url", f"https://127.0.0.1:{self.daemon.port['report']}",
                         "--report-ca", certificates / "ca.crt", "--report-s", "1")
        self.runtime = self.agent.accept()
        self.lonely = self.closed_later(test_node.Node(self.api.url))  # without a driver, and its runtime never answers
        self.lonely.start("--node", "vm-0")
        self.number = 0

    def closed_later(self, one):
        self.cleanup(one.close)
        return one

    def start_agent(self, agent, name, *flags):
        for pid, cgroup in ((700, "kubepods/pod1/id-busy"), (701, "kubepods/pod1/id-idle"), (702, "user.slice")):
            (agent.home / f"proc/{pid}").mkdir(parents=True)
            (agent.home / f"proc/{pid}/cgroup").write_text(f"0::/{cgroup}\n")
        agent.driver(USES)
        agent.start("--node", name, "--nvml", harness.TESTS / "libnvidia-ml.so.1", "--inventory-s", "1", "--meter-s", "1",
                    "--proc-dir", agent.home / "proc", *flags, env={"FAKE_NVML": str(agent.home / "driver")})

    def scrape_configs(self):
        """The PodMonitors, for these pods."""
        monitors = prometheus.pod_monitors()
        probe = f"127.0.0.1:{self.daemon.port['probe']}"
        daemon = {probe: prometheus.discovery("milligpu-system", "milligpu-0", "milligpud", "t4-0")}
        agents = {(agent.home / "ports").read_text().split()[-1]:
                  prometheus.discovery("milligpu-node", f"milligpu-node-{node}", "milligpu-node", node)
                  for agent, node in ((self.agent, "a100-0"), (self.lonely, "vm-0"))}
        pods = {"milligpu": daemon, "milligpu-nodes": daemon, "milligpu-agents": agents}
        return [prometheus.scrape_config(monitor, pods[name]) for name, monitor in monitors.items()]

    def run_containers(self):
        """A pod with two containers on GPU-a, one of them over its memory and the other idle."""
        daemon, agent = self.daemon, self.agent
        daemon.wait(lambda: "GPU-a" in json.dumps(daemon.get("/api/v1/nodes/a100-0")["gpus"]), "the GPUs of the agent")
        at, said, made = daemon.schedule(pod("web", containers={"busy": 300, "idle": 200}), ["a100-0"])
        assert at == "a100-0", said
        daemon.knows("web")
        allocation = self.api.pod("web")["metadata"]["annotations"]["milligpu.io/allocation"]
        for gpu in {one["gpu"] for shares in json.loads(allocation)["containers"].values() for one in shares}:
            assert gpu == "GPU-a", allocation
        uid = made["metadata"]["uid"]
        sandbox = test_node.pod(agent.sign(allocation, uid, "a100-0")).replace(
            test_node.field(3, test_node.UID), test_node.field(3, uid))
        for name in ("busy", "idle"):
            self.runtime.call("CreateContainer", test_node.field(1, sandbox) + test_node.field(2, test_node.container(name)))

    def disturb(self):
        """What happens once: a cordoned node, a silent client, a backup, pods that others bound and that wait."""
        daemon = self.daemon
        self.api.request("PATCH", "/api/v1/nodes/vm-0", {"metadata": {"annotations": {"milligpu.io/cordon": "all"}}})
        self.silent = socket.create_connection(("127.0.0.1", daemon.port["probe"]))
        self.cleanup(self.silent.close)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([harness.BIN / "milligpuctl", "backup", folder + "/copy.db", "--port-file", daemon.home / "ports"],
                           check=True, capture_output=True)
        foreign = pod("bound-by-others", 100, namespace="default")
        foreign["spec"]["nodeName"] = "t4-0"
        daemon.create(foreign)
        odd = pod("unreadable", 100, namespace="team-a")
        odd["spec"].update(nodeName="t4-0", initContainers=17)
        daemon.create(odd)
        self.waiting = [daemon.create(pod("large", 9000)), daemon.create(pod("offered", 100))]

    def go_on(self):
        """What happens again and again: binds, refusals, errors, lost answers, watches that end."""
        self.number += 1
        daemon, name = self.daemon, f"some-{self.number}"
        for made in self.waiting:
            daemon.filter(made)
        daemon.webhook("bind", {"PodName": 7})
        daemon.webhook("filter", {"Pod": 7})
        daemon.request("admin", "GET", "/api/v1/summary", headers={"Origin": "http://elsewhere.example"})
        if self.number % 4 == 1:
            self.api.fault(BINDING, "lose")
        self.api.fault(BINDING, "status", number=429)
        daemon.drive(daemon.create(pod(name, 100)))
        self.api.gone(name)
        if self.number % 4 == 3:
            self.api.do("release")  # the watches end and are made again, later each time


class Dashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = prometheus.program()
        cls.cluster = Cluster(cls.addClassCleanup)
        cls.cluster.run_containers()
        cls.cluster.disturb()
        cls.prometheus = prometheus.Prometheus(path, cls.cluster.scrape_configs())
        cls.addClassCleanup(cls.prometheus.close)
        cls.cluster.daemon.wait(lambda: cls.prometheus.ask('milligpu_node_gpu_xids_total{gpu="GPU-b"}')[0], "the first XIDs")
        cls.cluster.agent.driver(USES + SICK)
        cls.dashboards = prometheus.dashboards()

    def problems(self):
        return [problem for one in self.dashboards for problem in one.problems(self.prometheus)]

    def test_expressions__all_have_data(self):
        found, seen = [], [0]

        def nothing_is_missing():
            """Looks once after each scrape."""
            newest = [number for _, number in self.prometheus.ask("timestamp(milligpu_ready)")[0]]
            if newest == seen:
                return False
            seen[:] = newest
            self.cluster.go_on()
            found[:] = self.problems()
            return not found

        try:
            self.prometheus.wait(nothing_is_missing, "data of every expression")
        except AssertionError:
            self.fail("\n".join(found) or self.prometheus.logged())

    def broken(self, change):
        """What is said of the first panel of a dashboard after a change of it."""
        document = json.loads((prometheus.COMPONENTS / "dashboards/cluster.json").read_text())
        document["panels"] = [copy.deepcopy(one) for one in document["panels"] if one["type"] != "row"][:1]
        change(document)
        return prometheus.Dashboard(document).problems(self.prometheus)

    def test_broken_expression__is_named(self):
        self.prometheus.wait(lambda: self.broken(lambda document: None) == [], "data of the first panel")
        def expression(text, legend=""):
            return lambda document: document["panels"][0]["targets"][0].update(expr=text, legendFormat=legend)

        def variable(document):
            document["templating"]["list"][1]["query"]["query"] = "label_values(milligpu_total_milli, modell)"

        for change, words in (
                (expression("milligpu_reddy"), "GPUs: no data: milligpu_reddy"),
                (expression("sum(milligpu_ready"), "parse error"),
                (expression('milligpu_free_milli{model="of no GPU"}'), "no data"),
                (expression("0 * milligpu_ready / 0"), "no data"),
                (expression('milligpu_ready{job=~"$jobs"}'), "a variable has no value"),
                (expression("milligpu_ready", "{{node}}"), "lack the labels ['node']"), (variable, "no values")):
            with self.subTest(words=words):
                self.assertIn(words, "\n".join(self.broken(change)))


if __name__ == "__main__":
    harness.main()
