package tests

import (
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// times counts the Events about a pod that contain this text.
func (f *fixture) times(name, text string) int {
	f.Helper()
	lines, err := f.api.Events(f.space, name)
	f.check(err)
	return strings.Count(strings.Join(lines, "\n"), text)
}

func TestAVendorsWordNeedNotBeWrittenAndAWrongModelHearsOfTheNearest(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	placed := f.place(harness.Simple("short", 300).With("milligpu.io/gpu-model", "T4"))
	if nodeOf(placed) != "t4-0" {
		t.Errorf("the pod that asks for a T4 is on %s", nodeOf(placed))
	}
	f.create(harness.Simple("wrong", 300).With("milligpu.io/gpu-model", "T5"))
	f.refusedWith("wrong", "no GPU of model T5")
	f.event("wrong", "no node has a GPU of model T5; the nearest are Tesla-T4")
	if strings.Contains(f.refused("wrong"), "nearest") {
		t.Errorf("kube-scheduler got a text that changes with the cluster: %s", f.refused("wrong"))
	}
}

func TestAProbableMistakeIsToldOnceAlsoAfterARestart(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	f.place(harness.Simple("tiny", 1).With("milligpu.io/gpu_model", "T4"))
	f.event("tiny", "nvidia.com/vgpu: 1 is 1 thousandth of a GPU; 1000 is one whole GPU; did you mean 1000?")
	f.event("tiny", "annotation milligpu.io/gpu_model has no effect; did you mean milligpu.io/gpu-model?")
	f.create(harness.Simple("waits", 300).With("milligpu.io/gpu-modell", "T4", "milligpu.io/gpu-model", "H100"))
	f.event("waits", "annotation milligpu.io/gpu-modell has no effect")
	f.restart()
	f.create(harness.Simple("later", 2))
	f.event("later", "did you mean 2000?")
	for _, name := range []string{"tiny", "waits"} {
		if n := f.times(name, "has no effect"); n != 1 {
			t.Errorf("pod %s was told %d times", name, n)
		}
	}
}

func TestWhatANodeSaysAndNobodyUnderstandsIsDrift(t *testing.T) {
	f := start(t, oneNode(2), harness.NodeShape{Name: "sliced", Milli: 4000, Product: "A100-SHARED", MiB: 81920,
		Labels: map[string]string{"nvidia.com/gpu.sharing-strategy": "time-slicing"}})
	f.patchNode("node-a", object{"annotations": object{"milligpu.io/cordon": "1"}})
	f.drifts("node_annotation", "node-a", "")
	if state := harness.Text(f.must(f.d.Get("/api/v1/nodes/sliced")), "state"); state != "excluded" {
		t.Errorf("the node with time-slicing is %s", state)
	}
	if found := f.drift("unreadable", "sliced", ""); len(found) > 0 {
		t.Errorf("an excluded node is drift: %v", found)
	}
	f.createOn("node-a", harness.Simple("first", 1000))
	f.createOn("node-a", harness.Simple("second", 1000)) // an index closes nothing
	f.bound("first")
	f.bound("second")
	f.patchNode("node-a", object{"annotations": object{"milligpu.io/cordon": "node-a/gpu-1"}})
	f.until(soon, func() (bool, string) {
		return len(f.drift("node_annotation", "node-a", "")) == 0, "the drift stays"
	})
}
