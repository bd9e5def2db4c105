"""Links of the documents lead to files and headings that exist, and docs/troubleshoot.md explains each reason."""

import os
import re
from typing import List, Set

from tidy import Files, Finding, line_of, run, tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
REASON = re.compile(r'X\(REASON_\w+, "(\w+)"')


def blanked(text: str) -> str:
    """Without what stands in fences and between backticks, where brackets are no links; lines stay."""
    text = FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)
    return re.sub(r"`[^`\n]*`", lambda match: " " * len(match.group()), text)


def anchors(text: str) -> Set[str]:
    """The names that a forge gives to headings: small letters, hyphens, and a number for a repeated one."""
    found: Set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        heading = LINK.sub(lambda match: match.group()[1:].split("]")[0], heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(f"{name}-{number}" if number else name)
    return found


def check(files: Files) -> List[Finding]:
    found = []
    folders = {os.path.dirname(path) for path in files}
    folders |= {os.path.dirname(folder) for folder in folders}
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        for match in LINK.finditer(blanked(text)):
            target, _, anchor = match.group(1).partition("#")
            line = line_of(text, match.start())
            if re.match(r"[a-z]+:", target):
                continue
            place = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if place not in files and place not in folders and not place.endswith((".svg", ".png")):
                found.append(Finding(path, line, f"{target} does not exist"))
            elif anchor and place.endswith(".md") and anchor not in anchors(files[place]):
                found.append(Finding(path, line, f"{place} has no heading #{anchor}"))
    page = files.get("docs/troubleshoot.md", "")
    for reason in REASON.findall(files.get("include/milligpu/reason.h", "")):
        if not re.search(rf"^\|[^|]*`{reason}`", page, re.MULTILINE):
            found.append(Finding("docs/troubleshoot.md", 1, f"no row explains the reason {reason}"))
    return found


BAD = [
    {"a.md": "[x](b.md)"},
    {"a.md": "[x](#one)", "b.md": "# One"},
    {"docs/a.md": "[x](../b.md#two)", "b.md": "# One\n"},
    {"docs/a.md": "[x](b.md#one-1)", "docs/b.md": "# One\n```\n# One\n```\n"},
    {"docs/a.md": "[x](../src)", "lib/x.c": ""},
    {"docs/troubleshoot.md": "| `amount` | x |\nroom", "include/milligpu/reason.h": 'X(REASON_ROOM, "room", MOMENT, "")'},
]
GOOD = [
    {"docs/a.md": "[x](../b.md#the-one-of-2) [y](https://b#c) [z](../src) `[n](n)`\n```\n[n](n)\n```\n", "b.md":
        "## The `one`, of 2!\n", "src/x.c": ""},
    {"docs/a.md": "[x](#one-1)\n# One\n# [One](https://x)\n"},
    {"docs/troubleshoot.md": "| `amount`, `room` | x |\n", "include/milligpu/reason.h": 'X(REASON_ROOM, "room", MOMENT, "")'},
]

run(check, tree(), BAD, GOOD)
