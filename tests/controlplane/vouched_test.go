package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// vouch waits until milligpud says this of the node (docs/NODE.md, "A node counts while its agent vouches for it").
func (g *gpuNode) vouch(word string) {
	g.Helper()
	g.until(soon, func() (bool, string) {
		node := g.restNode("gpu-real")
		return harness.Text(node, "vouch") == word, fmt.Sprintf("gpu-real is %s, not %s; agent: %s",
			harness.Text(node, "vouch"), word, g.reported())
	})
}

// agentProcess is the PID of the DaemonSet's agent, as this machine sees it.
func (d asDaemonSet) agentProcess() int {
	d.Helper()
	found := 0
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	d.check(err)
	for _, line := range lines {
		words, _ := os.ReadFile(line)
		if bytes.Contains(words, []byte("milligpu-node\x00")) && bytes.Contains(words, []byte("--nvml=/driver/")) {
			found, err = strconv.Atoi(filepath.Base(filepath.Dir(line)))
			d.check(err)
		}
	}
	if found == 0 {
		d.Fatal("no process of the agent's container")
	}
	return found
}

func (d asDaemonSet) selects(label string) {
	d.Helper()
	d.kubectl("", "-n", agents, "patch", "daemonset", "milligpu-node", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"nvidia.com/gpu.present":"`+label+`"}}}}}`)
}

func TestANodeTakesPodsOnlyWhileItsAgentIsReady(t *testing.T) {
	d := withDaemonSet(t)
	d.rolledOut()
	d.vouch("vouched")
	d.kubectlInPath()
	t.Setenv("KUBECONFIG", d.w.Kubeconfig)
	ran := d.place(d.simple("ran", 300))
	d.ran(ran, "main", 1)

	/* the agent hangs: kubelet asks it in vain */
	agent := d.agentProcess()
	d.check(syscall.Kill(agent, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(agent, syscall.SIGCONT) }()
	d.vouch("not_ready")
	d.drifts("not_vouched", "gpu-real", "")
	d.says(d.doctorOfNodes(), "FAILED", "its agent is not Ready: the node takes no new shares")
	d.must(d.api.Create(harness.PodPath(d.space, ""), d.simple("waits", 300)))
	d.refusedWith("waits", "no GPU with 300 milli free")
	d.check(syscall.Kill(agent, syscall.SIGCONT))
	d.vouch("vouched")
	d.ran(d.remember("waits"), "main", 1) /* it was woken: nothing else has changed */

	/* the agent goes, as when its DaemonSet is changed by mistake */
	d.selects("nowhere")
	d.vouch("gone")
	d.must(d.api.Create(harness.PodPath(d.space, ""), d.simple("waits-too", 300)))
	d.refusedWith("waits-too", "no GPU with 300 milli free")
	d.selects("true")
	d.rolledOut()
	d.vouch("vouched")
	d.ran(d.remember("waits-too"), "main", 1)
	d.startedOnce("ran", ran)
	d.compare()
	d.consistent()
	d.nothingDenied(agentsAccount)
}
