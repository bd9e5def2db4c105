"""The labels of a node with NVIDIA's operator: all that gpu-feature-discovery, node feature discovery and the operator
write there, since a node of the real world has them all. As in tests/support/gfd_labels.c, for the tests in C."""

FIXED = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "nvidia.com/cuda.driver-version.full": "570.133.20",
    "nvidia.com/cuda.driver-version.major": "570",
    "nvidia.com/cuda.driver-version.minor": "133",
    "nvidia.com/cuda.driver-version.revision": "20",
    "nvidia.com/cuda.driver.major": "570",
    "nvidia.com/cuda.driver.minor": "133",
    "nvidia.com/cuda.driver.rev": "20",
    "nvidia.com/cuda.runtime-version.full": "12.8",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/cuda.runtime-version.minor": "8",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "8",
    "nvidia.com/gfd.timestamp": "1764150000",
    "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/gpu.deploy.container-toolkit": "true",
    "nvidia.com/gpu.deploy.dcgm": "true",
    "nvidia.com/gpu.deploy.dcgm-exporter": "true",
    "nvidia.com/gpu.deploy.device-plugin": "true",
    "nvidia.com/gpu.deploy.driver": "true",
    "nvidia.com/gpu.deploy.gpu-feature-discovery": "true",
    "nvidia.com/gpu.deploy.mig-manager": "true",
    "nvidia.com/gpu.deploy.node-status-exporter": "true",
    "nvidia.com/gpu.deploy.operator-validator": "true",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.machine": "PowerEdge-XE8545",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.config": "all-disabled",
    "nvidia.com/mig.config.state": "success",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/mps.capable": "false",
    "nvidia.com/vgpu.present": "false",
}

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
