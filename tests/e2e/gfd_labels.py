"""The labels of a node with NVIDIA's operator, since a node of the real world has them all."""

import re

from harness import SOURCE

FIXED = dict(re.findall(r'^LABEL\("(.*)", "(.*)"\)$', (SOURCE / "tests/support/gfd_labels.def").read_text(), re.M))

# Labels by mig-manager and gpu-feature-discovery with "mixed", if MIG has two of the GPUs.
MIXED = {
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig.config": "custom",
    "nvidia.com/mig-1g.10gb.count": "14",
    "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    "nvidia.com/mig-1g.10gb.memory": "9728",
    "nvidia.com/mig-1g.10gb.replicas": "1",
    "nvidia.com/mig-1g.10gb.sharing-strategy": "none",
    "nvidia.com/mig-1g.10gb.slices.gi": "1",
}


def gfd_labels(gpus, product="NVIDIA-A100-SXM4-80GB", mib=81920, changes=None):
    """changes replace or add labels; one that is None is left out."""
    labels = {**FIXED, "nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.product": product,
              "nvidia.com/gpu.memory": str(mib) if mib else None, **(changes or {})}
    return {key: value for key, value in labels.items() if value is not None}
