"""The series that milligpud and its agents have, and those that an expression of PromQL asks for."""

import os
import re

FUNCTION_SUFFIXES = ("_bucket", "_sum", "_count")  # of the series of a histogram


def metric_labels(top, table="metrics.def"):
    """The labels of each metric of the table; le and the three series of a histogram too."""
    with open(os.path.join(top, "include", "milligpu", "run", table), encoding="utf-8") as file:
        table = re.findall(r'^METRIC\(\w+, "(\w+)", (\w+), "([^"]*)"', file.read(), re.M)
    known = {}
    for name, kind, labels in table:
        known[name] = {label for label in labels.split(",") if label}
        if kind in ("METRIC_TIMING", "METRIC_HISTOGRAM"):
            for suffix in FUNCTION_SUFFIXES:
                known[name + suffix] = known[name] | {"le"}
    return known


def agent_metric_labels(top):
    return metric_labels(top, "node_metrics.def")


def selectors(expression):
    """Each metric of an expression, with the labels that it is asked for."""
    found = re.findall(r"\b((?:milligpu|process)_\w+)(?:\{([^}]*)\})?", expression)
    return [(name, set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", matchers))) for name, matchers in found]
