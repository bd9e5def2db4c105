"""GPUs that lie together: what a node tells of NVLink and NUMA, and what a pod demands of them."""

import json

import harness

NODE = "dgx-0"
ISLANDS = ({0, 2, 4, 6}, {1, 3, 5, 7})


def uuid(index):
    return f"GPU-{index:08d}"


def node():
    """8 GPUs on two islands, one after the other in turn; only the GPU with the lower index names the link."""
    gpus = [{"uuid": uuid(index), "index": index, "mib": 81920, "model": "H100", "numa": index // 4,
             "nvlink": [uuid(other) for island in ISLANDS for other in island if index in island and other > index]}
            for index in range(8)]
    return {"kind": "Node", "apiVersion": "v1",
            "metadata": {"name": NODE, "uid": "uid-" + NODE, "annotations": {"milligpu.io/gpus": json.dumps(gpus)}},
            "status": {"allocatable": {"nvidia.com/vgpu": "8000", "cpu": "64", "memory": "512Gi"}}}


def pod(name, milli, topology=None):
    return harness.pod(name, milli, annotations={"milligpu.io/topology": topology} if topology else None)


class Topology(harness.Case):
    def pair(self, *flags):
        return super().pair(*flags, cluster=harness.objects(node()))

    def held(self, daemon, name):
        index = {gpu["id"]: gpu["index"] for gpu in daemon.get("/api/v1/nodes/" + NODE)["gpus"]}
        return {index[charge["gpu"]] for charge in daemon.view(name)["allocation"]["charges"]}

    def test_four_gpus__lie_on_one_island_under_every_policy(self):
        for policy in "binpack", "spread", "rollout":
            with self.subTest(policy):
                _, daemon = self.pair("--policy", policy)
                self.assertEqual(daemon.schedule(pod("three", 3000))[1], "")
                self.assertEqual(daemon.schedule(pod("four", 4000))[1], "")
                self.assertTrue(any(self.held(daemon, "three") < island for island in ISLANDS))
                self.assertIn(self.held(daemon, "four"), ISLANDS)
                daemon.check()

    def test_island_demand__waits_and_is_woken_when_an_island_is_free(self):
        api, daemon = self.pair()
        for name, gpus in ("a", 3), ("b", 3):
            self.assertEqual(daemon.schedule(pod(name, 1000 * gpus))[1], "")
        answer = daemon.schedule(pod("waits", 2000, "nvlink"))[1]
        text = "no 2 GPUs with 1000 milli free each, all linked by NVLink"
        self.assertEqual(answer["FailedAndUnresolvableNodes"] | answer["FailedNodes"], {NODE: text})
        daemon.wait(lambda: daemon.admin("GET", "/api/v1/pods/default/waits")[0] == 200, "the watch")
        self.assertEqual(daemon.view("waits")["request"],
                         "2 whole GPUs, all linked by NVLink")
        self.assertEqual(daemon.schedule(pod("anywhere", 2000))[1], "", "two GPUs are free, on two islands")
        before = api.seen("csistoragecapacities")
        api.gone("a")
        daemon.wait(lambda: api.seen("csistoragecapacities") > before, "a wake-up")
        self.assertEqual(daemon.drive(api.pod("waits")), NODE)
        self.assertTrue(any(self.held(daemon, "waits") < island for island in ISLANDS))
        daemon.check()

    def test_impossible_demand__is_explained(self):
        _, daemon = self.pair()
        for topology, gpus, text in (("nvlink", 5, "no 5 suitable GPUs for one container, all linked by NVLink"),
                                     ("numa", 5, "no 5 suitable GPUs for one container, on one NUMA node")):
            answer = daemon.schedule(pod(f"{topology}-{gpus}", 1000 * gpus, topology))[1]
            self.assertEqual(answer["FailedAndUnresolvableNodes"], {NODE: text})
        answer = daemon.schedule(pod("nvlnk", 2000, "nvlnk"))[1]
        self.assertEqual(answer["FailedAndUnresolvableNodes"], {
            NODE: 'annotation milligpu.io/topology: "nvlnk" is no topology; write nvlink (GPUs that NVLink joins) or numa '
                  "(GPUs of one NUMA node)"})
        self.assertEqual(daemon.schedule(pod("four", 4000, "numa"))[1], "")
        self.assertIn(self.held(daemon, "four"), ({0, 1, 2, 3}, {4, 5, 6, 7}))

    def test_new_link__wakes_pods_that_need_it(self):
        api, daemon = self.pair()
        self.assertIn(NODE, daemon.schedule(pod("five", 5000, "nvlink"))[1]["FailedAndUnresolvableNodes"])
        before = api.seen("csistoragecapacities")
        gpus = [{"uuid": uuid(index), "index": index, "nvlink": [uuid(other) for other in range(8) if other != index]}
                for index in range(8)]
        status, _ = api.request("PATCH", "/api/v1/nodes/" + NODE,
                                {"metadata": {"annotations": {"milligpu.io/gpus": json.dumps(gpus)}}})
        self.assertEqual(status, 200)
        daemon.wait(lambda: api.seen("csistoragecapacities") > before, "a wake-up")
        self.assertEqual(daemon.drive(api.pod("five")), NODE)

    def test_topology__is_shown_and_survives_a_restart(self):
        _, daemon = self.pair()
        self.assertEqual(daemon.schedule(pod("holds", 1000))[1], "")
        gpus = daemon.get("/api/v1/nodes/" + NODE)["gpus"]
        for gpu in gpus:
            island = next(island for island in ISLANDS if gpu["index"] in island)
            self.assertEqual(gpu["nvlink"], [uuid(other) for other in sorted(island) if other != gpu["index"]])
            self.assertEqual(gpu["numa"], gpu["index"] // 4)
        daemon.kill()
        daemon.start()
        shown = [(gpu["id"], gpu["numa"], gpu["nvlink"]) for gpu in gpus]
        gpus = daemon.get("/api/v1/nodes/" + NODE)["gpus"]
        self.assertEqual([(gpu["id"], gpu["numa"], gpu["nvlink"]) for gpu in gpus], shown)

    def test_unmatched_link__is_drift_and_closes_nothing(self):
        api, daemon = self.pair()
        gpus = [{"uuid": uuid(0), "index": 0, "nvlink": ["GPU-typo", uuid(1)]}, {"uuid": uuid(1), "index": 1, "nvlink": 7}]
        api.request("PATCH", "/api/v1/nodes/" + NODE,
                    {"metadata": {"annotations": {"milligpu.io/gpus": json.dumps(gpus)}}})
        daemon.wait(lambda: any("2 mistakes, the first: annotation milligpu.io/gpus: [0].nvlink: \"GPU-typo\"" in drift["text"]
                                for drift in daemon.get("/api/v1/drift")["items"]), "the drift")
        self.assertEqual(daemon.schedule(pod("two", 2000, "nvlink"))[1], "")


if __name__ == "__main__":
    harness.main()
