"""No script with pipefail pipes into a command that stops reading early.

`writer | head -n 1` ends with 141 (SIGPIPE) if head has left before the writer's last write: a script that passes or
fails by chance. Scripts read everything (grep with its output thrown away, mapfile), or take the text as a word
(`grep -q ... <<<"$text"`).
"""

import re
from typing import List

from tidy import Files, Finding, line_of, run, tree

PIPE = re.compile(r"(?<!\|)\|&?(?!\|)(?:\s|\\\n|\{|\()*(?:\w+=\S*\s+)*(?:(?:command|env|sudo|exec|LC_ALL=C)\s+)*([^|\n]*)")
PIPEFAIL = re.compile(r"\bset\s[^\n#;]*\bpipefail\b")
COMMENT = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
EARLY = {
    "head": re.compile(r"(?:\S*/)?head\b(?!\s+(?:-n|-c|--lines=|--bytes=)\s*-)"),
    "grep with -q, -m or -l": re.compile(
        r"(?:\S*/)?[ef]?grep(?:\s+-[efABC]\s+\S+|\s+-(?!-\s)\S+)*?"
        r"\s+(?:-[A-Za-z]*[qlLm]|--(?:quiet|silent|max-count|files-with(?:out)?-match))"),
    "sed that quits": re.compile(r"(?:\S*/)?sed(?=\s)[^|\n]*?(?:[\d/$;{!\s'\"])[qQ]\s*\d*\s*(?:[;}'\"\s]|$)"),
    "awk that exits": re.compile(r"(?:\S*/)?[gm]?awk\s[^\n]*\bexit\b"),
    "read": re.compile(r"read\b"),
}


def is_script(text: str) -> bool:
    return text.startswith("#!") and PIPEFAIL.search(text) is not None


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        if not is_script(text):
            continue
        code = COMMENT.sub(lambda match: " " * len(match.group()), text)
        for pipe in PIPE.finditer(code):
            for name, early in EARLY.items():
                if early.match(pipe.group(1)):
                    found.append(Finding(path, line_of(code, pipe.start(1)), f"{name} may leave before its writer is done, "
                                         "and pipefail makes that a failure; read everything, or use <<<"))
    return found


def script(line: str, options: str = "-euo pipefail") -> Files:
    return {"a/run": f"#!/bin/bash\nset {options}\n{line}\n"}


BAD = [script(line) for line in (
    "first=$(names_of refused | head -n 1)", "a | head", "a | /usr/bin/head -c 20", "a |\n    head -1 | wc", "a | \\\n  head",
    "a |& head -n 1", "a | LC_ALL=C head", "{ a; b; } | { head -n 1; cat >/dev/null; }", "a | b 2>&1 | head -n 2",
    "a | grep -q x", "a | grep -qF -- x", "a | grep -F -q x", "a | grep -xqF x", "a | grep --quiet x", "a | grep --silent x",
    "a | grep -m 1 x", "a | grep -m1 x", "a | grep -om1 x", "a | grep --max-count=1 x", "a | egrep -q x", "a | grep -l x", "a | grep -e x -q",
    "! a | grep -q x", "a | sed q", "a | sed 1q", "a | sed -n '/x/{p;q}'", "a | sed -n '3{p;q;}'", "a | sed '/x/Q'",
    "a | sed 5q | b", "a | awk '{print; exit}'", "a | awk '/x/ { found = 1; exit } END { print found }'", "a | read -r x",
    "a | { read -r x; echo $x; }", "bash -c 'set -o pipefail; a | head'",
)] + [script("a | head", "-o pipefail"), script("a | grep -q x", "-uo pipefail"), script("true\nset -o pipefail\na | head", "-e")]
GOOD = [script(line) for line in (
    "a | tail -n 1", "a | grep x >/dev/null", "a | grep -F -- -q", "a | grep -c q", "a | grep -xF head", "a || head -n 1 b",
    "head -n 1 b | wc -l", "grep -q x <<<\"$(a)\"", "grep -q x b || c", "a | head -n -1", "a | head -c -1", "# a | head",
    "  # like a | grep -q x", "a | sed 's/q/x/'", "a | sed -n 's/^Build ID: //p'", "a | awk '{print $1}'",
    "while read -r x; do b; done < <(a)", "a | while read -r x; do b; done", "mapfile -t x < <(a)", "a | header", "a | reader",
    "case $1 in -h | --help) b ;; esac", "a | sort -u | wc -l", "a | tr q x", "a | sed 's/a q/b/'", "a | grep -E 'x -q' | wc",
)] + [script("a | head", "-eu"), {"a.md": "set -o pipefail; a | head\n"}, {"a.py": "#!/usr/bin/python3\nx = 'a | head'\n"}]

run(check, tree(), BAD, GOOD)
