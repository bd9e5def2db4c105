"""The blocks of the documents' pages: fenced or indented, each with the mark in the line before it.

A mark is an HTML comment, alone in its line, directly before a fence, or before the empty line that an indented block
needs: `<!-- run -->`. With the name of a file, `<!-- shown: web.yaml -->`, the block is the text of this file. A fence of
the language `text` is a drawing, and needs no mark.
"""

import dataclasses
import re

import harness

MARKS = ("run", "run on a cluster", "shown", "needs a GPU", "needs a cloud", "needs a registry")
# Tests write these pages from tables, and compare them.
GENERATED = ("docs/CLI.md", "docs/CONFIG.md", "docs/METRICS.md", "docs/REST.md", "docs/NODE_REFERENCE.md")
# These pages are for developers of milligpu, and their commands do not begin with a built tree.
FOR_DEVELOPERS = ("tests/*/README.md", "bench/README.md", "docs/model/README.md")

MARK = re.compile(r"<!-- ((?:run|shown|needs)\b.*?)(?:: (\S+))? -->")
FENCE = re.compile(r"(`{3,}|~{3,}) *(\S*) *(\S*) *$")
ITEM = re.compile(r"( *(?:[-*+]|\d+[.)]) +)\S")
CODE = 4  # so far is an indented block from the text around it


@dataclasses.dataclass
class Block:
    page: str
    line: int  # of its first line of text, from 1
    heading: str  # the nearest above it, as a link names it
    mark: str  # "": none
    language: str  # of a fence; "": none, or an indented block
    file: str  # whose text it is, as the mark or a fence says after its language
    text: str  # without the indent that the page needs

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def drawing(self):
        return self.language == "text"

    @property
    def first(self):
        """Its first line, without the comment: what lists call it by."""
        return re.sub(r"\s+#.*", "", self.text.split("\n")[0]).strip()


class Reader:
    """Reads one page line by line."""

    def __init__(self, page, text):
        self.page, self.lines, self.at = page, text.split("\n"), 0
        self.blocks, self.idle = [], []  # idle: lines of marks that belong to no block
        self.heading, self.indents = "", [0]  # indents of the text of the lists that are open
        while self.at < len(self.lines):
            self.step(self.lines[self.at])

    def step(self, line):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            self.at += 1
        elif FENCE.match(line.strip()):
            self.fence(indent, FENCE.match(line.strip()))
        elif self.after_empty() and indent >= self.inner(indent) + CODE:
            self.indented(self.inner(indent) + CODE)
        else:
            self.prose(line, indent)

    def after_empty(self):
        return self.at == 0 or not self.lines[self.at - 1].strip()

    def inner(self, indent):
        """The indent of the innermost text to which a line of this indent can belong."""
        return max(one for one in self.indents if one <= indent)

    def prose(self, line, indent):
        if match := re.match(r"#{1,6} +(.+)", line):
            self.heading = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", match[1]).lower()).replace(" ", "-")
        if self.after_empty() or ITEM.match(line):
            self.indents = [one for one in self.indents if one <= indent]
        if match := ITEM.match(line):
            self.indents = [one for one in self.indents if one <= indent] + [len(match[1])]
        if MARK.fullmatch(line.strip()):
            self.idle.append(self.at + 1)
        self.at += 1

    def fence(self, indent, match):
        start = self.at + 1
        end = start
        while end < len(self.lines) and not re.fullmatch(rf" *{match[1]}[`~]* *", self.lines[end]):
            end += 1
        self.add(start, end, indent, self.at - 1, language=match[2], file=match[3])
        self.at = end + 1

    def indented(self, indent):
        start = end = self.at
        for at in range(start, len(self.lines)):
            if self.lines[at].strip():
                if not self.lines[at].startswith(" " * indent):
                    break
                end = at + 1
        self.add(start, end, indent, start - 2)
        self.at = end

    def add(self, start, end, indent, mark_at, language="", file=""):
        mark = MARK.fullmatch(self.lines[mark_at].strip()) if mark_at >= 0 else None
        if mark:
            self.idle.remove(mark_at + 1)
        text = "".join(line[indent:].rstrip() + "\n" for line in self.lines[start:end])
        self.blocks.append(Block(self.page, start + 1, self.heading, mark[1] if mark else "", language,
                                 mark and mark[2] or file, text))


def names(everything=False):
    """The pages, from the root of the tree; unless everything is wanted, those whose blocks have marks."""
    root = harness.SOURCE
    found = [path.relative_to(root) for path in root.rglob("*.md")
             if not {"build", ".git", "shared"} & set(path.relative_to(root).parts)]
    return sorted(str(path) for path in found if everything or
                  str(path) not in GENERATED and not any(map(path.match, FOR_DEVELOPERS)))


def text(page):
    return (harness.SOURCE / page).read_text()


def blocks(page):
    return Reader(page, text(page)).blocks


def commands(block):
    """[(command, what is shown after it)]; without "$ ", the whole block is one command that shows nothing."""
    if not block.text.startswith("$ "):
        return [(block.text, None)]
    parts = re.split(r"^\$ ", block.text, flags=re.M)[1:]
    return [tuple(part.split("\n", 1)) for part in parts]


def words_of_shell(text):
    """Its commands, each in a line: without comments and prompts, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", text)
    return [line for line in (re.sub(r"(^|\s)#.*", "", re.sub(r"^\$ ", "", line)).strip()
                              for line in text.split("\n")) if line]


# Patterns that differ from run to run. The order counts.
MASKED = [(re.compile(pattern), word) for pattern, word in (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\b)", "TIME"),
    (r"\bGPU-[0-9a-f]{8}[0-9a-f-]*", "GPU-ID"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b", "UID"),
    (r"\b127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\bv?\d+\.\d+\.\d+\S*", "VERSION"),
    (r"\b\d+(\.\d+)?(ms|us|s|m|h|d)\b", "DURATION"),
    (r"\b(as many|\d+\.\d+ % (more|fewer)) GPU hours", "GPU-HOURS"),  # milliseconds make a difference
    (r"\b\d+\.\d+\b", "FRACTION"),
    (r" +", " "),
)]


def masked(line):
    for pattern, word in MASKED:
        line = pattern.sub(word, line)
    return line.strip()


def lines_of(text):
    """The lines that count, masked; "..." stays."""
    return [masked(line) for line in text.split("\n") if line.strip()]


def agrees(shown, said):
    """None if the output is what is shown, where "..." stands for any number of lines; else the line that is not there."""
    shown, said = lines_of(shown), lines_of(said)
    at, free = 0, False
    for line in shown:
        if line == "...":
            free = True
            continue
        while free and at < len(said) and said[at] != line:
            at += 1
        if at == len(said) or said[at] != line:
            return line
        at, free = at + 1, False
    return None if free or at == len(said) else said[at]
