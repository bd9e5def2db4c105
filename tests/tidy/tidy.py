"""What the checks share: reading the tree, telling code from comments, reporting.

A check is a function from {path: text} to findings (path, line, message). Before it
checks the tree, it must flag each of its bad samples and pass its good ones, so that a
check which no longer finds anything fails.
"""

import os
import re
import sys
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ["base", "core", "wire", "run", "sign", "nri", "nvml", "document", "store", "kube", "fake_apiserver", "http",
          "settings", "agent", "usage", "waiting", "spine", "webhook", "sync", "selfcheck", "writer", "admin", "daemon", "ctl", "lab",
          "bin"]

Files = Dict[str, str]


class Finding(NamedTuple):
    path: str
    line: int
    message: str


class Function(NamedTuple):
    name: str
    line: int
    signature: str
    body: str

    def length(self) -> int:
        return self.body.count("\n") - 1


def tree(*suffixes: str, under: Tuple[str, ...] = (".",)) -> Files:
    """Every text file of the tree, by its path from the root; without suffixes, all of them."""
    files = {}
    for top in under:
        for folder, folders, names in os.walk(ROOT / top):
            folders[:] = [f for f in folders if f not in ("build", ".git", ".cache", "__pycache__")]
            for name in names:
                path = Path(folder, name)
                if (suffixes and path.suffix not in suffixes) or path.is_symlink() or path.suffix == ".tar":
                    continue
                try:
                    files[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    pass  # not a text: a fuzz corpus, a picture
    return files


def c_tree() -> Files:
    return tree(".c", ".h", under=("src", "include", "tests", "bench"))


TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def code_only(text: str) -> str:
    """The same text with comments and the contents of literals blanked; line numbers stay."""

    def hide(match: "re.Match[str]") -> str:
        token = match.group()
        if token[0] == "/":
            return _blank(token)
        return token[0] + _blank(token[1:-1]) + token[-1]

    return TOKEN.sub(hide, text)


def comments(text: str) -> Iterator[Tuple[int, str]]:
    for match in TOKEN.finditer(text):
        if match.group()[0] == "/":
            yield line_of(text, match.start()), match.group()


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


FUNCTION = re.compile(r"^\{$(.*?)^\}", re.DOTALL | re.MULTILINE)
SIGNATURE = re.compile(r"(\w+)\s*\(")


def functions(text: str) -> Iterator[Function]:
    """A brace alone in column 0 opens a function, because clang-format puts it there."""
    code = code_only(text)
    for match in FUNCTION.finditer(code):
        head = code[: match.start()]
        start = max(head.rfind("\n\n"), head.rfind(";\n"), head.rfind("}\n")) + 1
        signature = head[start:].strip()
        name = SIGNATURE.search(signature)
        if name is None:
            continue
        yield Function(
            name.group(1), line_of(code, match.start()), signature, match.group()
        )


def layer_of(path: str) -> str:
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else ""


def run(
    check: Callable[[Files], List[Finding]],
    files: Files,
    bad: List[Files],
    good: List[Files],
) -> None:
    """Try the check on its samples, then run it on the tree. Does not return."""
    for sample in bad:
        if not check(sample):
            sys.exit(f"this check misses a bad sample: {sample}")
    for sample in good:
        found = check(sample)
        if found:
            sys.exit(f"this check flags a good sample: {found}")
    if not files:
        sys.exit("this check was given no files")
    found = sorted(check(files))
    for finding in found:
        print(f"{finding.path}:{finding.line}: {finding.message}")
    print(f"{len(files)} files, {len(bad)} bad samples flagged, {len(found)} findings")
    sys.exit(1 if found else 0)
