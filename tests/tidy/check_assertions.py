"""Assertions state what must hold: on average two per function in core, one in store.

None reads an object whose reference was given up a line before: another thread may free it then, which e2e.load shows under
tsan once in many runs.
"""

import re
from typing import Dict, List

from tidy import Files, Finding, code_only, functions, layer_of, run, tree

# Other layers have no minimum: there, an assertion is written where it states an invariant.
FLOOR: Dict[str, float] = {"core": 2.0, "store": 1.0}
ASSERTION = re.compile(r"\b(must|must_debug|must_not_reach|must_fail|static_assert)\s*\(")
# A count is decremented, and its former value tested: what is between the two may read that value only.
GIVEN_UP = re.compile(r"\bbefore\s*=\s*atomic_fetch_sub(?:_explicit)?\(.*?;(.*?)(?:\bif \(before\b|\breturn before\b|^})",
                      re.DOTALL | re.MULTILINE)


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
    for path, text in files.items():
        for match in GIVEN_UP.finditer(code_only(text)):
            if "->" in match[1]:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Finding(path, line, "reads what was given up: assert it before"))
    return found


ONE = "int f(int a)\n{\n    must(a > 0);\n}\n"
UNREF = """void f(struct a *a)
{
    %sconst unsigned before =
        atomic_fetch_sub_explicit(refs_of(a), 1, memory_order_acq_rel);
    must(before > 0);
    %sif (before > 1)
        return;
    a_free(a->b);
}
"""
BAD = [
    {"src/sync/x.c": UNREF % ("", "must(a->count > 0);\n    ")},
    {"src/core/x.c": ONE},
    {"src/store/x.c": "int f(int a)\n{\n    /* must(a) */\n    return a;\n}\n"},
]
GOOD = [{"src/sync/x.c": UNREF % ("must(a->count > 0);\n    ", "")}, {"src/store/x.c": ONE},
        {"src/core/x.c": ONE, "src/core/y.c": "must(1);must(2);must(3);"}]

SOURCES = tree(".c", under=("src",))
for name, (functions_made, asserted_there) in count(SOURCES).items():
    print(f"{name}: {asserted_there} assertions in {functions_made} functions")
run(check, SOURCES, BAD, GOOD)
