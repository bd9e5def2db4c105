package tests

import (
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

func TestWithTwoAgentsNoShareIsCreatedUntilOneEnds(t *testing.T) {
	g := withAgent(t)
	before := g.place(g.simple("before", 300))
	g.ran(before, "main", 1)
	g.check(g.n.StartSecondAgent())
	uid := g.place(g.simple("pod", 300))
	plain := g.place(g.simple("plain", 0))
	g.notCreated("pod", "NVIDIA_VISIBLE_DEVICES")
	g.ran(plain, "main", 1)
	g.startedOnce("before", before)
	if g.starts(uid, "main") > 0 {
		t.Error("the container has started")
	}
	g.check(g.n.SecondAgent().End())
	g.ran(uid, "main", 1)
}

// sightsOf returns what one container saw at each of its starts.
func (g *gpuNode) sightsOf(uid, container string) []sight {
	g.Helper()
	return slices.DeleteFunc(g.sights(), func(s sight) bool { return s.uid != uid || s.container != container })
}

func TestAfterARebootThatSwapsDeviceNodesPodsGetTheSameGPUs(t *testing.T) {
	g := withAgent(t)
	uids := []string{g.place(g.simple("first", 700)), g.place(g.simple("second", 600))}
	for _, uid := range uids {
		g.ran(uid, "main", 1)
	}
	if first, second := g.due[uids[0]]["main"], g.due[uids[1]]["main"]; slices.Equal(first, second) {
		t.Fatalf("700 and 600 are both on %v", first)
	}
	g.check(g.n.Reboot(gpuIDs[1], gpuIDs[0]))
	g.patchNode("gpu-real", object{"annotations": object{"milligpu.io/gpus": gpusShown(
		`"uuid":"GPU-1b","index":0`, `"uuid":"GPU-0a","index":1`)}})
	g.notCreated("first", noPlugin)
	g.check(g.n.StartAgent())
	for _, uid := range uids {
		g.ran(uid, "main", 2)
		seen := g.sightsOf(uid, "main")
		if slices.Equal(seen[0].devices, seen[1].devices) {
			t.Errorf("the device nodes were not swapped: %v", seen)
		}
	}
	g.ran(g.place(g.simple("new", 300)), "main", 1)
}

// gpusShown is an annotation of two GPUs with these members.
func gpusShown(gpus ...string) string {
	for i, gpu := range gpus {
		gpus[i] = "{" + gpu + `,"milli":1000,"mib":16384,"model":"Tesla-T4"}`
	}
	return "[" + strings.Join(gpus, ",") + "]"
}

func seedOf(t *testing.T) int64 {
	/* the same in every run of CI, which looks at a commit and not for new seeds */
	seed := int64(1795539312828845819)
	if text := os.Getenv("MILLIGPU_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal("MILLIGPU_TEST_SEED: ", err)
		}
	}
	t.Logf("MILLIGPU_TEST_SEED=%d", seed)
	return seed
}

const (
	burstPods  = 100
	burstStays = 20 /* of them; the others end at once */
	burstKills = 8
)

// burstEnd is the phase that a pod of the burst comes to; one that ends at once is Running for a moment.
func burstEnd(name string) string {
	if i, _ := strconv.Atoi(name[1:]); i%(burstPods/burstStays) == 0 {
		return "Running"
	}
	return "Succeeded"
}

// createBurst creates the pods, and returns them by name.
func (g *gpuNode) createBurst(random *rand.Rand) map[string]object {
	g.Helper()
	all := map[string]object{}
	for i := range burstPods {
		ask, then := harness.Ask{Name: "main", Milli: 10 * (1 + random.Intn(20))}, "true"
		name := fmt.Sprintf("p%d", i)
		if burstEnd(name) == "Running" {
			ask.Milli, then = 10*(1+random.Intn(4)), stay
		}
		all[name] = g.watched(name, watcher(ask, then))
		all[name]["spec"].(object)["restartPolicy"] = "OnFailure"
		g.must(g.api.Create(harness.PodPath(g.space, ""), all[name]))
	}
	return all
}

