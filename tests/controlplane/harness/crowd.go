package harness

import (
	"fmt"
	"strings"
)

// CreateContainers asks containerd, past kubelet, for so many containers in the sandbox of a pod that runs. They have
// NVIDIA_VISIBLE_DEVICES with this value and are never started. It returns how many were created, and why others were
// not.
func (n *RealNode) CreateContainers(uid, prefix string, count int, visible string) (created int, refusals []string, err error) {
	text, err := Run(nodeProgram("cri-client"), "--socket", n.socket, "--pod", uid, "--image", Image, "--logs", n.LogsDir,
		"--prefix", prefix, "--count", fmt.Sprint(count), "--variable", visible)
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		outcome, rest, _ := strings.Cut(line, " ")
		switch outcome {
		case "created":
			created++
		case "refused":
			_, why, _ := strings.Cut(rest, ": ")
			refusals = append(refusals, why)
		}
	}
	if err == nil && created+len(refusals) != count {
		err = fmt.Errorf("cri-client speaks of %d of %d containers: %s", created+len(refusals), count, text)
	}
	return created, refusals, err
}
