"""Tries mutants: all tests of core, or of the store, in one program, which is built in a folder outside the tree."""

import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import queue
import re
import shutil
import subprocess
import tempfile
import threading
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

import mutants_c
from mutants_c import Mutant

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-DMILLIGPU_MUST_DEBUG", "-Iinclude", "-Isrc", "-Itests", "-w",
         "-fmacro-prefix-map=./="]
SANITIZE = ["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WRAP = ["must_fail", "sqlite3_exec", "sqlite3_prepare_v3"]
ENVIRONMENT = {
    **os.environ, "MILLIGPU_SOURCE_DIR": str(SOURCE), "WALK_PERCENT": "1",
    "ASAN_OPTIONS": "abort_on_error=0:exitcode=99:detect_leaks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99",
}
SLOWER = 5  # times slower than without a mutant: counts as endless
UNTRIED = 0.1  # kills that a test is taken to have made in a function where it made none so far
GRACE_MS = 200
# They take longer than all others together, so they come last, and not under the sanitizers: others use memory in the same
# ways.
LONG = {
    "filter__equals_a_plain_ranking", "place_find__returns_the_best_of_all_placements",
    "ledger__stays_valid_on_a_random_walk",
    "ledger__refuses_more_than_the_most_nodes", "reconcile__changes_nothing_the_second_time",
    "quantity__agrees_with_plain_arithmetic", "check_some__reaches_every_node",
    "place_evaluate__bounds_the_steps_of_the_worst_case", "order__is_total", "budget__ranks_unscored_nodes_last",
    "window__agrees_with_the_calendar_minute_by_minute", "steps__of_the_dearest_requests_are_bounded",
    "budget__charges_the_search_for_several_containers_first", "islands__are_searched_to_the_end",
    "level__is_the_lowest_price_and_the_smallest_raise", "plan__equals_a_slow_search_and_can_be_executed",
}


@dataclasses.dataclass
class Test:
    number: int
    program: str
    name: str
    ms: float = 0
    reached: frozenset = frozenset()

    @property
    def limit_ms(self) -> int:
        return int(self.ms * SLOWER) + GRACE_MS


@dataclasses.dataclass(frozen=True)
class Fate:
    what: str  # survived, test, must, crash, endless, sanitizer
    test: Optional[Test]

    @property
    def survived(self) -> bool:
        return self.what == "survived"


@dataclasses.dataclass(frozen=True)
class Job:
    """What to try: a mutant of core, or a statement of SQL."""
    place: str  # of the mutant: what kills its neighbours may well kill it
    tests: List[Test]
    sql: str = "-"  # the files with the statement before and after, without their suffix


def names(pattern: str) -> List[str]:
    return sorted(str(path.relative_to(SOURCE)) for path in SOURCE.glob(pattern))


def core_files() -> List[str]:
    return names("src/core/*/*.c")


def in_parallel(do, items: Iterable) -> list:
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(do, items))


