package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

/* what the agent says to such a containerd, after the version */
const tooOld = " is too old: milligpu-node needs 2.1, better 2.2 or later"

// needsContainerd skips a test that is about another containerd than that of this run.
func needsContainerd(t *testing.T, series string) {
	t.Helper()
	if !strings.HasPrefix(harness.ContainerdVersion(), series+".") {
		t.Skipf("this is about containerd %s, and the node has %s: see ./test.sh story containerd", series,
			harness.ContainerdVersion())
	}
}

// seesOf creates the pod "one", whose container prints its device nodes and the variable, and returns these and its GPUs.
func (g *gpuNode) seesOf(manifest string) (seen string, due []string) {
	g.Helper()
	_, err := g.w.Kubectl(manifest, "apply", "-n", g.space, "-f", "-")
	g.check(err)
	due = g.due[g.remember("one")]["main"]
	g.phase("one", "Running")
	return g.printed(g.n, "one", "main", "sees="), due
}

// NRI and CDI are turned on here, which is not the default of 1.7.
func TestContainerd17IsNotServedAndThereTheVariableNamesTheGPU(t *testing.T) {
	needsContainerd(t, "1.7")
	needsZeroTouch(t)
	needsAgent(t)
	if isStandIn() {
		t.Skip("the stand-in serves everybody")
	}
	g := bareGPUNode(start(t))
	g.showUUIDs()
	g.check(g.n.LaunchAgent())
	g.until(soon, func() (bool, string) {
		log, err := os.ReadFile(g.n.Agent().Log)
		return strings.Contains(string(log), harness.ContainerdVersion()+tooOld), fmt.Sprint(string(log), err)
	})
	if ready, said := g.n.AgentReady(); ready {
		t.Errorf("the agent is ready: %s", said)
	}
	if !g.n.Agent().Running() {
		t.Error("the agent has ended")
	}
	said := g.doctorOfNodes()
	g.says(said, "FAILED", "containerd://", harness.ContainerdVersion()+" is too old for the agent, which needs 2.1",
		"update containerd to 2.2 or later", "set agent_nodes")
	t.Log(said)

	/* runc adds no device for the variable: NVIDIA's runtime would */
	g.zeroTouch()
	seen, due := g.seesOf(devicesPod)
	if len(due) != 1 || seen != "/dev/nvidia[0-9]* "+due[0] {
		t.Errorf("the container sees %q, its share is %v", seen, due)
	}
	for key := range harness.At(g.pod("one"), "metadata", "annotations").(object) {
		if strings.HasPrefix(key, "required-plugins.") {
			t.Errorf("the Binding requires an agent that cannot serve this node: %s", key)
		}
	}
	g.consistent()
}

func TestContainerd17DropsTheGPUThatAPluginAddsWithoutAWord(t *testing.T) {
	needsContainerd(t, "1.7")
	g := bareGPUNode(start(t))
	g.check(g.n.StartPlugin("other"))
	uid := g.place(annotate(annotate(g.simple("plain", 0), "other.milligpu.test/cdi", "nvidia.com/gpu="+gpuIDs[0]),
		"other.milligpu.test/env", "NVIDIA_VISIBLE_DEVICES=the-plugin-was-asked"))
	g.ran(uid, "main", 1)
	seen := g.sightsOf(uid, "main")[0]
	if seen.variable != "the-plugin-was-asked" || len(seen.gpus) > 0 {
		t.Errorf("the container has the variable %q and the GPUs %v", seen.variable, seen.gpus)
	}
}

func TestContainerd21GivesTheGPUsAndMakesContainersWithoutThemWhileTheAgentIsAway(t *testing.T) {
	needsContainerd(t, "2.1")
	g := withAgent(t)
	uid := g.place(g.simple("served", 300))
	g.ran(uid, "main", 1) /* with its GPU: g.compare() looks at the end, too */
	if gpus := g.sightsOf(uid, "main")[0].gpus; len(gpus) != 1 {
		t.Errorf("the container has the GPUs %v", gpus)
	}
	g.n.Agent().Kill()
	g.open = true
	uid = g.place(g.simple("away", 300))
	g.ran(uid, "main", 1)
	if gpus := g.sightsOf(uid, "main")[0].gpus; len(gpus) != 0 {
		t.Errorf("the container has the GPUs %v, and there was no agent to give them", gpus)
	}
}

// A node that came from containerd 1.7 has a main file of version 2, and containerd 2.3 before 2.3.5 ends if a file that it
// imports has a higher one.
func TestTheValidatorsFileTurnsItOnBelowAMainFileOfEachVersion(t *testing.T) {
	if harness.ContainerdBefore(2, 2) {
		t.Skip("containerd before 2.2 has no validator")
	}
	versions := []int{2, 3}
	if !harness.ContainerdBefore(2, 3) {
		versions = append(versions, 4)
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	for _, version := range versions {
		text := fmt.Sprintf("version = %d\nimports = [%q]\n", version,
			filepath.Join(harness.Root(), "manifests", "node", "*.toml"))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dump, err := harness.DumpContainerdConfig(file)
		_, validator, found := strings.Cut(dump, ".default_validator]")
		if err != nil || !found || !strings.HasPrefix(strings.TrimSpace(validator), "enable = true") {
			t.Errorf("below version %d the validator is not on: %v\n%s", version, err, dump)
		}
	}
}
