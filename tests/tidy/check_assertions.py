"""Assertions state what must hold: on average two per function in core, one in store."""

import re
from typing import Dict, List

from tidy import Files, Finding, code_only, functions, layer_of, run, tree

# Other layers have no minimum: there, an assertion is written where it states an invariant.
FLOOR: Dict[str, float] = {"core": 2.0, "store": 1.0}
ASSERTION = re.compile(r"\b(must|must_debug|must_not_reach|must_fail|static_assert)\s*\(")


def count(files: Files) -> Dict[str, List[int]]:
    """layer -> [functions, assertions]"""
    counted: Dict[str, List[int]] = {}
    for path, text in files.items():
        layer = layer_of(path)
        if not layer or path == "src/base/must.c":
            continue
        pair = counted.setdefault(layer, [0, 0])
        pair[0] += sum(1 for _ in functions(text))
        pair[1] += len(ASSERTION.findall(code_only(text)))
    return counted


def check(files: Files) -> List[Finding]:
    found = []
    for layer, (made, asserted) in count(files).items():
        floor = FLOOR.get(layer, 0.0)
        if asserted < floor * made:
            message = f"{asserted} assertions in {made} functions, fewer than {floor} per function"
            found.append(Finding(f"src/{layer}", 0, message))
    return found


ONE = "int f(int a)\n{\n    must(a > 0);\n}\n"
BAD = [
    {"src/core/x.c": ONE},
    {"src/store/x.c": "int f(int a)\n{\n    /* must(a) */\n    return a;\n}\n"},
]
GOOD = [{"src/store/x.c": ONE}, {"src/core/x.c": ONE, "src/core/y.c": "must(1);must(2);must(3);"}]

SOURCES = tree(".c", under=("src",))
for name, (functions_made, asserted_there) in count(SOURCES).items():
    print(f"{name}: {asserted_there} assertions in {functions_made} functions")
run(check, SOURCES, BAD, GOOD)
