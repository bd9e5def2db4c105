package tests

import (
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// offerWhole lets kubelet offer the node's GPUs whole, too, as NVIDIA's device plugin does.
func (g *gpuNode) offerWhole(args ...string) {
	g.Helper()
	if pid := g.n.OtherKubelet(); pid != 0 {
		g.Skipf("another kubelet (pid %d) has the one folder of device plugins on this machine", pid)
	}
	g.check(g.n.StartDevicePlugin(gpuIDs, args...))
}

// createWhole creates a pod that asks kubelet for a whole GPU and will get these. Returns its uid.
func (g *gpuNode) createWhole(name string, gpus ...string) string {
	g.Helper()
	main := watcher(harness.Ask{Name: "main"}, stay)
	main["resources"] = object{"limits": object{"nvidia.com/gpu": "1"}}
	g.must(g.api.Create(harness.PodPath(g.space, ""), g.watched(name, main)))
	uid := g.remember(name)
	g.due[uid]["main"] = gpus
	return uid
}

// placeWhole is createWhole of a pod that runs.
func (g *gpuNode) placeWhole(name string, gpus ...string) string {
	g.Helper()
	uid := g.createWhole(name, gpus...)
	g.ran(uid, "main", 1)
	return uid
}

func other(gpu string) string {
	if gpu == gpuIDs[0] {
		return gpuIDs[1]
	}
	return gpuIDs[0]
}

func TestAWholeGPUAndAShareOnOneNodeEachSeeTheirOwnGPU(t *testing.T) {
	g := withAgent(t)
	share := g.place(g.simple("share", 300))
	g.ran(share, "main", 1)
	free := other(g.due[share]["main"][0])
	g.offerWhole("--prefer", free)
	g.placeWhole("whole", free)
	g.startedOnce("share", share)
	g.phase("whole", "Running")
	g.drifts("mixed", "gpu-real", "") /* milligpud is not told which GPU it is */
	g.must(g.api.Create(harness.PodPath(g.space, ""), g.simple("more", 300)))
	g.refusedWith("more", "no GPU with 300 milli free")
}

/* kubelet does not ask milligpud, and may choose a GPU that has shares: the second pod waits */
func TestAWholeGPUThatHasSharesIsNotGivenAwayUntilTheyEnd(t *testing.T) {
	g := withAgent(t)
	share := g.place(g.simple("share", 300))
	g.ran(share, "main", 1)
	shared := g.due[share]["main"][0]
	g.offerWhole("--prefer", shared)
	whole := g.createWhole("whole", shared)
	g.notCreated("whole", "milligpu: it would have GPU "+shared+" whole, of which pods have shares (one is "+g.space+"/share)")
	g.startedOnce("share", share)
	g.delete("share", 1)
	g.ran(whole, "main", 1)
}
