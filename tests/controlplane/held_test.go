package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// nvml is what the library that stands in for NVIDIA's says: a driver with the node's GPUs, and these lines.
type nvml string

func (file nvml) says(g *gpuNode, lines ...string) {
	g.Helper()
	file.shows(g, gpuIDs, nil, lines...)
}

// shows is says for GPUs in another order of their indexes, and with more about some of them.
func (file nvml) shows(g *gpuNode, gpus []string, more map[string]string, lines ...string) {
	g.Helper()
	text := "driver 570.1\n"
	for i, gpu := range gpus {
		text += fmt.Sprintf("gpu %s Tesla_T4 16384 minor=%d %s\n", gpu, i, more[gpu])
	}
	fresh := string(file) + ".new"
	g.check(os.WriteFile(fresh, []byte(text+strings.Join(lines, "\n")+"\n"), 0o644))
	g.check(os.Rename(fresh, string(file)))
}

// withInventory is a node whose agent itself tells which GPUs there are, and what holds them.
func withInventory(t *testing.T) (*gpuNode, nvml) {
	t.Helper()
	return withDriver(t, "--meter-s", "1")
}

// withDriver is a node whose agent has the driver's library, and these arguments.
func withDriver(t *testing.T, arguments ...string) (*gpuNode, nvml) {
	t.Helper()
	needsDriver(t)
	return driven(start(t), arguments...)
}

func needsDriver(t *testing.T) {
	t.Helper()
	needsAgent(t)
	if isStandIn() {
		t.Skip("the stand-in knows no driver")
	}
}

// driven is withDriver, served by this milligpud. Containers see what the driver says, and what it was told.
func driven(f *fixture, arguments ...string) (*gpuNode, nvml) {
	f.Helper()
	g := bareGPUNode(f)
	library, err := g.n.FakeNVML()
	g.check(err)
	driver := nvml(filepath.Join(g.n.SeenDir, "driver"))
	driver.says(g)
	g.Setenv("FAKE_NVML", string(driver))
	g.check(g.n.StartAgent(append([]string{"--nvml", library, "--inventory-s", "1"}, arguments...)...))
	g.until(soon, func() (bool, string) {
		return g.gpus()["gpu-real "+gpuIDs[1]] != nil && g.reported() != "",
			"milligpud does not know the agent or its GPUs"
	})
	return g, driver
}

// holder returns what the agent says holds a GPU whole; "" if nothing does.
func (g *gpuNode) holder(gpu string) string {
	g.Helper()
	text := harness.Text(g.must(g.api.Get(harness.NodePath("gpu-real"))), "metadata", "annotations", "milligpu.io/gpus")
	var list []object
	g.check(json.Unmarshal([]byte(text), &list))
	for _, shown := range list {
		if harness.Text(shown, "uuid") == gpu {
			return harness.Text(shown, "held")
		}
	}
	g.Fatalf("the agent does not show %s: %s", gpu, text)
	return ""
}

// heldBy waits until the agent says what holds a GPU, and milligpud has closed it for that and names the holder; "": until
// both say that nothing does.
func (g *gpuNode) heldBy(gpu, holder, name string) {
	g.Helper()
	g.until(soon, func() (bool, string) {
		shown, known := g.holder(gpu), g.gpus()["gpu-real "+gpu]
		state, by := harness.Text(known, "state"), harness.Text(known, "heldBy")
		return shown == holder && by == name && (state == "held") == (holder != ""), fmt.Sprintf(
			"%s is held by %q, and %s by %q for milligpud, instead of by %q", gpu, shown, state, by, holder)
	})
}

// onlyTheOther checks that GPU 1 takes shares while GPU 0 is held, and GPU 0 again when release has ended that.
func (g *gpuNode) onlyTheOther(release func()) {
	g.Helper()
	for _, name := range []string{"first", "second"} {
		uid := g.place(g.simple(name, 400))
		if due := g.due[uid]["main"]; len(due) != 1 || due[0] != gpuIDs[1] {
			g.Errorf("pod %s got %v", name, due)
		}
		g.ran(uid, "main", 1)
	}
	if mixed := g.drift("mixed", "gpu-real", ""); len(mixed) > 0 {
		g.Errorf("the whole node is closed: %v", mixed)
	}
	g.must(g.api.Create(harness.PodPath(g.space, ""), g.simple("waits", 400)))
	g.refusedWith("waits", "no GPU with 400 milli free")
	release()
	g.heldBy(gpuIDs[0], "", "")
	uid := g.remember("waits")
	if due := g.due[uid]["main"]; len(due) != 1 || due[0] != gpuIDs[0] {
		g.Errorf("the pod that waited got %v", due)
	}
	g.ran(uid, "main", 1)
	g.consistent()
}

