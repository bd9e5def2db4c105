"""Every C file is where a rule builds it, and every test registers itself: a forgotten test proves nothing."""

import re
from typing import List

from tidy import Files, Finding, LAYERS, run, tree

LAYER = "|".join([*LAYERS, "app"])  # unit/app: tests of the whole application
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
        if path.startswith("tests/") and re.search(r"\bcmocka_(unit_test|run_group_tests)", text):
            found.append(Finding(path, 1, "lists its tests; TEST() of support/test.h registers each by itself"))
    return found


BAD = [
    {"src/extra/x.c": ""},
    {"src/kube/deep/er/x.c": ""},
    {"tests/unit/test_x.c": ""},
    {"tests/unit/core/x.c": ""},
    {"include/milligpu/x.h": ""},
    {"tests/unit/core/test_x.c": "cmocka_run_group_tests(tests, NULL, NULL);\n"},
]
GOOD = [
    {"src/core/x.c": "", "src/ctl/commands/top.c": "", "src/core/place/x.c": "", "tests/unit/ctl/test_top.c": ""},
    {"tests/unit/core/test_x.c": "TEST(x)\n{\n}\n"},
]

run(check, tree(".c", ".h", under=("src", "include", "tests", "bench")), BAD, GOOD)
