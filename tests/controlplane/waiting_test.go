package tests

import (
	"fmt"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// crowded starts with a node of two GPUs, 400 free on each, and a pod that waits for 500. The pod fits on
// neither GPU, but into the node's sum of 800, so kube-scheduler asks.
func crowded(t *testing.T) (*fixture, *harness.APIProxy) {
	t.Helper()
	f, proxy := through(t, oneNode(2))
	f.place(harness.Simple("first", 600))
	f.place(harness.Simple("second", 600))
	f.create(harness.Simple("waits", 500))
	f.refusedWith("waits", "no GPU with 500 milli free")
	return f, proxy
}

func TestAWaitingPodIsAskedAboutTwiceAndNoMoreWhileNothingChanges(t *testing.T) {
	f, _ := crowded(t)
	f.event("waits", "no GPU with 500 milli free")
	time.Sleep(6 * time.Second)
	if n := f.calls("filter", "waits"); n > 2 {
		t.Errorf("kube-scheduler asked %d times", n)
	}
	waiting, err := f.d.List("/api/v1/waiting")
	f.check(err)
	if len(waiting) != 1 || harness.Text(waiting[0], "name") != "waits" {
		t.Errorf("waiting are %v", waiting)
	}
	rest := f.restPod("waits")
	if len(harness.Items(rest, "nodes")) != 1 || harness.At(rest, "waiting") == nil {
		t.Errorf("the REST view does not say why it waits: %v", rest)
	}
}

func TestAWaitingPodIsPlacedWhenAnotherSucceeds(t *testing.T) {
	f, _ := crowded(t)
	f.succeed("first")
	f.bound("waits")
	f.consistent()
}

func TestAWaitingPodIsPlacedWhenAnotherIsGone(t *testing.T) {
	f, _ := crowded(t)
	f.delete("second", 0)
	f.bound("waits")
	f.consistent()
}

func TestADeletionTimestampAloneFreesNothing(t *testing.T) {
	f, _ := crowded(t)
	f.delete("first", 600)
	if harness.Text(f.pod("first"), "metadata", "deletionTimestamp") == "" {
		t.Fatal("the pod has no deletion timestamp")
	}
	f.stays("waits", 3*time.Second)
	f.until(soon, func() (bool, string) {
		allocation := f.allocations()[harness.Text(f.pod("first"), "metadata", "uid")]
		return harness.Text(allocation, "terminatingSince") != "",
			fmt.Sprint("the ledger does not know that it is ending: ", allocation)
	})
	f.delete("first", 0)
	f.bound("waits")
	f.consistent()
}

func TestTheWakeUpObjectWakesAPodThatKubeSchedulerAskedAboutTooEarly(t *testing.T) {
	f, proxy := crowded(t)
	time.Sleep(time.Second)
	release := proxy.HoldWatches()
	defer release()
	before := f.calls("filter", "waits")
	f.succeed("first")
	f.until(soon, func() (bool, string) {
		return f.calls("filter", "waits") > before, "kube-scheduler did not ask again"
	})
	/* kube-scheduler asked before milligpud knew, was refused, and would now leave the pod alone */
	f.stays("waits", 2*time.Second)
	rings, err := f.d.Metric("milligpu_wake_ups_total")
	f.check(err)
	release()
	f.bound("waits")
	after, err := f.d.Metric("milligpu_wake_ups_total")
	f.check(err)
	if after <= rings {
		t.Errorf("the wake-up object was patched %v times before and %v after", rings, after)
	}
	f.consistent()
}

// numbered returns n000, n001 and so on, with one GPU each.
func numbered(count int) []harness.NodeShape {
	var nodes []harness.NodeShape
	for i := range count {
		nodes = append(nodes, harness.NodeShape{Name: fmt.Sprintf("n%03d", i), Milli: 1000,
			Product: "Tesla-T4", MiB: 15360})
	}
	return nodes
}

// choosy starts with 300 nodes, another extender that accepts at most one of them, and a kube-scheduler
// that asks us first and then that extender.
func choosy(t *testing.T, accept string, silent bool) (*fixture, *harness.Picky) {
	t.Helper()
	f := start(t, numbered(300)...)
	return f, f.beside(300, silent, accept)
}

// beside starts another extender, which accepts only these nodes, and a kube-scheduler that asks us first.
func (f *fixture) beside(count int, silent bool, accept ...string) *harness.Picky {
	f.Helper()
	picky, err := harness.StartPicky(silent, accept...)
	f.check(err)
	f.Cleanup(picky.Stop)
	scheduler, err := f.w.StartSchedulerBeside("choosy", f.w.front.URL, picky.URL)
	f.check(err)
	f.Cleanup(func() { scheduler.Stop() })
	f.until(soon, func() (bool, string) {
		nodes, err := f.d.List("/api/v1/nodes")
		f.check(err)
		return len(nodes) == count, "milligpud does not know all nodes yet"
	})
	return picky
}

// kube-scheduler asks about 144 of 300 nodes. Two lists of those grow, seven more have offered 900, and once it may
// try by itself.
const mostLists = 2 + 7 + 1

func (f *fixture) createChoosy(name string, milli int) {
	pod := harness.Simple(name, milli)
	pod.Scheduler = "choosy"
	f.create(pod)
}

func TestAPodThatAnotherExtenderRefusesOnSixteenNodesIsOfferedMoreOnAQuietCluster(t *testing.T) {
	f, picky := choosy(t, "n299", true)
	f.createChoosy("waits", 300)
	if node := nodeOf(f.bound("waits")); node != "n299" {
		t.Errorf("it is on %s", node)
	}
	sizes := picky.Sizes()
	if len(sizes) > mostLists || sizes[0] != 16 {
		t.Errorf("the lists had %v names", sizes)
	}
	f.consistent()
}

func TestAPodThatAnotherExtenderRefusesEverywhereIsShownAsOfferedAndNotBound(t *testing.T) {
	f, picky := choosy(t, "nowhere", true)
	f.createChoosy("waits", 300)
	f.until(soon, func() (bool, string) {
		waiting, err := f.d.List("/api/v1/waiting")
		f.check(err)
		/* kube-scheduler asks about a part of the 300 nodes, a different one each time */
		n := 0
		if len(waiting) == 1 {
			n = harness.Number(waiting[0], "offered")
		}
		return n >= 100 && n == harness.Number(waiting[0], "fitting") &&
				harness.Text(waiting[0], "text") == fmt.Sprintf("offered %d of %d, not bound", n, n),
			fmt.Sprintf("waiting are %v", waiting)
	})
	time.Sleep(10 * time.Second)
	if sizes := picky.Sizes(); len(sizes) > mostLists {
		t.Errorf("asked again although milligpud has no longer list to offer: the lists had %v names", sizes)
	}
}

func TestAPodThatAnotherExtenderRefusesOnSixteenNodesIsOfferedMoreOnABusyCluster(t *testing.T) {
	f, picky := choosy(t, "n299", false)
	f.place(harness.Simple("busy", 100))
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() { /* each change of a bound pod makes kube-scheduler try all others again */
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(125 * time.Millisecond):
			}
			_, err := f.api.Merge(harness.PodPath(f.space, "busy"), object{"metadata": object{
				"labels": object{"turn": fmt.Sprint(i)}}})
			if err != nil {
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	f.createChoosy("waits", 300)
	f.bound("waits")
	if sizes := picky.Sizes(); len(sizes) > mostLists {
		t.Errorf("the lists had %v names", sizes)
	}
}
