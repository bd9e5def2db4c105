package tests

import (
	"fmt"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

func (f *fixture) restNode(name string) object {
	f.Helper()
	return f.must(f.d.Get("/api/v1/nodes/" + name))
}

// shows waits until the REST view of a node has this number in a field.
func (f *fixture) shows(node, field string, number int) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		rest, err := f.d.Get("/api/v1/nodes/" + node)
		return err == nil && harness.Number(rest, field) == number,
			fmt.Sprintf("%s of %s is not %d: %v %v", field, node, number, rest, err)
	})
}

func TestAWaitingPodIsPlacedOnANodeThatIsAdded(t *testing.T) {
	f := start(t, oneNode(1))
	f.place(harness.Simple("first", 800))
	f.create(harness.Simple("waits", 500))
	f.refused("waits")
	f.addNode(harness.NodeShape{Name: "node-b", Milli: 1000, Product: "Tesla-T4", MiB: 16384})
	if pod := f.bound("waits"); nodeOf(pod) != "node-b" {
		t.Errorf("it is on %s", nodeOf(pod))
	}
	f.consistent()
}

func TestANodeThatIsRemovedKeepsItsPodsCountedUntilTheyAreGone(t *testing.T) {
	f := start(t, oneNode(1))
	f.place(harness.Simple("stranded", 800))
	f.check(f.api.Delete(harness.NodePath("node-a"), -1))
	f.drifts("node_gone", "node-a", "")
	if len(f.allocations()) != 1 {
		t.Error("the pod is still there, its allocation is not")
	}
	f.delete("stranded", 0)
	f.until(soon, func() (bool, string) {
		drift := f.drift("", "", "")
		return len(f.allocations())+len(drift) == 0, fmt.Sprint("left over: ", drift)
	})
}

func TestNothingNewIsPlacedOnANodeThatShrankBelowItsUse(t *testing.T) {
	f := start(t, oneNode(3))
	for i := range 3 {
		f.place(harness.Simple(fmt.Sprintf("p%d", i), 900))
	}
	f.showMilli("node-a", 1000)
	f.drifts("absent", "node-a", "")
	for i := range 3 {
		f.create(harness.Simple(fmt.Sprintf("more%d", i), 100))
	}
	time.Sleep(2 * time.Second)
	for i := range 3 {
		if node := nodeOf(f.pod(fmt.Sprintf("more%d", i))); node != "" {
			t.Errorf("more%d was placed on %s, which has 2700 of 1000 in use", i, node)
		}
	}
	if n := len(f.allocations()); n != 3 {
		t.Errorf("%d allocations are left of 3", n)
	}
	f.showMilli("node-a", 3000)
	for i := range 3 {
		f.bound(fmt.Sprintf("more%d", i))
	}
	f.until(soon, func() (bool, string) {
		drift := f.drift("", "", "")
		return len(drift) == 0, fmt.Sprint("drift is left: ", drift)
	})
	f.consistent()
}

func TestARelabelledNodeTakesPodsOfItsNewModel(t *testing.T) {
	f := start(t, oneNode(1))
	f.create(harness.Simple("wants", 300).With("milligpu.io/gpu-model", "A100*"))
	f.refused("wants")
	f.patchNode("node-a", object{"labels": object{"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB",
		"nvidia.com/gpu.memory": "40960"}})
	pod := f.bound("wants")
	if shares := f.sharesOf(pod); len(shares) != 1 || shares[0].MiB != 12288 {
		t.Errorf("300 of 40960 MiB holds %v", shares)
	}
	f.consistent()
}

