"""Every command of milligpuctl on a dump that has every field that src/wire reads (full_cluster.py)."""

import json
import pathlib
import re
import tempfile

import full_cluster
import harness

WIRE = harness.SOURCE / "src/wire/kube"
READERS = ["kube_read.c", "wire_kube_node.c", "wire_kube_pod.c", "wire_kube_annotation.c"]
ARRIVALS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
    f"p{at},100,100,{1 + at % 2},{300 if at % 2 == 0 else 1000},\n" for at in range(40))
ANYWHERE = [{"operator": "Exists"}]


def keys_read():
    """Field names, and whole keys or their first part (ending in / or -), of what READERS look for."""
    header = (harness.SOURCE / "include/milligpu/base/annotations.h").read_text()
    macros = dict(re.findall(r"#define (ANNOTATION_\w+)\s+\"([^\"]+)\"", header))
    found = set()
    for source in READERS:
        text = (WIRE / source).read_text()
        for table in re.findall(r"\*const \w*keys\[\] = \{([^}]*)\}", text):
            found.update(re.findall(r'"([^"]+)"', table))
        found.update(re.findall(r'"((?:[\w-]+\.)+(?:io|com|dev)/[\w.-]*)"', text))
        found.update(macros[name] for name in re.findall(r"\bANNOTATION_[A-Z_]+\b", text) if name in macros)
    found.update(value for name, value in macros.items() if name != "ANNOTATION_REPLACE_KEY")  # of a ConfigMap
    return found


def keys_given(value):
    """All keys of a document, and of the JSON in its texts."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from keys_given(member)
    elif isinstance(value, list):
        for member in value:
            yield from keys_given(member)
    elif isinstance(value, str) and value[:1] in ("{", "["):
        try:
            yield from keys_given(json.loads(value))
        except ValueError:
            pass


class Keys(harness.Case):
    def test_dump__has_every_key_that_is_read(self):
        read = keys_read()
        for known in ("nvidia.com/gpu.count", "milligpu.io/gpus", "reason", "held", "nvlink", "milligpu.io/signature",
                      "gpu-count.milligpu.io/", "milligpu.io/agent", "key", "asked", "containerStatuses"):
            self.assertIn(known, read, "keys_read() does not understand the sources any more")
        given = set(keys_given(full_cluster.cluster()))
        missing = {key for key in read if not any(
            one == key or (key[-1] in "/-." and one.startswith(key)) for one in given)}
        self.assertFalse(missing, f"src/wire reads these keys: give each a value in {full_cluster.__file__}")


def ctl(*words, text=None, status=(0,)):
    done = harness.run(*words, input=text)
    if done.returncode not in status:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-8000:]}")
    return done


def manifest(milli, replicas=100):
    made = harness.pod("ignored", milli)
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"m{milli}"}, "spec": {
        "replicas": replicas, "template": {"metadata": {"labels": {"app": "m"}}, "spec": {
            **made["spec"], "tolerations": ANYWHERE}}}})


class Files(harness.Case):
    """What asks no server."""

    def setUp(self):
        self.home = self.scratch()
        self.cluster = self.file("cluster.json", json.dumps(full_cluster.cluster()))

    def file(self, name, content):
        path = self.home / name
        path.write_text(content)
        return path

    def test_simulate__reads_the_full_cluster(self):
        arrivals = self.file("arrivals.csv", ARRIVALS)
        rules = self.file("policy.yaml", "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\nrules:\n- nodes: {pool: training, topology.kubernetes.io/zone: zone-a}\n"
                                         "  reserve: 1\n")
        for more in (), ("--churn", 50, "--events", 200), ("--learn",), ("--policy", rules), \
                ("--policy", "binpack", "--placements", self.home / "places"):
            with self.subTest(more):
                done = ctl("simulate", "--cluster", self.cluster, "--arrivals", arrivals, *more)
                self.assertIn("left out: Pod default/kept-off and 1 more (bound to no node)", done.stderr)
                self.assertIn("left out: Pod default/astray (bound to a node that is not in the file)", done.stderr)
        for milli in 100, 1000, 3000:
            ctl("simulate", "--cluster", self.cluster, "--pods", self.file("m.yaml", manifest(milli, 1)))

    def test_objects__are_each_read_alone(self):
        """What is left of a text that is gone may still be there when many objects are read."""
        arrivals = self.file("arrivals.csv", ARRIVALS)
        pods = list(full_cluster.pods())
        for node in full_cluster.nodes():
            name = node["metadata"]["name"]
            with self.subTest(name):
                own = [pod for pod in pods if pod["spec"].get("nodeName") == name]
                file = self.file(f"{name}.json", json.dumps({"kind": "List", "items": [node, *own]}))
                ctl("simulate", "--cluster", file, "--arrivals", arrivals, "--policy", "binpack", status=(0, 1, 2))


class Served(harness.Case):
    """A daemon that serves the dump, and what is played there."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon(full_cluster.cluster(), ledger="ledger.db")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def ctl(self, *words, **more):
        return ctl(*words, "--port-file", self.daemon.home / "ports", **more)

    def fitting(self, milli):
        """How many more pods of so many milli fit, as simulate finds it."""
        with tempfile.TemporaryDirectory(prefix="milligpu-full-") as folder:
            file = pathlib.Path(folder) / "m.json"
            file.write_text(manifest(milli, 1))
            done = ctl("simulate", "--cluster", self.daemon.cluster, "--pods", file, "--policy", "binpack", "-o", "json")
        return json.loads(done.stdout)["items"][0]["fitted"]

    def test_commands__work_on_the_full_cluster(self):
        for words in (["top"], ["top", "-o", "wide"], ["nodes"], ["allocations"], ["waiting"], ["usage"], ["summary"],
                      ["defrag", "--plan"], ["drift"], ["policy"], ["keys"], ["pod", "default/full", "-v"],
                      ["pod", "default/waits", "-v"], ["history", "default/full"],
                      *(["node", node["metadata"]["name"]] for node in full_cluster.nodes())):
            with self.subTest(words):
                self.ctl(*words)
        self.ctl("doctor", status=(0, 1))
        self.ctl("doctor", "--nodes", status=(0, 1))

    def test_play__places_as_simulate_says_and_its_past_replays(self):
        fits = self.fitting(1000)
        self.assertGreater(fits, 3)
        done = self.ctl("play", "-", "-o", "json", text=manifest(1000))
        outcomes = [item["outcome"] for item in json.loads(done.stdout)["items"]]
        self.assertEqual(outcomes.count("placed"), fits, outcomes)
        self.ctl("defrag", "--plan")
        copy = self.daemon.home / "copy.db"
        self.ctl("backup", copy)
        ctl("simulate", "--ledger", copy)
        ctl("simulate", "--ledger", copy, "--policy", "binpack", "--placements", self.daemon.home / "places")


if __name__ == "__main__":
    harness.main()
