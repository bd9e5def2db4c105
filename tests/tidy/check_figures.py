"""The figures of bench/README.md are those of bench/publish: names that the benchmarks print, in a block that nobody writes by hand."""

import importlib.machinery
import importlib.util
import re
import sys
from types import ModuleType
from typing import List

from tidy import Finding, Files, ROOT, run, tree

README = "bench/README.md"
COMMANDS = "tests/controlplane/cmd"
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ROW = re.compile(r"\| `([^`]+)` \|")
HAND_MADE = re.compile(r"^##+ .*\bfigures\b", re.IGNORECASE)


def load(path: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("publish", str(ROOT / path))
    spec = importlib.util.spec_from_loader("publish", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
PUBLISH = load("bench/publish")


def words(files: Files) -> str:
    """Every literal of the benchmarks, with numbers that are filled in as in the figures' names."""
    texts = [text for path, text in files.items() if path.startswith(("bench/", COMMANDS)) and path != README]
    return "\n".join(literal for text in texts for literal in LITERAL.findall(text))


def is_literal(part: str, literals: str) -> bool:
    """The part is in a literal, with its numbers or with what they replace: "%u_nodes", "{GPUS}_gpus"."""
    pattern = re.sub(r"\d+", lambda number: rf"(?:{number.group()}|%[ud]|{{[^{{}}]*}})", part)
    return re.search(rf"(?<!\w){pattern}(?!\w)", literals) is not None


def is_printed(name: str, literals: str, ready: Files) -> bool:
    """Each part between the dots is a literal, or the name of a policy, or ends in a word of its own: "fits_%s", "warm"."""
    for part in name.split("."):
        head, _, tail = part.rpartition("_")
        if not (f"policy/{part}.yaml" in ready or is_literal(part, literals)
                or (head and f"{head}_%s" in literals and is_literal(tail, literals))):
            return False
    return True


def check(files: Files) -> List[Finding]:
    literals = words(files)
    found = [Finding("bench/publish", 1, f"no benchmark prints {name}")
             for name in sorted(PUBLISH.names()) if not is_printed(name, literals, files)]
    inside = False
    for number, line in enumerate(files[README].splitlines(), 1):
        if line in (PUBLISH.BEGIN, PUBLISH.END):
            inside = line == PUBLISH.BEGIN
            continue
        row = ROW.match(line)
        if inside and row and row.group(1) not in PUBLISH.names():
            found.append(Finding(README, number, f"{row.group(1)} is not in FIGURES of bench/publish"))
        if not inside and (HAND_MADE.match(line) or (row and row.group(1) in PUBLISH.names())):
            found.append(Finding(README, number, "figures are written by bench/publish, between its marks"))
    marks = [line for line in files[README].splitlines() if line in (PUBLISH.BEGIN, PUBLISH.END)]
    if marks != [PUBLISH.BEGIN, PUBLISH.END]:
        found.append(Finding(README, 1, "lacks the marks of bench/publish"))
    return found


TREE = {**tree(".c", ".h", ".def", ".py", under=("bench", "include/milligpu/core/rules")), **tree(".go", under=(COMMANDS,)),
        **tree(".yaml", under=("policy",)),
        **{path: (ROOT / path).read_text() for path in (README, "bench/placement", "bench/agent", "bench/publish")}}
SOURCES = {path: text for path, text in TREE.items() if path not in (README, "bench/publish")}
MARKS = [PUBLISH.BEGIN, PUBLISH.END]
BAD = [{**SOURCES, README: "\n".join([*MARKS, "## Figures of today"])},
       {**SOURCES, README: "\n".join([MARKS[0], "| `filter.x` | 1 us |", MARKS[1]])},
       {**SOURCES, README: "\n".join([*MARKS, "| `bind.1_outstanding.rate` | 1 |"])},
       {**SOURCES, README: MARKS[0]},
       {README: "\n".join(MARKS), "bench/bench_x.c": 'say("x.y", 1, "us");'}]
GOOD = [{**SOURCES, README: "\n".join([MARKS[0], "| `bind.1_outstanding.rate` | 1 |", MARKS[1], "### What it brought"])}]

run(check, {path: text for path, text in TREE.items() if path != "bench/publish"}, BAD, GOOD)
