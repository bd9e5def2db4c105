"""At most 100 columns per line, and 70 lines, 6 parameters and 4 levels per function: limits, not aims."""

import re
from typing import List

from tidy import Files, Finding, Function, functions, run, tree

LINE_MAX = 100
FUNCTION_MAX = 70
PARAMETERS_MAX = 6
NESTING_MAX = 4
SUFFIXES = (".c", ".h")
REASONED = re.compile(r"NOLINT(NEXTLINE)?\(readability-function-size\)")


def parameters(function: Function) -> int:
    start = function.signature.index("(")
    depth = 0
    commas = 0
    for char in function.signature[start:]:
        depth += {"(": 1, ")": -1}.get(char, 0)
        commas += char == "," and depth == 1
        if depth == 0:
            break
    return commas + 1


def nesting(function: Function) -> int:
    body = re.sub(r"=\s*\{[^;]*;", ";", function.body)  # an initialiser is not a branch
    depth = deepest = 0
    for char in body:
        depth += {"{": 1, "}": -1}.get(char, 0)
        deepest = max(deepest, depth)
    return deepest - 1


def check_function(path: str, function: Function) -> List[Finding]:
    faults = []
    if function.length() > FUNCTION_MAX:
        faults.append(f"has {function.length()} lines, more than {FUNCTION_MAX}")
    if parameters(function) > PARAMETERS_MAX:
        faults.append(f"takes {parameters(function)} parameters, more than {PARAMETERS_MAX}")
    if nesting(function) > NESTING_MAX:
        faults.append(f"nests {nesting(function)} deep, more than {NESTING_MAX}")
    return [Finding(path, function.line, f"{function.name}() {fault}") for fault in faults]


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_MAX:
                found.append(Finding(path, number, f"{len(line)} columns, more than {LINE_MAX}"))
        if not path.endswith((".c", ".h")):
            continue
        for function in functions(text):
            above = "\n".join(lines[max(0, function.line - 8): function.line])
            if not REASONED.search(above):
                found += check_function(path, function)
    return found


def sample(body: str, signature: str = "int f(int a)") -> Files:
    return {"src/x.c": f"{signature}\n{{\n{body}}}\n"}


DEEP = "if (a) {\n" * 5 + "}\n" * 5
BAD = [
    sample("    a();\n" * (FUNCTION_MAX + 1)),
    sample("", "void f(int a, int b, int c, int d,\n       int e, int f, int g)"),
    sample(DEEP),
    {"src/x.c": "x" * (LINE_MAX + 1)},
]
GOOD = [
    sample("    a();\n" * FUNCTION_MAX),
    sample("", "void f(int a, int b, int c, int d, int e, int (*f)(int, int))"),
    sample("if (a) {\n" * 4 + "}\n" * 4),
    sample("    a();\n" * 80, "/* NOLINTNEXTLINE(readability-function-size): a flat switch */\nint f(int a)"),
    {"src/x.c": "x" * LINE_MAX},
]

run(check, tree(*SUFFIXES), BAD, GOOD)
