package tests

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

const (
	/* NODE_VARIABLES_MAX of containers.h */
	variableRows = 256
	/* a GPU that no node has, so none is closed for it */
	noGPU     = "GPU-none"
	tableFull = "milligpu: the node has as many containers with GPUs by the variable NVIDIA_VISIBLE_DEVICES as its " +
		"agent can tell apart: delete the pod, or others that have them"
)

// createContainers asks containerd for containers with the variable in the sandbox of a pod, and checks how many are created and why
// the others are not.
func (g *gpuNode) createContainers(uid, prefix string, created, refused int) {
	g.Helper()
	made, refusals, err := g.n.CreateContainers(uid, prefix, created+refused, noGPU)
	g.check(err)
	if made != created || len(refusals) != refused {
		g.Errorf("%d containers %s were created and %d refused, not %d and %d: %v", made, prefix, len(refusals), created,
			refused, refusals)
	}
	for _, why := range refusals {
		if !strings.Contains(why, tableFull) {
			g.Errorf("a container %s was refused with: %s", prefix, why)
		}
	}
}

// agentCounts checks a metric of the agent.
func (g *gpuNode) agentCounts(due int, name string, labels ...string) {
	g.Helper()
	if value, err := g.n.AgentMetric(name, labels...); err != nil || value != float64(due) {
		g.Errorf("the agent's metric %s%v is %v, not %d: %v", name, labels, value, due, err)
	}
}

// agentLogs checks that one line of the agent's log has all of these words.
func (g *gpuNode) agentLogs(words ...string) {
	g.Helper()
	log, err := os.ReadFile(g.n.Agent().Log)
	g.check(err)
	lines := strings.Split(string(log), "\n")
	for _, word := range words {
		lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, word) })
	}
	if len(lines) != 1 {
		g.Errorf("the agent's log has %d lines with %q, not one: %q", len(lines), words, lines)
	}
}

// deleteNow deletes a pod and waits until kubelet has ended its sandbox.
func (g *gpuNode) deleteNow(name string) {
	g.Helper()
	g.delete(name, 1)
	g.until(soon, func() (bool, string) {
		return !slices.ContainsFunc(g.pods(), func(pod object) bool { return harness.Text(pod, "metadata", "name") == name }),
			"pod " + name + " is still there"
	})
}

// guards checks that a pod with a share starts, and that another pod does not get the GPU of the first one whole.
func (g *gpuNode) guards(first, share, whole string) {
	g.Helper()
	g.ran(g.place(g.simple(share, 300)), "main", 1)
	gpu := g.due[first]["main"][0]
	g.createWhole(whole, gpu)
	g.notCreated(whole, "milligpu: it would have GPU "+gpu+" whole, of which pods have shares")
	g.deleteNow(whole) /* the node takes no share while it is there */
}

// The attack: a tenant makes more containers with NVIDIA_VISIBLE_DEVICES than the agent has rows for, and asks for no GPU.
// Their rows stay until their sandbox ends.
func TestContainersWithTheVariableThatFillTheAgentsTableTakeNothingFromSharesOrWholeGPUs(t *testing.T) {
	g, _ := withInventory(t)
	first := g.place(g.simple("first", 300))
	g.ran(first, "main", 1)
	g.offerWhole("--prefer", g.due[first]["main"][0])
	attacker := g.place(g.simple("attacker", 0))
	g.ran(attacker, "main", 1)

	g.createContainers(attacker, "many", variableRows, 4)
	g.agentCounts(4, "milligpu_node_containers_total", `outcome="refused"`)
	for i := variableRows; i < variableRows+4; i++ {
		g.agentLogs("container refused", "namespace="+g.space+" ", "pod=attacker ", fmt.Sprintf("container=many-%d ", i),
			tableFull)
	}
	g.guards(first, "second", "whole")

	/* more run than it has rows for when it comes back */
	g.n.Agent().Kill()
	g.until(soon, func() (bool, string) {
		made, refusals, err := g.n.CreateContainers(attacker, "unseen", 1, noGPU)
		g.check(err)
		return made == 1, fmt.Sprint("containerd still asks the agent: ", refusals)
	})
	g.createContainers(attacker, "more", 9, 0)
	library, err := g.n.FakeNVML()
	g.check(err)
	g.check(g.n.StartAgent("--nvml", library, "--inventory-s", "1", "--meter-s", "1"))
	g.agentCounts(10, "milligpu_node_containers_left_out", `right="variable"`)
	g.agentLogs("more containers with GPUs run than the agent can tell apart", "variable=10")
	g.createContainers(attacker, "late", 0, 1)
	g.guards(first, "third", "whole-again")

	/* what the refusal says to do */
	g.deleteNow("attacker")
	later := g.place(g.simple("later", 0))
	g.ran(later, "main", 1)
	g.createContainers(later, "again", 1, 0)
	g.startedOnce("first", first)
	g.consistent()
}
