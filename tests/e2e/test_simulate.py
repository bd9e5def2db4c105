"""milligpuctl simulate from outside: files in, placements and tables out; an independent judge checks every line."""

import json
import os
import random
import re
import subprocess
import unittest
import xml.etree.ElementTree

import harness
from gfd_labels import MIXED, gfd_labels
import judge_placements

CTL = harness.BIN / "milligpuctl"
POLICIES = re.findall(r"X\(POLICY_\w+, (\w+),", (harness.SOURCE / "include/milligpu/core/rules/policy_kind.h").read_text())
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
SEED = 20240607

# One pod of each kind: shares, a whole GPU, two GPUs, no GPU, a model that is not there.
SMALL_NODES = NODES + "a,8000,16384,2,T4\nb,16000,32768,4,G2\nc,4000,4096,0,\n"
SMALL_PODS = PODS + """share,1000,1024,1,300,
share,1000,1024,1,700,T4
whole,2000,1024,1,1000,G2
pair,2000,1024,2,1000,G2|T4
plain,3000,1024,0,0,
alien,0,0,1,100,H100
pair,2000,1024,2,1000,T4
share,1000,1024,1,800,
"""


class Folder(harness.Case):
    def setUp(self):
        self.maxDiff = None
        self.home = self.scratch()

    def file(self, name, content):
        path = self.home / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run_it(self, *words):
        return harness.run("simulate", *words, cwd=self.home, env={"LC_ALL": "C"})

    def simulate(self, nodes, pods, *words):
        done = self.run_it("--nodes", self.file("n.csv", nodes), "--arrivals", self.file("a.csv", pods), *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refuse(self, status, says, *words):
        done = self.run_it(*words)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr, f"milligpuctl: {says}\n")


class Output(Folder):
    def test_table__shows_every_figure(self):
        done = self.simulate(SMALL_NODES, SMALL_PODS, "--policy", "binpack,spread")
        times = re.sub(r" +\d+\.\d+ +\d+\.\d+$", " MEAN P99", done.stdout, flags=re.MULTILINE)
        self.assertEqual(re.sub(r" +MEAN-US +P99-US$", " MEAN P99", times, flags=re.MULTILINE), """\
3 nodes with 6 GPUs; 8 arrivals ask for 115.00 % of the GPU capacity
target workload: 8 shapes of the arrivals file

POLICY   ALLOCATED-%  IDLE-%  STRANDED-%  REFUSED  REFUSED-%  MULTI  MULTI-%  MULTI-FROM-% MEAN P99
binpack        80.00   20.00        3.33        2      30.43      1    50.00        101.67 MEAN P99
spread         80.00   20.00        3.33        2      30.43      1    50.00        101.67 MEAN P99

refused most often:
POLICY   SHAPE                                      ARRIVED  REFUSED
binpack  100 milli of H100, 0m CPU, 0 MiB                 1        1
binpack  2 x 1000 milli of T4, 2000m CPU, 1024 MiB        1        1
spread   100 milli of H100, 0m CPU, 0 MiB                 1        1
spread   2 x 1000 milli of T4, 2000m CPU, 1024 MiB        1        1
""")
        self.assertEqual(done.stderr, f"{self.home}/a.csv:7:17: no node has a GPU H100: the pods that ask for it are "
                                      "refused\n")

    def test_json__has_every_policy(self):
        done = self.simulate(SMALL_NODES, SMALL_PODS, "-o", "json")
        answer = json.loads(done.stdout)
        self.assertEqual([item["policy"] for item in answer["items"]], POLICIES)
        self.assertEqual(answer["targetWorkload"], {"source": "arrivals", "shapes": 8, "shapesLeftOut": 0})
        for item in answer["items"]:
            self.assertGreater(item["decisionMeanUs"], 0)
            self.assertGreater(item["decisionP99Us"], 0)

    def test_learn__names_the_source_of_the_target_workload(self):
        done = self.simulate(SMALL_NODES, SMALL_PODS, "--learn", "-o", "json")
        self.assertEqual(json.loads(done.stdout)["targetWorkload"]["source"], "learned")
        done = self.simulate(SMALL_NODES, SMALL_PODS, "--learn", "--policy", "fgd")
        self.assertIn("\ntarget workload: 8 shapes of the arrivals file; fgd and rollout know what has arrived so far\n",
                      done.stdout)

    def test_name_format__lists_the_policies(self):
        done = self.simulate(SMALL_NODES, SMALL_PODS, "-o", "name", "--policy", "fgd,binpack")
        self.assertEqual(done.stdout, "fgd\nbinpack\n")

    def test_progress__is_shown_for_long_runs_on_a_terminal(self):
        self.file("n.csv", SMALL_NODES)
        self.file("a.csv", SMALL_PODS.replace("alien,0,0,1,100,H100\n", ""))
        said = {}
        for events in 10, 100000000:
            main, side = harness.terminal(self)
            with subprocess.Popen([CTL, "simulate", "--nodes", "n.csv", "--arrivals", "a.csv", "--policy", "binpack",
                                   "--churn", "50", "--events", str(events)], cwd=self.home, stdout=subprocess.DEVNULL,
                                  stderr=side, env={"LC_ALL": "C"}) as process:
                os.close(side)
                said[events] = self.read_once(main)
                process.kill()
            os.close(main)
        self.assertEqual(said[10], "")
        # Two reports are read at once if a second passes before the first is read.
        self.assertRegex(said[100000000], r"^\rbinpack: [0-9]+ of 100000000 pods (\r|$)")

    @staticmethod
    def read_once(terminal):
        try:
            return os.read(terminal, 200).decode()
        except OSError:  # the other side is closed
            return ""


