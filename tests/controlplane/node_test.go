package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

/* The GPUs of fixture.uuids, in the order of their device nodes. */
var gpuIDs = []string{"GPU-0a", "GPU-1b"}

// gpuNode is a real node with two GPUs, whose containers get them from milligpu-node. At the end of each test,
// everything that a container saw when it started is compared with milligpud's view.
type gpuNode struct {
	*fixture
	n *harness.RealNode

	due map[string]map[string][]string /* pod uid, container: the GPUs of its share */
	/* the gate is open: a container may run without its GPUs, though never with others */
	open bool
}

// bareGPUNode starts the node as it is when no agent was ever there; milligpud serves it and knows no UUIDs.
func bareGPUNode(f *fixture) *gpuNode {
	f.Helper()
	g := &gpuNode{fixture: f, n: f.realNode(), due: map[string]map[string][]string{}}
	f.Cleanup(g.compare) /* before the node and its pods end */
	g.check(g.n.GPUs(gpuIDs...))
	g.check(g.n.Advertise(2000))
	return g
}

// showUUIDs tells milligpud the UUIDs; it then also knows what was written to the Node before.
func (g *gpuNode) showUUIDs() {
	g.Helper()
	g.uuids("gpu-real")
	g.until(soon, func() (bool, string) {
		return g.gpus()["gpu-real "+gpuIDs[1]] != nil, "milligpud does not know the UUIDs"
	})
}

func needsAgent(t *testing.T) {
	t.Helper()
	if _, err := harness.Program("milligpu-node", "MILLIGPU_NODE"); err != nil {
		t.Skip("no agent to test: " + err.Error())
	}
}

// gpuNodeWithoutAgent starts the node as it is when its agent was there before, and is not now.
func gpuNodeWithoutAgent(t *testing.T) *gpuNode {
	t.Helper()
	needsAgent(t)
	g := bareGPUNode(start(t))
	g.patchNode("gpu-real", object{"annotations": object{"milligpu.io/agent": "true"}})
	g.showUUIDs()
	return g
}

func withAgent(t *testing.T) *gpuNode {
	t.Helper()
	g := gpuNodeWithoutAgent(t)
	g.check(g.n.StartAgent())
	return g
}

func isStandIn() bool { return filepath.Base(os.Getenv("MILLIGPU_NODE")) == "nri-plugin" }

// watcher is a container that writes down what it sees and then runs this.
func watcher(ask harness.Ask, then string) object {
	limits := object{}
	if ask.Milli > 0 {
		limits[harness.Resource] = fmt.Sprint(ask.Milli)
	}
	script := `for at in /dev/nvidia[0-9]*; do [ ! -e $at ] || seen="$seen $at=$(stat -c %T $at)"; done; ` +
		`echo "$POD|` + ask.Name + `|$NVIDIA_VISIBLE_DEVICES|$seen" >>/seen/starts; ` + then
	return object{"name": ask.Name, "image": harness.Image, "command": []string{"/bin/sh", "-c", script},
		"resources": object{"limits": limits},
		"env": []any{object{"name": "POD", "valueFrom": object{
			"fieldRef": object{"fieldPath": "metadata.uid"}}}},
		"volumeMounts": []any{object{"name": "seen", "mountPath": "/seen"}}}
}

// watched is a pod of such containers.
func (g *gpuNode) watched(name string, containers ...object) object {
	return object{"metadata": object{"name": name, "annotations": object{}},
		"spec": object{"restartPolicy": "Always", "containers": containers, "terminationGracePeriodSeconds": 1,
			"automountServiceAccountToken": false, "volumes": []any{object{"name": "seen",
				"hostPath": object{"path": g.n.SeenDir}}}}}
}

// simple is a pod with one container that stays.
func (g *gpuNode) simple(name string, milli int) object {
	return g.watched(name, watcher(harness.Ask{Name: "main", Milli: milli}, stay))
}

func annotate(pod object, key, value string) object {
	harness.At(pod, "metadata", "annotations").(object)[key] = value
	return pod
}

