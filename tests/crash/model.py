"""The cluster, which survives every kill, and what clients were answered: the model to compare with."""

import dataclasses
import json
import random
import threading
import time
from typing import Any, Optional

from process import harness

NOTE = "milligpu.io/allocation"
GPUS = "milligpu.io/gpus"
CORDON = "milligpu.io/cordon"
PODS = "/api/v1/namespaces/default/pods"
SIZES = (50, 100, 150, 200, 250, 300, 333, 400, 500, 600, 700, 1000)


@dataclasses.dataclass
class Pod:
    """One pod as its clients know it."""

    name: str
    uid: str
    body: dict[str, Any]
    asks: int
    node: Optional[str] = None  # where it is bound, once a client knows
    held: dict[str, int] = dataclasses.field(default_factory=dict)
    bound_to: Optional[str] = None  # the node of a bind that was answered with success
    checked: bool = False  # that bind was found in the ledger of a killed daemon
    since: float = 0.0  # it was bound at this time or earlier
    until: Optional[float] = None  # it ended at this time or later


def nodes() -> dict[str, list[dict[str, Any]]]:
    """Four nodes with four whole GPUs each, and a VM with two half GPUs."""
    made = {f"n{n}": [{"uuid": f"GPU-{n}-{i}", "index": i, "milli": 1000, "mib": 81920, "model": "A100",
                       "numa": 0, "health": "Healthy"} for i in range(4)] for n in range(4)}
    made["vm"] = [{"uuid": f"GPU-vm-{i}", "index": i, "milli": 500, "mib": 8000, "model": "T4", "numa": 0,
                   "health": "Healthy"} for i in range(2)]
    return made


def node_object(name: str, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    amounts = {"cpu": "64", "nvidia.com/vgpu": str(sum(gpu["milli"] for gpu in gpus))}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {GPUS: json.dumps(gpus)}},
            "status": {"capacity": amounts, "allocatable": amounts}}


def charges(pod: dict[str, Any]) -> dict[str, int]:
    """GPU -> milli, by the annotation of a Pod object; a plain sum, because all containers run side by side."""
    found: dict[str, int] = {}
    note = json.loads(pod["metadata"].get("annotations", {}).get(NOTE, '{"containers":{}}'))
    for shares in note["containers"].values():
        for share in shares:
            found[share["gpu"]] = found.get(share["gpu"], 0) + share["milli"]
    return found


def over(holders: list[tuple[str, dict[str, int]]], room: dict[str, int]) -> str:
    """A sentence about the first GPU that is held beyond its size, or an empty string."""
    used: dict[str, int] = {}
    for _, held in holders:
        for gpu, milli in held.items():
            used[gpu] = used.get(gpu, 0) + milli
    for gpu, milli in used.items():
        if milli > room.get(gpu, 0):
            return f"{gpu} has {room.get(gpu, 0)} and is held for {milli} by " \
                   f"{[name for name, held in holders if gpu in held]}"
    return ""


