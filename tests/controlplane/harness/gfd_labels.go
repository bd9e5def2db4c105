package harness

import "fmt"

// gfdFixed are labels of a node with NVIDIA's operator that say nothing of number, model and memory of its GPUs: all
// that gpu-feature-discovery, node feature discovery and the operator write there. As in tests/support/gfd_labels.c.
var gfdFixed = map[string]string{
	"feature.node.kubernetes.io/pci-10de.present": "true",
	"nvidia.com/cuda.driver-version.full":         "570.133.20",
	"nvidia.com/cuda.driver-version.major":        "570",
	"nvidia.com/cuda.driver-version.minor":        "133",
	"nvidia.com/cuda.driver-version.revision":     "20",
	"nvidia.com/cuda.driver.major":                "570",
	"nvidia.com/cuda.driver.minor":                "133",
	"nvidia.com/cuda.driver.rev":                  "20",
	"nvidia.com/cuda.runtime-version.full":        "12.8",
	"nvidia.com/cuda.runtime-version.major":       "12",
	"nvidia.com/cuda.runtime-version.minor":       "8",
	"nvidia.com/cuda.runtime.major":               "12",
	"nvidia.com/cuda.runtime.minor":               "8",
	"nvidia.com/gfd.timestamp":                    "1764150000",
	"nvidia.com/gpu-driver-upgrade-state":         "upgrade-done",
	"nvidia.com/gpu.compute.major":                "8",
	"nvidia.com/gpu.compute.minor":                "0",
	"nvidia.com/gpu.deploy.container-toolkit":     "true",
	"nvidia.com/gpu.deploy.dcgm":                  "true",
	"nvidia.com/gpu.deploy.dcgm-exporter":         "true",
	"nvidia.com/gpu.deploy.device-plugin":         "true",
	"nvidia.com/gpu.deploy.driver":                "true",
	"nvidia.com/gpu.deploy.gpu-feature-discovery": "true",
	"nvidia.com/gpu.deploy.mig-manager":           "true",
	"nvidia.com/gpu.deploy.node-status-exporter":  "true",
	"nvidia.com/gpu.deploy.operator-validator":    "true",
	"nvidia.com/gpu.family":                       "ampere",
	"nvidia.com/gpu.machine":                      "PowerEdge-XE8545",
	"nvidia.com/gpu.mode":                         "compute",
	"nvidia.com/gpu.present":                      "true",
	"nvidia.com/gpu.replicas":                     "1",
	"nvidia.com/gpu.sharing-strategy":             "none",
	"nvidia.com/mig.capable":                      "true",
	"nvidia.com/mig.config":                       "all-disabled",
	"nvidia.com/mig.config.state":                 "success",
	"nvidia.com/mig.strategy":                     "single",
	"nvidia.com/mps.capable":                      "false",
	"nvidia.com/vgpu.present":                     "false",
}

// GFDLabels returns the labels of a node with these GPUs, as a node of the real world has them; gpus 0: no count.
func GFDLabels(gpus int, product string, mib int) Object {
	labels := Object{"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": fmt.Sprint(mib)}
	if gpus > 0 {
		labels["nvidia.com/gpu.count"] = fmt.Sprint(gpus)
	}
	for key, value := range gfdFixed {
		labels[key] = value
	}
	return labels
}

// MIGLabels returns what is written beside them where MIG has some of the GPUs, with the strategy "mixed".
func MIGLabels() Object {
	return Object{"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.config": "custom",
		"nvidia.com/mig-1g.10gb.count": "7", "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
		"nvidia.com/mig-1g.10gb.replicas": "1", "nvidia.com/mig-1g.10gb.sharing-strategy": "none"}
}
