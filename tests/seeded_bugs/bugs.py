"""The bugs of bugs.txt, whose top says how they are written."""

import re
from pathlib import Path
from typing import List, NamedTuple


class Bug(NamedTuple):
    name: str
    story: str
    file: str
    old: str
    new: str
    by: str


def read(text: str) -> List[Bug]:
    bugs = []
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        head, story, *lines = block.splitlines()
        name, file, by = re.fullmatch(r"(\w+): (\S+), by (.+)", head).groups()
        old, new = ("\n".join(line[1:] for line in lines if line.startswith(sign)) for sign in "-+")
        bugs.append(Bug(name, story, file, old, new, by))
    return bugs


BUGS = read(Path(__file__).with_name("bugs.txt").read_text(encoding="utf-8"))
