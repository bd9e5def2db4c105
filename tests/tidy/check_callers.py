"""What a header declares is called by the programs: a function for tests alone belongs to tests/support."""

import re
from typing import Dict, List

from tidy import Files, Finding, code_only, line_of, run, tree

# Functions that only tests call, and why they stay.
ALLOWED: Dict[str, str] = {
    "drift_watch_work": "what a pass over the drift costs",
    "fake_apiserver_compact": "a step of the cluster that milligpud --standalone does not take",
    "fake_apiserver_counts": "what a file with a cluster contained",
    "fake_apiserver_set_clock": "the clock of a fake is the test's",
    "fake_apiserver_version": "the version of the fake's last change",
    "http_body_bytes": "a bound on memory that nobody sees from outside",
    "log_set_pace": "the pace in which equal lines are left out is a minute",
    "note_value": "a value that the Binding contains beside others",
    "webhooks_bytes": "a bound on memory that nobody sees from outside",
    "writer_tables": "bounds on memory that nobody sees from outside",
}
DECLARED = re.compile(r"^(?!static|typedef|return|else|#)[a-z][\w \*]*?[ \*](\w+)\((?=[^;{]*;)", re.MULTILINE)
NAMED = re.compile(r"(?<!struct )\b(\w+)\b")
DEFINED = re.compile(r"^(?!static)[a-z][\w \*]*?[ \*](\w+)\((?=[^;{]*\n\{)", re.MULTILINE)


def check(files: Files) -> List[Finding]:
    declared: Dict[str, Finding] = {}
    named: Dict[str, int] = {}
    for path, text in files.items():
        code = code_only(text)
        for name in NAMED.findall(code):
            named[name] = named.get(name, 0) + 1
        for pattern in (DECLARED, DEFINED):
            for match in pattern.finditer(code):
                name = match.group(1)
                named[name] -= 1
                if path.endswith(".h") and not path.startswith("bench/") and pattern is DECLARED:
                    declared[name] = Finding(path, line_of(code, match.start(1)), f"only tests call {name}()")
    unused = {name for name in declared if named[name] == 0}
    stale = [name for name in ALLOWED if name in declared and name not in unused]
    return [declared[name] for name in sorted(unused - set(ALLOWED))] + [
        Finding(declared[name].path, declared[name].line, f"{name}() is called: take it off the list of exceptions")
        for name in stale
    ]


HEADER = "int twice(int a) MUST_USE;\n"
SOURCE = "int twice(int a)\n{\n    return 2 * a;\n}\n"
BAD = [
    {"include/milligpu/x.h": HEADER, "src/core/x.c": SOURCE},
    {"src/core/x.h": "struct a *twice(int a,\n                int b);\n", "src/core/y.c": "/* twice() */\n"},
    {"include/milligpu/x.h": "size_t webhooks_bytes(int a);\n", "src/core/y.c": "    f(webhooks_bytes(2));\n"},
]
GOOD = [
    {"include/milligpu/x.h": HEADER, "src/core/x.c": SOURCE, "src/core/y.c": "    f(twice(2));\n"},
    {"include/milligpu/x.h": HEADER, "src/core/x.c": SOURCE + "\nstatic int f(void)\n{\n    return twice(2);\n}\n"},
    {"include/milligpu/x.h": HEADER, "src/core/x.c": SOURCE, "bench/y.c": "    f(twice(2));\n"},
    {"include/milligpu/x.h": "size_t webhooks_bytes(int a);\n"},
]

run(check, {**tree(".c", ".h", ".def", under=("src", "include", "bench"))}, BAD, GOOD)