// killOne ends one of the processes that a pod needs with SIGKILL, and starts it again.
func (g *gpuNode) killOne(random *rand.Rand) {
	g.Helper()
	switch which := []string{"milligpud", "milligpu-node", "containerd", "kubelet"}[random.Intn(4)]; which {
	case "milligpud":
		g.killAndStart()
	case "milligpu-node":
		g.n.Agent().Kill()
		time.Sleep(time.Duration(random.Intn(1500)) * time.Millisecond)
		g.check(g.n.StartAgent())
	case "containerd":
		g.check(g.n.KillContainerd())
	case "kubelet":
		g.n.Kubelet().Kill()
		g.check(g.n.StartKubelet())
	}
}

// unfinished counts the pods that are not yet where they shall be, and learns what each got from its annotation:
// those that ended hold nothing any more. A kubelet that was killed counts pods that ended before it told so, and refuses
// others for lack of room ("OutOf..."); as their owner would, we create those again.
func (g *gpuNode) unfinished(all map[string]object) (left int, some string) {
	g.Helper()
	started := map[string]bool{}
	for _, s := range g.sights() {
		started[s.uid] = true
	}
	for _, pod := range g.pods() {
		uid, name := harness.Text(pod, "metadata", "uid"), harness.Text(pod, "metadata", "name")
		if nodeOf(pod) != "" && g.due[uid] == nil {
			g.due[uid] = map[string][]string{}
			for _, s := range g.sharesOf(pod) {
				g.due[uid][s.Container] = append(g.due[uid][s.Container], s.GPU)
			}
		}
		phase, reason := harness.Text(pod, "status", "phase"), harness.Text(pod, "status", "reason")
		if phase == "Failed" && strings.HasPrefix(reason, "OutOf") {
			g.Logf("kubelet refused %s: %s", name, harness.Text(pod, "status", "message"))
			g.delete(name, 0)
			g.must(g.api.Create(harness.PodPath(g.space, ""), all[name]))
		}
		if phase != burstEnd(name) || !started[uid] {
			left++
			_, _, message := harness.Condition(pod)
			some = fmt.Sprintf("pod %s is %s: %s %s %s", name, phase, message, reason,
				harness.Text(pod, "status", "message"))
		}
	}
	return left, some
}

func TestABurstOf100PodsGetsItsGPUsWhileEverythingIsKilled(t *testing.T) {
	g := withAgent(t)
	g.n.Spend()
	random := rand.New(rand.NewSource(seedOf(t)))
	begun := time.Now()
	all := g.createBurst(random)
	for range burstKills {
		time.Sleep(time.Duration(500+random.Intn(2500)) * time.Millisecond)
		g.killOne(random)
	}
	left, _ := g.unfinished(all)
	t.Logf("%d pods left after the last kill, %s", left, time.Since(begun))
	g.until(3*soon, func() (bool, string) {
		left, some := g.unfinished(all)
		if left > 0 {
			time.Sleep(500 * time.Millisecond)
		}
		return left == 0, fmt.Sprintf("%d pods are not there; %s\n%s", left, some, g.waiting())
	})
	t.Logf("all pods ran after %s", time.Since(begun))
	g.consistent()
	g.idle(5 * time.Second)
	g.endBurst()
}

// idle says what the agent uses when nothing happens.
func (g *gpuNode) idle(long time.Duration) {
	g.Helper()
	before, _, err := g.n.Agent().Usage()
	g.check(err)
	time.Sleep(long)
	after, rss, err := g.n.Agent().Usage()
	g.check(err)
	g.Logf("milligpu-node, %d pods: %d KiB resident; %s of CPU time since its start, %s of it in %s without work",
		burstStays, rss, after, after-before, long)
	if after-before > long/50 {
		g.Error("it does something without being asked")
	}
}

func (g *gpuNode) endBurst() {
	g.Helper()
	for _, pod := range g.pods() {
		g.delete(harness.Text(pod, "metadata", "name"), 1)
	}
	g.until(soon, func() (bool, string) {
		left := len(g.pods())
		return left == 0, fmt.Sprint(left, " pods are left")
	})
}
