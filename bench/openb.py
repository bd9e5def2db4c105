"""The openb trace as a benchmark: who arrives, on which nodes, and what a list of placements is worth.

Everything follows from the trace and a seed. GPU amounts are in milli, where 1,000 is one GPU.
"""

import collections
import csv
import math
import random
import statistics

NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_default.csv"
GPU = 1000

Node = collections.namedtuple("Node", "sn cpu_milli memory_mib gpu model")
Pod = collections.namedtuple("Pod", "name cpu_milli memory_mib num_gpu gpu_milli gpu_spec")


def demand(pods):
    return sum(pod.num_gpu * pod.gpu_milli for pod in pods)


def capacity(nodes):
    return sum(node.gpu for node in nodes) * GPU


def is_multi(pod):
    return pod.num_gpu > 1


def read(path, kind, texts):
    with path.open(newline="", encoding="utf-8") as file:
        return [kind(**{name: row[name] if name in texts else int(row[name]) for name in kind._fields})
                for row in csv.DictReader(file)]


def read_nodes(folder):
    return read(folder / NODES, Node, ("sn", "model"))


def read_pods(folder):
    """Sorted by name, as the published experiments do before they shuffle."""
    return sorted(read(folder / PODS, Pod, ("name", "gpu_spec")))


def write(path, kind, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(kind._fields)
        out.writerows(rows)


# Arrivals

def arrivals(pods, limit, seed):
    """The shuffled list, then pods drawn from it with replacement, until the next would pass the limit."""
    draw = random.Random(seed)
    waiting = list(pods)
    draw.shuffle(waiting)
    waiting.reverse()
    came, total = [], 0
    while True:
        pod = waiting.pop() if waiting else draw.choice(pods)
        total += demand([pod])
        if total > limit:
            return came
        came.append(pod)


# Which nodes there are

def sample(nodes, count, seed):
    """Some of the nodes, in the order of the list."""
    return [nodes[i] for i in sorted(random.Random(f"{count} nodes, {seed}").sample(range(len(nodes)), count))]


def repeated(nodes, count):
    """The list again and again, under other names, until there are that many."""
    return [nodes[i % len(nodes)]._replace(sn=f"{nodes[i % len(nodes)].sn}-{i // len(nodes)}") for i in range(count)]


# Other mixes of pods, made from the default list by drawing; the total GPU demand stays the same

def drawn(draw, pods, milli):
    """Pods of a list, with replacement, until they ask for that much."""
    chosen, total = [], 0
    while total < milli:
        pod = draw.choice(pods)
        chosen.append(pod)
        total += demand([pod])
    return chosen


def mixed(pods, share, special, draw):
    """Special pods get that share of the GPU demand, other GPU pods the rest; CPU-only pods stay."""
    total = demand(pods)
    other = [pod for pod in pods if pod.num_gpu > 0 and not special(pod)]
    return ([pod for pod in pods if pod.num_gpu == 0]
            + drawn(draw, [pod for pod in pods if special(pod)], total * share)
            + drawn(draw, other, total * (1 - share)))


def pinned(pods, nodes, share, draw):
    """
    That share of the pods with GPUs may use one model only: drawn by how many GPUs of it are on nodes that could take
    the pod if they were empty.
    """
    def pin(pod):
        gpus = collections.Counter()
        for node in nodes:
            if node.gpu >= pod.num_gpu and node.cpu_milli >= pod.cpu_milli and node.memory_mib >= pod.memory_mib:
                gpus[node.model] += node.gpu
        return pod._replace(gpu_spec=draw.choices(list(gpus), list(gpus.values()))[0])

    asking = [at for at, pod in enumerate(pods) if pod.num_gpu > 0]
    chosen = set(draw.sample(asking, round(share * len(asking))))
    return [pin(pod) if at in chosen else pod for at, pod in enumerate(pods)]


FAMILIES = {
    "default": lambda pods, nodes, draw: pods,
    "gpushare60": lambda pods, nodes, draw: mixed(pods, 0.6, lambda pod: 0 < pod.gpu_milli < GPU, draw),
    "multigpu30": lambda pods, nodes, draw: mixed(pods, 0.3, is_multi, draw),
    "gpuspec33": lambda pods, nodes, draw: pinned(pods, nodes, 0.33, draw),
    "cpu200": lambda pods, nodes, draw: pods + [pod for pod in pods if pod.num_gpu == 0],
}


def family(name, pods, nodes):
    """The pods of a mix, each with a name of its own if any was drawn."""
    made = FAMILIES[name](pods, nodes, random.Random(name))
    if name == "default":
        return pods
    return [pod._replace(name=f"{name}-{at:05}") for at, pod in enumerate(made)]


# Figures

def mean(values):
    return statistics.fmean(values)


def deviation(values):
    """Of a sample (n - 1); a single value deviates by nothing."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def error_of_mean(values):
    return deviation(values) / math.sqrt(len(values))