// place creates a pod, waits until it is bound, and remembers what milligpud says it gets. Returns its uid.
func (g *gpuNode) place(pod object) string {
	g.Helper()
	g.must(g.api.Create(harness.PodPath(g.space, ""), pod))
	return g.remember(harness.Text(pod, "metadata", "name"))
}

func (g *gpuNode) remember(name string) string {
	g.Helper()
	pod := g.bound(name)
	uid := harness.Text(pod, "metadata", "uid")
	g.due[uid] = map[string][]string{}
	if harness.Text(pod, "metadata", "annotations", "milligpu.io/allocation") == "" {
		return uid
	}
	for _, s := range restShares(g.allocations()[uid]) {
		g.due[uid][s.Container] = append(g.due[uid][s.Container], s.GPU)
	}
	if len(g.due[uid]) == 0 {
		g.Fatalf("milligpud has no shares of pod %s", name)
	}
	return uid
}

// sight is what one container saw when it started.
type sight struct {
	uid, container, variable string
	devices, gpus            []string /* /dev/nvidia1, and which GPU it really is */
}

func (g *gpuNode) sights() []sight {
	g.Helper()
	text, err := os.ReadFile(filepath.Join(g.n.SeenDir, "starts"))
	if err != nil && !os.IsNotExist(err) {
		g.Fatal(err)
	}
	var all []sight
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Split(line, "|")
		if len(fields) != 4 {
			continue
		}
		s := sight{uid: fields[0], container: fields[1], variable: fields[2]}
		for _, device := range strings.Fields(fields[3]) {
			path, number, _ := strings.Cut(device, "=")
			minor, err := strconv.ParseInt(number, 16, 32)
			g.check(err)
			s.devices = append(s.devices, path)
			s.gpus = append(s.gpus, g.n.UUID(int(minor)))
		}
		all = append(all, s)
	}
	return all
}

// compare is the oracle: no container ever ran with other GPUs than its share, nor without them.
func (g *gpuNode) compare() {
	g.Helper()
	if g.Failed() {
		g.Log("---- milligpu-node\n" + g.n.Agent().Tail(30) + "\n" + g.n.PluginTails(10) +
			"\n---- device-plugin\n" + g.n.DevicePlugin().Tail(10) + "\n---- containerd\n" + g.n.Containerd().Tail(15))
	}
	for _, s := range g.sights() {
		of, known := g.due[s.uid]
		due := of[s.container]
		slices.Sort(due)
		slices.Sort(s.gpus)
		switch {
		case !known:
			g.Errorf("a container %s of pod %s ran, which milligpud never bound", s.container, s.uid)
		case g.open && len(s.gpus) == 0:
		case !slices.Equal(due, s.gpus):
			g.Errorf("container %s of pod %s saw %v, its share is %v", s.container, s.uid, s.gpus, due)
		case len(due) > 0 && s.variable != "void":
			g.Errorf("container %s of pod %s has NVIDIA_VISIBLE_DEVICES=%s", s.container, s.uid, s.variable)
		}
	}
}

func (g *gpuNode) starts(uid, container string) int {
	g.Helper()
	count := 0
	for _, s := range g.sights() {
		if s.uid == uid && s.container == container {
			count++
		}
	}
	return count
}

// ran waits until a container has started this often.
func (g *gpuNode) ran(uid, container string, times int) {
	g.Helper()
	g.until(soon, func() (bool, string) {
		count := g.starts(uid, container)
		return count >= times, fmt.Sprintf("container %s of pod %s has started %d times; its node has\n%s",
			container, uid, count, g.waiting())
	})
}

