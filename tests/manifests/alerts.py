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

from report import finish, need, problems, run
from series import metric_labels, selectors

TOP, PROMTOOL = sys.argv[1], sys.argv[2]
RUNBOOKS = "https://milligpu.io/docs/operate/runbooks.md"
PARTS = ["**What it means.**", "**What to look at.**", "**What to do.**"]

def text_of(*parts):
    with open(os.path.join(TOP, *parts), encoding="utf-8") as file:
        return file.read()


def rule_groups():
    return yaml.safe_load(text_of("manifests", "components", "alerts", "rules.yaml"))["spec"]["groups"]


def alerts():
    return {rule["alert"]: rule for group in rule_groups() for rule in group["rules"]}


def cases():
    return yaml.safe_load(text_of("tests", "manifests", "alerts.yaml"))


def check_names():
    """The alerts use metrics and labels that exist, and each has a severity, a summary and a description."""
    known = metric_labels(TOP)
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


def runbooks():
    """Each section of the page of runbooks, by its heading."""
    parts = re.split(r"^## (.+)$", text_of("docs", "operate", "runbooks.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_runbooks():
    """Each alert names its runbook, each runbook has an alert and three parts, and names metrics that exist."""
    sections = runbooks()
    need(set(sections) == set(alerts()), f"runbooks.md and rules.yaml differ: {sorted(set(sections) ^ set(alerts()))}")
    for name, rule in alerts().items():
        url = rule["annotations"].get("runbook_url")
        need(url == f"{RUNBOOKS}#{name.lower()}", f"alert {name}: runbook_url is {url}")
    for name, text in sections.items():
        need(re.findall(r"^\*\*[^*]+\*\*", text, re.M) == PARTS, f"runbooks.md, {name}: the parts are not {PARTS}")
    for metric in re.findall(r"\bmilligpu_\w+", text_of("docs", "operate", "runbooks.md")):
        need(metric in metric_labels(TOP), f"runbooks.md: there is no metric {metric}")
    for kind in re.findall(r'^ +X\("(\w+)", "', text_of("include", "milligpu", "core", "ledger", "reconcile.h"), re.M):
        need(f"| `{kind}`" in sections.get("MilligpuDrift", ""), f"runbooks.md does not say what to do about drift {kind}")


def command_table():
    """Of each command of milligpuctl: the least and most arguments, and its options."""
    rows = re.findall(r'^COMMAND\(\w+, "([^"]+)", "[^"]*", (\d+), (\d+), "([^"]*)"',
                      text_of("src", "ctl", "commands.def"), re.M)
    return {name: (int(least), int(most), options.split()) for name, least, most, options in rows}


def option_table(commands):
    """The spellings of the options that a command may have: whether an argument follows."""
    some = {option for _, _, options in commands.values() for option in options}
    rows = re.findall(r"^OPTION\((\w+), (0|'.'), \"([^\"]+)\", \"([^\"]*)\"",
                      text_of("src", "ctl", "options.def"), re.M)
    return [(identifier, identifier in some, [f"--{long}"] + ([] if short == "0" else [f"-{short[1]}"]), bool(argument))
            for identifier, short, long, argument in rows]


def wrong_command(words, commands):
    """What is wrong with the words after `milligpuctl`, or None."""
    if not words or words[0] not in commands:
        return "there is no such command"
    least, most, own = commands[words[0]]
    known = {spelling: argument for identifier, some, spellings, argument in option_table(commands)
             if not some or identifier in own for spelling in spellings}
    rest, arguments = words[1:], 0
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            arguments += 1
        elif word not in known:
            return f"{words[0]} has no option {word}"
        elif known[word] and not rest:
            return f"{word} needs an argument"
        elif known[word]:
            rest.pop(0)
    return None if least <= arguments <= most else f"{words[0]} takes {least} to {most} arguments"


def commands_in(text):
    """The words after milligpuctl of each command in quotes or blocks."""
    for whole in re.findall(r"`([^`\n]+)`", re.sub(r"\s+", " ", text)) + re.findall(r"^    (.+)$", text, re.M):
        found = re.match(r"(?:kubectl milligpu|milligpuctl) (.+)", whole)
        if found:
            yield found.group(1).split()


def check_commands():
    """The commands that runbooks and alerts name exist, with these options and as many arguments."""
    commands = command_table()
    for words, right in ((["doctor", "--nodes"], True), (["drift", "--kind", "over"], True), (["backup"], False),
                         (["doctor", "--node", "a"], False), (["drift", "--kind"], False), (["repair"], False),
                         (["node", "a", "-o", "json"], True)):
        need((wrong_command(words, commands) is None) == right, f"the check of commands is wrong about {words}")
    texts = {"runbooks.md": text_of("docs", "operate", "runbooks.md")}
    for name, rule in alerts().items():
        texts[f"alert {name}"] = rule["annotations"]["description"]
    seen = 0
    for place, text in texts.items():
        for words in commands_in(text):
            wrong = wrong_command(words, commands)
            need(wrong is None, f"{place}: milligpuctl {' '.join(words)}: {wrong}")
            seen += 1
    need(seen > len(alerts()), f"only {seen} commands were found")


def check_cases():
    """Each alert has a case in which it fires, and one in which its series exist and it does not."""
    seen = {name: {True: 0, False: 0} for name in alerts()}
    for group in cases()["tests"]:
        there = {re.match(r"\w+", series["series"]).group() for series in group["input_series"]}
        need(there <= set(metric_labels(TOP)), f"alerts.yaml, {group['name']}: there is no metric among {sorted(there)}")
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


def one_line(annotations):
    """The annotations without the places where their lines were broken."""
    return {key: " ".join(text.split()) for key, text in annotations.items()}


def completed(document, rules):
    """The cases as promtool wants them: with all labels and annotations of what is expected."""
    out = copy.deepcopy(document)
    for group in out["tests"]:
        for one in group["alert_rule_test"]:
            rule = rules[one["alertname"]]
            for expected in one["exp_alerts"]:
                plain = {key: text for key, text in rule["annotations"].items() if "{{" not in text}
                expected["exp_annotations"] = one_line({**plain, **expected.get("exp_annotations", {})})
                expected["exp_labels"] = {**rule["labels"], **expected.get("exp_labels", {})}
    return out


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file, width=1000)
    return name


def promtool(folder, *arguments):
    return subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True)


def fire(folder, rules, document):
    """promtool on the rules and the cases. Rules are evaluated as often as the series of a case have samples."""
    rules = [{**rule, "annotations": one_line(rule["annotations"])} for rule in rules]
    write(folder, "rules.yaml", {"groups": [{"name": "milligpu", "rules": rules}]})
    files = [write(folder, f"cases-{interval}.yaml", {
        "rule_files": ["rules.yaml"], "evaluation_interval": interval,
        "tests": [group for group in document["tests"] if group["interval"] == interval]})
        for interval in sorted({group["interval"] for group in document["tests"]})]
    return promtool(folder, "test", "rules", *files)


def promtool_checks():
    """promtool reads the rules, and each alert fires and stays silent as the cases say."""
    with tempfile.TemporaryDirectory() as folder:
        done = promtool(folder, "check", "rules", write(folder, "rules.yaml", {"groups": rule_groups()}))
        need(done.returncode == 0, f"promtool check rules: {done.stdout}{done.stderr}")
        done = fire(folder, list(alerts().values()), completed(cases(), alerts()))
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
                done = fire(folder, [mutant], document)
                need(done.returncode != 0, f"alerts.yaml does not notice {name} {slip}")
                tried += 1
    need(tried > len(alerts()), f"only {tried} slips were tried")


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
    finish("alerts")


main()
