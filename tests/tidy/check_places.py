"""Every C file is where a rule builds it, and every test function is run: a forgotten test proves nothing."""

import re
from typing import List

from tidy import Files, Finding, LAYERS, run, tree

LAYER = "|".join([*LAYERS, "app"])  # unit/app: tests of the layers from settings to daemon
PLACES = re.compile(
    rf"src/({LAYER})/(\w+/)?[\w-]+\.(c|h|def)"
    rf"|include/milligpu/({LAYER})/(\w+/)?\w+\.(h|def)"
    rf"|tests/unit/({LAYER})/((\w+/)?test_\w+\.c|support\w*\.[ch])"
    r"|tests/(table|golden|sim|e2e)/(test_\w+\.c|support\w*\.[ch])"
    r"|tests/sim/sim_\w+\.[ch]"
    r"|tests/support/\w+\.[ch]"
    r"|tests/fuzz/(fuzz_\w+\.c|replay\.c|support\w*\.[ch])"
    r"|tests/power/\w+\.[ch]"
    r"|tests/programs/([\w-]+/)?[\w-]+\.[ch]"
    r"|tests/fake_nvml/\w+\.c"
    r"|tests/fake_clock/\w+\.c"
    r"|tests/clang/\w+\.c"
    r"|tests/mutation/\w+\.c"
    r"|bench/\w+\.[ch]"
)


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        if not PLACES.fullmatch(path):
            found.append(Finding(path, 1, "is where no rule builds it"))
        for name in re.findall(r"^static void (\w+)\(void \*\*\w+\)\n\{", text, re.MULTILINE):
            if path.startswith("tests/") and len(re.findall(rf"\b{name}\b", text)) < 2:
                found.append(Finding(path, 1, f"{name}() is a test that nothing runs"))
    return found


TEST = "static void %s(void **state)\n{\n}\n"
BAD = [
    {"src/extra/x.c": ""},
    {"src/kube/deep/er/x.c": ""},
    {"tests/unit/test_x.c": ""},
    {"tests/unit/core/x.c": ""},
    {"include/milligpu/x.h": ""},
    {"tests/unit/core/test_x.c": TEST % "lonely"},
]
GOOD = [
    {"src/core/x.c": "", "src/ctl/commands/top.c": "", "src/core/place/x.c": "", "tests/unit/ctl/test_top.c": ""},
    {"tests/unit/core/test_x.c": TEST % "used" + "cmocka_unit_test(used)\n"},
]

run(check, tree(".c", ".h", under=("src", "include", "tests", "bench")), BAD, GOOD)
