"""bench/placement: the sequences, clusters and mixes that it makes, and that it runs, on a trace that is made up."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import harness

sys.path.insert(0, str(harness.SOURCE / "bench"))
import openb  # noqa: E402

SCRIPT = harness.SOURCE / "bench/placement"
CTL = harness.BIN / "milligpuctl"
ALWAYS = ("--ctl", str(CTL), "--quick", "--jobs", "1")

NODES = ([openb.Node(f"big-{i}", 96000, 786432, 8, "G2") for i in range(5)]
         + [openb.Node(f"small-{i}", 16000, 131072, 2, "P100") for i in range(4)])
KINDS = [(1, 1000), (1, 810), (1, 470), (1, 230), (2, 1000), (8, 1000), (0, 0)]
PODS = sorted(openb.Pod(f"pod-{i:04}", 1000 * (1 + i % 5), 4096, *KINDS[i * i % 11 % 7], "") for i in range(200))


def trace(folder):
    openb.write(folder / openb.NODES, openb.Node, NODES)
    openb.write(folder / openb.PODS, openb.Pod, reversed(PODS))


def run(*arguments, **environment):
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
                          env={"PATH": harness.os.environ["PATH"], **environment})


class Trace(unittest.TestCase):
    def test_trace__is_read_as_written_but_sorted_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            trace(Path(folder))
            self.assertEqual(openb.read_nodes(Path(folder)), NODES)
            self.assertEqual(openb.read_pods(Path(folder)), PODS)


class Arrivals(unittest.TestCase):
    limit = openb.demand(PODS) * 2

    def test_arrivals__use_each_pod_once_before_repeating(self):
        came = openb.arrivals(PODS, self.limit, 42)
        self.assertEqual(sorted(came[:len(PODS)]), PODS)
        self.assertNotEqual(came[:len(PODS)], PODS)
        self.assertTrue(set(came[len(PODS):]) < set(PODS))

    def test_arrivals__request_almost_the_limit_and_never_more(self):
        for seed in range(42, 52):
            for limit in (self.limit, openb.demand(PODS) // 3):
                asked = openb.demand(openb.arrivals(PODS, limit, seed))
                self.assertLessEqual(asked, limit)
                self.assertGreater(asked, limit - max(openb.demand([pod]) for pod in PODS))

    def test_arrivals__follow_from_the_seed(self):
        self.assertEqual(openb.arrivals(PODS, self.limit, 42), openb.arrivals(PODS, self.limit, 42))
        self.assertNotEqual(openb.arrivals(PODS, self.limit, 42), openb.arrivals(PODS, self.limit, 43))


class Clusters(unittest.TestCase):
    def test_sample__has_different_nodes_in_list_order(self):
        one = openb.sample(NODES, 4, 1)
        self.assertEqual(one, [node for node in NODES if node in one])
        self.assertEqual(len(one), 4)
        self.assertEqual(one, openb.sample(NODES, 4, 1))
        self.assertGreater(len({tuple(openb.sample(NODES, 4, seed)) for seed in range(20)}), 10)

    def test_large_cluster__repeats_the_list_under_other_names(self):
        many = openb.repeated(NODES, 30)
        self.assertEqual(len({node.sn for node in many}), 30)
        self.assertEqual([node[1:] for node in many], [NODES[i % 9][1:] for i in range(30)])


class Families(unittest.TestCase):
    def share(self, name, special):
        pods = openb.family(name, PODS, NODES)
        self.assertEqual(len({pod.name for pod in pods}), len(pods))
        self.assertAlmostEqual(openb.demand(pods) / openb.demand(PODS), 1, delta=0.1)
        self.assertEqual(sum(pod.num_gpu == 0 for pod in pods), sum(pod.num_gpu == 0 for pod in PODS))
        return openb.demand([pod for pod in pods if special(pod)]) / openb.demand(pods)

    def test_default_mix__is_the_list_itself(self):
        self.assertEqual(openb.family("default", PODS, NODES), PODS)

    def test_sharing_mix__requests_60_percent_in_shares(self):
        self.assertAlmostEqual(self.share("gpushare60", lambda pod: 0 < pod.gpu_milli < 1000), 0.6, delta=0.05)

    def test_multi_mix__requests_30_percent_in_several_gpus(self):
        self.assertAlmostEqual(self.share("multigpu30", lambda pod: pod.num_gpu > 1), 0.3, delta=0.05)

    def test_pinned_mix__pins_a_third_to_a_model_that_fits(self):
        pods = openb.family("gpuspec33", PODS, NODES)
        pinned = [pod for pod in pods if pod.gpu_spec]
        self.assertEqual(len(pinned), round(0.33 * sum(pod.num_gpu > 0 for pod in PODS)))
        self.assertEqual({pod.gpu_spec for pod in pinned}, {"G2", "P100"})
        self.assertEqual({pod.gpu_spec for pod in pinned if pod.num_gpu == 8}, {"G2"})
        self.assertEqual([pod[1:5] for pod in pods], [pod[1:5] for pod in PODS])

    def test_cpu_mix__doubles_the_pods_without_gpus(self):
        pods = openb.family("cpu200", PODS, NODES)
        self.assertEqual(sum(pod.num_gpu == 0 for pod in pods), 2 * sum(pod.num_gpu == 0 for pod in PODS))
        self.assertEqual(openb.demand(pods), openb.demand(PODS))

    def test_mix__is_the_same_every_time(self):
        for name in openb.FAMILIES:
            self.assertEqual(openb.family(name, PODS, NODES), openb.family(name, PODS, NODES))


class Statistics(unittest.TestCase):
    def test_statistics__are_those_of_a_sample(self):
        self.assertEqual(openb.mean([2, 4, 4, 4, 5, 5, 7, 9]), 5)
        self.assertAlmostEqual(openb.deviation([2, 4, 4, 4, 5, 5, 7, 9]), (32 / 7) ** 0.5)
        self.assertAlmostEqual(openb.error_of_mean([2, 4, 4, 4, 5, 5, 7, 9]), (32 / 7 / 8) ** 0.5)
        self.assertEqual(openb.deviation([7]), 0)


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def figures(self, *arguments):
        trace(self.folder)
        out = run(*ALWAYS, "--trace", str(self.folder), *arguments)
        self.assertEqual((out.returncode, out.stderr), (0, ""))
        lines = [line.split() for line in out.stdout.splitlines()]
        self.assertTrue(all(len(line) == 3 for line in lines), out.stdout)
        return {name: float(value) for name, value, _ in lines}

    def test_policies__all_fill_the_cluster_and_pass_the_judge(self):
        figures = self.figures("--events", "400")
        for policy in ("firstfit", "binpack", "spread", "fgd", "rollout"):
            name = f"placement.default.{policy}"
            self.assertEqual(figures[f"{name}.invalid"], 0)
            self.assertEqual(figures[f"{name}.refused_though_fitting"], 0)
            self.assertGreater(figures[f"{name}.allocated"], 50)
            self.assertLessEqual(figures[f"{name}.allocated"], 100)
            self.assertLessEqual(figures[f"{name}.multi_gpu_refused"], figures[f"{name}.multi_gpu_arrived"])
            self.assertGreater(figures[f"{name}.decision"], 0)
            self.assertLessEqual(figures[f"{name}.churn_92.refused_demand"], 100)

    def test_samples__compare_policies_on_the_same_clusters(self):
        figures = self.figures("--sample", "3", "--policies", "fgd,firstfit", "--events", "200")
        name = "placement.default.sample_3"
        self.assertAlmostEqual(figures[f"{name}.firstfit.allocated.over_fgd"],
                               figures[f"{name}.firstfit.allocated"] - figures[f"{name}.fgd.allocated"], delta=0.02)
        self.assertIn(f"{name}.firstfit.churn_50.refused_demand.over_fgd.standard_error", figures)

    def test_large_cluster__is_only_timed(self):
        figures = self.figures("--scale", "30", "--policies", "rollout")
        self.assertEqual({name.removeprefix("placement.default.scale_30.rollout.") for name in figures},
                         {"decision", "decision.p99", "rss_peak", "decision.last_1000"})

    def test_missing_trace__is_explained(self):
        out = run()
        self.assertEqual((out.returncode, out.stdout), (0, ""))
        self.assertIn("skipped", out.stderr)
        self.assertIn("alibaba/clusterdata", out.stderr)

    def test_trace_folder__without_the_trace_is_an_error(self):
        out = run(MILLIGPU_TRACE=str(self.folder))
        self.assertEqual((out.returncode, out.stdout), (2, ""))
        self.assertIn(f"{self.folder} does not contain {openb.NODES}", out.stderr)

    def test_wrong_options__are_refused_by_name(self):
        for arguments, text in ((("--policies", "fgd,best"), "no policy 'best'"), (("--seeds", "51-42"), "'51-42'"),
                                (("--churn", "101"), "from 1 to 100"), (("--sample", "0"), "from 1 to 1213")):
            out = run(*arguments)
            self.assertEqual(out.returncode, 2)
            self.assertIn(text, out.stderr)


class Plot(unittest.TestCase):
    def test_plot__is_drawn_without_printed_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            trace(Path(folder))
            done = run(*ALWAYS, "--trace", folder, "--plot", f"{folder}/p.svg", "--policies", "rollout,binpack")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            drawn = Path(folder, "p.svg").read_text()
        self.assertLess(drawn.index(">rollout "), drawn.index("</svg>"))
        self.assertEqual(drawn.count("<polyline"), 2)


if __name__ == "__main__":
    harness.main()
