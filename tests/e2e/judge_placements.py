#!/usr/bin/env python3
"""Judges a file of placements, as `milligpuctl simulate --placements` writes it, against nodes and arrivals.

It shares no code with the simulator. Line by line it replays the placements on its own sums of CPU, memory and GPUs,
and reports what is wrong with a line: another pod than the one that arrived, an unknown node, the wrong number of
GPUs, one GPU twice or out of range, a GPU model that the pod does not take, or more CPU, memory or GPU than is left.
A wrong line counts as a refusal. A refusal is "refused though fitting" if the pod fitted on any node at that moment.
"""

import argparse
import csv
import fnmatch
import json
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

GPU_MILLI = 1000
WRONG_SHOWN = 20


class Pod(NamedTuple):
    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int  # of each GPU
    models: Tuple[str, ...]  # none: any

    def demand(self) -> int:
        return self.gpus * self.milli


class Node:
    def __init__(self, row: Dict[str, str]):
        self.name = row["sn"]
        self.cpu = int(row["cpu_milli"])
        self.memory = int(row["memory_mib"])
        self.model = bare(row["model"])
        self.free = [GPU_MILLI] * int(row["gpu"])

    def lacks(self, pod: Pod) -> Optional[str]:
        """What keeps the pod away from here, whichever GPUs it gets; None: nothing."""
        if pod.cpu > self.cpu:
            return f"asks for {pod.cpu} milli of CPU, and {self.cpu} are left"
        if pod.memory > self.memory:
            return f"asks for {pod.memory} MiB of memory, and {self.memory} are left"
        if pod.gpus > 0 and pod.models and not any(fnmatch.fnmatchcase(self.model, glob) for glob in pod.models):
            return f"takes {'|'.join(pod.models)}, and the GPUs are {self.model}"
        return None

    def fits(self, pod: Pod) -> bool:
        return self.lacks(pod) is None and sum(free >= pod.milli for free in self.free) >= pod.gpus

    def take(self, pod: Pod, gpus: List[int]) -> None:
        self.cpu -= pod.cpu
        self.memory -= pod.memory
        for gpu in gpus:
            self.free[gpu] -= pod.milli


def bare(model: str) -> str:
    """Models are compared without the maker's name, and in any case."""
    model = model.replace(" ", "-").lower()
    return model[len("nvidia-"):] if model.startswith("nvidia-") and len(model) > len("nvidia-") else model