class MutantRunner:
    """Object files and the program; the mutants of core that are built into it can be switched on one by one."""

    def __init__(self, of: str, sanitize: bool = False, flags: Sequence[str] = ()) -> None:
        self.of = of
        self.folder = tempfile.TemporaryDirectory(prefix="milligpu-mutation-")
        self.home = pathlib.Path(self.folder.name)
        (self.home / "tmp").mkdir()
        self.sanitize = sanitize
        self.compiler = ([shutil.which("ccache")] if shutil.which("ccache") else []) + ["gcc", "-O1"]
        self.flags = FLAGS + (SANITIZE if sanitize else []) + list(flags)
        self.reached: Dict[str, int] = {}
        self.tests: List[Test] = []

    def __enter__(self) -> "MutantRunner":
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    def object_of(self, path: str) -> pathlib.Path:
        return self.home / (path.replace("/", "_") + ".o")

    def gcc(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self.compiler, *self.flags, *map(str, arguments)], cwd=SOURCE, text=True,
                              capture_output=True, check=False)

    def compile(self, path: str, *more: str) -> None:
        done = self.gcc(*more, "-c", path, "-o", self.object_of(path))
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    def test_files(self) -> List[str]:
        """The quick tests: those with a disk in memory take longer, and that disk belongs to the whole process."""
        if self.of == "core":
            return names("tests/unit/core/**/test_*.c") + names("tests/table/test_*.c")
        return [path for path in names("tests/unit/store/**/test_*.c")
                if '"support/disk.h"' not in (SOURCE / path).read_text()]

    def build_rest(self) -> None:
        """Build everything except core."""
        self.write_texts()
        support = names("tests/support/*.c")
        paths = names("src/base/*.c") + support + ["tests/mutation/runner.c"]
        if self.of == "store":
            paths += names("src/run/*.c") + names("src/store/**/*.c") + names("tests/unit/store/**/support*.c")
        in_parallel(self.compile, paths + self.test_files())
        # From an archive, only what a test uses is linked.
        objects = [self.object_of(path) for path in support]
        subprocess.run(["ar", "rcs", self.home / "support.a", *objects], check=True)
        for path in objects:
            path.unlink()

    @staticmethod
    def string_of(path: str) -> str:
        text = (SOURCE / path).read_text()
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", '\\n"\n"')
        return f'const char store_{pathlib.PurePath(path).stem}_sql[] = "{quoted}";\n'

    def write_texts(self) -> None:
        """Write what cmake generates: the schema and its migrations as strings."""
        strings = "".join(self.string_of(path) for path in names("src/store/**/*.sql"))
        (self.home / "texts.c").write_text(strings)
        done = self.gcc("-c", self.home / "texts.c", "-o", self.home / "texts.o")
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    def build_core(self, mutants: Dict[int, Mutant]) -> Dict[int, Mutant]:
        """Build core with these mutants, switched off; return those that compile."""
        kept = dict(mutants)
        for path in core_files():
            for function in mutants_c.functions_of((SOURCE / path).read_text()):
                self.reached.setdefault(f"{path} {function.name}", len(self.reached))
        for bad in in_parallel(lambda path: self.build_core_file(path, mutants), core_files()):
            for number in bad:
                del kept[number]
        return kept

    def build_core_file(self, path: str, mutants: Dict[int, Mutant]) -> List[int]:
        text = (SOURCE / path).read_text()
        mine = {number: mutant for number, mutant in mutants.items() if mutant.file == path}
        made = self.home / path.replace("/", "_")
        bad: List[int] = []
        while True:
            schema, owner = mutants_c.schema_of(text, path, mine, self.reached)
            made.write_text(schema)
            # A variable that a mutant leaves uninitialized must not be right by luck.
            done = self.gcc("-ftrivial-auto-var-init=pattern", "-fmax-errors=0", "-iquote", pathlib.PurePath(path).parent,
                            "-c", made, "-o", self.object_of(path))
            if done.returncode == 0:
                return bad
            wrong = {owner[int(line) - 1] for line in
                     re.findall(rf"^{made}:(\d+):\d+: error: (?!invalid storage class)", done.stderr, re.M)}
            if not wrong - {None}:
                raise SystemExit(done.stderr)
            for number in wrong - {None}:
                del mine[number]
                bad.append(number)

    def link(self, *more: str) -> None:
        wrap = [f"-Wl,--wrap={name}" for name in WRAP]
        done = self.gcc(*sorted(self.home.glob("*.o")), self.home / "support.a", *wrap, *more, "-lcmocka", "-lsqlite3", "-ljansson", "-lpthread",
                        "-o", self.home / "tests")
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    def measure(self) -> None:
        """Run each test alone, without a mutant: how long it takes, and which functions it enters."""
        with Server(self) as server:
            self.tests = [Test(number, program, name) for number, (program, name) in enumerate(server.tests)]
            for test in self.tests:
                what, _, us, reached = server.ask(0, "-", [f"{test.number}:60000"])
                if what != "survived":
                    raise SystemExit(f"{test.program}: {test.name}: fails without any mutant ({what})")
                test.ms = us / 1000
                test.reached = frozenset(reached)

    def tests_of(self, mutant: Mutant, slow: bool) -> List[Test]:
        """The tests that reach the mutant's function: those in LONG, or all others."""
        function = self.reached[f"{mutant.file} {mutant.function}"]
        return [test for test in self.tests
                if function in test.reached and (test.name in LONG) == slow]

    def try_all(self, jobs: Dict[int, Job], tell=lambda number, fate: None) -> Dict[int, Fate]:
        """number: what to try -> number: fate. First come the tests that kill most in the least time, as seen so far."""
        waiting: "queue.SimpleQueue[int]" = queue.SimpleQueue()
        for number in jobs:
            waiting.put(number)
        fates: Dict[int, Fate] = {}
        kills: Dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        lock = threading.Lock()

        def ordered(job: Job) -> List[Test]:
            with lock:
                seen = kills[job.place]
                return sorted(job.tests, key=lambda test: test.ms / (UNTRIED + seen[test.number]))

        def serve() -> None:
            with Server(self) as server:
                while True:
                    try:
                        number = waiting.get_nowait()
                    except queue.Empty:
                        return
                    job = jobs[number]
                    what, test, _, _ = server.ask(0 if job.sql != "-" else number, job.sql,
                                                  [f"{test.number}:{test.limit_ms}" for test in ordered(job)])
                    if what == "test" and self.sanitize:
                        what = "sanitizer"
                    with lock:
                        fates[number] = Fate(what, self.tests[test] if test >= 0 else None)
                        if not fates[number].survived:
                            kills[job.place][test] += 1
                        tell(number, fates[number])

        threads = [threading.Thread(target=serve) for _ in range(CORES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(fates) != len(jobs):
            raise SystemExit("a runner has died")
        return fates


class Server:
    """The running program, which is asked about one mutant after the other."""

    def __init__(self, runner: MutantRunner) -> None:
        temporary = {"TMPDIR": str(runner.home / "tmp")}
        self.process = subprocess.Popen([runner.home / "tests"], cwd=SOURCE, text=True, env={**ENVIRONMENT, **temporary},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.tests: List[Tuple[str, str]] = []
        for line in iter(self.process.stdout.readline, "\n"):
            if not line:
                raise SystemExit("the runner does not start")
            program, name = line.split(maxsplit=1)
            self.tests.append((program, name.strip()))

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()

    def ask(self, mutant: int, sql: str, tests: List[str]) -> Tuple[str, int, int, List[int]]:
        self.process.stdin.write(f"{mutant} {sql} {' '.join(tests)}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise SystemExit("the runner has died")
        return answer[0], int(answer[1]), int(answer[2]), [int(word) for word in answer[3:]]
