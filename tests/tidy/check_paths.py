"""Nothing in the tree names a path of the machine on which it was written."""

import re
from typing import List

from tidy import Files, Finding, ROOT, line_of, run, tree

# Folders too common to be evidence if the tree happens to be directly below them.
COMMON = {"/", "/tmp", "/root", "/home", "/src", "/build", "/builds", "/usr", "/opt", "/var",
          "/mnt", "/srv", "/run", "/etc", "/app", "/data", "/usr/src", "/var/tmp"}
START = r"(?<![\w.})$*/~-])"


def own_places() -> List[str]:
    return [str(place) for place in (ROOT, ROOT.parent) if str(place) not in COMMON]


def pattern() -> "re.Pattern[str]":
    literal = [START + re.escape(place) + r"(?![\w-])" for place in own_places()]
    general = [START + r"/home/\w+/", START + r"/Users/\w+/", START + r"/root/\w",
               START + r"/tmp/(?!milligpu)[a-z]\w*/"]
    return re.compile("|".join(literal + general))


def check(files: Files) -> List[Finding]:
    place = pattern()
    found = []
    for path, text in files.items():
        for match in place.finditer(text):
            message = f"{match.group()} is a path of one machine"
            found.append(Finding(path, line_of(text, match.start()), message))
    return found


HOME = "/ho" "me/jane/"
BAD = [{"a.md": f"see {HOME}x\n"}, {"a.sh": "cd /tm" "p/scratch/x\n"}]
BAD += [{"a.md": f"cd {place}\n"} for place in own_places()]
GOOD = [{"a.md": "~/.kube/config /var/lib/milligpu /tmp/milligpu-1/x ${A}/home/b/ x/home/y/\n"}]

run(check, tree(), BAD, GOOD)
