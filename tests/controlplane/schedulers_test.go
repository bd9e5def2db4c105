package tests

import (
	"fmt"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

func TestTwoSchedulersAtOnceNeverOvercommit(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	second, err := f.w.StartScheduler("second", f.w.front.URL)
	f.check(err)
	defer second.Stop()
	/* 400 fits twice on each of 12 GPUs and once on the half GPU: 25 of 60 pods */
	for i := range 60 {
		pod := harness.Simple(fmt.Sprintf("p%d", i), 400)
		if i%2 == 1 {
			pod.Scheduler = "second"
		}
		f.create(pod)
	}
	f.untilBound(25)
	time.Sleep(2 * time.Second)
	if n := f.countBound(); n != 25 {
		t.Errorf("%d pods of 400 are bound where 25 fit", n)
	}
	f.consistent()
	/* both schedulers try their refused pods again */
	freed := 0
	for _, pod := range f.pods() {
		if nodeOf(pod) != "" && freed < 10 {
			f.delete(harness.Text(pod, "metadata", "name"), 0)
			freed++
		}
	}
	f.untilBound(25)
	f.consistent()
}

// highClass creates a priority class above the default of 0 and returns its name, once pods may have it: the
// API server learns of it from a watch of its own.
func (f *fixture) highClass() string {
	f.Helper()
	f.must(f.api.Create("/apis/scheduling.k8s.io/v1/priorityclasses", object{
		"metadata": object{"name": f.space}, "value": 1000}))
	f.Cleanup(func() {
		f.check(f.api.Delete("/apis/scheduling.k8s.io/v1/priorityclasses/"+f.space, -1))
	})
	probe := harness.Simple("probe", 100)
	probe.Class = f.space
	f.until(soon, func() (bool, string) {
		_, err := f.api.Create(harness.PodPath(f.space, "")+"?dryRun=All", probe.Object())
		return err == nil, fmt.Sprint("no pod may have the priority class: ", err)
	})
	return f.space
}

// fragmented fills each of a node's three GPUs with a pod of 600 that stays and one of 400 that may be
// evicted. By the node's sum, evicting the small pods makes room for 1000; on a single GPU it does not.
func fragmented(t *testing.T) (f *fixture, class string) {
	f = start(t, oneNode(3))
	class = f.highClass()
	for i := range 3 {
		pod := harness.Simple(fmt.Sprintf("keep%d", i), 600)
		pod.Class = class
		f.place(pod)
	}
	now := 0
	for i := range 3 {
		pod := harness.Simple(fmt.Sprintf("low%d", i), 400)
		pod.Grace = &now
		f.place(pod)
	}
	return f, class
}

func TestNobodyIsEvictedWhereNoVictimsWouldHelp(t *testing.T) {
	f, class := fragmented(t)
	pod := harness.Simple("wants", 1000)
	pod.Class = class
	f.create(pod)
	f.refused("wants")
	f.until(soon, func() (bool, string) {
		return f.calls("preempt", "wants") > 0, "kube-scheduler proposed no victims"
	})
	f.stays("wants", 3*time.Second)
	for i := range 3 {
		if pod := f.pod(fmt.Sprintf("low%d", i)); harness.Text(pod, "metadata",
			"deletionTimestamp") != "" {
			t.Errorf("low%d was evicted for nothing", i)
		}
	}
	if n := f.countBound(); n != 6 {
		t.Errorf("%d pods are left of 6", n)
	}
	f.consistent()
}

func TestVictimsAreChosenSoThatThePodOfHigherPriorityFits(t *testing.T) {
	f, class := fragmented(t)
	f.addNode(harness.NodeShape{Name: "node-b", Milli: 1000, Product: "Tesla-T4", MiB: 16384})
	now := 0
	for i := range 2 {
		pod := harness.Simple(fmt.Sprintf("victim%d", i), 500)
		pod.Grace = &now
		if placed := f.place(pod); nodeOf(placed) != "node-b" {
			t.Fatalf("the victim is on %s", nodeOf(placed))
		}
	}
	pod := harness.Simple("wants", 1000)
	pod.Class = class
	f.create(pod)
	if placed := f.bound("wants"); nodeOf(placed) != "node-b" {
		t.Errorf("it is on %s", nodeOf(placed))
	}
	if n := f.countBound(); n != 7 {
		t.Errorf("%d pods are bound instead of 6 and the new one", n)
	}
	f.consistent()
}
