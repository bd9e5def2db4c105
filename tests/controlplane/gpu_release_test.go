package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// opened returns the devices of NVIDIA's driver that the agent has open, and the agent's mappings of them and of its
// libraries.
func (g realGPU) opened() (open, mapped []string) {
	g.Helper()
	folder := fmt.Sprintf("/proc/%d", g.n.Agent().Pid())
	links, err := filepath.Glob(folder + "/fd/*")
	g.check(err)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "/dev/nvidia") {
			open = append(open, to)
		}
	}
	maps, err := os.ReadFile(folder + "/maps")
	g.check(err)
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, "libnvidia") || strings.Contains(line, "/dev/nvidia") {
			mapped = append(mapped, line)
		}
	}
	return open, mapped
}

// tell runs milligpu-node beside the agent, which ends when the agent has done the action.
func (g realGPU) tell(action string) {
	g.Helper()
	program, err := harness.Program("milligpu-node", "MILLIGPU_NODE")
	g.check(err)
	out, err := harness.Run(program, action, "--node", g.n.Name, "--state-dir", g.n.StateDir)
	g.check(err)
	g.Log(action + ": " + out)
}

func (g realGPU) inventory() string {
	return harness.Text(g.must(g.api.Get(harness.NodePath("gpu-real"))), "metadata", "annotations", "milligpu.io/gpus")
}

func TestOnARealGPUTheDriverIsLetGoOfAndTakenAgain(t *testing.T) {
	g := withRealGPU(t)
	runs := g.computes(cudaPod("runs", 300, 100))
	open, mapped := g.opened()
	if len(open) == 0 || len(mapped) == 0 {
		t.Fatalf("the agent has not opened the driver: %v, %v", open, mapped)
	}
	t.Logf("before: %v, %d mappings; %s", open, len(mapped), g.inventory())
	g.tell("--release-driver")
	if open, mapped := g.opened(); len(open) > 0 || len(mapped) > 0 {
		t.Errorf("the agent still has open %v, and mapped %v", open, mapped)
	}
	g.until(soon, func() (bool, string) {
		return strings.Contains(g.reported(), `"leaving":"told"`) && strings.Contains(g.inventory(), `"held":"unknown"`) &&
			strings.Contains(g.inventory(), g.uuid), g.reported() + g.inventory()
	})
	t.Logf("released: %s\n%s", g.reported(), g.inventory())
	g.phase("runs", "Running")
	g.tell("--take-driver")
	g.until(soon, func() (bool, string) {
		return !strings.Contains(g.reported(), "leaving") && !strings.Contains(g.inventory(), "held") &&
			strings.Contains(g.inventory(), g.uuid), g.reported() + g.inventory()
	})
	t.Logf("taken: %s\n%s", g.reported(), g.inventory())
	if open, mapped := g.opened(); len(open) == 0 || len(mapped) == 0 {
		t.Errorf("the agent has not taken the driver: %v, %v", open, mapped)
	}
	g.heldBy(g.uuid, "", "")
	g.computes(cudaPod("after", 300, 100))
	g.between(runs, 100, 100+2048)
	g.consistent()
}
