"""A real Prometheus, which scrapes as the PodMonitors of manifests/ say, and what Grafana asks it for a dashboard."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.parse

import yaml

import harness

COMPONENTS = harness.SOURCE / "manifests/components"
RATE_INTERVAL = "30s"  # stands for Grafana's $__rate_interval; scrapes are a second apart


def program():
    """Debian's prometheus; skips the test where there is none."""
    found = shutil.which("prometheus")
    if not found:
        if os.environ.get("CI") == "true":
            raise AssertionError("no prometheus here, and in CI nothing is skipped")
        raise unittest.SkipTest("no prometheus here (Debian: prometheus)")
    return found


def pod_monitors():
    """The PodMonitors of all components, by name."""
    return {one["metadata"]["name"]: one for file in sorted(COMPONENTS.glob("*/podmonitor*.yaml"))
            for one in yaml.safe_load_all(file.read_text())}


def scrape_config(monitor, pods):
    """What the Prometheus operator makes of a PodMonitor, for these pods: {address: labels of its discovery}."""
    own = monitor["metadata"]
    endpoint, = monitor["spec"]["podMetricsEndpoints"]
    discovered = {"namespace": "__meta_kubernetes_namespace", "pod": "__meta_kubernetes_pod_name",
                  "container": "__meta_kubernetes_pod_container_name"}
    relabelings = [{"source_labels": [source], "target_label": label} for label, source in discovered.items()]
    for one in endpoint.get("relabelings", []):
        relabelings.append({"source_labels": one["sourceLabels"], "target_label": one["targetLabel"]})
    return {
        "job_name": f"{own['namespace']}/{own['name']}", "metrics_path": endpoint["path"], "scrape_interval": "1s",
        "scrape_timeout": "1s", "honor_labels": endpoint.get("honorLabels", False), "relabel_configs": relabelings,
        "static_configs": [{"targets": [address], "labels": labels} for address, labels in pods.items()],
    }


def discovery(namespace, pod, container, node):
    """The labels that Prometheus discovers of a pod in Kubernetes."""
    return {"__meta_kubernetes_namespace": namespace, "__meta_kubernetes_pod_name": pod,
            "__meta_kubernetes_pod_container_name": container, "__meta_kubernetes_pod_node_name": node}


class Prometheus(harness.Logged):
    """Prometheus on loopback, in a folder of its own."""

    program = "prometheus"

    def __init__(self, path, scrape_configs):
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-prometheus-")
        self.home = pathlib.Path(self.folder.name)
        (self.home / "prometheus.yml").write_text(json.dumps({"scrape_configs": scrape_configs}))
        self.log = open(self.home / "log", "wb")  # closed by close()
        self.process = subprocess.Popen(
            [path, f"--config.file={self.home / 'prometheus.yml'}", f"--storage.tsdb.path={self.home / 'data'}",
             "--web.listen-address=127.0.0.1:0"], stdout=self.log, stderr=self.log)
        listens = re.compile(r'msg="Listening on" address=127.0.0.1:(\d+)')
        self.wait(lambda: listens.search(self.logged()), "the port")
        self.port = int(listens.search(self.logged()).group(1))
        self.wait(lambda: self.request("/-/ready")[0] == 200, "Prometheus")

    def request(self, path, **form):
        """Status and body of an answer."""
        peer = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.PATIENCE)
        try:
            if form:
                peer.request("POST", path, urllib.parse.urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})
            else:
                peer.request("GET", path)
            answer = peer.getresponse()
            return answer.status, answer.read()
        finally:
            peer.close()

    def ask(self, expression):
        """The series that an expression has now, as (labels, number), and what is wrong with it."""
        _, body = self.request("/api/v1/query", query=expression)
        answer = json.loads(body)
        if answer["status"] != "success":
            return [], answer["error"]
        data = answer["data"]
        series = data["result"] if data["resultType"] == "vector" else []
        return [(one["metric"], float(one["value"][1])) for one in series], None

    def values(self, series, label):
        """What Grafana's label_values(series, label) lists."""
        _, body = self.request(f"/api/v1/label/{label}/values?" + urllib.parse.urlencode({"match[]": series}))
        return json.loads(body)["data"]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(harness.PATIENCE)
        self.log.close()
        self.folder.cleanup()


class Dashboard:
    """One of our dashboards, as Grafana asks Prometheus for it."""

    def __init__(self, document):
        self.title = document["title"]
        self.variables = [one for one in document["templating"]["list"] if one["type"] == "query"]
        self.panels = [one for one in document["panels"] if one["type"] != "row"]

    def resolved(self, text, chosen):
        text = text.replace("$__rate_interval", RATE_INTERVAL)
        return re.sub(r"\$(\w+)", lambda found: chosen.get(found.group(1), found.group()), text)

    def choose(self, prometheus):
        """The first value of each variable, all where several may be chosen, and what is wrong with variables."""
        chosen, wrong = {}, []
        for one in self.variables:
            series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"]).groups()
            values = prometheus.values(self.resolved(series, chosen), label)
            if values and one["multi"]:
                chosen[one["name"]] = f"({'|'.join(values)})"  # as Grafana writes it where each is ticked
            elif values:
                chosen[one["name"]] = values[0]
            else:
                wrong.append(f"{self.title} / variable {one['name']}: no values: {one['query']['query']}")
        return chosen, wrong

    def problems(self, prometheus):
        """A sentence for each variable and expression that has no data, or not what the panel shows of it."""
        chosen, wrong = self.choose(prometheus)
        for panel in self.panels:
            for target in panel["targets"]:
                why = self.problem(prometheus, panel, target, chosen)
                if why:
                    wrong.append(f"{self.title} / {panel['title']}: {why}: {target['expr']}")
        return wrong

    def problem(self, prometheus, panel, target, chosen):
        expression = self.resolved(target["expr"], chosen)
        if "$" in expression:
            return f"a variable has no value in {expression}"
        series, error = prometheus.ask(expression)
        if error:
            return error
        series = [labels for labels, number in series if number == number]
        if not series:
            return "no data"
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        for one in panel.get("transformations", []):
            if one["id"] == "organize":
                shown |= {name for name in one["options"]["indexByName"] if not name.startswith("Value")}
        missing = sorted(label for label in shown if any(label not in labels for labels in series))
        return f"its series lack the labels {missing}" if missing else None


def dashboards():
    return [Dashboard(json.loads(file.read_text())) for file in sorted((COMPONENTS / "dashboards").glob("*.json"))]