// waiting returns why containers of our pods wait.
func (g *gpuNode) waiting() string {
	var lines []string
	for _, pod := range g.pods() {
		for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
			for _, status := range harness.Items(pod, "status", list) {
				if reason := harness.Text(status, "state", "waiting", "reason"); reason != "" {
					lines = append(lines, fmt.Sprintf("%s/%s: %s: %s", harness.Text(pod, "metadata", "name"),
						harness.Text(status, "name"), reason, harness.Text(status, "state", "waiting", "message")))
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

// notCreated waits until a pod's container is refused with one of these texts.
func (g *gpuNode) notCreated(name string, texts ...string) {
	g.Helper()
	g.until(soon, func() (bool, string) {
		for _, line := range strings.Split(g.waiting(), "\n") {
			if !strings.HasPrefix(line, name+"/") || !strings.Contains(line, ": CreateContainerError: ") {
				continue
			}
			for _, text := range texts {
				if strings.Contains(line, text) {
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("pod %s is not refused with any of %q, but\n%s", name, texts, g.waiting())
	})
}

// startedOnce checks that a container was started a single time, and waits until the API server shows that it runs.
func (g *gpuNode) startedOnce(name, uid string) {
	g.Helper()
	if count := g.starts(uid, "main"); count != 1 {
		g.Errorf("pod %s has started %d times", name, count)
	}
	g.phase(name, "Running") /* the API server hears of it later than we */
}

/* how containerd says that the plugin which a pod requires is not there */
const noPlugin = `required plugin "milligpu" not present`

const devicesPod = `apiVersion: v1
kind: Pod
metadata:
  name: one
spec:
  containers:
  - name: main
    image: ` + harness.Image + `
    command: [/bin/sh, -c, "echo sees=$(echo /dev/nvidia[0-9]*) $NVIDIA_VISIBLE_DEVICES; ` + stay + `"]
    resources:
      limits:
        nvidia.com/vgpu: 300
`

func TestAPodWithOneLineSeesExactlyItsGPUInDev(t *testing.T) {
	g := withAgent(t)
	_, err := g.w.Kubectl(devicesPod, "apply", "-n", g.space, "-f", "-")
	g.check(err)
	due := g.due[g.remember("one")]["main"]
	g.phase("one", "Running")
	if seen := g.printed(g.n, "one", "main", "sees="); len(due) != 1 ||
		seen != fmt.Sprintf("/dev/nvidia%d void", slices.Index(gpuIDs, due[0])) {
		t.Errorf("the container sees %q, its share is %v", seen, due)
	}
	g.consistent()
}

func TestContainersWithSharesOnTwoGPUsSeeTheirOwnAndAThirdSeesNone(t *testing.T) {
	g := withAgent(t)
	uid := g.place(g.watched("three", watcher(harness.Ask{Name: "a", Milli: 700}, stay),
		watcher(harness.Ask{Name: "b", Milli: 600}, stay), watcher(harness.Ask{Name: "none"}, stay)))
	if of := g.due[uid]; slices.Equal(of["a"], of["b"]) || len(of["none"]) > 0 {
		t.Fatalf("700 and 600 share a GPU: %v", of)
	}
	for _, name := range []string{"a", "b", "none"} {
		g.ran(uid, name, 1)
	}
}

func TestAPodWithTwoGPUsSeesBoth(t *testing.T) {
	g := withAgent(t)
	uid := g.place(annotate(g.simple("two", 600), "milligpu.io/gpu-count", "2"))
	if due := g.due[uid]["main"]; len(due) != 2 {
		t.Fatalf("its share is %v", due)
	}
	g.ran(uid, "main", 1)
}

func TestInitContainersAndSidecarsSeeTheirGPUs(t *testing.T) {
	g := withAgent(t)
	pod := g.watched("all", watcher(harness.Ask{Name: "main", Milli: 300}, stay))
	sidecar := watcher(harness.Ask{Name: "sidecar", Milli: 200}, stay)
	sidecar["restartPolicy"] = "Always"
	pod["spec"].(object)["initContainers"] = []any{sidecar, watcher(harness.Ask{Name: "init", Milli: 400}, "true"),
		watcher(harness.Ask{Name: "idle"}, "true")}
	uid := g.place(pod)
	for _, name := range []string{"sidecar", "init", "idle", "main"} {
		g.ran(uid, name, 1)
	}
	for _, name := range []string{"sidecar", "init", "main"} {
		if len(g.due[uid][name]) != 1 {
			t.Errorf("milligpud says that %s gets %v", name, g.due[uid][name])
		}
	}
}

// The key that signed it is replaced meanwhile, and it starts again.
func TestAContainerThatStartsAgainGetsTheSameGPU(t *testing.T) {
	t.Setenv("MILLIGPU_KEY_WAIT_S", "2")
	g := withAgent(t)
	uid := g.place(g.watched("again", watcher(harness.Ask{Name: "main", Milli: 300}, "sleep 1")))
	g.ran(uid, "main", 1)
	old := g.signer("again")
	g.replaceKey(old)
	after := g.place(g.simple("meanwhile", 300))
	if g.signer("meanwhile") == old {
		t.Errorf("key %s was replaced, and still signs", old)
	}
	g.ran(uid, "main", 3)
	g.ran(after, "main", 1)
}

// signer is the id of the key that signed a pod.
func (g *gpuNode) signer(pod string) string {
	g.T.Helper()
	return strings.Split(harness.Text(g.pod(pod), "metadata", "annotations", "milligpu.io/signature"), ":")[1]
}

// replaceKey does what milligpuctl replace-key does, and waits until another key signs.
func (g *gpuNode) replaceKey(old string) {
	g.T.Helper()
	g.must(g.api.Merge("/api/v1/namespaces/"+g.n.KeysNamespace+"/configmaps/milligpu-keys",
		object{"metadata": object{"annotations": object{"milligpu.io/replace-key": old}}}))
	g.until(soon, func() (bool, string) {
		g.check(g.n.TakeKeys())
		keys := g.must(g.d.Get("/api/v1/keys"))
		first := keys["items"].([]any)[0].(object)
		return harness.Text(first, "state") == "signing" && harness.Text(first, "id") != old, fmt.Sprint(keys)
	})
}

func TestNewPodsWaitForAnAgentThatWasKilledAndThenRunWithTheirGPU(t *testing.T) {
	g := withAgent(t)
	before := g.place(g.simple("before", 300))
	g.ran(before, "main", 1)
	g.n.Agent().Kill()
	/* what the author of a pod writes does not open the gate, for a container without a share either */
	uid := g.place(annotate(g.watched("new", watcher(harness.Ask{Name: "main", Milli: 1000}, stay),
		watcher(harness.Ask{Name: "beside"}, stay)), "required-plugins.noderesource.dev/container.beside", "[]"))
	g.notCreated("new", noPlugin)
	g.startedOnce("before", before)
	if g.starts(uid, "beside") > 0 {
		t.Error("a container without a share has started while the agent was away")
	}
	g.check(g.n.StartAgent())
	g.ran(uid, "main", 1)
	g.ran(uid, "beside", 1)
	g.startedOnce("before", before)
}

func TestAPodIsNotCreatedWithoutItsGPUWhileTheAgentHangs(t *testing.T) {
	g := withAgent(t)
	g.pause()
	uid := g.place(g.simple("pod", 300))
	g.notCreated("pod", "milligpu")
	if g.starts(uid, "main") > 0 {
		t.Error("the container has started")
	}
	g.resume()
	g.ran(uid, "main", 1)
	g.pause()
	uid = g.place(g.simple("another", 300))
	g.notCreated("another", "milligpu")
	g.n.Agent().Kill()
	g.check(g.n.StartAgent())
	g.ran(uid, "main", 1)
}

func TestAPodIsNotCreatedWithoutItsGPUWhenTheAgentDiesDuringTheQuestion(t *testing.T) {
	g := withAgent(t)
	for try := 1; ; try++ {
		says := g.containerdSays()
		g.pause()
		name := fmt.Sprint("pod-", try)
		uid := g.place(g.simple(name, 300))
		g.until(soon, func() (bool, string) {
			return strings.Contains(says(), "CreateContainer within sandbox"), "no container is made"
		})
		/* it asks a moment later, on a busy machine more than that, and waits 2 s for the answer */
		time.Sleep(time.Duration(300+200*try) * time.Millisecond)
		g.n.Agent().Kill()
		g.notCreated(name, notValidated, noPlugin)
		if g.starts(uid, "main") > 0 {
			t.Error("the container has started")
		}
		g.check(g.n.StartAgent())
		g.ran(uid, "main", 1)
		/* if not, the agent died before it was asked, or hung for too long: other tests' stories */
		if died := says(); strings.Contains(died, closesPlugin+"ttrpc: closed") {
			if !strings.Contains(died, notValidated) {
				t.Errorf("containerd asked the agent, and does not say %q:\n%s", notValidated, died)
			}
			return
		}
		if try == 8 {
			t.Fatal("the agent has never died during a question")
		}
	}
}

// withoutValidator switches containerd's validator off, and waits until the agent is connected again: nothing else would
// wait for it then.
func (g *gpuNode) withoutValidator() {
	g.Helper()
	before, err := g.n.AgentMetric("milligpu_node_connections_total")
	g.check(err)
	g.check(g.n.Validate(false))
	g.until(soon, func() (bool, string) {
		connections, _ := g.n.AgentMetric("milligpu_node_connections_total")
		connected, err := g.n.AgentMetric("milligpu_node_connected")
		return connections > before && connected == 1, fmt.Sprint("the agent is not connected again: ", err)
	})
}

func TestWithoutTheValidatorAContainerHasNoGPUWhileTheAgentHangs(t *testing.T) {
	g := withAgent(t)
	g.open = true
	g.withoutValidator()
	g.pause()
	uid := g.place(g.simple("pod", 300))
	g.ran(uid, "main", 1)
	g.resume()
}

func TestNoShareRunsOnANodeWhoseAgentNeverCameUntilItComes(t *testing.T) {
	g := gpuNodeWithoutAgent(t)
	uid := g.place(g.simple("pod", 300))
	plain := g.place(g.simple("plain", 0))
	g.notCreated("pod", noPlugin)
	g.ran(plain, "main", 1) /* only pods with shares wait */
	g.check(g.n.StartAgent())
	g.ran(uid, "main", 1)
}

func TestTheAgentComesBackAfterContainerdRestarted(t *testing.T) {
	g := withAgent(t)
	first := g.place(g.simple("first", 300))
	g.ran(first, "main", 1)
	g.phase("first", "Running") /* while a container is being started, containerd's end ends it, and kubelet starts another one */
	g.check(g.n.RestartContainerd())
	g.ran(g.place(g.simple("second", 300)), "main", 1)
	g.check(g.n.KillContainerd())
	g.ran(g.place(g.simple("third", 1000)), "main", 1)
	g.startedOnce("first", first)
	/* containers show whether the validator is on, which a restart may change */
	g.validatorIs("true")
	g.withoutValidator()
	g.ran(g.place(g.simple("fourth", 100)), "main", 1)
	g.validatorIs("false")
}

func TestAnotherPluginCannotAddAGPUToOurPod(t *testing.T) {
	g := withAgent(t)
	g.check(g.n.StartPlugin("other"))
	owner := g.place(g.simple("owner", 1000))
	g.ran(owner, "main", 1)
	others := "nvidia.com/gpu=" + g.sharesOf(g.pod("owner"))[0].GPU
	uid := g.place(annotate(g.simple("greedy", 500), "other.milligpu.test/cdi", others))
	g.notCreated("greedy", others)
	all := g.place(annotate(g.simple("all", 300), "other.milligpu.test/cdi", "nvidia.com/gpu=all"))
	g.notCreated("all", "nvidia.com/gpu=all")
	own := g.place(annotate(g.simple("own", 100), "other.milligpu.test/cdi",
		"nvidia.com/gpu="+gpuIDs[1-slices.Index(gpuIDs, g.sharesOf(g.pod("owner"))[0].GPU)]))
	g.notCreated("own", "both tried to")
	plain := g.place(annotate(g.simple("plain", 0), "other.milligpu.test/cdi", others))
	g.notCreated("plain", others)
	if g.starts(uid, "main")+g.starts(all, "main")+g.starts(own, "main")+g.starts(plain, "main") > 0 {
		t.Error("a container has started with a GPU that another plugin added")
	}
	g.ran(g.place(annotate(g.simple("harmless", 100), "other.milligpu.test/env", "A=B")), "main", 1)
}

// A GPU is known by the numbers of its device, whatever the path of the node, or without one.
func TestAnotherPluginCannotAddAGPUUnderAnotherName(t *testing.T) {
	g := withAgent(t)
	g.check(g.n.StartPlugin("other"))
	var uids []string
	for name, milli := range map[string]int{"ours": 300, "plain": 0} {
		uids = append(uids, g.place(annotate(g.simple(name+"-node", milli), "other.milligpu.test/node", "/dev/x1 195 1")),
			g.place(annotate(g.simple(name+"-rule", milli), "other.milligpu.test/rule", "195 1")))
		g.notCreated(name+"-node", "another NRI plugin gives it /dev/x1 (device 195:1)")
		g.notCreated(name+"-rule", "another NRI plugin gives it the right to open GPUs (device 195:1)")
	}
	for _, uid := range uids {
		if g.starts(uid, "main") > 0 {
			t.Error("a container has started with a GPU that another plugin added")
		}
	}
	g.ran(g.place(annotate(g.simple("harmless", 100), "other.milligpu.test/node", "/dev/x1 1 5")), "main", 1)
}

func TestAnotherPluginThatHangsOrDiesTakesNoGPUFromAPod(t *testing.T) {
	g := withAgent(t)
	for _, does := range []string{"hang", "die"} {
		g.check(g.n.StartPlugin("other", "--does", does))
		g.ran(g.place(g.simple(does, 300)), "main", 1)
	}
}

func TestAForgedAnnotationGivesNoOtherGPUWhenTheSandboxIsMadeAgain(t *testing.T) {
	g := withAgent(t)
	uid := g.place(g.simple("pod", 300))
	g.ran(uid, "main", 1)
	annotation := harness.Text(g.pod("pod"), "metadata", "annotations", "milligpu.io/allocation")
	swapped := strings.NewReplacer(gpuIDs[0], gpuIDs[1], gpuIDs[1], gpuIDs[0]).Replace(annotation)
	if swapped == annotation {
		t.Fatal("nothing was forged in " + annotation)
	}
	g.must(g.api.Merge(harness.PodPath(g.space, "pod"), object{"metadata": object{
		"annotations": object{"milligpu.io/allocation": swapped}}}))
	times := 1
	for refused := false; !refused && times <= 5; {
		g.check(g.n.KillSandbox(uid))
		g.until(soon, func() (bool, string) {
			refused = strings.Contains(g.waiting(), "milligpu.io/allocation")
			return refused || g.starts(uid, "main") > times, "the pod is neither refused nor made again"
		})
		if !refused {
			times++ /* kubelet had not heard of the annotation yet; compare judges what the container got */
		}
	}
	g.notCreated("pod", "milligpu.io/allocation")
	if count := g.starts(uid, "main"); count != times {
		t.Errorf("the container has started %d times, and %d times before kubelet heard of the annotation", count, times)
	}
}

func TestASandboxThatDiesIsMadeAgainWithTheSameGPU(t *testing.T) {
	g := withAgent(t)
	uid := g.place(g.simple("pod", 300))
	g.ran(uid, "main", 1)
	for times := 2; times <= 3; times++ {
		g.check(g.n.KillSandbox(uid))
		g.ran(uid, "main", times)
	}
}

func TestAnAllocationThatItsUserWroteIsNotBelieved(t *testing.T) {
	if isStandIn() {
		t.Skip("the stand-in knows no signatures")
	}
	g := withAgent(t)
	real := g.place(g.simple("real", 300))
	g.ran(real, "main", 1)
	pod := g.simple("forged", 0)
	pod["spec"].(object)["nodeName"] = "gpu-real"
	annotate(pod, "milligpu.io/allocation",
		harness.Text(g.pod("real"), "metadata", "annotations", "milligpu.io/allocation"))
	g.must(g.api.Create(harness.PodPath(g.space, ""), pod))
	g.notCreated("forged", "sign")
}

// The pods wait on a node whose agent is new; they ask for nothing. Each names what it wants.
func TestAnAllocationThatWasForgedBeforeTheAgentCameIsNotBelieved(t *testing.T) {
	if isStandIn() {
		t.Skip("the stand-in knows no signatures")
	}
	g := gpuNodeWithoutAgent(t)
	for name, gpu := range map[string]string{"all": "all", "one": gpuIDs[1], "number": "0"} {
		pod := g.watched(name, watcher(harness.Ask{Name: "main"}, "sleep 1"))
		pod["spec"].(object)["nodeName"] = "gpu-real"
		annotate(pod, "milligpu.io/allocation",
			`{"v":1,"containers":{"main":[{"gpu":"`+gpu+`","index":0,"milli":1000,"mib":1}]}}`)
		g.must(g.api.Create(harness.PodPath(g.space, ""), pod))
		uid := harness.Text(g.pod(name), "metadata", "uid")
		g.due[uid] = nil /* it sees no GPU, whenever it starts */
		g.ran(uid, "main", 1)
	}
	g.check(g.n.StartAgent())
	for _, name := range []string{"all", "one", "number"} {
		g.notCreated(name, "not signed by milligpud")
	}
	g.ran(g.place(g.simple("real", 1000)), "main", 1)
}

// It asks for nothing. What its author or its image chose at length is told to each plugin that connects.
func TestAPodWithMoreArgumentsThanAnybodyReadsLocksTheAgentOutOfNothing(t *testing.T) {
	g := gpuNodeWithoutAgent(t)
	long := append([]string{"/bin/sh", "-c", stay, "long"}, make([]string, 150000)...)
	pod := g.watched("long", object{"name": "main", "image": harness.Image, "command": long})
	pod["spec"].(object)["nodeName"] = "gpu-real"
	g.must(g.api.Create(harness.PodPath(g.space, ""), pod))
	g.phase("long", "Running")
	g.check(g.n.StartAgent())
	g.ran(g.place(g.simple("share", 300)), "main", 1)
	g.check(g.n.RestartContainerd())
	g.ran(g.place(g.simple("later", 300)), "main", 1)
	g.phase("long", "Running")
}

func TestKubeletsRestartChangesNothingForPodsWithGPUs(t *testing.T) {
	g := withAgent(t)
	first := g.place(g.simple("first", 300))
	g.ran(first, "main", 1)
	g.phase("first", "Running") /* it has started for kubelet, too */
	g.n.Kubelet().Kill()
	g.check(g.n.StartKubelet())
	g.ran(g.place(g.simple("second", 1000)), "main", 1)
	g.startedOnce("first", first)
}

func TestWithoutTheValidatorAContainerHasNoGPURatherThanAll(t *testing.T) {
	g := gpuNodeWithoutAgent(t)
	g.open = true
	g.check(g.n.Validate(false))
	g.ran(g.place(g.simple("pod", 300)), "main", 1)
}

// validatorIs waits until the agent says on its Node what a container has shown of containerd's validator.
func (g *gpuNode) validatorIs(on string) {
	g.T.Helper()
	g.until(soon, func() (bool, string) {
		said := harness.Text(g.must(g.api.Get("/api/v1/nodes/gpu-real")), "metadata", "annotations", "milligpu.io/agent")
		return strings.Contains(said, `"validator":`+on), said
	})
}

func (g *gpuNode) pause()  { g.n.Agent().Signal(syscall.SIGSTOP) }
func (g *gpuNode) resume() { g.n.Agent().Signal(syscall.SIGCONT) }
