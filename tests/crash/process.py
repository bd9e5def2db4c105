"""milligpud as a process that is stopped, inspected, and then killed."""

import dataclasses
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Optional

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
import harness  # noqa: E402

# Bytes of FILE-shm that SQLite locks (wal.c): they show what a process is doing to the log.
WRITING, CHECKPOINT, RECOVERING = 120, 121, 122
READERS = 6  # bytes from RECOVERING to the lock of the last reader
FLOCK = struct.Struct("hhqqi4x")
LOOK_S = 0.0002


class Violation(Exception):
    """A promise was broken."""


def held(file: pathlib.Path, byte: int, count: int, pid: int) -> Optional[int]:
    """The first of these bytes of the file's -shm that pid has locked."""
    try:
        fd = os.open(f"{file}-shm", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, count, 0)
        kind, _, start, _, owner = FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    finally:
        os.close(fd)
    return max(start, byte) if kind != fcntl.F_UNLCK and owner == pid else None


def holds(file: pathlib.Path, byte: int, pid: int) -> bool:
    return held(file, byte, 1, pid) is not None


def frames(file: pathlib.Path) -> int:
    """The number of pages of the log that the next process has to recover: those with the salt of the log's header."""
    log = pathlib.Path(f"{file}-wal")
    if not log.exists() or log.stat().st_size < 32:
        return 0
    count = 0
    with open(log, "rb") as wal:
        head = wal.read(32)
        page = int.from_bytes(head[8:12], "big")
        while wal.read(24)[8:16] == head[16:24]:
            wal.seek(page, os.SEEK_CUR)
            count += 1
    return count


class Http:
    """One keep-alive connection; raises OSError when the other side dies."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method: str, path: str, body: Optional[Any] = None) -> tuple[int, bytes]:
        text = b"" if body is None else json.dumps(body).encode()
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.more()
        head, _, got = got.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
        parts = [got]
        missing = int(fields.get("content-length", "0")) - len(got)
        while missing > 0:
            parts.append(self.more())
            missing -= len(parts[-1])
        return int(lines[0].split()[1]), b"".join(parts)

    def more(self) -> bytes:
        got = self.socket.recv(1 << 16)
        if not got:
            raise ConnectionResetError("the other side is gone")
        return got

    def close(self) -> None:
        self.socket.close()


@dataclasses.dataclass
class Seen:
    """What a process was doing when it was stopped."""

    moment: str
    part: str = ""


class Process:
    """A child process that can be stopped and inspected."""

    def __init__(self, command: list[Any], log: pathlib.Path) -> None:
        with open(log, "ab") as output:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.pid = self.child.pid

    def alive(self) -> bool:
        return self.child.poll() is None

    def freeze(self) -> bool:
        """Stop it (SIGSTOP); false if it had already ended by itself."""
        if not self.alive():
            return False
        self.child.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self.child.returncode = os.waitstatus_to_exitcode(status)
        return False

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def until(self, condition: Callable[[], bool], seconds: float, look_s: float = LOOK_S) -> bool:
        """True once the condition holds, False when the time is over or the child has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive():
            if condition():
                return True
            if look_s > 0:
                time.sleep(look_s)
        return False


class Daemon(Process):
    """milligpud with the ledger in this folder."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.ledger = home / "ledger.db"
        self.log = home / "log"
        self.port_file = home / "ports"
        self.port_file.unlink(missing_ok=True)
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        self.port: dict[str, int] = {}
        self.terminated = False
        # After a kill between creating the wake-up object and claiming the ledger, the next start waits: make it short.
        super().__init__(
            [harness.BIN / "milligpud", "--kubeconfig", home / "kubeconfig", "--ledger", self.ledger, "--grace-period-s", "1",
             "--webhook-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--port-file", self.port_file],
            self.log)

    def said(self) -> str:
        with open(self.log, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def says_ready(self) -> bool:
        return " ready\n" in self.said()

    def await_ready(self, seconds: float = 60) -> None:
        if not self.until(self.says_ready, seconds, 0.002):
            raise Violation(f"milligpud was not ready; its end: {self.child.poll()}")
        for line in self.port_file.read_text().splitlines():
            name, address = line.split()
            self.port[name] = int(address.rsplit(":", 1)[1])

    def terminate(self) -> None:
        self.terminated = True
        self.child.terminate()

    def says_stopping(self) -> bool:
        return "info  stopping" in self.said()

    def await_recovery(self, seconds: float) -> None:
        """Recovery takes one or two milliseconds: give the daemon less CPU time than this process, which looks."""
        os.setpriority(os.PRIO_PROCESS, self.pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10))
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive() and not self.port_file.exists():
            for _ in range(50):
                # A reader's lock means that it has recovered the log.
                if held(self.ledger, RECOVERING, READERS, self.pid) is not None:
                    return

    def at(self, byte: int) -> bool:
        return holds(self.ledger, byte, self.pid)

    def backup_parts(self) -> list[pathlib.Path]:
        return list(self.home.glob("ledger.db.part-*/*"))

    def look(self) -> Seen:
        """Call it only while the process is stopped, so that nothing changes meanwhile."""
        said = self.said()
        if self.at(RECOVERING):
            moment = "recovering"
        elif "info  stopping" in said:
            moment = "stopping"
        elif self.at(CHECKPOINT):
            moment = "checkpoint"
        elif self.backup_parts():
            moment = "backup"
        else:
            moment = "running" if " ready\n" in said else "starting"
        return Seen(moment, "in a transaction" if self.at(WRITING) else "")

    def trouble(self) -> str:
        """The first line of its log that must never appear, or an empty string."""
        for line in self.said().splitlines():
            if " error " in line or "Sanitizer" in line or "runtime error" in line or "must(" in line:
                return line
        return ""


class Oracle:
    """crash_ledger verify: opens copies with the real store and checks them."""

    def __init__(self) -> None:
        self.child = subprocess.Popen([harness.TESTS / "crash_ledger", "verify"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.child.stdout is not None
        self.newest = int(self.child.stdout.readline())  # the version that the daemon writes

    def oracle(self, version: int, file: pathlib.Path) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(f"{version} {file}\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline().strip()
        if answer != "ok":
            raise Violation(f"the audit of {file.name} as version {version}: {answer or 'the checker died'}")

    def close(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()
