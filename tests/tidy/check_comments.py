"""No `//` comments, and no notes to do something later."""

import re
from typing import List

from tidy import Files, Finding, comments, line_of, run, tree

LATER = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        if path.endswith((".c", ".h")):
            for line, comment in comments(text):
                if comment.startswith("//"):
                    found.append(Finding(path, line, "// is for debugging; write /* */"))
        for match in LATER.finditer(text):
            found.append(Finding(path, line_of(text, match.start()), f"{match.group()}: do it now"))
    return found


BAD = [
    {"src/x.c": "int a; // b\n"},
    {"src/x.c": "/* TO" "DO: later */\n"},
    {"docs/x.md": "FIX" "ME\n"},
]
GOOD = [{"src/x.c": 'char *u = "http://a"; /* see https://b // c */\nchar t[] = "a-XXXXXX";\n'}]

run(check, tree(), BAD, GOOD)
