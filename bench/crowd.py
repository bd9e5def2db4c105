#!/usr/bin/env python3
"""How long requests wait while a crowd of other clients holds connections: the real milligpud over loopback.

Prints "name value unit". A wait of more than 5 s is reported as 5,000 ms.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import socket
import ssl
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PARSER = argparse.ArgumentParser(prog="bench/crowd.py", description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
PARSER.add_argument("bin", nargs="?", metavar="BIN", default=str(HERE.parent / "build/release/bin"),
                    help="folder of milligpud, possibly of an older one to compare (default: build/release/bin)")
os.environ.setdefault("MILLIGPU_BIN_DIR", PARSER.parse_args().bin)
os.environ.setdefault("MILLIGPU_SOURCE_DIR", str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "tests/e2e"))
sys.dont_write_bytecode = True
import harness  # noqa: E402
from test_many_clients import LIVEZ, answer, post  # noqa: E402

PATIENCE = 5
ROUNDS = 20
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def say(name, value, unit):
    print(f"crowd.{name} {value:.2f} {unit}", flush=True)


def files(soft):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, HARD))


def timed(ask):
    """The milliseconds that ask takes, or PATIENCE if it fails."""
    began = time.monotonic()
    try:
        ask()
    except OSError:
        return PATIENCE * 1000
    return (time.monotonic() - began) * 1000


def waits(name, ask):
    took = []
    while len(took) < ROUNDS and sum(took) < 3 * PATIENCE * 1000:
        took.append(timed(ask))
    took.sort()
    say(f"{name}.p50", took[len(took) // 2], "ms")
    say(f"{name}.max", took[-1], "ms")


def memory(daemon):
    text = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class Crowd(contextlib.ExitStack):
    def add(self, daemon, port, count, first=b""):
        for _ in range(count):
            peer = socket.socket()
            self.callback(peer.close)
            peer.settimeout(0.2)
            with contextlib.suppress(OSError):
                peer.connect(("127.0.0.1", daemon.port[port]))
                peer.sendall(first)

    def daemon(self, *flags):
        daemon = harness.Daemon(harness.DEMO, *flags)
        self.callback(daemon.close)
        return daemon


def livez(daemon, port):
    def ask():
        with socket.create_connection(("127.0.0.1", daemon.port[port]), PATIENCE) as peer:
            peer.sendall(LIVEZ)
            answer(peer)
    return ask


def filtering(daemon, context=None):
    body = post("/scheduler/filter", {"Pod": harness.pod("a", 100, uid="a"), "Nodes": None, "NodeNames": ["a100-0"]})

    def ask():
        with socket.create_connection(("127.0.0.1", daemon.port["webhook"]), PATIENCE) as peer:
            peer.settimeout(PATIENCE)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go's clients do
            if context is not None:
                peer = context.wrap_socket(peer, server_hostname="127.0.0.1")
            peer.sendall(body)
            answer(peer)
            peer.close()
    return ask


def idle():
    with Crowd() as crowd:
        daemon = crowd.daemon()
        waits("idle_0.livez", livez(daemon, "probe"))
        crowd.add(daemon, "probe", 260)
        waits("idle_260.livez", livez(daemon, "probe"))


def strangers():
    made = harness.certificates()
    context = ssl.create_default_context(cafile=str(made / "ca.crt"))
    context.load_cert_chain(made / "client.crt", made / "client.key")
    with Crowd() as crowd:
        daemon = crowd.daemon("--webhook-cert", str(made / "server.crt"), "--webhook-key", str(made / "server.key"),
                              "--webhook-client-ca", str(made / "ca.crt"))
        waits("strangers_0.new_connection_and_filter", filtering(daemon, context))
        say("strangers_0.rss", memory(daemon), "MiB")
        crowd.add(daemon, "webhook", 4100)
        say("strangers_4100.rss", memory(daemon), "MiB")
        waits("strangers_4100.new_connection_and_filter", filtering(daemon, context))
        waits("strangers_4100.livez", livez(daemon, "probe"))


def few_files():
    with Crowd() as crowd:
        files(1024)
        daemon = crowd.daemon()
        files(HARD)
        crowd.add(daemon, "webhook", 1200, b"P")
        for port in ("probe", "admin"):
            waits(f"slow_1200_of_1024_files.{port}.livez", livez(daemon, port))
        waits("slow_1200_of_1024_files.filter", filtering(daemon))


def storm(daemon, port):
    """A process that opens connections for ever, as fast as it can, and keeps the last thousand open."""
    child = os.fork()
    if child == 0:
        kept = []
        while True:
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", daemon.port[port]))
            kept.append(peer)
            if len(kept) > 1000:
                kept.pop(0).close()
    return child


def storms():
    with Crowd() as crowd:
        daemon = crowd.daemon()
        kept = socket.create_connection(("127.0.0.1", daemon.port["webhook"]), PATIENCE)
        crowd.callback(kept.close)
        body = post("/scheduler/filter", {"Pod": harness.pod("a", 100, uid="a"), "Nodes": None, "NodeNames": ["a100-0"]})

        def ask():
            kept.sendall(body)
            answer(kept)

        waits("storm_0.known_connection.filter", ask)
        for port in ("webhook", "probe"):
            child = storm(daemon, port)
            try:
                time.sleep(1)
                waits(f"storm_on_{port}.known_connection.filter", ask)
                waits(f"storm_on_{port}.new_connection.filter", filtering(daemon))
                waits(f"storm_on_{port}.livez", livez(daemon, "probe"))
            finally:
                os.kill(child, 9)
                os.waitpid(child, 0)


def main():
    files(HARD)
    for part in (idle, strangers, few_files, storms):
        try:
            part()
        except (AssertionError, OSError) as trouble:
            print(json.dumps({part.__name__: str(trouble)[:300]}), file=sys.stderr)


main()
