package tests

import (
	"fmt"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

const (
	policyNodes = 30 /* of four GPUs each */
	policyPods  = 300
	policyLimit = 3 * time.Minute
)

// land lets 300 pods of 300 arrive under this policy, one when the one before is bound or all at once, and returns
// how many GPUs have how many pods.
func land(t *testing.T, policy string, atOnce bool) map[int]int {
	var nodes []harness.NodeShape
	for i := range policyNodes {
		nodes = append(nodes, harness.NodeShape{Name: fmt.Sprintf("policy-%02d", i), Milli: 4000,
			Product: "Tesla-T4", MiB: 16384})
	}
	f := bare(t, nodes...)
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--policy", policy, "--shortlist", "1")
	f.startDaemon()
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	if atOnce {
		_, err := f.api.Burst(f.w.scheduler, f.space, "", policyPods, policyLimit)
		f.check(err)
	}
	for i := range policyPods {
		name := fmt.Sprintf("p%d", i)
		if !atOnce {
			f.create(harness.Simple(name, 300))
		}
		f.bound(name)
	}
	gpus := map[int]int{}
	for _, milli := range f.consistent() {
		gpus[milli/300]++
	}
	t.Logf("%s: GPUs by their number of pods: %v", policy, gpus)
	return gpus
}

// kube-scheduler's own scores prefer empty nodes: that these are filled one after the other is the policy's will.
func TestThreeHundredPodsFillAsFewGPUsAsTheyCan(t *testing.T) {
	for _, policy := range []string{"binpack", "rollout"} {
		if gpus := land(t, policy, false); gpus[3] != policyPods/3 {
			t.Errorf("%s: %d GPUs have three pods, not %d: %v", policy, gpus[3], policyPods/3, gpus)
		}
	}
}

// In a burst, a question is answered while the pods before it are still on their way.
func TestInABurstAFewOf300PodsLandBesideTheBestPlace(t *testing.T) {
	for _, policy := range []string{"binpack", "rollout"} {
		if gpus := land(t, policy, true); gpus[3] < policyPods/3*8/10 {
			t.Errorf("%s: only %d GPUs have three pods, of %d: %v", policy, gpus[3], policyPods/3, gpus)
		}
	}
}

func TestThreeHundredPodsAreSpreadEvenlyUnderSpread(t *testing.T) {
	gpus := land(t, "spread", true)
	if gpus[2]+gpus[3] < 110 {
		t.Errorf("300 pods on 120 GPUs are not two or three on each: %v", gpus)
	}
}