func TestANodeOfTheSameNameIsEmptyWhenItsPodsAreGone(t *testing.T) {
	f := start(t, oneNode(1))
	f.place(harness.Simple("old", 800))
	first := harness.Text(f.restNode("node-a"), "uid")
	f.check(f.api.Delete(harness.NodePath("node-a"), -1))
	f.delete("old", 0)
	f.addNode(oneNode(1))
	f.place(harness.Simple("new", 900))
	f.consistent()
	f.until(soon, func() (bool, string) {
		second := harness.Text(f.restNode("node-a"), "uid")
		return second != first && second != "", fmt.Sprintf("the uid of the node was %q and is %q", first, second)
	})
	history, err := f.d.List("/api/v1/history?gpu=node-a/gpu-0")
	f.check(err)
	if len(history) != 2 || harness.Text(history[0], "name") != "new" ||
		harness.Text(history[1], "nodeUid") != first {
		t.Errorf("the history of the GPU is %v", history)
	}
}

func TestANodeOfTheSameNameStillCarriesThePodsThatStayed(t *testing.T) {
	f := start(t, oneNode(1))
	f.place(harness.Simple("stays", 800))
	f.check(f.api.Delete(harness.NodePath("node-a"), -1))
	f.drifts("node_gone", "node-a", "")
	f.addNode(oneNode(1))
	f.shows("node-a", "usedMilli", 800)
	f.create(harness.Simple("more", 500))
	f.refused("more")
	f.delete("stays", 0)
	f.bound("more")
	f.consistent()
}

func TestACordonedGPUTakesNothingNew(t *testing.T) {
	f := start(t, oneNode(2))
	f.patchNode("node-a", object{"annotations": object{"milligpu.io/cordon": "node-a/gpu-0"}})
	f.until(soon, func() (bool, string) {
		gpu := f.gpus()["node-a node-a/gpu-0"]
		return harness.Text(gpu, "state") == "cordoned", fmt.Sprint("it is not cordoned: ", gpu)
	})
	for i := range 2 {
		shares := f.sharesOf(f.place(harness.Simple(fmt.Sprintf("p%d", i), 400)))
		if shares[0].GPU != "node-a/gpu-1" {
			t.Errorf("a cordoned GPU was granted: %v", shares)
		}
	}
	f.create(harness.Simple("waits", 500))
	f.refusedWith("waits", "no GPU with 500 milli free")
	f.patchNode("node-a", object{"annotations": object{"milligpu.io/cordon": "all"}})
	f.until(soon, func() (bool, string) {
		return harness.At(f.restNode("node-a"), "cordoned") == true, "the node is not cordoned"
	})
	f.create(harness.Simple("small", 100))
	f.refused("small")
	f.patchNode("node-a", object{"annotations": object{"milligpu.io/cordon": nil}})
	f.bound("waits")
	f.bound("small")
	f.consistent()
}

func TestAPodOfBothResourcesHoldsBoth(t *testing.T) {
	node := oneNode(2)
	node.WholeGPUs = 2
	f := start(t, node)
	both := harness.Simple("both", 300)
	both.Extra = map[string]string{"nvidia.com/gpu": "1"}
	f.place(both)
	f.drifts("mixed", "node-a", "")
	if held := harness.Number(f.restNode("node-a"), "heldGpus"); held != 1 {
		t.Errorf("the node holds %d whole GPUs", held)
	}
	f.create(harness.Simple("more", 300))
	f.refusedWith("more", "no GPU with 300 milli free")
	f.delete("both", 0)
	f.bound("more")
	both.Name = "again"
	f.create(both)
	f.refused("again") /* it cannot be placed beside a share of another pod */
	f.delete("more", 0)
	f.bound("again")
}

func TestAWholeGPUPodOnASharingNodeStopsNewShares(t *testing.T) {
	node := oneNode(4)
	node.WholeGPUs = 4
	f := start(t, node)
	f.place(harness.Simple("shares", 300))
	whole := harness.Simple("whole", 0)
	whole.Extra = map[string]string{"nvidia.com/gpu": "1"}
	f.place(whole)
	f.drifts("mixed", "node-a", "")
	f.create(harness.Simple("more", 300))
	f.refusedWith("more", "no GPU with 300 milli free")
	f.delete("whole", 0)
	f.bound("more")
	f.consistent()
}
