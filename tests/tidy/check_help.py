"""Every script describes itself with --help, refuses unknown options, and does nothing else in either case.

A script is an executable file that begins with #!; git is not asked, so that an exported tree will do. The scripts run
in a copy of the tree, with a home and a folder for temporary files of their own, and may leave nothing in any of them.
"""

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

from tidy import Files, Finding, ROOT, run, tree

PATIENCE_S = 120  # on a busy machine
SILENT = {".ci/run"}  # for machines; takes no arguments
PASSES_ON = {"tests/controlplane/run", "tests/controlplane/halves"}  # options with one dash are passed on to go test


def scripts() -> Files:
    return {path: text for path, text in tree().items()
            if text.startswith("#!") and os.access(ROOT / path, os.X_OK) and path not in SILENT}


def name_of(path: str) -> str:
    """The name that the help must contain: a file called run is named with its folder."""
    parts = path.split("/")
    return parts[-1] if "." in parts[-1] else "/".join(parts[-2:])


def lies_in(place: Path) -> Set[str]:
    return {str(Path(folder, name)) for folder, folders, names in os.walk(place) for name in folders + names}


def said(place: Path, path: str, word: str) -> Tuple[Optional[int], str]:
    """Exit status and output; the status is None if the script did not end in time."""
    environment = {**os.environ, "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "MILLIGPU_SOURCE_DIR": "",
                   "MILLIGPU_BUILD_DIR": "", "MILLIGPU_BIN_DIR": ""}
    environment = {key: value for key, value in environment.items() if value}
    with subprocess.Popen([str(place / "tree" / path), word], cwd=place / "tree", env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


def faults(place: Path, path: str) -> List[str]:
    found = []
    before = lies_in(place)
    code, output = said(place, path, "--help")
    if code != 0:
        found.append(f"--help ends with {code}: {output.strip()[-200:]}")
    elif not re.search(rf"(?<![\w.-]){re.escape(name_of(path))}\b", output):
        found.append(f"--help does not name {name_of(path)}")
    for word in ["--no-such-option"] + ([] if path in PASSES_ON else ["-Z"]):
        code, output = said(place, path, word)
        if code != 2 or word not in output:
            found.append(f"{word} ends with {code}, not with 2 and a message that repeats it: {output.strip()[-200:]}")
    left = lies_in(place) - before
    if left:
        found.append(f"leaves {sorted(left)[0].replace(str(place), '')} behind")
    return found


def fill(place: Path, texts: Dict[str, bytes], executable: Set[str]) -> None:
    for folder in ("home", "tmp", "tree"):
        (place / folder).mkdir()
    for path, data in texts.items():
        copy = place / "tree" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        copy.chmod(0o755 if path in executable else 0o644)


def check(files: Files) -> List[Finding]:
    """The scripts of the tree run beside the whole tree, because they may read it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        beside = tree() if files is SCRIPTS else {}
        fill(place, {path: text.encode() for path, text in {**beside, **files}.items()}, set(files))
        return [Finding(path, 1, fault) for path in sorted(files) for fault in faults(place, path)]


def sample(help_does: str, else_does: str = 'echo "what is $1?" >&2; exit 2') -> Files:
    return {"a/x.sh": f'#!/bin/sh\nif [ "$1" = --help ]; then {help_does}; else {else_does}; fi\n'}


SCRIPTS = scripts()
BAD = [
    sample("exit 2"),
    sample("echo y.sh"),
    sample("echo x.sh; exit 1"),
    sample("echo x.sh; mkdir build"),
    sample('echo x.sh; : >"$TMPDIR/x"'),
    sample("echo x.sh", "echo x.sh"),
    sample("echo x.sh", "exit 2"),
    {"a/run": "#!/bin/sh\necho run\n"},
]
GOOD = [sample("echo x.sh - a sample"), {"a/run": "#!/bin/sh\n[ $1 != --help ] && echo $1 && exit 2\necho a/run\n"}]

run(check, SCRIPTS, BAD, GOOD)
