"""Clients that behave as kube-scheduler does and may be cut off at any time."""

import json
import random
import threading

from process import Daemon, Http
from model import Pod, Model


class Load:
    """Several clients at once, until they are stopped or the daemon is killed."""

    def __init__(self, model: Model, daemon: Daemon, rng: random.Random, clients: int) -> None:
        self.model = model
        self.port = daemon.port["webhook"]
        self.admin = daemon.port["admin"]
        self.stopped = threading.Event()
        seeds = [rng.getrandbits(32) for _ in range(clients)]
        self.threads = [threading.Thread(target=self.client, args=(random.Random(seed),)) for seed in seeds]
        for thread in self.threads:
            thread.start()

    def also_back_up(self) -> None:
        self.threads.append(threading.Thread(target=self.back_up))
        self.threads[-1].start()

    def stop(self) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def client(self, rng: random.Random) -> None:
        try:
            http = Http(self.port)
            while not self.stopped.is_set():
                self.step(http, rng)
            http.close()
        except OSError:
            pass  # the daemon was killed
        except (AssertionError, KeyError, ValueError) as trouble:
            self.model.accuse(f"a client: {trouble!r}")

    def bind_once(self, pod: Pod) -> None:
        try:
            http = Http(self.port)
            self.bind(http, pod, f"n{int(pod.name[1:]) % 4}")
            http.close()
        except OSError:
            pass  # the daemon was killed

    def back_up(self) -> None:
        try:
            http = Http(self.admin)
            while not self.stopped.is_set():
                status, body = http.call("GET", "/api/v1/backup")
                if status != 200 or not body.startswith(b"SQLite format 3"):
                    self.model.accuse(f"a backup: {status} {body[:200]!r}")
            http.close()
        except OSError:
            pass  # the daemon was killed

    def step(self, http: Http, rng: random.Random) -> None:
        dice = rng.random()
        if dice < 0.01:
            self.model.change_node(rng)
        elif dice < 0.4 or len(self.model.bound) > 60:
            self.model.end(rng)
        else:
            pod = self.model.take(rng)
            try:
                self.schedule(http, rng, pod)
            finally:
                self.model.give_back(pod)

    def schedule(self, http: Http, rng: random.Random, pod: Pod) -> None:
        """Filter, choose, bind. A pod that turns out to be bound already is sometimes bound again."""
        node = None
        if self.model.learn(pod):
            if rng.random() < 0.5:
                return
            node = pod.node
        if node is None:
            _, body = http.call("POST", "/scheduler/filter", {
                "Pod": pod.body, "Nodes": None, "NodeNames": sorted(self.model.nodes)})
            names = json.loads(body).get("NodeNames") or []
            if not names:
                return
            node = names[0] if rng.random() < 0.7 else rng.choice(names)
        self.bind(http, pod, node)

    def bind(self, http: Http, pod: Pod, node: str) -> None:
        self.model.note("bind", pod.name, node)
        status, body = http.call("POST", "/scheduler/bind", {
            "PodName": pod.name, "PodNamespace": "default", "PodUID": pod.uid, "Node": node})
        error = json.loads(body)["Error"] if status == 200 else f"{status} {body!r}"
        self.model.note("answer", pod.name, node, error)
        if error == "":
            self.model.granted(pod, node)


def trouble(model: Model, rng: random.Random) -> None:
    """A Binding that will be late, lost or refused: such faults put reservations in doubt."""
    kind, number = rng.choice((("slow", rng.randrange(20, 400)), ("lose", 0), ("refuse", 0), ("silent", 0)))
    model.api.do("fault", match="/binding$", kind=kind, times=1, number=number)
