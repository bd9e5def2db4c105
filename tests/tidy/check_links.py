"""Links of the documents lead to files and headings that exist, and to the answers of the first questions in two clicks.

docs/troubleshoot.md explains each reason.
"""

import os
import re
from typing import Iterator, List, Set, Tuple

from tidy import Files, Finding, line_of, run, tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
REASON = re.compile(r'X\(REASON_\w+, "(\w+)"')
# First questions of a reader, and the heading that answers each.
QUESTIONS = {
    "how do I install it": "docs/operate/install.md#install-milligpu-on-a-cluster",
    "why does my pod wait": "docs/troubleshoot.md#a-pod-stays-pending",
    "how do I upgrade it": "docs/operate/upgrade.md#upgrade-and-roll-back",
    "what does this alert mean": "docs/operate/runbooks.md#runbooks-of-the-alerts",
    "how do I give a share back": "docs/use.md#give-a-share-back",
    "what does it cost me in speed": "docs/compare.md#what-an-extender-costs",
    "when should I not use it": "docs/compare.md#when-not-to-use-milligpu",
}
CLICKS = 2
TELL_NOTHING = {"how", "do", "i", "it", "why", "does", "my", "what", "this", "a", "me", "in", "when", "should"}


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


def place_of(path: str, target: str) -> str:
    """The page to which a link of the page `path` leads, and the heading: the first one if the link names none."""
    page, _, anchor = target.partition("#")
    return f"{os.path.normpath(os.path.join(os.path.dirname(path), page)) if page else path}#{anchor}"


def links(files: Files, path: str) -> Iterator[Tuple[str, str]]:
    """What each link of a page says, and where it leads."""
    for match in LINK.finditer(blanked(files[path])):
        if not re.match(r"[a-z]+:", match.group(1)):
            said = match.group()[1:].split("]")[0]
            page, _, anchor = place_of(path, match.group(1)).partition("#")
            first = re.search(r"^# +(.+?) *$", files.get(page, ""), re.MULTILINE)
            yield said, f"{page}#{anchor or (next(iter(anchors(first.group())), '') if first else '')}"


def clicks(files: Files, question: str, answer: str) -> int:
    """How many links lead from README.md to the answer, if each has a word of the question; CLICKS + 1: more."""
    words = [word for word in question.lower().split() if word not in TELL_NOTHING]
    pages = {"README.md"}
    for count in range(1, CLICKS + 1):
        reached = {place for page in pages if page in files for said, place in links(files, page)
                   if any(word in said.lower() for word in words)}
        if answer in reached:
            return count
        pages = {place.split("#")[0] for place in reached}
    return CLICKS + 1


def check_questions(files: Files) -> List[Finding]:
    found = []
    for question, answer in QUESTIONS.items() if "README.md" in files else ():
        if clicks(files, question, answer) > CLICKS:
            found.append(Finding("README.md", 1, f"{question}? {CLICKS} links with a word of that do not lead to {answer}"))
    return found


def check(files: Files) -> List[Finding]:
    found = check_questions(files)
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
    for reason in REASON.findall(files.get("include/milligpu/core/facts/reason.h", "")):
        if not re.search(rf"^\|[^|]*`{reason}`", page, re.MULTILINE):
            found.append(Finding("docs/troubleshoot.md", 1, f"no row explains the reason {reason}"))
    return found


def pages_of(**links_of: str) -> Files:
    """A README.md with a link for each question; for the question with the word named, another text instead."""
    link_of = {question: f"[{question}]({answer})" for question, answer in QUESTIONS.items()}
    files = {}
    for question, answer in QUESTIONS.items():
        page, _, anchor = answer.partition("#")
        files[page] = files.get(page, "# The page\n") + f"## {anchor}\n"
        for word, instead in links_of.items():
            if word in question:
                link_of[question] = instead
    return {**files, "README.md": "\n".join(link_of.values()), "other.md": "# Other\n"}


BAD = [
    {"a.md": "[x](b.md)"},
    {"a.md": "[x](#one)", "b.md": "# One"},
    {"docs/a.md": "[x](../b.md#two)", "b.md": "# One\n"},
    {"docs/a.md": "[x](b.md#one-1)", "docs/b.md": "# One\n```\n# One\n```\n"},
    {"docs/a.md": "[x](../src)", "lib/x.c": ""},
    {"docs/troubleshoot.md": "| `amount` | x |\nroom", "include/milligpu/core/facts/reason.h": 'X(REASON_ROOM, "room", MOMENT, "")'},
    pages_of(upgrade=""),
    pages_of(upgrade="[how do I](docs/operate/upgrade.md#upgrade-and-roll-back)"),
    pages_of(upgrade="[upgrade](docs/operate/upgrade.md)"),
    {**pages_of(upgrade="[upgrade](other.md)"), "other.md": "# Other\n[more](docs/operate/upgrade.md#upgrade-and-roll-back)"},
    {**pages_of(upgrade="[upgrade](other.md)"), "other.md": "[upgrade](more.md)",
     "more.md": "[upgrade](docs/operate/upgrade.md#upgrade-and-roll-back)"},
]
GOOD = [
    pages_of(),
    {**pages_of(upgrade="[upgrade](other.md)"), "other.md": "[to upgrade](docs/operate/upgrade.md#upgrade-and-roll-back)"},
    {**pages_of(upgrade="[upgrade](docs/operate/upgrade.md)"),
     "docs/operate/upgrade.md": "# Upgrade and roll back\n## More\n"},
    {"docs/a.md": "[x](../b.md#the-one-of-2) [y](https://b#c) [z](../src) `[n](n)`\n```\n[n](n)\n```\n", "b.md":
        "## The `one`, of 2!\n", "src/x.c": ""},
    {"docs/a.md": "[x](#one-1)\n# One\n# [One](https://x)\n"},
    {"docs/troubleshoot.md": "| `amount`, `room` | x |\n", "include/milligpu/core/facts/reason.h": 'X(REASON_ROOM, "room", MOMENT, "")'},
]

run(check, tree(), BAD, GOOD)