def rows(path: str) -> List[Dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def read_nodes(path: str) -> List[Node]:
    return [Node(row) for row in rows(path)]


def read_pods(path: str) -> List[Pod]:
    return [Pod(row["name"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"]),
                tuple(bare(model) for model in row["gpu_spec"].split("|") if model)) for row in rows(path)]


def read_placements(path: str) -> List[List[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def wrong_with(pod: Pod, node: Optional[Node], gpus: str) -> Tuple[Optional[str], List[int]]:
    """What is wrong with a placement (None: nothing), and the indexes of its GPUs."""
    if node is None:
        return "there is no such node", []
    indexes = gpus.split("|") if gpus else []
    if not all(index.isascii() and index.isdigit() for index in indexes):
        return f"{gpus!r} is no list of GPU indexes", []
    chosen = [int(index) for index in indexes]
    if len(chosen) != pod.gpus:
        return f"{len(chosen)} GPUs, and the pod asks for {pod.gpus}", []
    if len(set(chosen)) != len(chosen):
        return f"{gpus} names a GPU twice", []
    if any(index >= len(node.free) for index in chosen):
        return f"{gpus}: it has {len(node.free)} GPUs", []
    lacks = node.lacks(pod)
    if lacks is not None:
        return f"the pod {lacks}", []
    for index in chosen:
        if node.free[index] < pod.milli:
            return f"{node.free[index]} milli are left on GPU {index}, and the pod asks for {pod.milli}", []
    return None, chosen


class Judgement:
    def __init__(self, nodes: List[Node]):
        self.order = nodes
        self.nodes = {node.name: node for node in nodes}
        self.capacity = sum(GPU_MILLI * len(node.free) for node in nodes)
        self.count = {"arrived": 0, "placed": 0, "refused": 0, "multi_arrived": 0, "multi_refused": 0, "invalid": 0,
                      "refused_though_fitting": 0, "arrived_milli": 0, "allocated_milli": 0, "refused_milli": 0}
        self.first_multi: Optional[float] = None  # load at the first refusal of a pod of several GPUs
        self.wrong: List[str] = []
        # Nothing ends here: a shape that fits nowhere once never fits again.
        self.hopeless: set = set()
        self.levels: Dict[int, List[int]] = {}  # percent of load -> allocated milli after each arrival

    def fits_somewhere(self, pod: Pod) -> bool:
        shape = pod._replace(name="")
        if shape in self.hopeless:
            return False
        if any(node.fits(pod) for node in self.order):
            return True
        self.hopeless.add(shape)
        return False

    def refuse(self, line: int, pod: Pod, honest: bool) -> None:
        self.count["refused"] += 1
        self.count["refused_milli"] += pod.demand()
        if pod.gpus > 1:
            self.count["multi_refused"] += 1
            if self.first_multi is None:
                self.first_multi = self.load()
        if honest and self.fits_somewhere(pod):
            self.count["refused_though_fitting"] += 1
            self.say(line, pod, "refused, though it fitted somewhere")

    def say(self, line: int, pod: Pod, text: str) -> None:
        self.wrong.append(f"line {line}: {pod.name}: {text}")

    def load(self) -> float:
        return 100 * self.count["arrived_milli"] / self.capacity

    def rounded_load(self) -> int:
        """In percent; a half is rounded up."""
        return (200 * self.count["arrived_milli"] + self.capacity) // (2 * self.capacity)

    def allocated(self) -> float:
        return 100 * self.count["allocated_milli"] / self.capacity

    def take(self, line: int, pod: Pod, placement: List[str]) -> None:
        self.count["arrived"] += 1
        self.count["multi_arrived"] += pod.gpus > 1
        self.count["arrived_milli"] += pod.demand()
        if placement[1] == "":
            if placement[2] != "":
                self.count["invalid"] += 1
                self.say(line, pod, "GPUs without a node")
            self.refuse(line, pod, placement[2] == "")
        else:
            wrong, gpus = wrong_with(pod, self.nodes.get(placement[1]), placement[2])
            if wrong is not None:
                self.count["invalid"] += 1
                self.say(line, pod, f"{placement[1]}: {wrong}")
                self.refuse(line, pod, False)
            else:
                self.nodes[placement[1]].take(pod, gpus)
                self.count["placed"] += 1
                self.count["allocated_milli"] += pod.demand()
        self.levels.setdefault(self.rounded_load(), []).append(self.count["allocated_milli"])

    def summary(self) -> Dict[str, Any]:
        demand = max(1, self.count["arrived_milli"])
        return {**self.count, "capacity_milli": self.capacity, "load_percent": round(self.load(), 4),
                "allocated_percent": round(self.allocated(), 4),
                "refused_demand_percent": round(100 * self.count["refused_milli"] / demand, 4),
                "first_multi_refusal_load_percent":
                    None if self.first_multi is None else round(self.first_multi, 4)}


class OutOfOrder(Exception):
    """The file does not list the pods that arrived, in their order."""


def judge(nodes: List[Node], pods: List[Pod], placements: List[List[str]]) -> Judgement:
    """Raises OutOfOrder: after another pod than the one that arrived, nothing can be judged."""
    judgement = Judgement(nodes)
    for line, placement in enumerate(placements, 1):
        if line > len(pods):
            raise OutOfOrder(f"line {line}: there are only {len(pods)} arrivals")
        if len(placement) != 3:
            raise OutOfOrder(f"line {line}: {len(placement)} fields; write POD,NODE,GPU|GPU")
        if placement[0] != pods[line - 1].name:
            raise OutOfOrder(f"line {line}: {placement[0]}, but the pod that arrived is {pods[line - 1].name}")
        judgement.take(line, pods[line - 1], placement)
    if len(placements) < len(pods):
        raise OutOfOrder(f"{len(placements)} lines, but {len(pods)} arrivals")
    return judgement


def judge_files(nodes: str, arrivals: str, placements: str) -> Judgement:
    return judge(read_nodes(nodes), read_pods(arrivals), read_placements(placements))


def write_levels(judgement: Judgement, path: str) -> None:
    """Allocation over arrived load: the mean over the arrivals that round to each percent."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("load_percent,allocated_percent\n")
        for percent, levels in sorted(judgement.levels.items()):
            whole = len(levels) * judgement.capacity
            digits = (2 * 1000000 * sum(levels) + whole) // (2 * whole)
            file.write(f"{percent},{digits // 10000}.{digits % 10000:04}\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="judge_placements.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit status: 0 every line is right, 1 some are wrong, 2 the file is not about these arrivals")
    parser.add_argument("--nodes", metavar="FILE", help="CSV: sn,cpu_milli,memory_mib,gpu,model")
    parser.add_argument("--arrivals", metavar="FILE",
                        help="CSV: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec, one line for each arrival")
    parser.add_argument("--placements", metavar="FILE", help="POD,NODE,GPU|GPU for each arrival")
    parser.add_argument("--csv", metavar="OUT", help="write the allocation by percent of arrived load")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    for name in "nodes", "arrivals", "placements":
        if getattr(options, name) is None:
            parser.error(f"--{name} is missing")
    try:
        judgement = judge_files(options.nodes, options.arrivals, options.placements)
    except OutOfOrder as error:
        print(f"{options.placements}: {error}", file=sys.stderr)
        return 2
    if options.csv:
        write_levels(judgement, options.csv)
    for text in judgement.wrong[:WRONG_SHOWN]:
        print(text, file=sys.stderr)
    if len(judgement.wrong) > WRONG_SHOWN:
        print(f"and {len(judgement.wrong) - WRONG_SHOWN} more", file=sys.stderr)
    if options.json:
        print(json.dumps(judgement.summary()))
    else:
        for name, value in judgement.summary().items():
            print(f"{name:34} {value if value is not None else '-'}")
    return 1 if judgement.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
