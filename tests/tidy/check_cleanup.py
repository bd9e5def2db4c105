"""What the end of a scope cleans up is set up before the first return: else garbage is freed."""

import re
from typing import List

from tidy import Files, Finding, c_tree, code_only, line_of, run

DECLARED = re.compile(r"^\s+CLEANUP\(\w+\)\s[^;=]*?(\w+);$", re.MULTILINE)
END = re.compile(r"^}$", re.MULTILINE)


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        code = code_only(text)
        for match in DECLARED.finditer(code):
            name = match.group(1)
            end = END.search(code, match.end())
            rest = code[match.end():end.start() if end else len(code)]
            used = re.search(rf"&{name}\b|\b{name} = ", rest)
            left = re.search(r"\breturn\b|\bgoto\b", rest)
            if left and (used is None or left.start() < used.start()):
                found.append(Finding(path, line_of(code, match.start(1)),
                                     f"a return comes before {name} is set up: its cleanup would free garbage"))
    return found


HEAD = "void f(void)\n{\n    CLEANUP(strbuf_done) struct strbuf text;\n"
BAD = [
    {"src/core/x.c": HEAD + "    if (a)\n        return;\n    strbuf_init(&text);\n}\n"},
    {"src/core/x.c": HEAD + "    return;\n}\n"},
]
GOOD = [
    {"src/core/x.c": HEAD + "    strbuf_init(&text);\n    if (a)\n        return;\n}\n"},
    {"src/core/x.c": HEAD + "    /* return */\n    strbuf_init(&text);\n    return;\n}\n"},
    {"src/core/x.c": "{\n    CLEANUP(xfreep) char *a = NULL;\n    return;\n}\n"},
    {"src/core/x.c": HEAD + "}\nint g(void)\n{\n    return 0;\n}\n"},
]

run(check, c_tree(), BAD, GOOD)
