"""Names of GPU models as people write them, against the labels of real products; and what a pod's view says of it."""

import json
import pathlib
import tempfile
import unittest

import harness

# nvidia.com/gpu.product and gpu.memory, as gpu-feature-discovery writes them.
PRODUCTS = {
    "NVIDIA-A100-SXM4-80GB": 81920, "NVIDIA-A100-PCIE-40GB": 40960, "A100-SXM4-40GB": 40536, "NVIDIA-A10": 23028,
    "NVIDIA-A10G": 23028, "NVIDIA-A40": 46068, "NVIDIA-A40-48Q": 49152, "NVIDIA-H20": 97871, "NVIDIA-H20-3e": 143771,
    "NVIDIA-H200": 143771, "NVIDIA-H100-80GB-HBM3": 81559, "NVIDIA-H100-NVL": 95830, "NVIDIA-L4": 23034,
    "NVIDIA-L20": 46068, "NVIDIA-L40": 46068, "NVIDIA-L40S": 46068, "NVIDIA-L40S-24Q": 24576, "Tesla-T4": 15360,
    "NVIDIA-A30": 24576, "GRID-T4-16Q": 16384, "Tesla-V100-SXM2-16GB": 16384, "NVIDIA-GeForce-RTX-4090": 24564,
    "NVIDIA-GeForce-RTX-4090-D": 24564, "NVIDIA-RTX-6000-Ada-Generation": 49140, "Quadro-RTX-6000": 24576, "Orin": None,
}

MEANT = {
    "A100": {"NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-PCIE-40GB", "A100-SXM4-40GB"},
    "A100 SXM4 80GB": {"NVIDIA-A100-SXM4-80GB"},
    "A10": {"NVIDIA-A10"},
    "A40": {"NVIDIA-A40"},
    "A40*": {"NVIDIA-A40", "NVIDIA-A40-48Q"},
    "H20": {"NVIDIA-H20"},
    "h100": {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL"},
    "nvidia-h100-80gb": {"NVIDIA-H100-80GB-HBM3"},
    "L4": {"NVIDIA-L4"},
    "L40": {"NVIDIA-L40"},
    "L40S": {"NVIDIA-L40S"},
    "Tesla T4": {"Tesla-T4"},
    "T4": {"Tesla-T4"},
    "V100": {"Tesla-V100-SXM2-16GB"},
    "RTX 4090": {"NVIDIA-GeForce-RTX-4090"},
    "RTX 6000": {"Quadro-RTX-6000"},
    "RTX 6000 Ada": {"NVIDIA-RTX-6000-Ada-Generation"},
    "T40": set(),
    "T4 L4": set(),
}

PRICES = "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\nprices: known\n"


def node(product, mib):
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "1"}
    if mib is not None:
        labels["nvidia.com/gpu.memory"] = str(mib)
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": product.lower(), "uid": "node-" + product,
                                                             "labels": labels},
            "spec": {}, "status": {"capacity": {}, "allocatable": {},
                                   "conditions": [{"type": "Ready", "status": "True"}]}}


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        home = pathlib.Path(cls.folder.name)
        cluster, policy = home / "cluster.json", home / "policy.yaml"
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List",
                                       "items": [node(*each) for each in PRODUCTS.items()]}))
        policy.write_text(PRICES)
        cls.daemon = harness.Daemon(cluster, "--policy", str(policy))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.folder.cleanup()

    def view(self, name, milli=100, **annotations):
        notes = {"milligpu.io/" + key.replace("_", "-"): value for key, value in annotations.items()}
        self.daemon.create(harness.pod(name, milli, annotations=notes))
        return self.daemon.view(name)

    def test_model_name__accepts_common_spellings(self):
        for at, (name, models) in enumerate(MEANT.items()):
            with self.subTest(name):
                view = self.view(f"named-{at}", gpu_model=name)
                self.assertEqual(set(view["models"][0]["standsFor"]), models)
                self.assertEqual("never" in view, not models)

    def test_models__of_several_names_stay_distinct(self):
        view = self.view("two", gpu_model="T4,A100")
        self.assertEqual([(each["name"], len(each["standsFor"])) for each in view["models"]], [("T4", 1), ("A100", 3)])
        view = self.view("joined", gpu_model="T4;L4")
        self.assertIn('"T4;L4" joins models by ; or |; write models or globs, comma separated', view["request"])
        view = self.view("blank", gpu_model="T4 L4")
        self.assertIn("no GPU of model T4-L4 (several models? separate them by commas)",
                      [reason["text"] for reason in view["reasons"]])

    def test_view__shows_advice(self):
        view = self.view("tiny", milli=1, gpu_modl="A100")
        self.assertEqual(view["advice"], [
            "container c: nvidia.com/vgpu: 1 is 1 thousandth of a GPU; 1000 is one whole GPU; did you mean 1000?",
            "annotation milligpu.io/gpu-modl has no effect; did you mean milligpu.io/gpu-model?"])
        view = self.view("fine", milli=100)
        self.assertNotIn("advice", view)
        self.assertNotIn("models", view)

    def test_cheap_gpus__are_used_first_and_shares_cost_their_part(self):
        for at, (names, first) in enumerate((("L20,A30", "nvidia-a30"), ("L40S-24Q,L40", "nvidia-l40s-24q"),
                                             ("H20-3e,H20", "nvidia-h20"), ("L20,L40", "nvidia-l20"),
                                             ("H20-3e,H200", "nvidia-h20-3e"))):
            with self.subTest(names):
                wanted = harness.pod(f"cheap-{at}", 100, annotations={"milligpu.io/gpu-model": names})
                self.assertEqual(self.daemon.schedule(wanted)[0], first)


if __name__ == "__main__":
    unittest.main()
