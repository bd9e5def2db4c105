"""What is due in this run: what has changed since it was last tried, and in turn a tenth of everything else.

A record is a committed file with a line for each thing that was tried and passed: a digest of what it was then, and its
name. Whatever has no line, or another digest, has changed and is due; without a record, everything is. So no run needs
to know which commit came before it, and a shallow clone or an unpacked archive will do.

A record says nothing of what a thing depends on beyond its digest, and a person could write a wrong line. Therefore
each run also takes a tenth of all things, chosen by their names and by the turn: a number that grows with each day and
each commit (MILLIGPU_TURN sets it). After ten turns, all of them were tried.

Run as a program, this prints the turn.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import time
from typing import Dict, NamedTuple, Set

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = 10
DAY_S = 86400
LINE = re.compile(r"([0-9a-f]{16}) (\S.*)")


class Due(NamedTuple):
    changed: Set[str]
    in_turn: Set[str]  # of those that have not changed

    @property
    def all(self) -> Set[str]:
        return self.changed | self.in_turn


def commits() -> int:
    """0 if the tree has no history. The ceiling: it may have been unpacked inside another repository."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(ROOT.parent)}
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"], env=environment, text=True,
                              capture_output=True, check=False)
    except FileNotFoundError:
        return 0
    return int(done.stdout) if done.returncode == 0 else 0


def turn() -> int:
    given = os.environ.get("MILLIGPU_TURN")
    if given is None:
        return int(time.time()) // DAY_S + commits()
    if not given.isdigit():
        raise SystemExit(f"MILLIGPU_TURN is a number, not {given!r}")
    return int(given)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_in_turn(name: str, number: int) -> bool:
    return int(digest(name), 16) % PARTS == number % PARTS


def select(now: Dict[str, str], recorded: Dict[str, str], number: int) -> Due:
    """now: name -> digest of everything there is."""
    changed = {name for name, what in now.items() if recorded.get(name) != what}
    return Due(changed, {name for name in now if name not in changed and is_in_turn(name, number)})


def read_record(path: pathlib.Path) -> Dict[str, str]:
    if not path.exists():
        print(f"there is no {path.name}: everything is due", flush=True)
        return {}
    recorded = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise SystemExit(f"{path.name}:{number}: wanted: sixteen hexadecimal digits, a blank, a name")
        recorded[match.group(2)] = match.group(1)
    return recorded


def updated(recorded: Dict[str, str], passed: Set[str], now: Dict[str, str]) -> Dict[str, str]:
    """The record after a run in which these passed. What no longer exists is dropped; what was not tried stays as it is."""
    kept = {name: what for name, what in recorded.items() if name in now}
    return {**kept, **{name: now[name] for name in passed}}


def write_record(path: pathlib.Path, title: str, record: Dict[str, str]) -> None:
    lines = [f"{record[name]} {name}\n" for name in sorted(record)]
    path.write_text(f"# {title}\n" + "".join(lines))


if __name__ == "__main__":
    print(turn())
