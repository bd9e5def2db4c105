"""Each bug of tests/seeded_bugs/run has its place in the source exactly once, so that it can be seeded."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import List

from tidy import Files, Finding, ROOT, run, tree

SCRIPT = "tests/seeded_bugs/bugs.py"
BUGS_FILE = "tests/seeded_bugs/bugs.txt"


def bugs() -> list:
    loader = SourceFileLoader("seeded_bugs", str(ROOT / SCRIPT))
    module = module_from_spec(spec_from_loader("seeded_bugs", loader))
    loader.exec_module(module)
    return module.BUGS


BUGS = bugs()


def check(files: Files) -> List[Finding]:
    found = []
    for bug in BUGS:
        times = files.get(bug.file, "").count(bug.old)
        if times != 1:
            found.append(Finding(BUGS_FILE, 1, f"{bug.name}: {bug.file} has the place {times} times, not once"))
    return found


SOUND = {}
for bug in BUGS:
    SOUND[bug.file] = SOUND.get(bug.file, "") + bug.old
BAD = [{}, {file: text * 2 for file, text in SOUND.items()}]

run(check, tree(".c", ".h", ".sql", under=("src", "include")), BAD, [SOUND])
