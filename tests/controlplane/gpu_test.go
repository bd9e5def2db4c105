package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// realGPU is a node with the first GPU of this machine, NVIDIA's driver and libraries. Nobody else describes the GPU, so
// its containers get it by milligpu-node's own specification, which containerd resolves. Skipped without a GPU.
type realGPU struct {
	*meteredNode
	uuid, model string
	program     string /* tests/programs/uses_gpu.c */
}

/* the image of program */
const cudaImage = "docker.io/library/milligpu-uses-gpu:1"

func withRealGPU(t *testing.T, arguments ...string) realGPU {
	t.Helper()
	needsDriver(t)
	uuid, model, why := harness.RealGPU()
	if why != "" {
		t.Skip(why)
	}
	f, reports := reporting(t)
	g := realGPU{uuid: uuid, model: model, meteredNode: &meteredNode{
		gpuNode: &gpuNode{fixture: f, n: f.realNode(), due: map[string]map[string][]string{}}}}
	var err error
	g.program, err = harness.UsesGPU(t.TempDir())
	g.check(err)
	g.check(g.n.ImportLinked(cudaImage, g.program))
	g.check(g.n.Advertise(1000))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("---- milligpu-node\n" + g.n.Agent().Tail(40) + "\n---- containerd\n" + g.n.Containerd().Tail(15))
		}
	})
	g.startAgent(append(reports, arguments...)...)
	g.until(soon, func() (bool, string) {
		return g.shown() != nil && strings.Contains(g.reported(), `"kind":"milligpu.io/gpu"`),
			"milligpud does not know the GPU, or no specification names it: " + g.reported()
	})
	g.follow()
	return g
}

func (g realGPU) startAgent(arguments ...string) {
	g.Helper()
	g.check(g.n.StartAgent(append([]string{"--nvml", "libnvidia-ml.so.1", "--inventory-s", "1", "--driver-root", "/"},
		arguments...)...))
}

// shown is the GPU as milligpud shows it.
func (g realGPU) shown() object { return g.gpus()["gpu-real "+g.uuid] }

// cudaPod is a pod with one container that takes so much memory of its GPU and stays, in one of the ways of uses_gpu.c.
func cudaPod(name string, milli, mib int, how ...string) object {
	limits := object{}
	if milli > 0 {
		limits[harness.Resource] = fmt.Sprint(milli)
	}
	return object{"metadata": object{"name": name}, "spec": object{"restartPolicy": "Never",
		"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false, "containers": []any{object{
			"name": "main", "image": cudaImage, "args": append([]string{fmt.Sprint(mib), "600"}, how...),
			"resources": object{"limits": limits}}}}}
}

// fact waits until the pod's container has printed a fact, and returns it.
func (g realGPU) fact(pod, fact string) string {
	g.Helper()
	return g.printed(g.n, pod, "main", fact+"=")
}

func (g realGPU) is(pod string, facts map[string]string) {
	g.Helper()
	for fact, want := range facts {
		if says := g.fact(pod, fact); !strings.HasPrefix(says, want) {
			g.Errorf("container of pod %s says %s=%s, not %s", pod, fact, says, want)
		}
	}
}

// computes waits until a pod has computed something on the GPU of its share. Returns its uid.
func (g realGPU) computes(pod object) string {
	g.Helper()
	uid, name := g.place(pod), harness.Text(pod, "metadata", "name")
	g.is(name, map[string]string{"computed": "ok", "gpus": "1", "uuid": g.uuid, "variable": "void"})
	return uid
}

// between waits until milligpud has measured so many MiB for a pod's share at some time: what it took, and what CUDA adds.
func (g realGPU) between(uid string, least, most int) {
	g.Helper()
	g.until(soon, func() (bool, string) {
		share := g.share(uid)
		mib := harness.Number(share, "peakMib")
		return mib >= least && mib <= most, fmt.Sprintf("peakMib is not between %d and %d: %v", least, most, share)
	})
	g.Logf("%v", g.share(uid))
}

// logSize logs what the agent takes of memory, together with NVIDIA's library.
func (g realGPU) logSize() {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.n.Agent().Pid()))
	g.check(err)
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "Rss") || strings.HasPrefix(line, "Cap") {
			g.Log(line)
		}
	}
}

