package tests

import (
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

func TestAPodThatAsksForNoGPUIsScheduledWithoutAskingUs(t *testing.T) {
	f := bare(t, harness.DemoNodes()...)
	f.place(harness.Simple("plain", 0))
	if calls := f.w.front.Calls("", ""); len(calls) > 0 {
		t.Errorf("milligpud was asked %d times about a pod that is not its own", len(calls))
	}
}

func TestWhileMilligpudIsDownNoAskingPodIsBound(t *testing.T) {
	f := bare(t, harness.DemoNodes()...)
	f.create(harness.Simple("asks", 300))
	f.refused("asks")
	f.stays("asks", 0)
	if f.calls("filter", "asks") == 0 {
		t.Error("kube-scheduler did not ask")
	}
}