func TestOnlyTheGPUThatAPodHasWholeIsClosed(t *testing.T) {
	g, _ := withInventory(t)
	g.offerWhole("--prefer", gpuIDs[0])
	whole := g.placeWhole("whole", gpuIDs[0])
	g.heldBy(gpuIDs[0], "pod:"+whole, g.space+"/whole")
	g.onlyTheOther(func() { g.delete("whole", 1) })
}

func TestAGPUThatMIGCutsUpIsClosedUntilItIsWhole(t *testing.T) {
	g, driver := withInventory(t)
	driver.shows(g, gpuIDs, map[string]string{gpuIDs[0]: "mig=1"})
	for _, labels := range []object{harness.GFDLabels(len(gpuIDs), "NVIDIA-A100-SXM4-80GB", 81920), harness.MIGLabels()} {
		g.patchNode("gpu-real", object{"labels": labels}) /* the agent is believed, and not they */
	}
	g.heldBy(gpuIDs[0], "mig", "mig")
	g.says(strings.Join(strings.Fields(g.ctl("node", "gpu-real")), " "), "held mig")
	g.onlyTheOther(func() { driver.says(g) })
}

/* there is no NVIDIA runtime here, so the container has the variable and no device */
func TestAPodThatHasAGPUByItsVariableOnlyClosesThatOne(t *testing.T) {
	g, _ := withInventory(t)
	g.offerWhole("--prefer", gpuIDs[0], "--strategy", "envvar")
	whole := g.placeWhole("whole")
	if seen := g.sightsOf(whole, "main"); seen[0].variable != gpuIDs[0] {
		t.Fatalf("the container has the variable %q", seen[0].variable)
	}
	g.heldBy(gpuIDs[0], "env:"+whole, g.space+"/whole")
	g.onlyTheOther(func() { g.delete("whole", 1) })
}

func TestAProcessOutsideKubernetesClosesTheGPUThatItUses(t *testing.T) {
	g, driver := withInventory(t)
	driver.says(g, fmt.Sprintf("process %s %d 100", gpuIDs[0], os.Getpid()))
	g.heldBy(gpuIDs[0], "process", "process")
	g.onlyTheOther(func() { driver.says(g) })
}

func TestAGPUThatTheDriverLosesWhileAPodRunsTakesNoNewShareAndItsPodIsToldAndLeftAlone(t *testing.T) {
	g, driver := withInventory(t)
	stays := g.place(g.simple("stays", 300))
	g.ran(stays, "main", 1)
	lost := g.due[stays]["main"][0]
	driver.shows(g, gpuIDs, map[string]string{lost: "fail=15"})
	g.until(soon, func() (bool, string) {
		gpu := g.gpus()["gpu-real "+lost]
		return harness.Text(gpu, "state") == "unhealthy", fmt.Sprint("it is not unhealthy: ", gpu)
	})
	g.drifts("unhealthy", "gpu-real", "stays")
	g.event("stays", "GPULedgerDrift: ")
	uid := g.place(g.simple("new", 600))
	g.ran(uid, "main", 1)
	if due := g.due[uid]["main"]; slices.Contains(due, lost) {
		t.Errorf("a lost GPU was granted: %v", due)
	}
	g.must(g.api.Create(harness.PodPath(g.space, ""), g.simple("waits", 600)))
	g.refusedWith("waits", "no GPU with 600 milli free")
	closed := g.must(g.d.Get("/api/v1/summary"))
	if milli := harness.Number(closed, "closed", "unhealthy"); milli != 700 {
		t.Errorf("the summary shows %d milli closed as unhealthy, 700 are: %v", milli, closed)
	}
	g.startedOnce("stays", stays)
	driver.says(g)
	g.until(soon, func() (bool, string) {
		gpu := g.gpus()["gpu-real "+lost]
		return harness.Text(gpu, "state") == "ok", fmt.Sprint("it is not healthy again: ", gpu)
	})
	g.ran(g.remember("waits"), "main", 1)
	g.startedOnce("stays", stays)
	g.consistent()
}

func TestWhenTheDriverNumbersItsGPUsAnotherWayPodsKeepTheirs(t *testing.T) {
	g, driver := withInventory(t)
	uid := g.place(g.simple("pod", 300))
	g.ran(uid, "main", 1)
	swapped := []string{gpuIDs[1], gpuIDs[0]}
	driver.shows(g, swapped, nil)
	g.n.Agent().Kill()
	g.check(g.n.Reboot(swapped...))
	library, err := g.n.FakeNVML()
	g.check(err)
	g.check(g.n.StartAgent("--nvml", library, "--inventory-s", "1"))
	g.until(soon, func() (bool, string) {
		gpu := g.gpus()["gpu-real "+gpuIDs[1]]
		return harness.Number(gpu, "index") == 0, fmt.Sprint("it has its old index: ", gpu)
	})
	g.ran(uid, "main", 2)
	g.ran(g.place(g.simple("new", 900)), "main", 1)
}