class Model:
    """The API server and every answer; clients in many threads share it."""

    def __init__(self, rng: random.Random) -> None:
        self.nodes = nodes()
        self.room = {gpu["uuid"]: gpu["milli"] for gpus in self.nodes.values() for gpu in gpus}
        self.there = set(self.nodes)
        items = [node_object(name, gpus) for name, gpus in self.nodes.items()]
        self.api = harness.Api({"apiVersion": "v1", "kind": "List", "items": items})
        self.rng = rng
        self.lock = threading.Lock()
        self.pods: dict[str, Pod] = {}  # by uid, all that ever existed
        self.waiting: list[Pod] = []
        self.bound: list[Pod] = []
        self.ended: list[Pod] = []
        self.made = 0
        self.answers = 0
        self.history: list[tuple[Any, ...]] = []
        self.wrong: Optional[str] = None

    def note(self, *event: Any) -> None:
        self.history.append((round(time.monotonic(), 6), *event))

    def accuse(self, text: str) -> None:
        """Report a violation from a client's thread; the episode raises it."""
        self.wrong = self.wrong or text

    # ---- pods ----

    def create(self, rng: random.Random, milli: int = 0) -> Pod:
        with self.lock:
            self.made += 1
            name = f"p{self.made}"
        containers = {"c": milli or rng.choice(SIZES)}
        annotations = {}
        if milli == 0 and rng.random() < 0.15:
            containers["d"] = rng.choice(SIZES[:6])
        elif milli == 0 and rng.random() < 0.1:
            containers["c"] = rng.choice((200, 400, 600, 1000))
            annotations["milligpu.io/gpu-count"] = "2"
        body = self.api.create(harness.pod(name, containers=containers, annotations=annotations))
        pod = Pod(name, body["metadata"]["uid"], body, sum(containers.values()))
        with self.lock:
            self.pods[pod.uid] = pod
        return pod

    def take(self, rng: random.Random) -> Pod:
        """A waiting pod, in rare cases one that another client is binding, too; otherwise a new one."""
        with self.lock:
            if self.waiting and (len(self.waiting) > 6 or rng.random() < 0.5):
                at = rng.randrange(len(self.waiting))
                return self.waiting[at] if rng.random() < 0.1 else self.waiting.pop(at)
        pod = self.create(rng)
        if rng.random() < 0.1:
            self.give_back(pod)
        return pod

    def give_back(self, pod: Pod) -> None:
        with self.lock:
            if pod.node is None and pod.until is None and pod not in self.waiting:
                self.waiting.append(pod)

    def object(self, pod: Pod) -> Optional[dict[str, Any]]:
        status, body = self.api.request("GET", f"{PODS}/{pod.name}")
        return body if status == 200 and body["metadata"]["uid"] == pod.uid else None

    def learn(self, pod: Pod) -> bool:
        """Is it bound? If so, record its node and GPUs."""
        body = self.object(pod)
        if body is None or not body["spec"].get("nodeName"):
            return False
        with self.lock:
            if pod.node is None:
                pod.held = charges(body)
                pod.since = time.monotonic()
                pod.node = body["spec"]["nodeName"]
                if pod.until is None:
                    self.bound.append(pod)
            if pod in self.waiting:
                self.waiting.remove(pod)
        if sum(pod.held.values()) != pod.asks:
            self.accuse(f"{pod.name} asks {pod.asks} and holds {pod.held}")
        return True

    def granted(self, pod: Pod, node: str) -> None:
        """Record that a bind was answered with success."""
        ended = pod.until is not None
        with self.lock:
            self.answers += pod.bound_to is None
            pod.bound_to = node
        if not self.learn(pod) and not ended and pod.until is None:
            self.accuse(f"{pod.name}: success was answered, and the API server shows it unbound")
        elif pod.node is not None and pod.node != node:
            self.accuse(f"{pod.name}: success on {node} was answered, and it is on {pod.node}")

    def end(self, rng: random.Random) -> None:
        """End a bound pod, delete an ended one, or give up a waiting one."""
        with self.lock:
            pods = self.ended if self.ended and rng.random() < 0.5 else self.bound
            pods = self.waiting if self.waiting and rng.random() < 0.05 else pods
            if not pods:
                return
            pod = pods.pop(rng.randrange(len(pods)))
            first = pod.until is None
            if first:
                pod.until = time.monotonic()
        if first and rng.random() < 0.5:
            self.note("end", pod.name)
            self.api.request("PATCH", f"{PODS}/{pod.name}/status", {"status": {"phase": "Succeeded"}})
            with self.lock:
                self.ended.append(pod)
            return
        self.note("delete", pod.name)
        self.api.gone(pod.name)

    def shown(self) -> dict[str, dict[str, Any]]:
        """Every Pod object that has not ended, by uid."""
        items = self.api.request("GET", "/api/v1/pods")[1]["items"]
        return {pod["metadata"]["uid"]: pod for pod in items
                if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")}

    def bound_alive(self) -> dict[str, dict[str, Any]]:
        return {uid: pod for uid, pod in self.shown().items() if pod["spec"].get("nodeName")}

    # ---- nodes ----

    def change_node(self, rng: random.Random) -> None:
        """Cordon it, make a GPU unhealthy, remove one, permute the indexes, delete the node, or create it again."""
        name = rng.choice(sorted(self.nodes))
        path = f"/api/v1/nodes/{name}"
        with self.lock:
            missing = name not in self.there
            removed = not missing and rng.random() < 0.15
            self.there ^= {name} if missing or removed else set()
        self.note("node", name, "back" if missing else "gone" if removed else "changed")
        if missing:
            self.api.request("POST", "/api/v1/nodes", node_object(name, self.nodes[name]))
        elif removed:
            self.api.request("DELETE", path)
        else:
            gpus = [dict(gpu) for gpu in self.nodes[name]]
            if rng.random() < 0.3:
                rng.choice(gpus)["health"] = "Unhealthy"
            if rng.random() < 0.3:
                gpus.pop(rng.randrange(len(gpus)))
            if rng.random() < 0.3:
                rng.shuffle(gpus)
                for index, gpu in enumerate(gpus):
                    gpu["index"] = index
            cordon = "all" if rng.random() < 0.1 else None
            self.api.request("PATCH", path, {"metadata": {"annotations": {GPUS: json.dumps(gpus), CORDON: cordon}}})

    def heal_nodes(self) -> None:
        for name, gpus in self.nodes.items():
            if name not in self.there:
                self.api.request("POST", "/api/v1/nodes", node_object(name, gpus))
                self.there.add(name)
            self.api.request("PATCH", f"/api/v1/nodes/{name}",
                             {"metadata": {"annotations": {GPUS: json.dumps(gpus), CORDON: None}}})

    # ---- judgement ----

    def overlap(self) -> str:
        """Judge the history: at no moment may the pods that surely held a GPU have held more than it has."""
        events: dict[str, list[tuple[float, int, str]]] = {}
        for pod in self.pods.values():
            for gpu, milli in pod.held.items() if pod.node is not None else ():
                until = pod.until if pod.until is not None else float("inf")
                if until <= pod.since:
                    continue
                events.setdefault(gpu, []).append((pod.since, milli, pod.name))
                events[gpu].append((until, -milli, pod.name))
        for gpu, list_ in events.items():
            used = 0
            for at, milli, name in sorted(list_):
                used += milli
                if used > self.room[gpu]:
                    return f"{gpu} was held for {used} when {name} came at {at}"
        return ""