class Judged(Folder):
    """Random clusters and pods; the judge shares no code with the program."""

    MODELS = ["T4", "G2", "A10", "V100M16"]

    def cluster(self, draw):
        nodes = NODES
        for i in range(draw.randint(1, 25)):
            nodes += f"node-{i},{draw.randrange(0, 96001, 500)},{draw.randrange(0, 300000, 512)}," \
                     f"{draw.choice([0, 1, 2, 4, 8])},{draw.choice(self.MODELS)}\n"
        return nodes + "last,64000,262144,8,G2\n"

    def arrivals(self, draw):
        pods = PODS
        shapes = []
        for _ in range(draw.randint(3, 30)):
            gpus = draw.choice([0, 1, 1, 1, 1, 2, 4, 8])
            milli = draw.choice([1000, draw.randrange(20, 1001, 10)]) if gpus > 0 else 0
            spec = "|".join(draw.sample(self.MODELS, draw.choice([0, 0, 1, 2]))) if gpus > 0 else ""
            shapes.append(f"{draw.randrange(0, 16000, 250)},{draw.randrange(0, 40000, 256)},{gpus},{milli},{spec}")
        for i in range(draw.randint(50, 400)):
            pods += f"pod-{draw.randint(0, i)},{draw.choice(shapes)}\n"
        return pods

    def test_policies__all_pass_the_judge(self):
        draw = random.Random(SEED)
        for case in range(12):
            nodes, pods = self.cluster(draw), self.arrivals(draw)
            for policy in POLICIES:
                with self.subTest(seed=SEED, case=case, policy=policy):
                    self.judge(nodes, pods, policy, draw.randint(0, 2**32 - 1), ["--learn"] if case % 2 else [])

    def judge(self, nodes, pods, policy, seed, more):
        done = self.simulate(nodes, pods, "--policy", policy, "--seed", seed, "--placements", "p.csv", "--csv",
                             "c.csv", "-o", "json", *more)
        judgement = judge_placements.judge_files(self.home / "n.csv", self.home / "a.csv", self.home / "p.csv")
        self.assertEqual(judgement.wrong, [])
        self.assertEqual(judgement.count["refused_though_fitting"], 0)
        item, judged = json.loads(done.stdout)["items"][0], judgement.summary()
        for mine, other in (("arrived", "arrived"), ("refused", "refused"), ("multiArrived", "multi_arrived"),
                            ("multiRefused", "multi_refused")):
            self.assertEqual(item[mine], judged[other])
        self.assertAlmostEqual(item["allocatedPercent"], judged["allocated_percent"], delta=0.0002)
        self.assertAlmostEqual(item["demandRefusedPercent"], judged["refused_demand_percent"], delta=0.0002)
        self.assertAlmostEqual(item.get("firstMultiRefusalLoadPercent") or 0,
                               judged["first_multi_refusal_load_percent"] or 0, delta=0.0002)
        judge_placements.write_levels(judgement, self.home / "j.csv")
        mine = [line.split(",") for line in (self.home / "c.csv").read_text().splitlines()]
        other = [line.split(",") for line in (self.home / "j.csv").read_text().splitlines()]
        self.assertEqual([line[1:] for line in mine], other)
        self.assertEqual({line[0] for line in mine[1:]}, {policy})

    def test_placements__are_the_same_bytes_every_time(self):
        draw = random.Random(SEED + 1)
        nodes, pods = self.cluster(draw), self.arrivals(draw)
        for policy in POLICIES:
            written = set()
            for _ in range(2):
                self.simulate(nodes, pods, "--policy", policy, "--seed", 7, "--placements", "p.csv")
                written.add((self.home / "p.csv").read_bytes())
            self.assertEqual(len(written), 1, policy)

    def test_learn__is_independent_of_later_arrivals(self):
        draw = random.Random(SEED + 2)
        known, learned = 0, 0
        for policy in "fgd", "rollout":
            for _ in range(4):
                nodes, pods = self.cluster(draw), self.arrivals(draw).splitlines(keepends=True)
                ends = [pods, pods[:40] + [f"later,500,512,1,{milli},\n" for milli in range(10, 1000, 10)]]
                known += self.beginnings_differ(nodes, ends, 39, policy)
                learned += self.beginnings_differ(nodes, ends, 39, policy, "--learn")
        self.assertGreater(known, 0)
        self.assertEqual(learned, 0)

    def beginnings_differ(self, nodes, ends, count, policy, *more):
        begun = []
        for pods in ends:
            self.simulate(nodes, "".join(pods), "--policy", policy, "--placements", "p.csv", *more)
            begun.append((self.home / "p.csv").read_text().splitlines()[:count])
        return begun[0] != begun[1]

    def test_seed__orders_nodes(self):
        nodes = NODES + "".join(f"n{i},1000,1000,1,T4\n" for i in range(40))
        for policy in "firstfit", "fgd", "rollout":
            chosen = set()
            for seed in range(4):
                self.simulate(nodes, PODS + "p,0,0,1,500,\n", "--policy", policy, "--seed", seed, "--placements",
                              "p.csv")
                chosen.add((self.home / "p.csv").read_text())
            self.assertGreater(len(chosen), 1, policy)


SVG = "{http://www.w3.org/2000/svg}"


class Plot(Folder):
    """What is drawn is what --csv writes."""

    # Halves and thirds: binpack keeps more GPUs whole than spread.
    NODES = NODES + "".join(f"n{i},100000,100000,4,T4\n" for i in range(10))
    PODS = PODS + "".join(f"p{i},0,0,{1 + i % 5 // 4},{(300, 500, 700, 1000, 1000)[i % 5]},\n" for i in range(75))

    def plot(self, nodes, pods, *words):
        done = self.simulate(nodes, pods, "--plot", "p.svg", "--csv", "c.csv", *words, "-o", "json")
        return xml.etree.ElementTree.parse(self.home / "p.svg").getroot(), json.loads(done.stdout)["items"]

    @staticmethod
    def texts(svg):
        return ["".join(text.itertext()) for text in svg.iter(f"{SVG}text")]

    @staticmethod
    def points(line):
        return [tuple(map(float, point.split(","))) for point in line.get("points").split()]

    def test_plot__has_a_line_and_final_figure_for_each_policy(self):
        svg, items = self.plot(self.NODES, self.PODS)
        self.assertEqual(len(items), len(POLICIES))
        self.assertEqual(len(list(svg.iter(f"{SVG}polyline"))), len(POLICIES))
        for item in items:
            self.assertIn(f"{item['policy']} {item['allocatedPercent'] + 1e-9:.2f} %", self.texts(svg))
        looks = {(line.get("stroke-dasharray"), line.get("stroke")) for line in svg.iter(f"{SVG}polyline")}
        self.assertEqual(len(looks), len(POLICIES))

    def test_plot__points_are_those_of_the_curve(self):
        svg, _ = self.plot(self.NODES, self.PODS, "--policy", "spread")
        curve = [tuple(map(float, line.split(",")[1:])) for line in (self.home / "c.csv").read_text().split()[1:]]
        drawn = self.points(svg.find(f".//{SVG}polyline"))
        curve = curve[-len(drawn):]  # what comes before the first refusal is not drawn
        self.assertGreater(len(drawn), 10)
        (x0, y0), (x1, y1) = drawn[0], drawn[-1]
        (load0, part0), (load1, part1) = curve[0], curve[-1]
        for (x, y), (load, part) in zip(drawn, curve):
            self.assertAlmostEqual(x, x0 + (load - load0) * (x1 - x0) / (load1 - load0), delta=0.3)
            self.assertAlmostEqual(y, y0 + (part - part0) * (y1 - y0) / (part1 - part0), delta=0.3)

    def test_plot__stays_inside_and_labels_do_not_overlap(self):
        for nodes, pods in (self.NODES, self.PODS), (SMALL_NODES, SMALL_PODS), (SMALL_NODES, PODS + "a,1,1,0,0,\n"), \
                (SMALL_NODES, PODS + "a,0,0,1,1,\n" * 9), (NODES + "a,0,0,1,\n", PODS + "a,0,0,1,1000,\n" * 9999):
            svg, items = self.plot(nodes, pods)
            _, _, width, height = map(float, svg.get("viewBox").split())
            for line in svg.iter(f"{SVG}polyline"):
                for x, y in self.points(line):
                    self.assertTrue(0 < x < width and 0 < y < height, (x, y))
            names = [f"{item['policy']} " for item in items]
            labels = sorted(float(text.get("y")) for text in svg.iter(f"{SVG}text")
                            if "".join(text.itertext()).startswith(tuple(names)))
            self.assertEqual(len(labels), len(items))
            self.assertTrue(all(b - a >= 18 for a, b in zip(labels, labels[1:])), labels)

    def test_plot__is_the_same_bytes_without_scripts_or_links(self):
        written = set()
        for _ in range(2):
            svg, _ = self.plot(self.NODES, self.PODS)
            written.add((self.home / "p.svg").read_bytes())
        self.assertEqual(len(written), 1)
        self.assertEqual({element.tag for element in svg.iter()} & {f"{SVG}script", f"{SVG}image", f"{SVG}use"}, set())
        self.assertEqual([name for element in svg.iter() for name in element.attrib if "href" in name], [])


def node(name, cpu="8", memory="16Gi", annotations=None, labels=None, **more):
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **more.pop("allocatable", {})}
    return {"kind": "Node", "apiVersion": "v1", "spec": more, "status": {"allocatable": allocatable},
            "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}}}


def pod(name, on, resources, annotations=None, phase="Running", **meta):
    return {"kind": "Pod", "apiVersion": "v1", "status": {"phase": phase},
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}, **meta},
            "spec": {**({"nodeName": on} if on else {}),
                     "containers": [{"name": "c", "image": "x", "resources": {"limits": resources}}]}}


