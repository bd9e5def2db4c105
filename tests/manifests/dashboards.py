"""dashboards.py TOP KUBECTL - what check.sh runs for the dashboards: Grafana can read them, and what they ask for exists.

That each expression has data is tested with a real Prometheus (tests/e2e/test_dashboards.py). Without kubectl, the
ConfigMaps are not built.
"""

import glob
import json
import os
import re
import subprocess
import sys

import yaml

from report import finish, need, run
from series import agent_metric_labels, metric_labels, selectors

TOP, KUBECTL = sys.argv[1], sys.argv[2]
FOLDER = os.path.join(TOP, "manifests", "components", "dashboards")
KINDS = {"row", "stat", "timeseries", "table", "bargauge"}  # in every Grafana, without a plugin
UNITS = {"none", "percentunit", "s", "bytes", "reqps", "cps", "celsius", "watt"}
COLUMNS = 24  # of Grafana's grid


def text_of(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def dashboards():
    return {os.path.basename(path): json.loads(text_of(path)) for path in sorted(glob.glob(os.path.join(FOLDER, "*.json")))}


def expressions(dashboard):
    """Each expression with its panel, and the series of each variable."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]


def check_written():
    """The files are what scripts/dashboards.py writes."""
    done = subprocess.run([os.path.join(TOP, "scripts", "dashboards.py"), "--check"], capture_output=True, text=True)
    need(done.returncode == 0, done.stderr.strip())


def overlap(one, other):
    """Whether two panels lie on each other."""
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h")))


def check_panels():
    """Each panel has an id of its own, a place, a kind and units that every Grafana has, and says what it shows."""
    need(set(dashboards()) == {"cluster.json", "tenant.json", "service.json"}, f"the dashboards are {sorted(dashboards())}")
    for name, dashboard in dashboards().items():
        panels = dashboard["panels"]
        need(len({panel["id"] for panel in panels}) == len(panels), f"{name}: an id is there twice")
        for at, panel in enumerate(panels):
            title, place = panel["title"], panel["gridPos"]
            need(panel["type"] in KINDS, f"{name}, {title}: there is no panel {panel['type']}")
            need(place["x"] + place["w"] <= COLUMNS, f"{name}, {title}: is beyond the grid")
            for other in panels[:at]:
                need(not overlap(place, other["gridPos"]), f"{name}: {title} lies on {other['title']}")
            if panel["type"] == "row":
                continue
            need(re.fullmatch(r"[A-Z].*[.]", panel["description"]), f"{name}, {title}: no sentence says what it shows")
            units = [panel["fieldConfig"]["defaults"]["unit"]] + [
                one["value"] for override in panel["fieldConfig"]["overrides"] for one in override["properties"]]
            need(set(units) <= UNITS, f"{name}, {title}: there is no unit {units}")
            sources = [panel["datasource"]] + [target["datasource"] for target in panel["targets"]]
            need(all(one == {"type": "prometheus", "uid": "${datasource}"} for one in sources), f"{name}, {title}: data source")


def check_identity():
    """Each dashboard has a uid that stays, and the variables that its expressions name."""
    for name, dashboard in dashboards().items():
        need(dashboard["uid"] == f"milligpu-{name.removesuffix('.json')}", f"{name}: its uid is {dashboard['uid']}")
        need(dashboard["id"] is None, f"{name}: an id belongs to one Grafana")
        variables = [one["name"] for one in dashboard["templating"]["list"]]
        need(variables[0] == "datasource", f"{name}: its first variable is {variables[0]}")
        used = {found for _, text in expressions(dashboard) for found in re.findall(r"\$(\w+)", text)} - {"__rate_interval"}
        need(used == set(variables[1:]), f"{name}: has the variables {variables[1:]}, and uses {sorted(used)}")


def known_labels():
    """The labels of each metric as Prometheus has it: with those that the PodMonitors give to its pods."""
    pods = {"job", "instance"}
    known = {name: labels | pods for name, labels in metric_labels(TOP).items()}
    return {**known, **{name: labels | pods | {"node"} for name, labels in agent_metric_labels(TOP).items()}}


def wrong_names(expression, known):
    """Metrics and labels of an expression that nobody has."""
    wrong, there = [], set()
    for metric, labels in selectors(expression):
        if metric not in known:
            wrong.append(f"there is no metric {metric}")
            continue
        there |= known[metric]
        wrong += [f"{metric} has no label {label}" for label in sorted(labels - known[metric])]
    for words in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", expression):
        wrong += [f"no metric there has a label {label}" for label in sorted(set(re.findall(r"\w+", words)) - there)]
    return wrong


def check_names():
    """The expressions name metrics and labels that exist."""
    known = known_labels()
    for expression, count in (("sum by (model)(milligpu_free_milli)", 0), ("sum by (node)(milligpu_free_milli)", 1),
                              ("milligpu_reddy", 1), ('milligpu_free_milli{modell="a"}', 1), ("milligpu_node_connected", 0),
                              ("sum by (node, gpu)(milligpu_node_gpu_outside)", 0),
                              ("histogram_quantile(0.5, sum by (le)(rate(milligpu_commit_seconds_bucket[1m])))", 0)):
        need(len(wrong_names(expression, known)) == count, f"the check of names is wrong about {expression}")
    for name, dashboard in dashboards().items():
        for title, expression in expressions(dashboard):
            need(selectors(expression), f"{name}, {title}: asks for no metric: {expression}")
            for wrong in wrong_names(expression, known):
                need(False, f"{name}, {title}: {wrong}: {expression}")


def built_config_maps():
    """kubectl makes a ConfigMap of each file, with the label that Grafana's sidecar looks for."""
    done = subprocess.run([KUBECTL, "kustomize", FOLDER], capture_output=True, text=True)
    need(done.returncode == 0, done.stderr.strip())
    built = {}
    for o in yaml.safe_load_all(done.stdout):
        metadata = o["metadata"]
        need(metadata["labels"].get("grafana_dashboard") == "1", f"ConfigMap {metadata['name']}: no label for Grafana")
        built.update(o["data"])
    wanted = {f"milligpu-{name}": text_of(FOLDER, name) for name in dashboards()}
    need(built == wanted, f"the ConfigMaps have {sorted(built)}, and not the files {sorted(wanted)}")


def main():
    for name, check in sorted(globals().items()):
        if name.startswith("check_"):
            run(check)
    if KUBECTL:
        run(built_config_maps)
    finish("dashboards")


main()
