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

// land lets 300 pods of 300 arrive at once under this policy, and returns how many pods each used GPU has.
func land(t *testing.T, policy string) map[int]int {
	var nodes []harness.NodeShape
	for i := range policyNodes {
		nodes = append(nodes, harness.NodeShape{Name: fmt.Sprintf("policy-%02d", i), Milli: 4000,
			Product: "Tesla-T4", MiB: 16384})
	}
	f := bare(t, nodes...)
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--policy", policy, "--shortlist", "1")
	f.startDaemon()
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	_, err := f.api.Burst(f.w.scheduler, f.space, "", policyPods, policyLimit)
	f.check(err)
	gpus := map[int]int{}
	for _, milli := range f.consistent() {
		gpus[milli/300]++
	}
	t.Logf("%s: GPUs by their number of pods: %v", policy, gpus)
	return gpus
}

// kube-scheduler's own scores prefer empty nodes: that these are filled one after the other is the policy's will.
func TestThreeHundredPodsFillAsFewGPUsAsTheyCanUnderBinpack(t *testing.T) {
	if gpus := land(t, "binpack"); gpus[3] != policyPods/3 {
		t.Errorf("%d GPUs have three pods, not %d: %v", gpus[3], policyPods/3, gpus)
	}
}

func TestThreeHundredPodsFillAsFewGPUsAsTheyCanUnderRollout(t *testing.T) {
	if gpus := land(t, "rollout"); gpus[3] != policyPods/3 {
		t.Errorf("%d GPUs have three pods, not %d: %v", gpus[3], policyPods/3, gpus)
	}
}

func TestThreeHundredPodsAreSpreadEvenlyUnderSpread(t *testing.T) {
	gpus := land(t, "spread")
	if gpus[2] != 60 || gpus[3] != 60 {
		t.Errorf("300 pods on 120 GPUs are not two or three on each: %v", gpus)
	}
}
