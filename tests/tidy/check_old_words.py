"""Words that were given up, each for one that an engineer would search for.

A word counts between letters, so that it is found inside of an identifier, too, where its pattern says so. Public words
stay (tests/golden/public_words.txt): a label of a metric between quotes is none of ours to rename.
"""

import re
from typing import List

from tidy import Files, Finding, line_of, run, tree

PART = r"(?<![A-Za-z]){}(?![A-Za-z])"  # also between underscores
WORD = r"(?<![\w-]){}(?![\w-])"
OLD = {
    PART.format("outlooks?"): "policy context",
    PART.format("usage_book"): "usage table",
    PART.format("nvml_roster"): "nvml_devices, the device list",
    PART.format("forgiveness|FORGIVENESS"): "clear fault",
    PART.format(r"apprais(?:e[ds]?|als?|ing)"): "score",
    WORD.format("wish"): "request class",
    WORD.format(r"wishes_\w+|WISH(?:ES)?_\w+"): "request_classes",
    WORD.format("wishless"): "unclassed",
    WORD.format(r"tentatives?(?:_\w+)?|TENTATIVES_\w+"): "offer",
    WORD.format("rosters?"): "device list",
    WORD.format("rivals?"): "duplicate owner",
    WORD.format(r"survey(?:_\w+)?"): "unschedulable, the summary",
    WORD.format("bonds"): "links",
    WORD.format("book of usage"): "usage table",
    WORD.format(r"struct (?:judges?|rest|kept|asker)"): "score_cache, remaining, waiting_pod, asking_pod",
    WORD.format(r"judges?_(?:new|free|take|give)"): "score_cache_new() and so on",
    r"\ballocation->is\b": "facts",
    WORD.format(r"hints_\w+|HINTS_\w+|struct (?:hints|bell)"): "waiting_pods, wakeup",
    WORD.format("bell_(?:new|free|ring|wait)"): "wakeup_new() and so on",
}
ALLOWED = ("CHANGELOG.md", "FINDINGS.md", "check_old_words.py", "public_words.txt")


def check(files: Files) -> List[Finding]:
    found = []
    for path, text in files.items():
        if path.rsplit("/", 1)[-1] in ALLOWED:
            continue
        for pattern, new in OLD.items():
            for match in re.finditer(pattern, text):
                found.append(Finding(path, line_of(text, match.start()), f"{match.group()}: {new}"))
    return found


TREE = {path: text for path, text in tree(".c", ".h", ".def", ".md", ".txt", ".py", under=("src", "include", "tests", "bench", "docs")).items()
        if "/corpus/" not in path and "/mutation/" not in path}
BAD = [{"src/x.c": text} for text in (
    "set_outlook();", "usage_book_new()", "/* the roster */", "nvml_roster_init()", "FORGIVENESS_MAX", "appraise_all()", "a wish",
    "wishes_hold()", "kept->wishless", "TENTATIVES_MAX", "tentative", "rivals", "survey_of()", "bonds", "struct rest *rest",
    "the book of usage", "judges_take()", "allocation->is.uid", "hints_new()",
    "struct hints *hints", "bell_ring()")]
GOOD = [{"src/x.c": "/* he wishes; the rest of it; judges the placement */ bondsman, allocation->is_new"},
        {"CHANGELOG.md": "the outlook"}]

run(check, TREE, BAD, GOOD)
