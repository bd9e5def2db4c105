"""What CI tries is what has changed and, in turn, everything: the records of due.py, and their use by clang and mutation.

A wrong choice would pass in silence, so it is tried here on samples: a mutant of a changed function is chosen, one that
survives fails the run, and so does a listed one that does not exist. In each turn, the builds with sanitizers share all tests
of whole programs. The steps and stories of test.sh are those that the documents list.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Dict, List, Set

from tidy import ROOT

for folder in ("support", "mutation"):
    sys.path.insert(0, str(ROOT / "tests" / folder))

import due  # noqa: E402
import mutants_c  # noqa: E402
import mutants_sql  # noqa: E402
import places  # noqa: E402
import runner  # noqa: E402


def script(path: str):
    loader = SourceFileLoader(path.replace("/", "_"), str(ROOT / path))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


MUTATION = script("tests/mutation/run")
CLANG = script("tests/clang/run")

CODE = """int less(int a, int b)
{
    return a < b; /* a comment */
}

int sum(int a, int b)
{
    return a + b;
}
"""
TABLES = "src/store/schema/schema.sql"
SQL = {TABLES: "CREATE TABLE t (a INTEGER NOT NULL) STRICT;\n",
       "src/store/x.c": 'int x(void)\n{\n    return run("SELECT a FROM t WHERE a > 1");\n}\n'}
LESS, SUM = "x.c :: less", "x.c :: sum"


def want(what: str, yes: bool) -> None:
    if not yes:
        sys.exit(f"not so: {what}")


def sample(code: str = CODE, sql: Dict[str, str] = SQL):
    """The mutants, and the digests of their places."""
    mutants = dict(enumerate(mutants_c.mutants_of("src/core/x.c", code)))
    changes = {}
    for mutant, before, after in mutants_sql.mutants_of_sql(sql):
        changes[len(mutants)] = before, after
        mutants[len(mutants)] = mutant
    return mutants, places.digests(mutants, changes, {"src/core/x.c": code})


def changed(before: Dict[str, str], after: Dict[str, str]) -> Set[str]:
    return due.select(after, before, 0).changed


def check_select() -> None:
    now = {f"thing {i}": due.digest(str(i)) for i in range(500)}
    want("without a record, everything is due", due.select(now, {}, 7).changed == set(now))
    seen: List[str] = []
    for turn in range(7, 7 + due.PARTS):
        what = due.select(now, now, turn)
        want("nothing has changed", not what.changed and what.all == what.in_turn)
        want("a part is a part", len(now) / due.PARTS / 2 < len(what.in_turn) < len(now) / due.PARTS * 2)
        seen += what.in_turn
    want("in all turns, everything comes once", sorted(seen) == sorted(now))
    what = due.select({**now, "thing 3": "other", "new": "x"}, now, 0)
    want("what differs and what is new has changed", what.changed == {"thing 3", "new"})
    record = due.updated({"a": "1", "gone": "2", "left": "3"}, {"a"}, {"a": "9", "left": "4", "never": "5"})
    want("what passed is recorded, and nothing else", record == {"a": "9", "left": "3"})


def check_record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.txt"
        record = {"b c": due.digest("1"), "a": due.digest("2")}
        due.write_record(path, "a title", record)
        want("a record is read as it was written", due.read_record(path) == record)
        path.write_text(path.read_text() + "abc a\n")
        try:
            due.read_record(path)
        except SystemExit:
            return
        want("a line that is none is refused", False)


def check_places() -> None:
    mutants, was = sample()
    want("all places are there", {LESS, SUM, places.SCHEMA} < set(was) and len(was) == 4)
    want("a mutant of each", {places.place_of(mutant) for mutant in mutants.values()} == set(was))
    for old, new, place in [("a < b", "a <= b", {LESS}), ("a + b", "b + a", {SUM}), ("a comment", "another", set()),
                            ("int a, int b)\n{\n    return a +", "int a,\n        int b)\n{\n    return a +", set())]:
        want(f"{old} -> {new}", changed(was, sample(CODE.replace(old, new))[1]) == place)
    other = {**SQL, "src/store/x.c": SQL["src/store/x.c"].replace("> 1", "> 2")}
    want("another statement", changed(was, sample(sql=other)[1]) == {"x.c :: x"})
    other = {**SQL, TABLES: SQL[TABLES].replace("a INTEGER", "b TEXT, a INTEGER")}
    want("another schema", changed(was, sample(sql=other)[1]) >= {places.SCHEMA})
    some = set(list(mutants)[:-1])
    want("a place is whole if no mutant was left out",
         places.whole(mutants, set(mutants)) == set(was) and len(places.whole(mutants, some)) == len(was) - 1)


class Made(MUTATION.Run):
    """A run over the sample: nothing is compiled."""

    def __init__(self, code: str, survives: Set[str]) -> None:
        self.options = argparse.Namespace(due=True, file=None, line=None, again=None, sample=None, keep=None)
        self.mutants, self.sample_digests = sample(code)
        self.sql = {}
        self.all_keys = {mutant.key for mutant in self.mutants.values()}
        self.picked = set(self.chosen())
        self.fates = {number: runner.Fate("survived" if self.mutants[number].function in survives else "test", None)
                      for number in self.picked}

    def digests(self) -> Dict[str, str]:
        return self.sample_digests


def check_run() -> None:
    """--due on the sample, of which everything was tried before, in a turn in which nothing of it comes."""
    _, was = sample()
    mine = {int(due.digest(place), 16) % due.PARTS for place in was}
    idle = next((turn for turn in range(due.PARTS) if turn not in mine), None)
    want("some turn has nothing of the sample", idle is not None)
    turn, read = due.turn, due.read_record
    due.turn, due.read_record = lambda: idle, lambda path: was
    try:
        want("nothing is due", not Made(CODE, set()).picked)
        slip = CODE.replace("a < b", "a <= b")
        made = Made(slip, set())
        want("all mutants of the changed function are tried, and no others",
             made.picked == {n for n, mutant in made.mutants.items() if mutant.function == "less"} and made.picked)
        want("if they are killed, the run passes", MUTATION.report(made, {}))
        made = Made(slip, {"less"})
        want("if one survives, the run fails", not MUTATION.report(made, {}))
        gone = {("x.c", "less", "no such change"): "why"}
        want("a listed mutant that does not exist fails a run that tries nothing", not MUTATION.report(Made(CODE, set()), gone))
    finally:
        due.turn, due.read_record = turn, read


def check_clang() -> None:
    rule = f"x.o: {ROOT}/src/core/x.c \\\n {ROOT}/include/milligpu/base/base.h /usr/include/y.h {ROOT}/build/clang/z.h\n"
    want("a file is made of the files of the tree", CLANG.headers_of(rule, str(ROOT / "build" / "clang")) ==
         ["include/milligpu/base/base.h", "src/core/x.c"])
    words = CLANG.compiler_of("cmake -E env A=1 ccache /usr/bin/clang -DX='\"a b\"' -o x.o -c ../x.c")
    want("the compiler and its flags", words == ["/usr/bin/clang", '-DX="a b"', "../x.c"])
    known = set(due.read_record(CLANG.READ))
    want("clang-tidy's record names files", known and all(re.fullmatch(r"src/\S+\.c", path) for path in known))


def check_sharing() -> None:
    """What each of the two builds leaves to the other one when all steps run."""
    code = re.search(r"^ONE_THING=.*?^}\n", (ROOT / "test.sh").read_text(), re.MULTILINE | re.DOTALL)[0]
    both = set(re.search(r"^ONE_THING='(.*)'$", code, re.MULTILINE)[1].split("|")) | {re.search(r"^RACES=(.*)$", code, re.MULTILINE)[1]}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests/e2e").glob("test_*.*")}
    want("the e2e tests that are not shared exist", both < tests)
    turns = []
    for number in range(2):
        asan, tsan = (set(subprocess.run(
            ["bash", "-euc", f"turn() {{ echo {number}; }}\nE2E_BY_TURN=true\n{code}\nleft_to_the_other_build {build}"],
            cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True).stdout.split()) for build in range(2))
        want("each build runs what the other one leaves to it", not asan & tsan)
        want("all others are shared, in halves", asan | tsan == {f"e2e.{name}" for name in tests - both} and
             abs(len(asan) - len(tsan)) < 2)
        turns.append((asan, tsan))
    want("in the next turn, it is the other way round", turns[0] == turns[1][::-1])


def listed(text: str, name: str) -> List[str]:
    return re.search(rf"^{name}=\((.*)\)$", text, re.MULTILINE).group(1).split()


def check_documents() -> None:
    script_text = (ROOT / "test.sh").read_text()
    steps, stories = listed(script_text, "STEPS"), listed(script_text, "STORIES")
    pages = {path: (ROOT / path).read_text() for path in ("tests/README.md", "CONTRIBUTING.md", "docs/HACKING.md")}
    for path in ("tests/README.md", "CONTRIBUTING.md"):
        rows = re.findall(r"^\| `([a-z]+)` \|", pages[path], re.MULTILINE)
        want(f"the steps in {path} are those of test.sh: {rows}", rows == steps)
    want("test.sh and docs/HACKING.md name the steps", " ".join(steps) in re.sub(r"\n# ", " ", script_text) and
         " ".join(steps) in pages["docs/HACKING.md"])
    rows = re.findall(r"^\| `\./test\.sh story (\S+)` \|.*\| \d{4}-\d\d-\d\d[^|]* \|$", pages["tests/README.md"], re.MULTILINE)
    want(f"the stories in tests/README.md are those of test.sh, each with the day of its last run: {rows}", rows == stories)
    for name in stories:
        is_version = name[0].isdigit()
        there = (ROOT / "tests/controlplane/build" / name).is_dir() if is_version else f"story_{name}()" in script_text
        want(f"the story {name} can be run", there)


for check in (check_select, check_record, check_places, check_run, check_clang, check_sharing, check_documents):
    check()
    print(f"{check.__name__} passed")