def dump(*items):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def labels(gpus, model="T4"):
    return gfd_labels(gpus, model, 0)


class Cluster(Folder):
    """A dump of a cluster instead of --nodes: what is held there is held from the beginning."""

    def cluster(self, items, pods, *words):
        done = self.run_it("--cluster", self.file("c.json", dump(*items)), "--arrivals", self.file("a.csv", PODS + pods),
                           *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def placed(self, items, pods, says=""):
        done = self.cluster(items, pods, "--policy", "binpack", "--placements", "p.csv", "-o", "json")
        self.assertEqual(done.stderr, says)
        return (self.home / "p.csv").read_text().split(), json.loads(done.stdout)

    def test_cluster_gpus__come_from_annotation_label_or_allocatable(self):
        gpus = [{"uuid": f"GPU-{i}", "index": i, "milli": 1000, "mib": 80000, "model": model}
                for i, model in ((0, "L4"), (2, "A10"))]
        placed, said = self.placed([node("a", annotations={"milligpu.io/gpus": json.dumps(gpus)}),
                                    node("b", labels=labels(1)), node("c", allocatable={"nvidia.com/vgpu": "3k"}),
                                    node("d")],
                                   "p,0,0,1,900,A10\nq,0,0,1,900,T4\nr,0,0,3,900,\ns,0,0,1,900,A10\n")
        self.assertEqual(placed, ["p,a,2", "q,b,0", "r,c,0|1|2", "s,,"])
        self.assertEqual((said["nodes"], said["gpus"], said["heldPods"], said["heldPercent"]), (4, 6, 0, 0))

    def test_bound_pods__hold_shares_cpu_and_memory(self):
        vgpu = {"nvidia.com/vgpu": 700, "cpu": "2", "memory": "1Gi"}
        items = [node("a", cpu="4", memory="2Gi", labels=labels(2)), node("b", cpu="3500m", memory="1Gi"),
                 pod("share", "a", vgpu), pod("plain", "b", {"cpu": "500m"}),
                 pod("ended", "a", vgpu, phase="Succeeded")]
        placed, said = self.placed(items, "p,2001,0,0,0,\nq,0,0,1,400,\nr,2000,1024,1,300,\ns,1,0,1,1,\nt,0,0,1,600,\n"
                                   "u,1000,1025,0,0,\n")
        self.assertEqual(placed, ["p,b,", "q,a,1", "r,a,0", "s,,", "t,a,1", "u,,"])
        self.assertEqual((said["heldPods"], said["heldPercent"], said["items"][0]["allocatedPercent"]), (1, 35, 100))

    def test_cluster_node__without_cpu_and_memory_has_no_limit(self):
        bare = node("a", labels=labels(1))
        bare["status"] = {}
        self.assertEqual(self.placed([bare], "p,1000000000,1000000000,1,1,\n")[0], ["p,a,0"])

    def test_closed_gpus__get_nothing_and_their_idle_part_is_stranded(self):
        gpus = [{"uuid": f"GPU-{i}", "index": i, "milli": 1000, "mib": 1000, "model": "L4",
                 **({"health": "bad"} if i == 1 else {})} for i in range(4)]
        items = [node("a", annotations={"milligpu.io/gpus": json.dumps(gpus), "milligpu.io/cordon": "GPU-3"}),
                 node("whole", labels=labels(2)), pod("other", "whole", {"nvidia.com/gpu": 1})]
        placed, said = self.placed(items, "p,0,0,2,700,\n" + "q,0,0,1,200,\n" * 4)
        self.assertEqual(placed, ["p,a,0|2", "q,a,0", "q,a,2", "q,,", "q,,"])
        item = said["items"][0]
        self.assertEqual(said["heldPercent"], 16.6667)
        self.assertEqual((item["allocatedPercent"], item["idlePercent"], item["strandedPercent"]),
                         (46.6667, 53.3333, 53.3333))

    def test_node__has_gpus_of_two_models(self):
        gpus = [{"uuid": f"GPU-{i}", "index": i, "milli": 1000, "mib": 1000, "model": model}
                for i, model in enumerate(("L4", "A10", "L4"))]
        _, said = self.placed([node("a", annotations={"milligpu.io/gpus": json.dumps(gpus)})],
                              "p,0,0,1,600,L4\np,0,0,1,600,L4\np,0,0,1,600,L4\n")
        self.assertEqual(said["items"][0]["strandedPercent"], 60)  # the A10 is of no use to them, either

    def test_cluster__reports_unconsidered_fields_once(self):
        taint = [{"key": "k", "effect": "NoSchedule"}]
        items = [node("a", labels=labels(1), taints=taint), node("b", labels=labels(1), unschedulable=True),
                 node("broken", annotations={"milligpu.io/gpus": "[{}]"}),
                 pod("waits", None, {}), pod("waits-too", None, {}), pod("astray", "gone", {"nvidia.com/vgpu": 5})]
        placed, said = self.placed(items, "p,0,0,1,1000,\nq,0,0,1,1000,\n", """\
not considered: taints and spec.unschedulable of nodes (Node a and 1 more)
GPUs that cannot be used: Node broken (annotation milligpu.io/gpus[0]: has no "uuid")
left out: Pod default/waits and 1 more (bound to no node)
left out: Pod default/astray (bound to a node that is not in the file)
""")
        self.assertEqual(placed, ["p,a,0", "q,b,0"])
        self.assertEqual(said["heldPods"], 0)

    def test_header__shows_held_pods(self):
        done = self.cluster([node("a", labels=labels(2)), pod("p", "a", {"nvidia.com/vgpu": 500})], "p,0,0,1,1,\n")
        self.assertEqual(done.stdout.split("\n")[0],
                         "1 nodes with 2 GPUs, of which 1 pod holds 25.00 %; 1 arrivals ask for 0.05 % of the GPU "
                         "capacity")

    def test_bound_pods__never_end(self):
        items = [node("a", labels=labels(2)), pod("p", "a", {"nvidia.com/vgpu": 1500}, {"milligpu.io/gpu-count": "2"})]
        done = self.cluster(items, "p,0,0,1,100,\n", "--churn", 50, "--events", 200, "-o", "json")
        for item in json.loads(done.stdout)["items"]:
            self.assertEqual((item["refused"], item["allocatedPercent"]), (0, 75))

    def test_held_pod__is_distinct_from_an_arrival(self):
        items = [node("a", labels=labels(1))]
        items += [pod(f"p{i}", "a", {"nvidia.com/vgpu": 100}, uid=uid)
                  for i, uid in enumerate(("pod-0", "held-1", "held-0", "pod-1"))]
        placed, said = self.placed(items, "p,0,0,1,300,\nq,0,0,1,300,\nr,0,0,1,1,\n")
        self.assertEqual((placed, said["heldPercent"]), (["p,a,0", "q,a,0", "r,,"], 40))

    def test_cluster__is_read_from_yaml(self):
        self.file("c.yaml", "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {nvidia.com/vgpu: 2k}}\n---\n"
                            "kind: Pod\nmetadata: {name: p}\nspec: {nodeName: a, containers: [{name: c, resources: "
                            "{limits: {nvidia.com/vgpu: 500}}}]}\n")
        done = self.run_it("--cluster", "c.yaml", "--arrivals", self.file("a.csv", PODS + "p,0,0,1,1,\n"), "-o", "json")
        self.assertEqual(json.loads(done.stdout)["heldPercent"], 25)

    def held(self, draw, on, left, i):
        """A pod that holds something that is left there, as its dump, its arrival and its placement."""
        free = [gpu for gpu, milli in enumerate(left["free"]) if milli >= 100]
        count = draw.randint(0, min(2, len(free)))
        chosen = sorted(draw.sample(free, count))
        milli = min((left["free"][gpu] for gpu in chosen), default=0) // draw.choice([1, 2])
        cpu, memory = draw.randint(0, left["cpu"] // 4), draw.randint(0, left["memory"] // 4)
        left["cpu"], left["memory"] = left["cpu"] - cpu, left["memory"] - memory
        for gpu in chosen:
            left["free"][gpu] -= milli
        notes = {"milligpu.io/gpu-count": str(count), "milligpu.io/allocation": json.dumps({"v": 1, "containers": {"c": [
            {"gpu": f"{on}/gpu-{gpu}", "index": gpu, "milli": milli, "mib": 0} for gpu in chosen]}})} if count else {}
        resources = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", **({"nvidia.com/vgpu": count * milli} if count else {})}
        return (pod(f"held-{i}", on, resources, notes), f"held-{i},{cpu},{memory},{count},{milli},\n",
                f"held-{i},{on},{'|'.join(map(str, chosen))}\n")

    def test_policies__all_pass_the_judge_on_a_held_cluster(self):
        draw = random.Random(SEED)
        for case in range(8):
            nodes, before = Judged.cluster(Judged(), draw), []
            items = []
            for row in nodes.split()[1:]:
                name, cpu, memory, gpus, model = row.split(",")
                items.append(node(name, f"{cpu}m", f"{memory}Mi", labels=labels(gpus, model)))
                left = {"cpu": int(cpu), "memory": int(memory), "free": [1000] * int(gpus)}
                before += [self.held(draw, name, left, f"{name}-{i}") for i in range(draw.randint(0, 5))]
            pods = Judged.arrivals(Judged(), draw)
            all_pods = PODS + "".join(held[1] for held in before) + pods[len(PODS):]
            for policy in POLICIES:
                with self.subTest(seed=SEED, case=case, policy=policy):
                    done = self.cluster([*items, *(held[0] for held in before)], pods[len(PODS):], "--policy", policy,
                                        "--placements", "p.csv", "-o", "json")
                    placements = "".join(held[2] for held in before) + (self.home / "p.csv").read_text()
                    judgement = judge_placements.judge_files(self.file("n.csv", nodes), self.file("all.csv", all_pods),
                                                             self.file("placed.csv", placements))
                    self.assertEqual(judgement.wrong, [])
                    item, judged = json.loads(done.stdout)["items"][0], judgement.summary()
                    self.assertEqual((item["refused"], judged["refused_though_fitting"]), (judged["refused"], 0))
                    self.assertAlmostEqual(item["allocatedPercent"], judged["allocated_percent"], delta=0.0002)


def deployment(name, replicas, resources, annotations=None, **spec):
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"a": name}}, "template": {
            "metadata": {"labels": {"a": name}, "annotations": annotations or {}},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": {"limits": resources}}], **spec}}}}


class Rounds(Folder):
    """How many more pods of a manifest fit, and what stops the next one."""

    def rounds(self, nodes, objects, *words):
        done = self.run_it("--cluster", self.file("c.json", dump(*nodes)), "--pods", self.file("p.json", dump(*objects)),
                           *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def items(self, nodes, objects, *words):
        return json.loads(self.rounds(nodes, objects, *words, "-o", "json").stdout)["items"]

    def test_rounds__print_their_tables(self):
        web = deployment("web", 2, {"nvidia.com/vgpu": 300, "cpu": "1"})
        large = pod("large", None, {"nvidia.com/vgpu": 900, "cpu": "5"})
        done = self.rounds([node("a", labels=labels(2)), node("b", cpu="1"),
                            pod("there", "a", {"nvidia.com/vgpu": 100})], [web, large], "--policy", "binpack,spread")
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout, """\
2 nodes with 2 GPUs, of which 1 pod holds 5.00 %; the pods of the manifest (3) arrive again and again, at most 1000 times
target workload: the pods of the manifest

POLICY   BEFORE  IN-ALL  ALLOCATED-%
binpack       4       4        95.00
spread        2       6        95.00

refused first:
binpack   Deployment default/web: 1 Insufficient cpu; 1 node: no GPUs
spread    Pod default/large: 1 Insufficient cpu; 1 node: no GPU with 900 milli free
""")

    def test_reasons__are_counted_node_by_node(self):
        nodes = [node("a", cpu="2", labels=labels(1)), node("b", cpu="1", memory="1Gi", labels=labels(1)),
                 node("c", memory="1Gi", labels=labels(1)), node("d", labels=labels(1, "L4")), node("e")]
        item = self.items(nodes, [pod("p", None, {"nvidia.com/vgpu": 600, "cpu": "1500m", "memory": "2Gi"},
                                      {"milligpu.io/gpu-model": "T4"})], "--policy", "binpack")[0]
        self.assertEqual((item["fittedBeforeRefusal"], item["fitted"]), (1, 1))
        refused = item["firstRefused"]
        self.assertEqual(refused["pod"], "Pod default/p")
        self.assertEqual({reason["text"]: reason["nodes"] for reason in refused["reasons"]}, {
            "Insufficient cpu": 1, "Insufficient memory": 1, "Insufficient cpu, Insufficient memory": 1,
            "no GPU of model T4": 1, "no GPUs": 1})
        self.assertNotIn("never", refused)

    def test_impossible_pods__get_a_reason(self):
        for resources, notes, says in (
                ({"nvidia.com/vgpu": 4000}, {}, "1 node: fewer than 4 suitable GPUs for 1000 milli each; no node of this "
                 "cluster, as it is, can ever serve it: "),
                ({"nvidia.com/vgpu": 100}, {"milligpu.io/gpu-model": "T5"}, "1 node: no GPU of model T5; the nearest is T4")):
            refused = self.items([node("a", labels=labels(2))], [pod("p", None, resources, notes)])[0]["firstRefused"]
            self.assertIn(says, refused["text"])
            self.assertTrue(refused["never"])

    def test_rounds__without_refusals_say_so(self):
        objects = [deployment("web", 2, {"nvidia.com/vgpu": 100})]
        for item in self.items([node("a", labels=labels(1))], objects, "--count", 5):
            self.assertEqual((item["fittedBeforeRefusal"], item["fitted"]), (10, 10))
            self.assertNotIn("firstRefused", item)
        done = self.rounds([node("a", labels=labels(1))], objects, "--count", 5, "--policy", "rollout")
        self.assertIn("\nrollout   nothing: all of them fit\n", done.stdout)

    def test_pods__of_several_containers_are_placed(self):
        pipeline = pod("pipeline", None, {"nvidia.com/vgpu": 400})
        pipeline["spec"]["containers"] *= 2
        pipeline["spec"]["containers"][1] = {**pipeline["spec"]["containers"][0], "name": "d"}
        pipeline["spec"]["initContainers"] = [{**pipeline["spec"]["containers"][0], "name": "i", "resources": {
            "limits": {"nvidia.com/vgpu": 700}}}]
        small = pod("small", None, {"nvidia.com/vgpu": 200}, {"milligpu.io/gpu-memory": "1Mi"})
        gpus = [{"uuid": f"GPU-{i}", "index": i, "milli": 1000, "mib": 16000, "model": "L4"} for i in range(3)]
        for item in self.items([node("a", annotations={"milligpu.io/gpus": json.dumps(gpus)})], [pipeline, small]):
            self.assertGreaterEqual(item["fitted"], 3, item)
            self.assertLessEqual(item["allocatedPercent"], 100, item)

    def test_pods__report_unconsidered_fields_once(self):
        objects = [deployment("a", 1, {"nvidia.com/vgpu": 1}, nodeSelector={"k": "v"}),
                   deployment("b", 1, {"nvidia.com/vgpu": 1}, nodeSelector={"k": "v"}, priorityClassName="high"),
                   pod("bound", "n", {"nvidia.com/vgpu": 1}), {"kind": "Service", "metadata": {"name": "s"}}]
        done = self.rounds([node("n", labels=labels(1))], objects, "--count", 1)
        self.assertEqual(done.stderr, """\
left out: Service s (it makes no pods that are known here)
left out: Pod bound (spec.nodeName is set: its kubelet takes it without any scheduler)
not considered: nodeSelector and required node affinity (Deployment default/a and 1 more)
not considered: priority: nothing is preempted (Deployment default/b)
""")

    def test_rounds__fit_as_many_as_a_list_of_the_same_pods(self):
        draw = random.Random(SEED)
        for case in range(6):
            nodes = Judged.cluster(Judged(), draw)
            items = []
            for row in nodes.split()[1:]:
                name, cpu, memory, gpus, model = row.split(",")
                items.append(node(name, f"{cpu}m", f"{memory}Mi", labels=labels(gpus, model)))
            objects, lines = [], ""
            for i in range(draw.randint(1, 4)):
                count, milli = draw.choice([(1, 1000), (1, 350), (2, 500), (4, 1000), (1, 130)])
                cpu, memory, replicas = draw.randrange(0, 8000, 250), draw.randrange(0, 20000), draw.randint(1, 3)
                objects.append(deployment(f"d{i}", replicas, {"nvidia.com/vgpu": count * milli, "cpu": f"{cpu}m",
                                                              "memory": f"{memory}Mi"},
                                          {"milligpu.io/gpu-count": str(count)}))
                lines += f"d{i},{cpu},{memory},{count},{milli},\n" * replicas
            for policy in POLICIES:
                with self.subTest(seed=SEED, case=case, policy=policy):
                    item = self.items(items, objects, "--policy", policy, "--count", 60)[0]
                    self.simulate(nodes, PODS + lines * 60, "--policy", policy, "--placements", "p.csv")
                    placed = [line.split(",")[1] != "" for line in (self.home / "p.csv").read_text().split()]
                    self.assertEqual(item["fitted"], sum(placed))
                    self.assertEqual(item["fittedBeforeRefusal"], (placed + [False]).index(False))


class Documents(Folder):
    """Policy documents beside the names of policies."""

    HEAD = "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\n"
    NODES = NODES + "a,8000,16384,2,T4\nb,8000,16384,2,T4\n"

    def placed(self, rules, pods, *words):
        self.file("own.yaml", self.HEAD + rules)
        self.simulate(self.NODES, PODS + pods, "--policy", "own.yaml", "--placements", "p.csv", *words)
        return (self.home / "p.csv").read_text().split()

    def test_rules__decide_which_pods_fit(self):
        pods = "p,0,0,1,300,\nq,0,0,1,1000,\nr,0,0,1,500,\n"
        self.assertEqual(self.placed("", pods), ["p,a,0", "q,a,1", "r,a,0"])
        self.assertEqual(self.placed("rules: [{whole: true}]\n", pods), ["p,,", "q,a,0", "r,,"])
        self.assertEqual(self.placed("rules: [{sizes: [500, 1000]}]\n", pods), ["p,,", "q,a,0", "r,a,1"])
        self.assertEqual(self.placed("rules: [{reserve: 1}]\n", pods), ["p,a,0", "q,a,1", "r,a,0"])
        self.assertEqual(self.placed("rules: [{reserve: 2}]\n", pods), ["p,,", "q,,", "r,,"])
        self.assertEqual(self.placed("rules: [{policy: spread}]\n", pods), ["p,a,0", "q,b,0", "r,a,1"])

    def test_rules__for_labels_or_other_namespaces_do_not_apply(self):
        pods = "p,0,0,1,300,\n"
        self.assertEqual(self.placed("rules: [{nodes: {pool: x}, whole: true}]\n", pods), ["p,a,0"])
        self.assertEqual(self.placed("rules: [{namespaces: [ml], whole: true}]\n", pods), ["p,a,0"])
        self.assertEqual(self.placed("rules: [{namespaces: [sim*], whole: true}]\n", pods), ["p,,"])

    def test_windows__hold_as_of_a_time(self):
        rules = "rules:\n  - {name: day, when: 'Mon 08:00-20:00', whole: true}\n  - {min: 400}\n"
        pods = "p,0,0,1,300,\nq,0,0,1,500,\n"
        self.assertEqual(self.placed(rules, pods, "--at", "2026-01-05T12:00:00Z"), ["p,,", "q,,"])
        self.assertEqual(self.placed(rules, pods, "--at", "2026-01-05T20:00:00Z"), ["p,,", "q,a,0"])
        done = self.simulate(self.NODES, PODS + pods, "--policy", "own.yaml", "--at", "2026-01-05T20:00:00Z")
        self.assertIn("\nrules of own.yaml as of 2026-01-05T20:00:00.000Z: 1 (day) does not hold, 2 (rule 2)\n\n",
                      done.stdout)
        done = self.simulate(self.NODES, PODS + pods, "--policy", "own.yaml", "--at", "2026-01-05T12:00:00Z", "-o", "json")
        self.assertEqual(json.loads(done.stdout)["items"][0]["rulesHolding"], [1, 2])

    def test_rules__read_labels_and_namespaces_of_a_cluster(self):
        self.file("own.yaml", self.HEAD + "rules:\n"
                  "  - {nodes: {pool: shared}, namespaces: [team-*], whole: false}\n"
                  "  - {nodes: {pool: shared}, whole: true}\n")
        items = [node("a", labels={**labels(1), "pool": "shared"}), node("b", labels=labels(1))]
        for namespace, fit in (("team-a", 2), ("other", 1)):
            web = pod("web", None, {"nvidia.com/vgpu": 600})
            web["metadata"]["namespace"] = namespace
            done = self.run_it("--cluster", self.file("c.json", dump(*items)), "--pods",
                               self.file("m.json", json.dumps(web)), "--policy", "own.yaml", "-o", "json")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            item = json.loads(done.stdout)["items"][0]
            self.assertEqual(item["fitted"], fit, namespace)
            self.assertEqual("policy rule 2 (rule 2): only whole GPUs here" in item["firstRefused"]["text"],
                             namespace == "other", item)

    def test_expected_workload__counts_with_learn(self):
        nodes = NODES + "".join(f"n{i},64000,262144,4,T4\n" for i in range(8))
        pods = PODS + "".join(f"p{i},1000,1024,1,{300 + i % 5 * 100},\n" for i in range(30))
        expects = "workload: [{gpus: 4, weight: 400}]\n"
        for name, more in ("bare.yaml", ""), ("expects.yaml", expects):
            self.file(name, self.HEAD.replace("binpack", "rollout") + more)
        written = {}
        for name in "bare.yaml", "expects.yaml", "rollout":
            for learn in (), ("--learn",):
                self.simulate(nodes, pods, "--policy", name, "--placements", "p.csv", *learn)
                written[name, bool(learn)] = (self.home / "p.csv").read_text()
        self.assertEqual(written["bare.yaml", False], written["rollout", False])
        self.assertEqual(written["bare.yaml", True], written["rollout", True])
        self.assertEqual(written["expects.yaml", False], written["rollout", False])
        self.assertNotEqual(written["expects.yaml", True], written["rollout", True])

    def test_document_seed__counts_unless_another_is_given(self):
        nodes = NODES + "".join(f"n{i},8000,16384,1,T4\n" for i in range(20))
        self.file("own.yaml", self.HEAD.replace("binpack", "firstfit") + "seed: 7\n")
        written = []
        for words in ("own.yaml",), ("firstfit", "--seed", 7), ("own.yaml", "--seed", 8), ("firstfit", "--seed", 8):
            self.simulate(nodes, PODS + "p,0,0,1,700,\n" * 9, "--policy", *words, "--placements", "p.csv")
            written.append((self.home / "p.csv").read_text())
        self.assertEqual(written[0], written[1])
        self.assertEqual(written[2], written[3])
        self.assertNotEqual(written[0], written[2])

    def test_documents__are_compared_side_by_side(self):
        self.file("own.yaml", self.HEAD + "rules: [{min: 5}, {min: 6}]\n")
        done = self.simulate(SMALL_NODES, SMALL_PODS, "--policy", "mixed,binpack,own.yaml,training", "-o", "json",
                             "--plot", "p.svg", "--csv", "c.csv")
        items = json.loads(done.stdout)["items"]
        self.assertEqual([item["policy"] for item in items], ["mixed", "binpack", "own.yaml", "training"])
        self.assertEqual(["digest" in item for item in items], [True, False, True, True])
        self.assertIn("own.yaml:4:19: rules[1]: never applies", done.stderr)
        self.assertIn("own.yaml,", (self.home / "c.csv").read_text())
        svg = xml.etree.ElementTree.parse(self.home / "p.svg")
        lines = [(line.get("stroke"), line.get("stroke-dasharray")) for line in svg.iter(f"{SVG}polyline")]
        self.assertEqual(len(set(lines)), 4)

    def test_invalid_documents__are_refused(self):
        given = ("--nodes", self.file("n.csv", SMALL_NODES), "--arrivals", self.file("a.csv", SMALL_PODS))
        self.file("bad.yaml", self.HEAD + "rules: [{min: 0}]\n")
        self.refuse(1, "bad.yaml:4:15: rules[0].min: 0 is below 1; write 1 to 1000", *given, "--policy", "fgd,bad.yaml")
        self.refuse(1, "./none: No such file or directory", *given, "--policy", "./none")
        self.refuse(2, "--policy names mixed twice", *given, "--policy", "mixed,fgd,mixed")
        self.refuse(2, "--at is noon: it is 2026-01-02T14:05:00Z, or an age: 90s, 30m, 5h, 2d", *given, "--at", "noon")


class Judge(Folder):
    """The judge itself finds what it is there to find."""

    NODES = NODES + "a,4000,1000,2,T4\nb,8000,100,1,G2\n"
    PODS = PODS + "p,1000,10,1,500,\nq,1000,10,2,600,g2|t4\nr,1000,200,1,400,\ns,5000,10,0,0,\n"

    def judged(self, placements):
        return judge_placements.judge_files(self.file("n.csv", self.NODES), self.file("a.csv", self.PODS),
                                            self.file("p.csv", placements))

    def test_judge__passes_right_lines(self):
        judgement = self.judged("p,b,0\nq,a,0|1\nr,a,1\ns,b,\n")
        self.assertEqual(judgement.wrong, [])
        self.assertEqual(judgement.summary()["allocated_milli"], 2100)

    def test_judge__flags_wrong_lines(self):
        for placements, says in (
                ("p,x,0\nq,,\nr,a,0\ns,b,\n", "line 1: p: x: there is no such node"),
                ("p,a,2\nq,,\nr,a,0\ns,b,\n", "line 1: p: a: 2: it has 2 GPUs"),
                ("p,a,-1\nq,,\nr,a,0\ns,b,\n", "line 1: p: a: '-1' is no list of GPU indexes"),
                ("p,a,0|1\nq,,\nr,a,0\ns,b,\n", "line 1: p: a: 2 GPUs, and the pod asks for 1"),
                ("p,b,0\nq,a,0|0\nr,a,0\ns,b,\n", "line 2: q: a: 0|0 names a GPU twice"),
                ("p,a,0\nq,a,0|1\nr,a,1\ns,b,\n",
                 "line 2: q: a: 500 milli are left on GPU 0, and the pod asks for 600"),
                ("p,b,0\nq,a,0|1\nr,b,0\ns,b,\n",
                 "line 3: r: b: the pod asks for 200 MiB of memory, and 90 are left"),
                ("p,b,0\nq,a,0|1\nr,a,1\ns,a,\n",
                 "line 4: s: a: the pod asks for 5000 milli of CPU, and 2000 are left"),
                ("p,b,0\nq,a,0|1\nr,a,1\ns,b,0\n", "line 4: s: b: 1 GPUs, and the pod asks for 0"),
                ("p,b,0\nq,a,0|1\nr,,0\ns,b,\n", "line 3: r: GPUs without a node"),
                ("p,b,0\nq,,\nr,a,0\ns,b,\n", "line 2: q: refused, though it fitted somewhere")):
            self.assertIn(says, self.judged(placements).wrong, placements)

    def test_judge__flags_a_model_that_the_pod_excludes(self):
        self.PODS = PODS + "p,0,0,1,100,G2\n"
        self.assertEqual(self.judged("p,a,0\n").wrong, ["line 1: p: a: the pod takes g2, and the GPUs are t4"])

    def test_judge__flags_another_list_of_pods(self):
        for placements in ("q,a,0\n", "p,b,0\n", "p,b,0\nq,a,0|1\nr,a,1\ns,b,\nt,,\n", "p,b\n", ""):
            with self.assertRaises(judge_placements.OutOfOrder):
                self.judged(placements)


class Wrong(Folder):
    def setUp(self):
        super().setUp()
        self.nodes = self.file("nodes", SMALL_NODES)
        self.pods = self.file("pods", SMALL_PODS)

    def test_wrong_options__are_refused(self):
        given = "--nodes", self.nodes, "--arrivals", self.pods
        wants = "simulate wants --nodes FILE or --cluster FILE, and --arrivals FILE or --pods FILE; or --ledger FILE"
        fits = "--nodes", self.nodes, "--pods", self.pods
        for says, *words in (
                (wants,), (wants, "--nodes", self.nodes), (wants, "--cluster", self.nodes),
                (wants, "--arrivals", self.pods),
                (wants, "--pods", self.pods),
                ("--arrivals and --pods exclude each other: either says which pods arrive", *given, "--pods", "p"),
                ("--count is for --pods: it says how often the pods of the manifest arrive", *given, "--count", 5),
                ("--count is 0: write a whole number from 1 to 10000000", *fits, "--count", 0),
                ("--count is 10000001: write a whole number from 1 to 10000000", *fits, "--count", 10000001),
                *((f"{option} is for --arrivals: --pods only asks how many more of them fit", *fits, option, 5)
                  for option in ("--churn", "--events", "--placements", "--csv", "--plot")),
                ("--learn is for --arrivals: --pods only asks how many more of them fit", *fits, "--learn"),
                ("--nodes and --cluster exclude each other: either says which nodes there are", *given, "--cluster",
                 "c"),
                *((f'--policy: there is no policy "{word}"; there are inference, mixed, training, {", ".join(POLICIES)}, and '
                   "files, whose names contain '/' or end in .yaml", *given, "--policy", f"fgd,{word}")
                  for word in ("best", "")),
                ("--policy names fgd twice", *given, "--policy", "fgd,binpack,fgd"),
                ("--placements wants one --policy: the file is about one run", *given, "--placements", "p"),
                ("--churn is 0: write a whole number from 1 to 100", *given, "--churn", "0"),
                ("--churn is 101: write a whole number from 1 to 100", *given, "--churn", "101"),
                ("--churn is 9x: write a whole number from 1 to 100", *given, "--churn", "9x"),
                ("--events is 0: write a whole number from 1 to 100000000", *given, "--churn", "9", "--events", "0"),
                ("--seed is -1: write a whole number from 0 to 4294967295", *given, "--seed=-1"),
                ("--seed is 4294967296: write a whole number from 0 to 4294967295", *given, "--seed", 2**32),
                ("--seed is 18446744073709551616: write a whole number from 0 to 4294967295", *given, "--seed",
                 2**64),
                ("--events is for --churn: without it, each pod of the arrivals comes once", *given, "--events", "9"),
                *(("--churn writes no --placements, --csv or --plot: these are about the arrivals in their order",
                   *given, "--churn", "9", option, "c") for option in ("--placements", "--csv", "--plot")),
                ("simulate takes no arguments, but got x", *given, "x")):
            self.refuse(2, says, *words)

    def test_invalid_nodes__are_refused_by_place(self):
        columns = "write sn,cpu_milli,memory_mib,gpu,model, in any order"
        for place, says, content in (
                ("1:1", f"the file is empty: it begins with a header; {columns}", ""),
                ("1:1", f"the header has no column model; {columns}", "sn,cpu_milli,memory_mib,gpu\n"),
                ("2:1", "sn is empty: write a name", NODES + ",1,1,1,T4\n"),
                ("2:1", "sn has a character that no name has: write letters, digits, '-', '.' or '/'",
                 NODES + "a b,1,1,1,T4\n"),
                ("2:1", "sn contains '/': no node's name does", NODES + "a/b,1,1,1,T4\n"),
                ("2:1", "sn is longer than 253 bytes", NODES + "a" * 254 + ",1,1,1,T4\n"),
                ("3:1", "a second node a: names are distinct", NODES + "a,1,1,1,T4\na,2,2,2,T4\n"),
                ("2:3", 'cpu_milli is "-1": write a whole number from 0 to 1000000000', NODES + "a,-1,1,1,T4\n"),
                ("2:5", 'memory_mib is "1.5": write a whole number from 0 to 1000000000', NODES + "a,1,1.5,1,T4\n"),
                ("2:5", 'memory_mib is "99999999999999999999": write a whole number from 0 to 1000000000',
                 NODES + "a,1,99999999999999999999,1,T4\n"),
                ("2:7", 'gpu is "65": write a whole number from 0 to 64', NODES + "a,1,1,65,T4\n"),
                ("2:7", 'gpu is "": write a whole number from 0 to 64', NODES + "a,1,1,,T4\n"),
                ("2:9", "model is longer than 128 bytes", NODES + "a,1,1,1," + "T" * 129 + "\n"),
                ("2:9", "model has a character that no model has", NODES + "a,1,1,1,T4|G2\n"),
                ("2:7", "4 fields, but the header has 5", NODES + "a,1,1,1\n"),
                ("3:1", "the file ends, and no node has a GPU: column gpu says how many each has",
                 NODES + "a,1,1,0,\n")):
            path = self.file("wrong", content)
            self.refuse(1, f"{path}:{place}: {says}", "--nodes", path, "--arrivals", self.pods)

    def test_invalid_arrivals__are_refused_by_place(self):
        columns = "write name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec, in any order"
        for place, says, content in (
                ("1:1", f"the header has no column gpu_spec; {columns}",
                 "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"),
                ("2:1", "the file ends, and no pod arrives: write one line for each", PODS),
                ("2:1", "name is empty: write a name", PODS + ",1,1,1,1,\n"),
                ("2:3", 'cpu_milli is "x": write a whole number from 0 to 1000000000', PODS + "a,x,1,1,1,\n"),
                ("2:7", 'num_gpu is "65": write a whole number from 0 to 64', PODS + "a,1,1,65,1,\n"),
                ("2:9", 'gpu_milli is "0": write a whole number from 1 to 1000', PODS + "a,1,1,1,0,\n"),
                ("2:9", 'gpu_milli is "1001": write a whole number from 1 to 1000', PODS + "a,1,1,1,1001,\n"),
                ("2:9", 'gpu_milli of a pod without GPUs is "5": write a whole number from 0 to 0',
                 PODS + "a,1,1,0,5,\n"),
                ("2:11", "gpu_spec of a pod without GPUs: write nothing, or a num_gpu", PODS + "a,1,1,0,0,T4\n"),
                ("2:11", "gpu_spec has an empty entry: write models with | between them, or nothing",
                 PODS + "a,1,1,1,1,T4|\n"),
                ("2:11", "gpu_spec contains a comma: write | instead", PODS + 'a,1,1,1,1,"T4,G2"\n'),
                ("2:11", "gpu_spec names more than 32 models: write models with | between them, or nothing",
                 PODS + "a,1,1,1,1," + "|".join(f"m{i}" for i in range(33)) + "\n"),
                ("2:11", "the quote that begins here never ends", PODS + 'a,1,1,1,1,"T4\n')):
            path = self.file("wrong", content)
            self.refuse(1, f"{path}:{place}: {says}", "--nodes", self.nodes, "--arrivals", path)

    def test_invalid_clusters__are_refused(self):
        path = self.home / "c.json"
        for says, content in (
                (f"{path}: contains no Node: write what `kubectl get nodes,pods -A -o json` prints", dump()),
                (f"{path}: no node has a GPU: annotation milligpu.io/gpus, label nvidia.com/gpu.count or "
                 "status.allocatable of nvidia.com/vgpu says how many a node has", dump(node("a"))),
                (f"{path}: no node has a GPU that can be used; Node a: the node's labels say MIG: "
                 '"nvidia.com/mig-1g.10gb.count"', dump(node("a", labels={**labels(2), **MIXED}))),
                (f"{path}: Node a: status.allocatable.cpu: \"x\" is not a quantity: write one such as 500m, 2 or 4Gi",
                 dump(node("a", cpu="x", labels=labels(1)))),
                (f"{path}: is empty: expected a List, as `kubectl get nodes,pods -A -o json` prints it", "")):
            path.write_text(content)
            self.refuse(1, says, "--cluster", path, "--arrivals", self.pods)
        self.refuse(1, "/nonexistent/c: No such file or directory", "--cluster", "/nonexistent/c", "--arrivals", self.pods)
        path.write_text(dump(node("a", labels=labels(1))))
        self.pods.write_text(PODS + "a,0,0,1,1,\n")
        self.refuse(1, f"{path} is the file of --cluster: write another one", "--cluster", path, "--arrivals", self.pods,
                    "--plot", path)

    def test_unreadable_objects__are_named_and_the_others_simulated(self):
        cluster = self.file("c.json", dump(node("a", labels=labels(2))))
        rules = [{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
                  "spec": {"limits": [{"type": "Container", "max": {"nvidia.com/vgpu": 400}}]}},
                 {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": 1}}}]
        wrong = pod("wrong", None, {"nvidia.com/vgpu": 100})
        wrong["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/vgpu": 100}}
        ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": {"workerGroupSpecs": [
            {"replicas": 2, "template": deployment("x", 1, {"nvidia.com/vgpu": 300})["spec"]["template"]}]}}
        each = {**deployment("each", 1, {"nvidia.com/vgpu": 50}), "kind": "DaemonSet"}
        path = self.file("p.yaml", dump(*rules, wrong, pod("big", None, {"nvidia.com/vgpu": 500}), ray, each))
        done = self.run_it("--cluster", cluster, "--pods", path, "--policy", "binpack", "-o", "json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.splitlines(), [
            f"milligpuctl: {path}: Pod default/wrong: spec.containers[0].resources.requests[nvidia.com/vgpu]: Invalid value: "
            '"100": must be equal to nvidia.com/vgpu limit of 400',  # which the LimitRange gave it
            "RayCluster default/ray: a guess: 2 pods as in spec.workerGroupSpecs[0].template.spec (replicas 2)",
            "DaemonSet default/each: 1 pod, one for each node with GPUs; simulate places them anywhere",
            'left out: Pod big (pods "big" is forbidden: maximum nvidia.com/vgpu usage per Container is 400, but limit is 500 '
            "(LimitRange l))",
            "not considered: ResourceQuota default/q (asked is how many pods fit, not how many may be made)"])
        self.assertEqual(json.loads(done.stdout)["items"][0]["fitted"], 10)  # 6 of 300, 4 of 50

    def test_invalid_manifests__are_refused(self):
        path = self.file("p.yaml", "")
        pods = "Pods, or objects that make some, such as Deployments with replicas"
        whole = dump(pod("w", None, {"nvidia.com/gpu": 1}))
        for content in "", dump(deployment("web", 0, {"nvidia.com/vgpu": 1})):
            path.write_text(content)
            self.refuse(1, f"{path}: no pod arrives: write {pods}", "--nodes", self.nodes, "--pods", path)
        for says, content in (
                (f"{path}: Pod default/w: asks for nvidia.com/gpu: simulate hands out nvidia.com/vgpu only", whole),
                (f"{path}: Pod default/p: spec.containers[0].resources.limits.nvidia.com/vgpu: \"x\" is not a quantity: "
                 "write one such as 500m, 2 or 4Gi", dump(pod("p", None, {"nvidia.com/vgpu": "x"}))),
                (f"{path}: Pod default/p: nvidia.com/vgpu: 1000 cannot be split evenly over 3 GPUs (gpu-count); ask for "
                 "999 or 1002", dump(pod("p", None, {"nvidia.com/vgpu": 1000}, {"milligpu.io/gpu-count": "3"}))),
                (f"{path}: Deployment default/web: spec.template.spec.containers[0].resources.limits.cpu: \"x\" is not "
                 "a quantity: write one such as 500m, 2 or 4Gi", dump(deployment("web", 1, {"cpu": "x"})))):
            path.write_text(content)
            self.refuse(1, f"{says}\nmilligpuctl: {path}: no pod is left to simulate", "--nodes", self.nodes, "--pods", path)
        path.write_text(dump(deployment("web", 5001, {"nvidia.com/vgpu": 1})))
        self.refuse(1, f"--count is 2000: with the 5001 pods of {path}, write at most 1999", "--nodes", self.nodes,
                    "--pods", path, "--count", 2000)
        self.refuse(1, "/nonexistent/p: No such file or directory", "--nodes", self.nodes, "--pods", "/nonexistent/p")

    def test_files__are_checked_before_writing(self):
        given = "--nodes", self.nodes, "--arrivals", self.pods, "--policy", "binpack"
        self.pods.write_text(SMALL_PODS.replace("alien,0,0,1,100,H100\n", ""))
        self.refuse(1, "/nonexistent/n: No such file or directory", "--nodes", "/nonexistent/n", "--arrivals",
                    self.pods)
        link = self.home / "link"
        link.symlink_to(self.pods)
        for option, path, name in (("--placements", link, "arrivals"), ("--csv", self.nodes, "nodes"),
                                   ("--plot", self.nodes, "nodes")):
            self.refuse(1, f"{path} is the file of --{name}: write another one", *given, option, path)
        self.assertEqual(self.pods.read_text(), SMALL_PODS.replace("alien,0,0,1,100,H100\n", ""))
        for option in "--placements", "--csv", "--plot":
            done = self.run_it(*given, option, "/nonexistent/out")
            self.assertEqual(done.returncode, 1)
            self.assertIn("/nonexistent/out: cannot be written: No such file or directory", done.stderr)
            done = self.run_it(*given, option, "/dev/full")
            self.assertEqual(done.returncode, 1)
            self.assertIn("/dev/full: cannot be written: No space left on device", done.stderr)


