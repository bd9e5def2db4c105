package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

var gfdLabel = regexp.MustCompile(`(?m)^LABEL\("(.*)", "(.*)"\)$`)

// gfdFixed returns the labels of tests/support/gfd_labels.def.
func gfdFixed() map[string]string {
	text, err := os.ReadFile(filepath.Join(Root(), "tests", "support", "gfd_labels.def"))
	if err != nil {
		panic(err)
	}
	labels := map[string]string{}
	for _, found := range gfdLabel.FindAllStringSubmatch(string(text), -1) {
		labels[found[1]] = found[2]
	}
	if len(labels) == 0 {
		panic("gfd_labels.def names no label")
	}
	return labels
}

// GFDLabels returns the labels of a node with these GPUs, as a node of the real world has them; gpus 0: no count.
func GFDLabels(gpus int, product string, mib int) Object {
	labels := Object{"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": fmt.Sprint(mib)}
	if gpus > 0 {
		labels["nvidia.com/gpu.count"] = fmt.Sprint(gpus)
	}
	for key, value := range gfdFixed() {
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