func TestOnARealGPUPodsComputeOnItsSharesAndOneWithoutAShareFindsNone(t *testing.T) {
	g := withRealGPU(t)
	shown := g.shown()
	if model := harness.Text(shown, "model"); model != strings.ReplaceAll(g.model, " ", "-") && model != g.model {
		t.Errorf("milligpud shows the model %q, nvidia-smi %q", model, g.model)
	}
	g.Logf("%v\nmilligpu.io/gpus %s\nmilligpu.io/agent %s", shown, harness.Text(g.must(g.api.Get(
		harness.NodePath("gpu-real"))), "metadata", "annotations", "milligpu.io/gpus"), g.reported())
	busy := g.computes(cudaPod("busy", 300, 1000, "works"))
	idle := g.computes(cudaPod("idle", 300, 3000))
	g.place(cudaPod("without", 0, 1))
	g.is("without", map[string]string{"gpus": "none"})
	g.between(busy, 1000, 1000+2048)
	g.between(idle, 3000, 3000+2048)
	g.until(soon, func() (bool, string) {
		/* alone on the GPU, it has nearly all of its time; what is granted is not enforced without MPS */
		works, waits := g.share(busy), g.share(idle)
		return harness.Number(works, "measuredMilli") > 500 && harness.Number(waits, "measuredMilli") < 100,
			fmt.Sprint(works, waits)
	})
	g.Log("\n" + g.ctl("top") + g.ctl("allocations") + g.ctl("node", "gpu-real"))
	g.logSize()
	g.consistent()
}

func TestOnARealGPUAContainerOverItsMemoryIsKilledAndItsNeighbourComputesOn(t *testing.T) {
	g := withRealGPU(t, "--over-memory", "kill", "--over-grace-s", "1")
	beside := g.computes(cudaPod("beside", 300, 1000, "works"))
	process := g.process(beside)
	greedy := g.place(cudaPod("greedy", 50, 9000)) /* more than a twentieth of any GPU until 180 GB */
	gpu, mib := g.granted(greedy)
	if gpu != g.uuid || mib >= 9000 {
		t.Fatalf("it was granted %d MiB of %s", mib, gpu)
	}
	g.isTold("greedy", greedy, "was ended because it held more memory of GPU "+gpu, "killed", 1)
	g.until(soon, func() (bool, string) {
		status := harness.Items(g.pod("greedy"), "status", "containerStatuses")[0]
		return harness.Number(status, "state", "terminated", "exitCode") == 137, fmt.Sprint("it was not killed: ", status)
	})
	g.until(soon, func() (bool, string) {
		used, err := g.n.AgentMetric("milligpu_node_gpu_memory_used_mib")
		return err == nil && used < 9000, fmt.Sprintf("%v MiB of the GPU are used", used)
	})
	g.phase("beside", "Running")
	if now := g.process(beside); now != process {
		t.Errorf("the neighbour's process is %d, and was %d", now, process)
	}
	g.consistent()
}

func TestOnARealGPUAFaultOfAProgramDoesNotCloseTheGPU(t *testing.T) {
	g := withRealGPU(t)
	beside := g.computes(cudaPod("beside", 300, 100, "works"))
	g.place(cudaPod("faults", 300, 100, "faults"))
	if says := g.fact("faults", "failed"); !strings.Contains(says, "CUDA_ERROR_ILLEGAL_ADDRESS") {
		t.Errorf("it fails otherwise: %s", says)
	}
	g.phase("faults", "Failed")
	g.computes(cudaPod("after", 300, 100))
	if state := harness.Text(g.shown(), "state"); state != "ok" {
		t.Errorf("the GPU is %s: %v", state, g.shown())
	}
	for _, metric := range []string{"milligpu_node_gpu_xids_total", "milligpu_node_gpu_ecc_errors_total"} {
		if count, err := g.n.AgentMetric(metric); err != nil || count != 0 {
			t.Errorf("%s is %v, %v", metric, count, err)
		}
	}
	g.until(soon, func() (bool, string) {
		count, err := g.n.AgentMetric("milligpu_node_gpu_application_xids_total")
		return err == nil && count > 0, fmt.Sprint("the agent has not heard of XID 31: ", err)
	})
	g.sample(1, "milligpu_node_metering")
	g.phase("beside", "Running")
	g.between(beside, 100, 100+2048)
}

func TestOnARealGPUAProcessOutsideOfKubernetesClosesItAndItsEndOpensIt(t *testing.T) {
	g := withRealGPU(t)
	g.heldBy(g.uuid, "", "")
	outside, err := harness.StartProc("outside", t.TempDir(), g.program, "100", "600")
	g.check(err)
	t.Cleanup(outside.Kill)
	g.heldBy(g.uuid, "process", "process")
	g.must(g.api.Create(harness.PodPath(g.space, ""), cudaPod("waits", 300, 100)))
	g.refusedWith("waits", "")
	outside.Kill()
	g.heldBy(g.uuid, "", "")
	g.remember("waits")
	g.is("waits", map[string]string{"computed": "ok", "uuid": g.uuid})
}

