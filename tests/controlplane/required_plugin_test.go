package tests

import (
	"fmt"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

const requiredPod = "required-plugins.noderesource.dev/pod"

const requiresAgent = `["milligpu"]`

func requiredOf(pod object) string { return harness.Text(pod, "metadata", "annotations", requiredPod) }

// requiresPlugin applies the component and waits until its policy takes effect.
func (f *fixture) requiresPlugin() {
	f.Helper()
	f.apply("components/required-plugin")
	f.until(soon, func() (bool, string) {
		pod, err := f.api.Create(harness.PodPath(f.space, "")+"?dryRun=All", harness.Simple("probe", 300).Object())
		return err == nil && requiredOf(pod) == requiresAgent, fmt.Sprint("the policy does not act: ", pod, err)
	})
}

// foreign is a pod of another scheduler, with the variable by which runtimes without CDI give GPUs.
func (g *gpuNode) foreign(name string, milli int, visible string) object {
	pod := g.simple(name, milli)
	pod["spec"].(object)["schedulerName"] = "nobody"
	main := pod["spec"].(object)["containers"].([]object)[0]
	main["env"] = append(main["env"].([]any),
		object{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible})
	return pod
}

// boundBehind creates a pod and binds it behind milligpud's back; no container of it may see a GPU. Returns its uid.
func (g *gpuNode) boundBehind(pod object) string {
	g.Helper()
	g.must(g.api.Create(harness.PodPath(g.space, ""), pod))
	name := harness.Text(pod, "metadata", "name")
	uid := harness.Text(g.pod(name), "metadata", "uid")
	g.due[uid] = nil
	if nodeOf(pod) == "" {
		g.bindBehind(name, "gpu-real")
	}
	return uid
}

func TestAPodThatSomebodyElseBindsDoesNotRunWithoutItsShare(t *testing.T) {
	needsZeroTouch(t)
	g, driver := withInventory(t)
	/* without the component it runs, and what its runtime gives it is closed */
	before := g.boundBehind(g.foreign("before", 300, "all"))
	g.ran(before, "main", 1)
	pid, err := g.n.Process(before, "main")
	g.check(err)
	driver.says(g, fmt.Sprintf("process %s %d 100", gpuIDs[0], pid), fmt.Sprintf("process %s %d 100", gpuIDs[1], pid))
	for _, gpu := range gpuIDs {
		g.heldBy(gpu, "process", "process")
	}
	g.delete("before", 0)
	driver.says(g)
	for _, gpu := range gpuIDs {
		g.heldBy(gpu, "", "")
	}

	g.requiresPlugin()
	both := strings.Join(gpuIDs, ",") /* a container that runs with these holds them */
	named := g.foreign("named", 100, both)
	named["spec"].(object)["nodeName"] = "gpu-real"
	first := g.watched("first", watcher(harness.Ask{Name: "main"}, stay))
	first["spec"].(object)["initContainers"] = []object{watcher(harness.Ask{Name: "load", Milli: 100}, "true")}
	first["spec"].(object)["schedulerName"] = "nobody"
	refused := map[string]string{"behind": g.boundBehind(g.foreign("behind", 100, both)),
		"named": g.boundBehind(named), "first": g.boundBehind(first)}
	for name := range refused {
		g.notCreated(name, "annotation milligpu.io/allocation is missing, since milligpud did not bind the pod")
	}
	plain := g.place(g.simple("plain", 0))
	g.ran(plain, "main", 1)
	if annotations := harness.At(g.pod("plain"), "metadata", "annotations"); annotations != nil {
		t.Errorf("a pod that asks nothing got %v", annotations)
	}
	for i, name := range []string{"one", "other"} {
		uid := g.place(g.simple(name, 600))
		if due := g.due[uid]["main"]; len(due) != 1 {
			t.Errorf("ordinary pod %d got %v", i, due)
		}
		g.ran(uid, "main", 1)
	}
	for name, uid := range refused {
		if g.starts(uid, "main")+g.starts(uid, "load") > 0 {
			t.Errorf("pod %s has run", name)
		}
	}
	for _, gpu := range gpuIDs {
		if holder := g.holder(gpu); holder != "" {
			t.Errorf("%s is held by %s", gpu, holder)
		}
	}
}

// A pod that milligpud binds to a node that never had an agent: its Binding requires none, its creation did.
func TestARequiredPluginKeepsPodsOffNodesWithTheValidatorAndWithoutAnAgent(t *testing.T) {
	needsZeroTouch(t)
	g := bareGPUNode(start(t))
	g.open = true
	g.requiresPlugin()
	uid := g.place(g.simple("pod", 300))
	g.notCreated("pod", noPlugin)
	g.ran(g.place(g.simple("plain", 0)), "main", 1)
	g.check(g.n.Validate(false))
	g.ran(uid, "main", 1)
}

func TestAskingPodsRequireTheAgentFromTheirCreationOnWhateverTheirAuthorWrote(t *testing.T) {
	needsZeroTouch(t)
	f := bare(t)
	f.requiresPlugin()
	created := func(pod harness.PodShape) object {
		pod.Scheduler = "nobody"
		return harness.At(f.create(pod), "metadata", "annotations").(object)
	}
	both := object{requiredPod: requiresAgent}
	for name, pod := range map[string]harness.PodShape{
		"asks":    harness.Simple("asks", 300),
		"other":   harness.Simple("other", 300).With(requiredPod, `["other"]`),
		"written": harness.Simple("written", 300).With(requiredPod, requiresAgent),
		"load":    {Name: "load", Apps: []harness.Ask{{Name: "main"}}, Inits: []harness.Ask{{Name: "first", Milli: 1}}},
	} {
		if seen := created(pod); fmt.Sprint(seen) != fmt.Sprint(both) {
			t.Errorf("pod %s got %v", name, seen)
		}
	}
	seen := created(harness.Simple("container", 300).With("a/b", "c").
		With("required-plugins.noderesource.dev/container.main", "[]"))
	want := object{requiredPod: requiresAgent, "a/b": "c",
		"required-plugins.noderesource.dev/container.main": requiresAgent}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("a pod that required nothing for its container got %v", seen)
	}
	if seen := created(harness.Simple("plain", 0).With(requiredPod, "[]")); requiredOf(f.pod("plain")) != "[]" {
		t.Errorf("a pod that asks nothing got %v", seen)
	}
}

