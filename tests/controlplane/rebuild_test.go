package tests

import (
	"fmt"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// loseLedger stops milligpud, deletes its database, calls meanwhile, and starts milligpud again.
func (f *fixture) loseLedger(meanwhile func()) {
	f.Helper()
	f.w.front.Lead("")
	f.d.Proc.Stop()
	f.check(f.d.RemoveLedger())
	f.d.GracePeriodS = "3"
	meanwhile()
	f.startDaemon()
}

func (f *fixture) remembered() map[string]string {
	f.Helper()
	all := map[string]string{}
	for uid, allocation := range f.allocations() {
		all[uid] = fmt.Sprint(harness.Text(allocation, "node"), restShares(allocation))
	}
	return all
}

func TestALostLedgerIsRebuiltFromThePods(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	for i, milli := range []int{300, 300, 700, 2000, 100, 500} {
		f.place(harness.Simple(fmt.Sprintf("p%d", i), milli))
	}
	f.consistent()
	before := f.remembered()
	f.loseLedger(func() {})
	f.consistent()
	after := f.remembered()
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before %v\nafter  %v", before, after)
	}
	if drift := f.drift("", "", ""); len(drift) > 0 {
		t.Errorf("drift is reported after the rebuild: %v", drift)
	}
}

func TestALostLedgerIsRebuiltWhileANodeShowsFewerGPUsThanItsPodsHold(t *testing.T) {
	f := start(t, oneNode(4))
	for i := range 4 {
		f.place(harness.Simple(fmt.Sprintf("p%d", i), 900))
	}
	before := f.remembered()
	f.loseLedger(func() { f.showMilli("node-a", 2000) })
	f.until(soon, func() (bool, string) {
		return len(f.allocations()) == 4, fmt.Sprint("allocations: ", f.allocations())
	})
	if after := f.remembered(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before %v\nafter  %v", before, after)
	}
	f.drifts("absent", "node-a", "")
	/* kube-scheduler compares sums: a pod of 200 gets past it only after 1800 of the 3600 are freed */
	for i := range 4 {
		name := fmt.Sprintf("p%d", i)
		if s := f.sharesOf(f.pod(name)); s[0].Index < 2 {
			f.delete(name, 0)
		}
	}
	/* by the sum, 200 are free; they must come from the two GPUs that the node still shows */
	if s := f.sharesOf(f.place(harness.Simple("more", 200))); s[0].Index >= 2 {
		t.Errorf("a GPU that is not there was granted: %v", s)
	}
	f.consistent()
}

// bindBehind binds a pod as the admin, without asking milligpud.
func (f *fixture) bindBehind(name, node string) {
	f.Helper()
	f.must(f.api.Create(harness.PodPath(f.space, name)+"/binding", object{"apiVersion": "v1",
		"kind": "Binding", "metadata": object{"name": name},
		"target": object{"kind": "Node", "name": node}}))
}

func TestAPodBoundBehindOurBackIsAdoptedAndReported(t *testing.T) {
	f := start(t, oneNode(2))
	pod := harness.Simple("behind", 700)
	pod.Scheduler = "nobody"
	f.create(pod)
	f.bindBehind("behind", "node-a")
	f.drifts("", "node-a", "behind")
	rest := f.restPod("behind")
	if harness.At(rest, "allocation", "presumed") != true ||
		harness.Text(rest, "allocation", "origin") != "observed" {
		t.Errorf("it is not shown as presumed: %v", rest)
	}
	/* the pod is counted: 1300 of 2000 milli are left, 1000 of them on one GPU */
	f.place(harness.Simple("whole", 1000))
	f.create(harness.Simple("more", 400))
	f.refused("more")
}

func TestAPodBoundOntoAFullNodeIsCountedAndReported(t *testing.T) {
	f := start(t, oneNode(1))
	f.place(harness.Simple("full", 900))
	pod := harness.Simple("behind", 300)
	pod.Scheduler = "nobody"
	f.create(pod)
	f.bindBehind("behind", "node-a")
	f.drifts("", "node-a", "behind")
	f.until(soon, func() (bool, string) {
		used := harness.Number(f.must(f.d.Get("/api/v1/nodes/node-a")), "usedMilli")
		return used == 1200, fmt.Sprintf("%d milli are in use", used)
	})
	f.create(harness.Simple("more", 100))
	f.refused("more")
	/* the drift ends when that pod is gone */
	f.delete("behind", 0)
	f.bound("more")
	f.until(soon, func() (bool, string) {
		drift := f.drift("", "", "")
		return len(drift) == 0, fmt.Sprint("drift is left: ", drift)
	})
	f.consistent()
}

func TestAForgedAnnotationIsNotBelieved(t *testing.T) {
	f := start(t, oneNode(2))
	forged := harness.Simple("forged", 300).With("milligpu.io/allocation",
		`{"v":1,"containers":{"main":[{"gpu":"node-a/gpu-1","index":1,"milli":1,"mib":1}]}}`)
	forged.Scheduler = "nobody"
	f.create(forged)
	f.bindBehind("forged", "node-a")
	f.drifts("", "node-a", "forged")
	time.Sleep(200 * time.Millisecond)
	used := harness.Number(f.must(f.d.Get("/api/v1/nodes/node-a")), "usedMilli")
	if used != 300 {
		t.Errorf("a pod that asks 300 counts %d", used)
	}
}
