"""The life of one ledger: start a daemon, load it, kill it at a chosen moment, audit the ledger, and repeat."""

import collections
import json
import pathlib
import random
import shutil
import tempfile
import time
from typing import Any, Callable

from ledger import Audit, copy, dump, extra_rows, is_born, version
from load import Load, trouble
from process import CHECKPOINT, RECOVERING, WRITING, Daemon, Http, Oracle, Process, Seen, Violation, frames, holds, harness
from model import Model

# How many kills of each kind a life has. Migrations run on a copy, to a made-up version after the newest.
DECK = {"running": 12, "starting": 8, "recovering": 8, "checkpoint": 7, "stopping": 7, "backup": 6, "migrating": 6}
CLIENTS = 3
FRAMES = 300  # the recovery of a shorter log is over before it can be seen
SCRATCH = pathlib.Path("/dev/shm" if pathlib.Path("/dev/shm").is_dir() else tempfile.gettempdir())


class Pace:
    """How long something takes on this machine, to aim a kill within it."""

    def __init__(self, guess_s: float) -> None:
        self.mean_s = guess_s

    def saw(self, took_s: float) -> None:
        self.mean_s += (took_s - self.mean_s) * 0.2


class Episode:
    """One cluster, one ledger, many kills."""

    def __init__(self, seed: int, report: Callable[[Seen], None]) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.report = report
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="milligpu-crash-"))
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="milligpu-crash-", dir=SCRATCH))
        self.ledger = self.home / "ledger.db"
        self.model = Model(self.rng)
        self.oracle = Oracle()
        self.audit = Audit(self.model, self.oracle, self.scratch / "taken")
        (self.home / "kubeconfig").write_text(json.dumps(harness.kubeconfig(self.model.api.url)))
        self.ready_pace = Pace(0.05)
        self.stop_pace = Pace(0.05)
        self.counts: collections.Counter[str] = collections.Counter()
        self.daemon: Daemon | None = None
        self.born = False

    # ---- one kill ----

    def live(self, more: Callable[[], bool]) -> None:
        deck = [kind for kind, count in DECK.items() for _ in range(count)]
        self.rng.shuffle(deck)
        deck.insert(0, "creating")
        patience = 2 * len(deck)
        while deck and patience > 0 and more():
            kind = deck.pop(0)
            patience -= 1
            if kind == "recovering" and frames(self.ledger) < FRAMES:
                met = self.cycle("running") == kind  # to fill the log
            elif kind != "migrating":
                met = self.cycle(kind) == kind
            elif met := self.born:
                self.migrate()
            if not met:
                deck += [kind] if kind != "creating" else []
        self.wait_until_quiet()

    def cycle(self, kind: str) -> str:
        begun = time.monotonic()
        self.daemon = daemon = Daemon(self.home)
        load = None
        if kind == "recovering":
            daemon.await_recovery(60)
        elif kind == "creating":
            daemon.until(self.ledger.exists, 60)
        elif kind == "starting":
            time.sleep(self.rng.uniform(0, self.ready_pace.mean_s * 1.1))
        else:
            load = self.begin_load(daemon, begun)
            self.aim(kind, daemon, load)
        moment = self.strike(daemon, kind == "creating")
        if load is not None:
            load.stop()
        self.autopsy(daemon)
        return moment

    def begin_load(self, daemon: Daemon, begun: float) -> Load:
        daemon.await_ready()
        self.ready_pace.saw(time.monotonic() - begun)
        self.no_leak(daemon)
        if self.rng.random() < 0.2:
            trouble(self.model, self.rng)
        return Load(self.model, daemon, self.rng, CLIENTS)

    def aim(self, kind: str, daemon: Daemon, load: Load) -> None:
        """Wait for the moment; only when the daemon is stopped is it certain whether it was met."""
        if kind == "checkpoint":
            daemon.until(lambda: daemon.at(CHECKPOINT), 3)
        elif kind == "backup":
            time.sleep(self.rng.uniform(0, 0.05))
            load.also_back_up()
            if daemon.until(lambda: bool(daemon.backup_parts()), 3):
                time.sleep(self.rng.uniform(0, 0.004))
        else:
            time.sleep(self.rng.uniform(0, 0.15))
        if kind == "running" and self.rng.random() < 0.5:
            before = self.model.answers
            daemon.until(lambda: self.model.answers > before, 3, 0)
        if kind == "stopping":
            begun = time.monotonic()
            daemon.terminate()
            if self.rng.random() < 0.5:
                daemon.until(lambda: daemon.at(CHECKPOINT), 10)
            elif daemon.until(daemon.says_stopping, 10):
                time.sleep(self.rng.uniform(0, self.stop_pace.mean_s))
            if not daemon.alive():
                self.stop_pace.saw(time.monotonic() - begun)

    def strike(self, daemon: Daemon, creating: bool = False) -> str:
        """Kill it; returns what it was doing, or an empty string if it had ended."""
        if not daemon.freeze():
            return ""
        seen = daemon.look()
        daemon.kill()
        if creating and not is_born(copy(self.ledger, self.scratch / "newborn")):
            seen.part = "before there was a ledger"
        self.report(seen)
        return seen.moment

    def autopsy(self, daemon: Daemon) -> None:
        self.daemon = None
        status = daemon.child.returncode
        if status != -9 and not (status == 0 and daemon.terminated):
            raise Violation(f"milligpud ended with {status}")
        if daemon.trouble():
            raise Violation(f"milligpud says: {daemon.trouble()}")
        if self.model.wrong:
            raise Violation(self.model.wrong)
        for whole in self.home.glob("ledger.db.part-*/ledger.db"):
            self.oracle.oracle(self.oracle.newest, copy(whole, self.scratch / "backup"))
        if self.audit.take(self.ledger):
            self.born = True
            if self.audit.compare():
                self.report(Seen("", "answered before written"))
        self.counts["audits"] += 1

    # ---- a daemon that runs again ----

    def allocations(self, http: Http) -> dict[str, dict[str, Any]]:
        found, token = [], ""
        while True:
            status, body = http.call("GET", f"/api/v1/allocations?limit=1000{token}")
            if status != 200:
                raise Violation(f"/api/v1/allocations: {status} {body[:200]!r}")
            page = json.loads(body)
            found += page["items"]
            if not page.get("continue"):
                return {item["uid"]: item for item in found}
            token = "&continue=" + page["continue"]

    def no_leak(self, daemon: Daemon) -> None:
        """Reconciled: every open allocation has a live pod, and every live bound pod has an open allocation."""
        http = Http(daemon.port["admin"])
        held = self.allocations(http)
        shown = self.model.shown()  # read second: a Binding of the daemon before may still be on its way
        http.close()
        for uid, allocation in held.items():
            if uid not in shown:
                raise Violation(f"leaked: {allocation}")
            if allocation["state"] == "bound" and not shown[uid]["spec"].get("nodeName"):
                raise Violation(f"bound in the ledger only: {allocation}")
        for uid, body in shown.items():
            if body["spec"].get("nodeName") and uid not in held:
                raise Violation(f"lost: {body['metadata']['name']}, bound to {body['spec']['nodeName']}")
        left = list(self.home.glob("ledger.db.*part-*"))
        if left:
            raise Violation(f"nobody removes what a killed copy left: {left}")
        self.counts["reconciled starts"] += 1

    def wait_until_quiet(self) -> None:
        """Without further kills, every pod must end up bound or gone, and nothing else may be held."""
        begun = time.monotonic()
        self.daemon = daemon = Daemon(self.home)
        load = self.begin_load(daemon, begun)
        time.sleep(0.1)
        load.stop()
        self.wait_until_quiet_with(daemon)

    def wait_until_quiet_with(self, daemon: Daemon) -> None:
        self.model.api.do("release")
        self.model.heal_nodes()
        for pod in list(self.model.waiting):
            if not self.model.learn(pod):
                pod.until = time.monotonic()
                self.model.api.gone(pod.name)
        http = Http(daemon.port["admin"])
        if not daemon.until(lambda: self.agreed(http), 120, 0.02):
            raise Violation(f"no agreement after 30 s: {self.allocations(http)}")
        http.close()
        begun = time.monotonic()
        daemon.terminate()
        daemon.child.wait(60)
        self.stop_pace.saw(time.monotonic() - begun)
        self.autopsy(daemon)
        overlap = self.model.overlap()
        if overlap:
            raise Violation(overlap)

    def agreed(self, http: Http) -> bool:
        held = self.allocations(http)
        shown = self.model.bound_alive()
        return held.keys() == shown.keys() and all(item["state"] == "bound" for item in held.values())

    # ---- the migration of a copy ----

    def migrate(self) -> None:
        ledger = copy(self.ledger, self.home / "old")
        before = dump(self.audit.file)
        old = version(self.audit.file)
        for _ in range(self.rng.randrange(1, 4)):
            self.migrate_and_kill(ledger, old)
            if self.judge_migrated(ledger, before, old) != old:
                break
        last = Process([harness.TESTS / "crash_ledger", "migrate", ledger], self.home / "log")
        if last.child.wait(60) != 0 or self.judge_migrated(ledger, before, old) != old + 1:
            raise Violation("a migration that was not killed did not succeed")
        if list(ledger.parent.glob("*.part-*")):
            raise Violation("nobody removes what a killed migration left")
        shutil.rmtree(ledger.parent)

    def migrate_and_kill(self, ledger: pathlib.Path, old: int) -> None:
        copies = f"ledger.db.v{old}-*"
        whole = set(ledger.parent.glob(copies))
        migrating = Process([harness.TESTS / "crash_ledger", "migrate", ledger], self.home / "log")

        def copying() -> bool:
            return any(".part-" in file.name for file in set(ledger.parent.glob(copies)) - whole)

        def changing() -> bool:
            return (not copying() and set(ledger.parent.glob(copies)) != whole and
                    holds_write(ledger, migrating))

        target = self.rng.choice((copying, changing))
        migrating.until(target, 30, 0)
        if not migrating.freeze():
            return
        moment = "copying" if copying() else "changing" if changing() else ""
        migrating.kill()
        if moment:
            self.report(Seen("migrating", f"migrating: {moment}"))

    def judge_migrated(self, ledger: pathlib.Path, before: dict[str, list[Any]], old: int) -> int:
        """The ledger has to be all old or all new, and each copy of the old one unchanged; returns its version."""
        taken = copy(ledger, self.scratch / "migrated")
        is_now = version(taken)
        self.oracle.oracle(is_now, taken)
        if dump(taken) != before:
            raise Violation(f"a migration that was killed changed rows; version {is_now}")
        if is_now != old and len(extra_rows(taken)) != len(before["allocation"]):
            raise Violation("a migration that was killed is half there")
        for file in ledger.parent.glob(f"ledger.db.v{old}-*Z*"):
            if ".part-" not in file.name and not file.name.endswith(("-wal", "-shm", ".lock", "-journal")):
                kept = copy(file, self.scratch / "kept")
                self.oracle.oracle(old, kept)
                if dump(kept) != before:
                    raise Violation(f"{file.name} is not what was before the migration")
        return is_now

    # ---- the end ----

    def keep(self, why: str) -> pathlib.Path:
        """Write down what is needed to find the reason; returns the folder."""
        with open(self.home / "history", "w", encoding="utf-8") as file:
            file.write(f"seed {self.seed}: {why}\n")
            file.writelines(f"{event}\n" for event in self.model.history)
            file.write(json.dumps(self.model.shown(), indent=1))
        if (self.scratch / "taken").exists():
            shutil.copytree(self.scratch / "taken", self.home / "taken", dirs_exist_ok=True)
        return self.home

    def close(self, keep: bool) -> None:
        if self.daemon is not None:
            self.daemon.kill()
        self.oracle.close()
        self.model.api.close()
        shutil.rmtree(self.scratch)
        if not keep:
            shutil.rmtree(self.home)


def holds_write(ledger: pathlib.Path, process: Process) -> bool:
    return holds(ledger, WRITING, process.pid) and not holds(ledger, RECOVERING, process.pid)