func TestOnARealGPUWithoutLimitsOfTheDriverNothingStartsWhereTheyAreRequired(t *testing.T) {
	g := withRealGPU(t, "--memory-limit", "require")
	g.place(cudaPod("pod", 300, 100))
	limited := func() bool {
		ok, err := g.n.AgentMetric("milligpu_node_memory_limits_total", `outcome="ok"`)
		return err == nil && ok > 0
	}
	g.until(soon, func() (bool, string) {
		lines, err := g.api.Events(g.space, "pod")
		g.check(err)
		all := strings.Join(lines, "\n")
		return limited() || strings.Contains(all, "its GPU memory cannot be limited"), all
	})
	if limited() {
		g.is("pod", map[string]string{"computed": "ok"})
		t.Skip("this driver has limits")
	}
	g.Log(g.waiting())
}

// part checks that a pod has so many percent of all multiprocessors; MPS rounds to what the GPU can divide.
func (g realGPU) part(pod string, percent, all int) {
	g.Helper()
	count, err := strconv.Atoi(g.fact(pod, "multiprocessors"))
	g.check(err)
	if due := all * percent / 100; count > due+2 || count < due-8 {
		g.Errorf("pod %s has %d of %d multiprocessors, %d percent are %d", pod, count, all, percent, due)
	}
}

// withRealMPS is a node with a real GPU, whose agent shares it by NVIDIA's MPS where the label says so. The logs of the
// daemon are logged at the end.
func withRealMPS(t *testing.T, more ...string) (g realGPU, m *mpsNode, arguments []string) {
	t.Helper()
	m, arguments = mpsFolder(t)
	arguments = append(arguments, more...)
	g = withRealGPU(t, arguments...)
	m.gpuNode = g.gpuNode
	t.Cleanup(func() {
		/* a daemon that is killed may leave its server; one that quits waits for its clients, which end after this */
		_, _ = harness.RunIn("quit -t 5\n", "timeout", "15", "env",
			"CUDA_MPS_PIPE_DIRECTORY="+filepath.Join(m.dir, g.uuid, "pipe"), "nvidia-cuda-mps-control")
		for _, log := range []string{"control.log", "server.log"} {
			text, _ := os.ReadFile(filepath.Join(m.dir, g.uuid, "log", log))
			t.Logf("---- %s\n%s", log, text)
		}
	})
	return g, m, arguments
}

// rounds is how many rounds a pod says it has computed, and all that it said.
func (g realGPU) rounds(pod, uid string) (count int, said string) {
	g.Helper()
	said, err := g.n.Output(g.space, pod, uid, "main")
	g.check(err)
	for _, line := range strings.Split(said, "\n") {
		if after, ok := strings.CutPrefix(line, "rounds="); ok {
			count, _ = strconv.Atoi(after)
		}
	}
	return count, said
}

// computesOn waits until a pod has computed so many rounds more, and checks that none of them failed.
func (g realGPU) computesOn(pod, uid string, more int) {
	g.Helper()
	from, _ := g.rounds(pod, uid)
	g.until(soon, func() (bool, string) {
		count, said := g.rounds(pod, uid)
		if strings.Contains(said, "failed=") {
			g.Fatalf("pod %s failed:\n%s", pod, said)
		}
		return count >= from+more, fmt.Sprintf("pod %s has computed %d rounds since it had %d:\n%s", pod, count-from, from, said)
	})
}

