"""Tests wait for events, not for a time: no upper bound on a duration, no fixed number of polls, no short timeout.

Such a test fails on a busy machine; tests/README.md says what to write instead. The simulator has a clock of its own.
"""

import re
from typing import List

from tidy import Files, Finding, code_only, line_of, run, tree

OTHERS = ("tests/sim/", "tests/mutation/", "tests/fuzz/", "tests/tidy/")
QUICK_PY = re.compile(r"\.assertLess(?:Equal)?\(\s*(?:time\.\w+\(\)|\w*(?:took|elapsed)\w*)[^\n]*")
LIMIT_PY = re.compile(r"\b(?:timeout|patience)=\d+\b|\.(?:wait|result|settimeout)\(\d+\)|monotonic\(\) \+ \d+\b")
LIMIT_GO = re.compile(r"\b[uU]ntil\(\d+ ?\* ?time\.Second\b|\"--timeout=[1-9]?\ds\"")
QUICK_C = re.compile(r"assert_true\(\s*clock_\w+\(\) - \w+ <=?[^\n;]*")
LOOKS_C = re.compile(r"\bfor \(int \w+ = 0; (?:\w+ < [^;\n]+&&|[^;\n]+&& \w+ <)[^;]*;[^\n]*\)[^;]*?\b(?:sleep_ms|nanosleep|usleep|poll)\(")


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        if not path.startswith("tests/") or path.startswith(OTHERS):
            continue
        if path.endswith(".go"):
            found += [Finding(path, line_of(text, match.start()), "wait up to soon or harness.Patience, which only a failing test reaches")
                      for match in LIMIT_GO.finditer(text)]
            continue
        if path.startswith("tests/controlplane/"):
            continue
        python = path.startswith("tests/e2e/") and path.endswith(".py")
        code = text if python else code_only(text)
        quick, limit = (QUICK_PY, LIMIT_PY) if python else (QUICK_C, LOOKS_C)
        found += [Finding(path, line_of(code, match.start()), "a busy machine is slower: assert an order or a count")
                  for match in quick.finditer(code) if "patience" not in match.group().lower()]
        found += [Finding(path, line_of(code, match.start()), "wait up to PATIENCE, which only a failing test reaches")
                  for match in limit.finditer(code)]
    return found


BAD = [
    {"tests/e2e/test_x.py": "self.assertLess(time.monotonic() - began, 5)\n"},
    {"tests/e2e/test_x.py": "self.assertLessEqual(time.time() - began, 5)\n"},
    {"tests/e2e/test_x.py": "self.assertLess(elapsed, 5)\n"},
    {"tests/e2e/test_x.py": "subprocess.run([CTL], timeout=20)\n"},
    {"tests/e2e/test_x.py": "process.wait(10)\n"},
    {"tests/e2e/test_x.py": "answer.result(10)\n"},
    {"tests/e2e/test_x.py": "peer.settimeout(5)\n"},
    {"tests/e2e/test_x.py": "until = time.monotonic() + 30\n"},
    {"tests/e2e/test_x.py": "def ask(port, patience=10):\n"},
    {"tests/controlplane/x_test.go": "\tf.until(20*time.Second, func() (bool, string) {\n"},
    {"tests/controlplane/harness/x.go": "\terr := Until(30 * time.Second, func() (bool, string) {\n"},
    {"tests/controlplane/x_test.go": "\tf.kubectl(\"\", \"wait\", \"--timeout=20s\")\n"},
    {"tests/unit/x/test_x.c": "    assert_true(clock_ns() - start < 1000000000);\n"},
    {"tests/unit/x/test_x.c": "    assert_true(clock_ns() - start <= INT64_C(1000000000));\n"},
    {"tests/unit/x/test_x.c": "    for (int i = 0; i < 400 && count < 1; i++)\n        sleep_ms(5);\n"},
    {"tests/support/x.c": "    for (int i = 0; i < 400 && !is; i++) {\n        (void)nanosleep(&wait, NULL);\n"},
    {"tests/support/x.c": "    for (int i = 0; !is && i < 400; i++)\n        (void)poll(NULL, 0, 20);\n"},
]
GOOD = [
    {"tests/e2e/test_x.py": "self.assertGreaterEqual(time.monotonic() - begun, 3)\n"},
    {"tests/e2e/test_x.py": "self.assertLess(time.monotonic() - began, harness.PATIENCE)\n"},
    {"tests/e2e/test_x.py": "subprocess.run([CTL], timeout=harness.PATIENCE)\nprocess.wait(harness.PATIENCE)\n"},
    {"tests/unit/x/test_x.c": "    assert_true(clock_ns() - start < patience_ns);\n"},
    {"tests/unit/x/test_x.c": "    assert_true(clock_ns() - start >= 29000000);\n"},
    {"tests/unit/x/test_x.c": "    for (int i = 0; i < 3; i++) {\n        sleep_ms(400);\n"},
    {"tests/unit/x/test_x.c": "    while (count < 1 && patience_left(&until_ms))\n        continue;\n"},
    {"tests/e2e/test_x.py": "until = time.monotonic() + harness.PATIENCE\n"},
    {"tests/controlplane/x_test.go": "\tf.until(3*soon, func() (bool, string) {\n"},
    {"tests/controlplane/x_test.go": "\tf.until(2*time.Minute, func() (bool, string) {\n"},
    {"tests/controlplane/x_test.go": "\tf.kubectl(\"\", \"wait\", \"--timeout=120s\")\n"},
    {"tests/sim/sim_x.c": "    assert_true(clock_ns() - start < 1000000000);\n"},
    {"src/x/x.c": "    for (int i = 0; i < 400 && !is; i++)\n        sleep_ms(5);\n"},
]

run(check, tree(".c", ".h", ".py", ".go", under=("tests",)), BAD, GOOD)
