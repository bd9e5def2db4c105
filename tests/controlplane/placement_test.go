package tests

import (
	"fmt"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// oneNode returns a node with this many GPUs of 16 GiB.
func oneNode(gpus int) harness.NodeShape {
	return harness.NodeShape{Name: "node-a", Milli: 1000 * gpus, Product: "Tesla-T4", MiB: 16384}
}

func TestTwentyPodsOf300AreEachBoundInOneWrite(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	version := harness.Text(f.must(f.api.Get(harness.PodPath(f.space, ""))), "metadata",
		"resourceVersion")
	changes, stop, err := f.api.Watch(harness.PodPath(f.space, ""), version)
	f.check(err)
	for i := range 20 {
		f.create(harness.Simple(fmt.Sprintf("p%d", i), 300))
	}
	for i := range 20 {
		f.bound(fmt.Sprintf("p%d", i))
	}
	used := f.consistent()
	total := 0
	for _, milli := range used {
		total += milli
	}
	if total != 6000 {
		t.Errorf("20 pods of 300 hold %d milli: %v", total, used)
	}
	stop()
	f.oneWrite(changes)
	f.noPodWasPatched()
}

// oneWrite checks that no version of any pod had a node without an allocation.
func (f *fixture) oneWrite(changes <-chan harness.Change) {
	f.Helper()
	with := 0
	for change := range changes {
		if nodeOf(change.Object) == "" {
			continue
		}
		status, _, _ := harness.Condition(change.Object)
		annotations := harness.At(change.Object, "metadata", "annotations")
		if harness.Text(annotations, "milligpu.io/allocation") == "" ||
			harness.Text(annotations, "milligpu.io/visible-devices") == "" ||
			harness.Text(annotations, "visible-devices.milligpu.io/main") == "" || status != "True" {
			f.Errorf("a version of %s has a node without the rest: %v, PodScheduled %q",
				harness.Text(change.Object, "metadata", "name"), annotations, status)
		}
		with++
	}
	if with < 20 {
		f.Errorf("only %d versions of bound pods were seen", with)
	}
}

// noPodWasPatched checks the audit log: the only writes of milligpud to pods of this namespace are Bindings.
func (f *fixture) noPodWasPatched() {
	f.Helper()
	audit, err := f.w.Audit()
	f.check(err)
	bindings := 0
	for _, a := range audit {
		if a.Resource != "pods" || a.Namespace != f.space {
			continue
		}
		if a.Verb == "create" && a.Subresource == "binding" && a.User == f.w.account.User {
			bindings++
		} else if a.User == f.w.account.User && a.Verb != "get" && a.Verb != "list" &&
			a.Verb != "watch" {
			f.Errorf("milligpud sent %s %s", a.Verb, a.URI)
		}
	}
	if bindings != 20 {
		f.Errorf("milligpud sent %d Bindings for 20 pods", bindings)
	}
}

func TestTwoThousandIsTwoWholeGPUs(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	shares := f.sharesOf(f.place(harness.Simple("two", 2000)))
	if len(shares) != 2 || shares[0].GPU == shares[1].GPU || shares[0].Milli != 1000 ||
		shares[1].Milli != 1000 {
		t.Errorf("2000 holds %v", shares)
	}
	f.consistent()
}

func TestFifteenHundredIsRefusedAndTheEventTellsWhatToWrite(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	f.create(harness.Simple("odd", 1500))
	message := f.refused("odd")
	if !strings.Contains(message, "1000") || !strings.Contains(message, "2000") {
		t.Errorf("the refusal does not tell to write 1000 or 2000: %q", message)
	}
	f.event("odd", "2000")
}

func TestGPUCountTwoSplits600OverTwoGPUs(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	pod := harness.Simple("split", 600).With("milligpu.io/gpu-count", "2")
	shares := f.sharesOf(f.place(pod))
	if len(shares) != 2 || shares[0].GPU == shares[1].GPU || shares[0].Milli != 300 ||
		shares[1].Milli != 300 {
		t.Errorf("600 over two GPUs holds %v", shares)
	}
	f.consistent()
}

func TestAModelGlobIsRespected(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	for glob, node := range map[string]string{"A100-SXM*": "a100-0", "tesla t4": "t4-0",
		"NVIDIA-Tesla-T4,H100*": "t4-0"} {
		name := fmt.Sprintf("m%d", len(f.pods()))
		pod := f.place(harness.Simple(name, 200).With("milligpu.io/gpu-model", glob))
		if nodeOf(pod) != node {
			t.Errorf("a pod for %q is on %s", glob, nodeOf(pod))
		}
	}
	f.create(harness.Simple("none", 200).With("milligpu.io/gpu-model", "H100*"))
	f.refusedWith("none", "H100*")
	f.consistent()
}

func TestAMemoryFloorIsRespected(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	for i := range 4 {
		/* 300 milli come with 4608 MiB on a T4, and with 24576 on an A100 and on the VM's half A100 */
		name := fmt.Sprintf("m%d", i)
		pod := f.place(harness.Simple(name, 300).With("milligpu.io/gpu-memory", "16Gi"))
		if shares := f.sharesOf(pod); nodeOf(pod) == "t4-0" || shares[0].MiB != 24576 {
			t.Errorf("a share of at least 16Gi is on %s: %v", nodeOf(pod), shares)
		}
	}
	big := harness.Simple("none", 300).With("milligpu.io/gpu-memory", "32Gi")
	f.create(big)
	f.refused("none")
	f.consistent()
}

func TestTheHalfGPUOfAVMTakes500ButNot600(t *testing.T) {
	f := start(t, harness.DemoNodes()[2], harness.NodeShape{Name: "plenty", Milli: 200,
		Product: "Tesla-T4", MiB: 3072})
	f.create(harness.Simple("more", 600))
	f.refused("more")
	shares := f.sharesOf(f.place(harness.Simple("half", 500)))
	if len(shares) != 1 || shares[0].Milli != 500 || shares[0].MiB != 40960 {
		t.Errorf("500 on half a GPU holds %v", shares)
	}
	f.stays("more", 0)
	f.consistent()
}

func TestTwoContainersOf400AndAnInitContainerOf700AreCharged800(t *testing.T) {
	f := start(t, oneNode(1))
	pod := harness.PodShape{Name: "peak", Apps: []harness.Ask{{Name: "a", Milli: 400},
		{Name: "b", Milli: 400}}, Inits: []harness.Ask{{Name: "first", Milli: 700}}}
	shares := f.sharesOf(f.place(pod))
	if len(shares) != 3 {
		t.Errorf("the shares are %v", shares)
	}
	used := f.consistent()
	if len(used) != 1 || used["node-a node-a/gpu-0"] != 800 {
		t.Errorf("charged are %v", used)
	}
}

func TestARequestOfZeroIsBoundWithoutAnAllocation(t *testing.T) {
	f := start(t, oneNode(1))
	pod := harness.Simple("zero", 0)
	pod.Extra = map[string]string{harness.Resource: "0"}
	placed := f.place(pod)
	if harness.Text(placed, "metadata", "annotations", "milligpu.io/allocation") != "" {
		t.Error("a pod that asks 0 has an allocation")
	}
	if len(f.allocations()) != 0 {
		t.Error("the ledger has an allocation for it")
	}
}