func TestOnARealGPUAClientOfMPSThatIsKilledOverItsMemoryLeavesItsNeighbourUnharmed(t *testing.T) {
	g, m, _ := withRealMPS(t, "--over-memory", "kill", "--over-grace-s", "6", "--meter-s", "1")
	m.label("on")
	g.until(soon, func() (bool, string) { return len(m.daemons()) == 1, "the daemon does not run" })
	beside := g.computes(cudaPod("beside", 300, 1000, "works"))
	process := g.process(beside)
	g.computesOn("beside", beside, 3)
	greedy := g.place(cudaPod("greedy", 50, 9000, "escapes")) /* more than a twentieth of any GPU until 180 GB */
	gpu, mib := g.granted(greedy)
	if gpu != g.uuid || mib >= 9000 {
		t.Fatalf("it was granted %d MiB of %s", mib, gpu)
	}
	g.is("greedy", map[string]string{"computed": "ok"}) /* else MPS has refused the memory, and nothing is tried */
	g.computesOn("greedy", greedy, 1)
	g.until(soon, func() (bool, string) {
		status := harness.Items(g.pod("greedy"), "status", "containerStatuses")[0]
		_, said := g.rounds("greedy", greedy)
		return harness.Text(status, "state", "terminated", "finishedAt") != "",
			fmt.Sprintf("it was not killed: %v\n%s", status, said)
	})
	_, said := g.rounds("greedy", greedy)
	t.Logf("the client that was killed: %v\n%s", harness.Items(g.pod("greedy"), "status", "containerStatuses")[0]["state"], said)
	g.isTold("greedy", greedy, "was ended because it held more memory of GPU "+gpu, "killed", 1)
	for outcome, want := range map[string]float64{"ok": 1, "failed": 0} {
		if count, err := g.n.AgentMetric("milligpu_node_mps_clients_ended_total", `outcome="`+outcome+`"`); err != nil || count != want {
			t.Errorf("the agent has ended %v clients (%s), not %v: %v", count, outcome, want, err)
		}
	}
	g.computesOn("beside", beside, 10)
	g.phase("beside", "Running")
	if now := g.process(beside); now != process {
		t.Errorf("the neighbour's process is %d, and was %d", now, process)
	}
	after := g.computes(cudaPod("after", 100, 100, "works")) /* the server takes clients */
	g.computesOn("after", after, 3)
	g.computesOn("beside", beside, 3)
	_, said = g.rounds("beside", beside)
	t.Logf("the neighbour said\n%s", said)
	g.consistent()
}

func TestOnARealGPUClientsOfMPSHaveTheirPartOfTheProcessorsAndOfTheMemory(t *testing.T) {
	g, m, arguments := withRealMPS(t)
	g.computes(cudaPod("before", 100, 100))
	all, err := strconv.Atoi(g.fact("before", "multiprocessors"))
	g.check(err)
	m.label("on")
	g.until(soon, func() (bool, string) { return len(m.daemons()) == 1, "the daemon does not run" })
	busy := g.computes(cudaPod("busy", 300, 1000, "works"))
	also := g.computes(cudaPod("also", 200, 2000, "works"))
	g.part("busy", 30, all)
	g.part("also", 20, all)
	_, mib := g.granted(busy)
	g.place(cudaPod("greedy", 100, mib)) /* the share of another */
	g.is("greedy", map[string]string{"failed": "cuMemAlloc CUDA_ERROR_OUT_OF_MEMORY"})
	g.between(busy, 1000, 1000+1024)
	g.between(also, 2000, 2000+1024)
	g.Log("\n" + g.ctl("top") + g.ctl("allocations"))
	other := cudaPod("other", 50, 100)
	harness.Items(other, "spec", "containers")[0]["securityContext"] = object{"runAsUser": 1000}
	g.must(g.api.Create(harness.PodPath(g.space, ""), other))
	g.remember("other")
	g.notCreated("other", "runAsUser: 0 for it")
	g.delete("other", 1)
	/* an agent that ends takes nobody along, and the next one finds the daemon */
	daemon := m.daemons()[0]
	g.n.Agent().Kill()
	g.startAgent(arguments...)
	g.computes(cudaPod("after", 100, 100))
	g.part("after", 10, all)
	if now := m.daemons(); len(now) != 1 || now[0] != daemon {
		t.Errorf("the daemon is %v, and was %d", now, daemon)
	}
	for _, pod := range []string{"before", "busy", "also"} {
		g.phase(pod, "Running")
	}
	/* what NVML does not tell of clients is not taken for idle */
	for _, uid := range []string{busy, also} {
		if share := g.share(uid); share["idleSince"] != nil || share["measuredMilli"] == float64(0) {
			t.Errorf("a client that works is idle: %v", share)
		}
	}
	m.label(nil)
	g.delete("busy", 1)
	time.Sleep(5 * time.Second) /* it is killed while it works: NVIDIA promises nothing of the others then */
	said, err := g.n.Output(g.space, "also", also, "main")
	g.check(err)
	t.Logf("after a client was killed, another is %s, and said\n%s", harness.Text(g.pod("also"), "status", "phase"), said)
	for _, pod := range []string{"also", "after", "greedy"} {
		g.delete(pod, 1)
	}
	g.until(soon, func() (bool, string) { return len(m.daemons()) == 0, "a daemon runs without clients" })
	g.phase("before", "Running")
}
