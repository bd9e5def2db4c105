package tests

import (
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// crowded is a node of two GPUs with 400 free on each: 500 does not fit, although the node's sum
// has 800 left and kube-scheduler therefore asks.
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
	allocation := f.allocations()[harness.Text(f.pod("first"), "metadata", "uid")]
	if harness.Text(allocation, "terminatingSince") == "" {
		t.Errorf("the ledger does not know that it is ending: %v", allocation)
	}
	f.delete("first", 0)
	f.bound("waits")
	f.consistent()
}

func TestTheBellWakesAPodThatKubeSchedulerAskedAboutTooEarly(t *testing.T) {
	f, proxy := crowded(t)
	time.Sleep(time.Second)
	release := proxy.HoldWatches()
	defer release()
	before := f.calls("filter", "waits")
	f.succeed("first")
	f.until(soon, func() (bool, string) {
		return f.calls("filter", "waits") > before, "kube-scheduler did not ask again"
	})
	/* it asked before milligpud had heard, was refused, and would now leave the pod alone */
	f.stays("waits", 2*time.Second)
	rings, err := f.d.Metric("milligpu_bell_rings_total")
	f.check(err)
	release()
	f.bound("waits")
	after, err := f.d.Metric("milligpu_bell_rings_total")
	f.check(err)
	if after <= rings {
		t.Errorf("the bell was rung %v times before and %v after", rings, after)
	}
	f.consistent()
}