class Ledger(Folder):
    """What a real daemon recorded is played again under other policies."""

    def setUp(self):
        super().setUp()
        nodes = [node(name, labels=labels(1)) for name in ("a", "b")]
        self.clock = self.scratch()
        self.daemon = self.keep(harness.Daemon(json.loads(dump(*nodes)), "--policy", "spread", ledger="ledger.db",
                                               env=harness.wall_clock(self.clock, 0)))
        self.ledger = self.daemon.home / "ledger.db"

    def end(self, name):
        status, said, _ = self.daemon.admin("DELETE", "/api/v1/standalone/pods/default/" + name)
        self.assertEqual(status, 200, said)

    def waits(self, ledger, *words):
        csv = self.home / "waits.csv"
        done = self.run_it("--ledger", ledger, "--csv", csv, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        head, *lines = csv.read_text().splitlines()
        return head, {line.split(",")[0]: line.split(",")[2:] for line in lines}, done.stdout

    def happen(self):
        """Two small pods on a GPU each, and a whole one that waits for the end of one of them."""
        for name in ("first", "second"):
            on, error, _ = self.daemon.schedule(harness.pod(name, 300))
            self.assertIsNotNone(on, error)
        on, _, whole = self.daemon.schedule(harness.pod("whole", 1000))
        self.assertIsNone(on)
        harness.wall_clock(self.clock, 3600)  # far longer than a busy machine takes for what is here
        self.end("second")
        self.daemon.wait(lambda: self.daemon.filter(whole).get("NodeNames"), "room")
        self.assertEqual(self.daemon.bind(whole, self.daemon.filter(whole)["NodeNames"][0]), "")

    def test_ledger__shows_that_a_waiting_pod_need_not_have_waited(self):
        self.happen()
        # While the daemon runs, from a backup, and when it has ended: the same.
        head, waits, shown = self.waits(self.ledger, "--policy", "binpack,spread")
        self.assertEqual(head, "pod,arrived,recorded_wait_ms,binpack_wait_ms,spread_wait_ms")
        self.assertEqual(list(waits), ["default/first", "default/second", "default/whole"])
        recorded, binpack, spread = map(int, waits["default/whole"])
        self.assertEqual(binpack, 0)
        self.assertGreaterEqual(recorded, 3000000)
        self.assertGreaterEqual(spread, 3000000)
        self.assertLessEqual(spread, recorded)
        self.assertIn("3 pods arrive", shown)
        backup = self.home / "backup.db"
        done = self.daemon.ctl("backup", backup)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.waits(backup, "--policy", "binpack,spread")[:2], (head, waits))
        self.assertEqual(self.daemon.stop(), 0)
        self.assertEqual(self.waits(self.ledger, "--policy", "binpack,spread"), (head, waits, shown))
        self.assertEqual(sorted(path.name for path in self.home.iterdir()), ["backup.db", "waits.csv"])

    def test_ledger__refuses_options_for_recorded_facts(self):
        self.refuse_usage("--ledger and --nodes exclude each other", "--ledger", self.ledger, "--nodes", "n")
        self.refuse_usage("--from is for --ledger", "--nodes", "n", "--arrivals", "a", "--from", "5h")
        done = self.run_it("--ledger", self.ledger)
        self.assertEqual(done.returncode, 1)
        self.assertIn("milligpud placed no pod from", done.stderr)

    def refuse_usage(self, says, *words):
        done = self.run_it(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
