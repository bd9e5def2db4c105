"""Every C file is where a rule builds it; every test registers itself, by a name UNIT__property."""

import re
from typing import List

from tidy import Files, Finding, LAYERS, line_of, run, tree

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

TEST = re.compile(r"^(?:[A-Z_]*TEST|TEST_BETWEEN)\((\w+)", re.MULTILINE)
NAME = re.compile(r"(?=.{1,70}$)[a-z][a-z0-9_]*?__[a-z0-9_]+")


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        if not PLACES.fullmatch(path):
            found.append(Finding(path, 1, "is where no rule builds it"))
        if path.startswith("tests/") and re.search(r"\bcmocka_(unit_test|run_group_tests)", text):
            found.append(Finding(path, 1, "this file lists its tests; use TEST() of support/test.h, which registers each"))
        for match in TEST.finditer(text) if path.startswith("tests/") else ():
            if not NAME.fullmatch(match.group(1)):
                found.append(Finding(path, line_of(text, match.start()), f"{match.group(1)}: call it UNIT__property"))
    return found


BAD = [
    {"src/extra/x.c": ""},
    {"src/kube/deep/er/x.c": ""},
    {"tests/unit/test_x.c": ""},
    {"tests/unit/core/x.c": ""},
    {"include/milligpu/x.h": ""},
    {"tests/unit/core/test_x.c": "cmocka_run_group_tests(tests, NULL, NULL);\n"},
    {"tests/unit/core/test_x.c": "CORE_TEST(what_holds_is_said)\n{\n}\n"},
]
GOOD = [
    {"src/core/x.c": "", "src/ctl/commands/top.c": "", "src/core/place/x.c": "", "tests/unit/ctl/test_top.c": ""},
    {"tests/unit/core/test_x.c": "TEST(x__holds)\n{\n}\n"},
]

run(check, tree(".c", ".h", under=("src", "include", "tests", "bench")), BAD, GOOD)
