"""Files of one layer call each other in one direction, and headers include each other in one: no circles.

A circle of calls must be listed here, with its reason."""

import re
from typing import Dict, List, Set

from tidy import Files, Finding, code_only, layer_of, run, tree

# "one two": why these files may call each other. There is no such circle now.
MEANT: Dict[str, str] = {}

DEFINED = re.compile(r"^(?!static\b|typedef\b)[a-z][\w \*]*?\b([a-z_]\w*)\([^;{]*\)\s*\n\{", re.MULTILINE)
OWN = re.compile(r"^static\b[\w \*]*?\b([a-z_]\w*)\(", re.MULTILINE)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
WORD = re.compile(r"\b[a-z_]\w*(?=\()")


def calls(files: Files) -> Dict[str, Set[str]]:
    """file -> files of its layer, in any of its rooms, that it calls"""
    code = {path: code_only(text) for path, text in files.items() if layer_of(path)}
    owner = {}
    for path, text in code.items():
        for name in DEFINED.findall(text):
            owner[layer_of(path), name] = path
    graph: Dict[str, Set[str]] = {}
    for path, text in code.items():
        found = {owner.get((layer_of(path), name)) for name in set(WORD.findall(text)) - set(OWN.findall(text))}
        graph[path] = {other for other in found if other and other != path}
    return graph


def included(files: Files) -> Dict[str, Set[str]]:
    """header -> headers that it includes"""
    graph: Dict[str, Set[str]] = {}
    for path, text in files.items():
        beside = path.rsplit("/", 1)[0]
        named = (place for name in INCLUDE.findall(text) for place in (f"{beside}/{name}", f"src/{name}", f"include/{name}"))
        graph[path] = {place for place in named if place in files and place != path}
    return graph


def reached(graph: Dict[str, Set[str]], start: str) -> Set[str]:
    seen: Set[str] = set()
    todo = [start]
    while todo:
        for other in graph[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def circles(graph: Dict[str, Set[str]]) -> List[List[str]]:
    reach = {path: reached(graph, path) for path in graph}
    groups = {tuple(sorted(b for b in reach[a] | {a} if a in reach.get(b, ()) or a == b)) for a in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def check(files: Files) -> List[Finding]:
    found = []
    for group in circles(included({path: text for path, text in files.items() if path.endswith(".h")})):
        found.append(Finding(group[0], 1, f"include each other: {' '.join(group)}"))
    for group in circles(calls({path: text for path, text in files.items() if path.endswith(".c")})):
        names = " ".join(path.rsplit("/", 1)[1][:-2] for path in group)
        if names not in MEANT:
            found.append(Finding(group[0], 1, f"calls in a circle: {names}"))
    return found


ONE = "void one(void)\n{\n    two();\n}\n"
BACK = "void two(void)\n{\n    one();\n}\n"
BAD = [{"src/core/one.c": ONE, "src/core/two.c": BACK},
       {"src/core/one.c": ONE, "src/core/two.c": "void two(void)\n{\n    three();\n}\n",
        "src/core/three.c": "int three(void)\n{\n    one();\n}\n"},
       {"src/core/node/one.c": ONE, "src/core/place/two.c": BACK},
       {"src/core/node/one.h": '#include "milligpu/two.h"\n', "include/milligpu/two.h": '#include "core/node/one.h"\n'}]
GOOD = [{"src/core/one.c": ONE, "src/core/two.c": "void two(void)\n{\n}\n"},
        {"src/core/one.c": ONE, "src/wire/two.c": BACK},
        {"src/core/one.c": ONE, "src/core/two.c": "static void two(void)\n{\n    one();\n}\n"}]

if __name__ == "__main__":
    run(check, tree(".c", ".h", under=("src", "include")), BAD, GOOD)