// guards applies the component and waits until its policy on annotations takes effect. Returns a pod that nobody schedules.
func (f *fixture) guards() harness.PodShape {
	f.Helper()
	f.apply("components/guard")
	forged := harness.Simple("forged", 300)
	forged.Scheduler = "nobody"
	f.denied(forged.With("milligpu.io/allocation", "{}"))
	return forged
}

// The guard lets a pod require the agent when it is created, and nothing else, and not later.
func TestTheGuardLetsAskingPodsRequireTheAgentAtTheirCreationOnly(t *testing.T) {
	f := start(t, oneNode(2))
	forged := f.guards()
	container := "required-plugins.noderesource.dev/container.main"
	for _, key := range []string{requiredPod, container, "required-plugins.noderesource.dev"} {
		for _, value := range []string{"[]", "", `["milligpu","other"]`, `["milligpu"] `} {
			f.denied(forged.With(key, value))
		}
		pod := forged.With(key, requiresAgent)
		if _, err := f.api.Create(harness.PodPath(f.space, "")+"?dryRun=All", pod.Object()); err != nil {
			t.Errorf("a pod may not require the agent by %s: %v", key, err)
		}
	}
	f.place(harness.Simple("marked", 300).With(requiredPod, requiresAgent))
	f.place(harness.Simple("ours", 300))
	for name, value := range map[string]any{"ours": requiresAgent, "marked": nil} {
		_, err := f.api.Merge(harness.PodPath(f.space, name),
			object{"metadata": object{"annotations": object{requiredPod: value}}})
		if err == nil || !strings.Contains(err.Error(), "is written by milligpu") {
			t.Errorf("somebody changed later what pod %s requires: %v", name, err)
		}
	}
	f.consistent()
}

// The Binding writes its annotations over those that the pod was created with.
func TestABindingOfOursKeepsTheRequiredPluginAndAddsThoseOfContainers(t *testing.T) {
	needsZeroTouch(t)
	f := bare(t, oneNode(2))
	f.patchNode("node-a", object{"annotations": object{"milligpu.io/agent": "true"}})
	f.uuids("node-a")
	f.d = f.daemon(f.w.URL, f.w.CAFile)
	f.startDaemon()
	f.guards()
	f.requiresPlugin()
	f.place(harness.Simple("pod", 300))
	for _, key := range []string{requiredPod, "required-plugins.noderesource.dev/container.main"} {
		if value := harness.Text(f.pod("pod"), "metadata", "annotations", key); value != requiresAgent {
			t.Errorf("%s is %q", key, value)
		}
	}
	f.consistent()
}

// The API server applies both policies in an order that nobody chooses, so restores must leave what required-plugin writes.
func TestACopyRequiresTheAgentThoughItLosesItsAllocation(t *testing.T) {
	needsZeroTouch(t)
	f := start(t, oneNode(2))
	f.guards()
	f.apply("components/restores")
	copied := harness.Simple("copy", 300).With("milligpu.io/allocation", "{}").With(requiredPod, requiresAgent).
		With("required-plugins.noderesource.dev", "[]")
	left := object{requiredPod: requiresAgent}
	f.until(soon, func() (bool, string) { /* the guard denies it until restores takes effect */
		pod, err := f.api.Create(harness.PodPath(f.space, "")+"?dryRun=All", copied.Object())
		annotations := fmt.Sprint(harness.At(pod, "metadata", "annotations"))
		return annotations == fmt.Sprint(left), fmt.Sprint("the copy has ", annotations, err)
	})
	f.requiresPlugin()
	delete(copied.Annotations, requiredPod)
	f.place(copied)
	if required := requiredOf(f.pod("copy")); required != requiresAgent {
		t.Errorf("the copy requires %q", required)
	}
	f.consistent()
}
