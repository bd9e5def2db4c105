"""alerts.py TOP PROMTOOL - what check.sh runs for the alerts: rules, their tests and their runbooks agree.

PROMTOOL may be empty: then the rules are read, and promtool does not run them.
"""

import copy
import os
import re
import subprocess
import sys
import tempfile

import yaml

TOP, PROMTOOL = sys.argv[1], sys.argv[2]
FUNCTION_SUFFIXES = ("_bucket", "_sum", "_count")  # of the series of a histogram

problems = []


def need(truth, sentence):
    if not truth:
        problems.append(sentence)


def text_of(*parts):
    with open(os.path.join(TOP, *parts), encoding="utf-8") as file:
        return file.read()


def rule_groups():
    return yaml.safe_load(text_of("manifests", "components", "alerts", "rules.yaml"))["spec"]["groups"]


def alerts():
    return {rule["alert"]: rule for group in rule_groups() for rule in group["rules"]}


def cases():
    return yaml.safe_load(text_of("tests", "manifests", "alerts.yaml"))


def metric_labels():
    """The labels of each metric of the table; le and the three series of a histogram too."""
    table = re.findall(r'^METRIC\(\w+, "(\w+)", (\w+), "([^"]*)"', text_of("include", "milligpu", "metrics.def"), re.M)
    known = {}
    for name, kind, labels in table:
        known[name] = {label for label in labels.split(",") if label}
        if kind in ("METRIC_TIMING", "METRIC_HISTOGRAM"):
            for suffix in FUNCTION_SUFFIXES:
                known[name + suffix] = known[name] | {"le"}
    return known


def selectors(expression):
    """Each metric of an expression, with the labels that it is asked for."""
    found = re.findall(r"\b((?:milligpu|process)_\w+)(?:\{([^}]*)\})?", expression)
    return [(name, set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", matchers))) for name, matchers in found]


def check_names():
    """The alerts use metrics and labels that exist, and each has a severity, a summary and a description."""
    known = metric_labels()
    names = [rule["alert"] for group in rule_groups() for rule in group["rules"]]
    need(len(names) == len(set(names)) and names, f"alerts of one name: {sorted(names)}")
    for name, rule in alerts().items():
        need(selectors(rule["expr"]), f"alert {name} uses no metric")
        for metric, labels in selectors(rule["expr"]):
            need(metric in known, f"alert {name}: there is no metric {metric}")
            need(labels <= known.get(metric, labels), f"alert {name}: {metric} has no label {labels}")
        need(rule["labels"].get("severity") in ("critical", "warning"), f"alert {name}: severity")
        for key in ("summary", "description"):
            need(rule["annotations"].get(key), f"alert {name}: no {key}")


def check_cases():
    """Each alert has a case in which it fires, and one in which its series exist and it does not."""
    seen = {name: {True: 0, False: 0} for name in alerts()}
    for group in cases()["tests"]:
        there = {re.match(r"\w+", series["series"]).group() for series in group["input_series"]}
        need(there <= set(metric_labels()), f"alerts.yaml, {group['name']}: there is no metric among {sorted(there)}")
        for one in group["alert_rule_test"]:
            name = one["alertname"]
            need(name in seen, f"alerts.yaml, {group['name']}: there is no alert {name}")
            if name not in seen:
                continue
            used = {metric for metric, _ in selectors(alerts()[name]["expr"])}
            need(used & there, f"alerts.yaml, {group['name']}: has none of the series of {name}")
            seen[name][bool(one["exp_alerts"])] += 1
    for name, count in seen.items():
        need(count[True], f"alerts.yaml has no case in which {name} fires")
        need(count[False], f"alerts.yaml has no case in which {name} does not fire")


def completed(document, rules):
    """The cases as promtool wants them: with all labels and annotations of what is expected."""
    out = copy.deepcopy(document)
    out["rule_files"] = ["rules.yaml"]
    for group in out["tests"]:
        for one in group["alert_rule_test"]:
            rule = rules[one["alertname"]]
            for expected in one["exp_alerts"]:
                plain = {key: text for key, text in rule["annotations"].items() if "{{" not in text}
                expected["exp_annotations"] = {**plain, **expected.get("exp_annotations", {})}
                expected["exp_labels"] = {**rule["labels"], **expected.get("exp_labels", {})}
    return out


def promtool(folder, groups, document, *arguments):
    for name, content in (("rules.yaml", {"groups": groups}), ("cases.yaml", document)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            yaml.safe_dump(content, file, width=1000)
    return subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True)


def promtool_checks():
    """promtool reads the rules, and each alert fires and stays silent as the cases say."""
    with tempfile.TemporaryDirectory() as folder:
        document = completed(cases(), alerts())
        done = promtool(folder, rule_groups(), document, "check", "rules", "rules.yaml")
        need(done.returncode == 0, f"promtool check rules: {done.stdout}{done.stderr}")
        done = promtool(folder, rule_groups(), document, "test", "rules", "cases.yaml")
        need(done.returncode == 0, f"promtool test rules: {done.stdout}{done.stderr}")


def mutants(rule):
    """The rule with one slip each: no `for`, a comparison that is turned round, a limit that is half or double."""
    if "for" in rule:
        yield "without for", {key: value for key, value in rule.items() if key != "for"}
    for found in re.finditer(r"(?<![!=~])([<>]=?|==)(?= ?(?:\d|milligpu_))", rule["expr"]):
        turned = {">": "<", "<": ">", ">=": "<", "<=": ">", "==": "!="}[found.group()]
        yield f"{turned} for {found.group()} at {found.start()}", {
            **rule, "expr": rule["expr"][:found.start()] + turned + rule["expr"][found.end():]}
    for found in re.finditer(r"(?<=[<>] )\d+(?:\.\d+)?", rule["expr"]):
        for factor in (0.5, 2):
            value = float(found.group()) * factor
            if value != 0:
                yield f"{value} for {found.group()}", {
                    **rule, "expr": rule["expr"][:found.start()] + repr(value) + rule["expr"][found.end():]}


def promtool_notices_slips():
    """The cases notice each rule without its `for`, with a comparison turned round, and with a limit halved or doubled."""
    tried = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, rule in alerts().items():
            document = completed(cases(), alerts())
            for group in document["tests"]:
                group["alert_rule_test"] = [one for one in group["alert_rule_test"] if one["alertname"] == name]
            document["tests"] = [group for group in document["tests"] if group["alert_rule_test"]]
            for slip, mutant in mutants(rule):
                groups = [{"name": "mutant", "rules": [mutant]}]
                done = promtool(folder, groups, document, "test", "rules", "cases.yaml")
                need(done.returncode != 0, f"alerts.yaml does not notice {name} {slip}")
                tried += 1
    need(tried > len(alerts()), f"only {tried} slips were tried")


def run(check):
    before = len(problems)
    check()
    print(f"{'ok' if len(problems) == before else 'not ok'} - {check.__doc__}")


def main():
    for name, check in sorted(globals().items()):
        if name.startswith("check_"):
            run(check)
    if not problems and PROMTOOL:
        run(promtool_checks)
        run(promtool_notices_slips)
    elif not PROMTOOL and os.environ.get("CI") == "true":
        need(False, "no promtool here (Debian: prometheus), and in CI nothing is skipped")
    elif not PROMTOOL:
        print("skip - no promtool here (Debian: prometheus): the alerts are read, and not fired")
    for problem in problems:
        print(f"alerts: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
