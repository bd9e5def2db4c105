"""clang-format has nothing to change."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

from tidy import Files, Finding, ROOT, c_tree, run


def check(files: Files) -> List[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / ".clang-format", folder)
        for path, text in files.items():
            copy = Path(folder, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
        out = subprocess.run(
            ["clang-format", "--style=file", "--dry-run", "-Werror", *files],
            cwd=folder, capture_output=True, text=True, check=False)
    found = []
    for line in out.stderr.splitlines():
        if ": error: " in line:
            path, number, rest = line.split(":", 2)
            found.append(Finding(path, int(number), "clang-format would change this"))
    if out.returncode != 0 and not found:
        sys.exit(out.stderr)
    return found


if shutil.which("clang-format") is None:
    print("skipped: clang-format is not installed (scripts/install-deps.sh --test installs it)")
    sys.exit(77)

BAD = [
    {"src/x.c": "int f(int a) { return a; }\n"},
    {"src/x.c": "int f(int a)\n{\n  return a;\n}\n"},
]
GOOD = [{"src/x.c": "int f(int a)\n{\n    return a;\n}\n"}]
run(check, c_tree(), BAD, GOOD)
