"""Reservations in doubt end by evidence, never by time: bound, gone, or seen unbound in a later version."""

import threading
from typing import Callable

from episode import Episode
from load import Load
from process import Daemon, Http, Seen, Violation
from model import PODS, Pod

PATIENCE_S = 60
ALONE_S = 5  # during which no doubt may end


class Doubt(Episode):
    """Binds that are cut off midway: some Bindings are lost, which a later change of the pod shows; others land."""

    def __init__(self, seed: int, report: Callable[[Seen], None]) -> None:
        super().__init__(seed, report)
        self.threads: list[threading.Thread] = []

    def live(self, more: Callable[[], bool]) -> None:
        self.daemon = daemon = Daemon(self.home)
        daemon.await_ready()
        lost = [self.cut_off(daemon, "refuse", 0) for _ in range(6)]
        late = [self.cut_off(daemon, "slow", 2500) for _ in range(2)]
        landed = [self.cut_off(daemon, "silent", 0) for _ in range(2)]
        if not daemon.until(lambda: self.sent(lost + late) and all(map(self.model.learn, landed)), PATIENCE_S, 0.01):
            raise Violation("the Bindings were not sent")
        self.strike(daemon)
        for thread in self.threads:
            thread.join()
        self.autopsy(daemon)
        self.daemon = daemon = Daemon(self.home)
        daemon.await_ready()
        http = Http(daemon.port["admin"])
        if daemon.until(lambda: not self.doubted(http, lost), ALONE_S, 0.5):
            raise Violation("a reservation was given up, though its Binding may still land")
        for pod in lost:  # as kube-scheduler does to record why a pod is not bound
            self.model.api.request("PATCH", f"{PODS}/{pod.name}", {"metadata": {"annotations": {"seen": "unbound"}}})
        if not daemon.until(lambda: self.agreed(http) and self.model.bound_alive().keys() ==
                            {pod.uid for pod in late + landed}, PATIENCE_S, 0.5):
            raise Violation(f"doubts {PATIENCE_S} s after the evidence: {self.allocations(http)}")
        http.close()
        self.counts["doubts that ended"] += len(lost + late + landed)
        self.model.waiting += lost
        for pod in late + landed:
            self.model.learn(pod)
        self.wait_until_quiet_with(daemon)

    def sent(self, pods: list[Pod]) -> bool:
        return all(self.model.api.seen(f"/{pod.name}/binding") > 0 for pod in pods)

    def doubted(self, http: Http, lost: list[Pod]) -> bool:
        held = self.allocations(http)
        return all(held.get(pod.uid, {}).get("state") == "reserved" for pod in lost)

    def cut_off(self, daemon: Daemon, kind: str, number: int) -> Pod:
        """Start a bind whose Binding meets this fault; it is not answered before the daemon is killed."""
        pod = self.model.create(self.rng, 300)
        self.model.api.do("fault", match=f"/{pod.name}/binding$", kind=kind, times=100000, number=number)
        load = Load(self.model, daemon, self.rng, 0)
        self.threads.append(threading.Thread(target=load.bind_once, args=(pod,)))
        self.threads[-1].start()
        return pod
