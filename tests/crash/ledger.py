"""What a killed daemon left on disk: copied, audited, and compared with the model."""

import contextlib
import pathlib
import shutil
import sqlite3
from typing import Any

from process import Oracle, Violation
from model import Pod, Model, charges, over

KEPT = ("meta", "node", "gpu", "allocation", "share", "charge", "journal", "baseline", "claim", "learned", "class",
        "measured", "idle", "reported", "policy", "agent")


def copy(ledger: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """Copy the file and its log as they are; the -shm matters only to running processes."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for suffix in ("", "-wal"):
        file = pathlib.Path(f"{ledger}{suffix}")
        if file.exists():
            shutil.copy(file, to / file.name)
    return to / ledger.name


def dump(file: pathlib.Path) -> dict[str, list[Any]]:
    """Every row of the tables that a migration must not change. A copy has an id of its own, and is marked as a copy."""
    meta = "one, cluster, created_ms, folded, stepped_ms, has_agents"
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return {table: db.execute(f"SELECT {meta if table == 'meta' else '*'} FROM {table}").fetchall() for table in KEPT}


def version(file: pathlib.Path) -> int:
    with contextlib.closing(sqlite3.connect(file)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def is_born(file: pathlib.Path) -> bool:
    """Was anything committed? For copies only, because reading recovers the log."""
    return file.exists() and version(file) != 0


def extra_rows(file: pathlib.Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return db.execute("SELECT allocation, uid FROM extra").fetchall()


class Row:
    """One row of the table allocation, with its charges."""

    def __init__(self, line: tuple[Any, ...]) -> None:
        self.id, self.uid, self.node, self.state, self.origin = line
        self.held: dict[str, int] = {}

    @property
    def open(self) -> bool:
        return self.state != "released"


def rows(file: pathlib.Path) -> dict[str, list[Row]]:
    """The rows by the uid of their pod."""
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        by_id = {line[0]: Row(line) for line in db.execute("SELECT id, uid, node, state, origin FROM allocation")}
        for allocation, gpu, milli in db.execute("SELECT allocation, gpu, milli FROM charge"):
            by_id[allocation].held[gpu] = milli
    found: dict[str, list[Row]] = {}
    for row in by_id.values():
        found.setdefault(row.uid, []).append(row)
    return found


class Audit:
    """Compares the ledger of a killed daemon with the API server and every answer that was given."""

    def __init__(self, model: Model, oracle: Oracle, folder: pathlib.Path) -> None:
        self.model = model
        self.oracle = oracle
        self.folder = folder

    def take(self, ledger: pathlib.Path) -> bool:
        """Copy and verify the ledger; false if there is none yet, which is right only before the first answer."""
        self.file = copy(ledger, self.folder)
        born = is_born(self.file)
        if born:
            self.oracle.oracle(self.oracle.newest, self.file)
        elif self.model.answers > 0:
            raise Violation("the ledger is gone")
        return born

    def compare(self) -> bool:
        """True if a pod that was answered as bound is reserved: that was not written yet."""
        found = rows(self.file)
        unwritten = False
        shown = self.model.bound_alive()
        for pod in list(self.model.pods.values()):
            if pod.bound_to is not None:
                unwritten |= self.answered(pod, found.get(pod.uid, []))
        for uid, body in shown.items():
            self.bound(uid, body, found.get(uid, []))
        for uid, list_ in found.items():
            self.row(uid, list_, uid in shown)
        holders = [(body["metadata"]["name"], charges(body)) for body in shown.values()]
        self.within("the pods", holders)
        self.within("the ledger", [(row.uid, row.held) for list_ in found.values() for row in list_ if row.open])
        return unwritten

    def within(self, who: str, holders: list[tuple[str, dict[str, int]]]) -> None:
        text = over(holders, self.model.room)
        if text:
            raise Violation(f"by {who}, {text}")

    def answered(self, pod: Pod, list_: list[Row]) -> bool:
        """True if it is only reserved. If no client saw the pod bound before its deletion, its GPUs are unknown: only the
        amount is compared."""
        for row in list_:
            same = row.held == pod.held if pod.node is not None else sum(row.held.values()) == pod.asks
            if same and row.node == pod.bound_to and (row.open or pod.until is not None):
                pod.checked = True
                return row.state == "reserved"
        raise Violation(f"{pod.name} ({pod.uid}) was answered success on {pod.bound_to} with {pod.held}; the ledger has "
                        f"{[vars(row) for row in list_]}")

    def bound(self, uid: str, body: dict[str, Any], list_: list[Row]) -> None:
        """Exactly one open row: only milligpud binds here, and a reservation is on disk before its Binding is sent."""
        is_open = [row for row in list_ if row.open]
        if len(is_open) != 1 or is_open[0].node != body["spec"]["nodeName"] or is_open[0].held != charges(body):
            raise Violation(f"{body['metadata']['name']} ({uid}) is bound to {body['spec']['nodeName']} with "
                            f"{charges(body)}; the ledger has {[vars(row) for row in list_]}")

    def row(self, uid: str, list_: list[Row], bound: bool) -> None:
        pod = self.model.pods.get(uid)
        if pod is None:
            raise Violation(f"the ledger knows a pod {uid} that never was")
        for row in list_:
            if row.origin != "granted":
                raise Violation(f"{pod.name} was adopted, as if its reservation had been lost: {vars(row)}")
            if row.state == "bound" and not bound and pod.until is None:
                raise Violation(f"{pod.name} is bound in the ledger only: {vars(row)}")
