package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

func (g *gpuNode) privileged(name string, milli int) object {
	container := watcher(harness.Ask{Name: "main", Milli: milli}, stay)
	container["securityContext"] = object{"privileged": true}
	return g.watched(name, container)
}

// debug adds an ephemeral container to a pod, as an operator does.
func (g *gpuNode) debug(pod, container, profile string) {
	g.Helper()
	_, err := g.w.Kubectl("", "debug", "-n", g.space, pod, "--image="+harness.Image, "--container="+container,
		"--profile="+profile, "--", "/bin/sh", "-c", stay)
	g.check(err)
}

// debugs waits until an ephemeral container runs.
func (g *gpuNode) debugs(pod, container string) {
	g.Helper()
	g.until(soon, func() (bool, string) {
		all := harness.Items(g.pod(pod), "status", "ephemeralContainerStatuses")
		for _, status := range all {
			if harness.Text(status, "name") == container && harness.At(status, "state", "running") != nil {
				return true, ""
			}
		}
		return false, fmt.Sprintf("container %s does not run: %v", container, all)
	})
}

// warns counts the lines in which the agent says that this container sees so many GPUs.
func (g *gpuNode) warns(container string, gpus int) int {
	g.Helper()
	log, err := os.ReadFile(g.n.Agent().Log)
	g.check(err)
	count := 0
	for _, line := range strings.Split(string(log), "\n") {
		if strings.Contains(line, "a privileged container sees GPUs that it was not granted") &&
			strings.Contains(line, fmt.Sprintf("container=%s gpus=%d why=", container, gpus)) {
			count++
		}
	}
	return count
}

func TestAPrivilegedContainerOfAPodWithAShareIsNamedOrRefused(t *testing.T) {
	g, _ := withDriver(t)
	uid := g.place(g.privileged("pod", 300))
	g.ran(uid, "main", 1)
	g.debug("pod", "debugger", "sysadmin")
	g.debugs("pod", "debugger")
	if main, debugger := g.warns("main", 1), g.warns("debugger", 2); main != 1 || debugger != 1 {
		t.Errorf("the agent warns %d times of the container and %d times of the ephemeral one", main, debugger)
	}
	if warned, err := g.n.AgentMetric("milligpu_node_privileged_total", `outcome="warned"`); err != nil || warned != 2 {
		t.Errorf("the agent has counted %v warnings: %v", warned, err)
	}
	library, err := g.n.FakeNVML()
	g.check(err)
	g.n.Agent().Kill()
	g.check(g.n.StartAgent("--nvml", library, "--inventory-s", "1", "--privileged", "refuse"))
	refused := g.place(g.privileged("refused", 300))
	g.notCreated("refused", "it is privileged (securityContext.privileged: true), so it can open 1 GPU that it was not granted")
	g.debug("pod", "again", "sysadmin")
	g.event("pod", "securityContext.privileged: true), so it can open 2 GPUs")
	if g.starts(refused, "main") > 0 {
		t.Error("the privileged container has started")
	}
	g.debug("pod", "general", "general")
	g.debugs("pod", "general")
	g.ran(g.place(g.privileged("plain", 0)), "main", 1) /* it asks for nothing, as those that look after GPUs */
	g.startedOnce("pod", uid)
	g.consistent()
}
