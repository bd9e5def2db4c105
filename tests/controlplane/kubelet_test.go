package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// realNode returns the node gpu-real, whose pods really run, as new, or skips the test if the machine forbids that. The
// node of an earlier test serves again, with its containerd and kubelet, unless that test failed or changed it for good.
func (f *fixture) realNode() *harness.RealNode {
	f.Helper()
	var err error
	if f.w.node != nil {
		err = f.w.node.Register()
	} else {
		if call := harness.Forbidden(f.w.Dir); call != "" {
			f.Skip("this machine refuses containers: " + call)
		}
		f.w.node, err = f.w.StartRealNode("gpu-real")
	}
	f.check(err)
	node := f.w.node
	f.Cleanup(func() {
		f.endPods(node)
		if !f.Failed() && !node.Spent() {
			if err := node.Clean(); err != nil {
				f.Error(err)
			}
		}
		if f.Failed() {
			f.Log("---- kubelet\n" + node.Kubelet().Tail(25))
		}
		if f.Failed() || node.Spent() {
			if err := f.w.endNode(); err != nil {
				f.Error(err)
			}
		}
	})
	return node
}

// endPods deletes the pods and waits until kubelet has ended their containers in order. What the API server still shows of
// them then is only what kubelet has not told it yet.
func (f *fixture) endPods(node *harness.RealNode) {
	for _, pod := range f.pods() {
		f.delete(harness.Text(pod, "metadata", "name"), 1)
	}
	err := harness.Until(soon, func() (bool, string) {
		left := f.pods()
		for _, pod := range left {
			/* one that kubelet may be starting is left to it */
			if ended, err := node.Ended(harness.Text(pod, "metadata", "uid")); err != nil || !ended {
				return false, fmt.Sprint(len(left), " pods are left: ", err)
			}
		}
		return true, ""
	})
	if err != nil {
		f.Error(err)
	}
	for _, pod := range f.pods() {
		f.delete(harness.Text(pod, "metadata", "name"), 0)
	}
}

// stay is for a container that runs until kubelet ends it, and then ends at once: a shell that is the first process of a
// container ignores SIGTERM otherwise, and is killed when the grace period is over.
const stay = "trap 'exit 143' TERM; sleep 600 & wait"

// realPod returns a pod that runs a shell script in each container; one with Milli 0 requests no GPU.
func realPod(name string, scripts map[harness.Ask]string) object {
	var containers []any
	for ask, script := range scripts {
		limits := object{}
		if ask.Milli > 0 {
			limits[harness.Resource] = fmt.Sprint(ask.Milli)
		}
		containers = append(containers, object{"name": ask.Name, "image": harness.Image,
			"command":   []string{"/bin/sh", "-c", script},
			"resources": object{"limits": limits}})
	}
	return object{"metadata": object{"name": name},
		"spec": object{"restartPolicy": "Never", "containers": containers,
			"automountServiceAccountToken": false}}
}

func (f *fixture) phase(name, phase string) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		pod := f.pod(name)
		return harness.Text(pod, "status", "phase") == phase, fmt.Sprintf(
			"pod %s is %s instead of %s: %v", name, harness.Text(pod, "status", "phase"), phase,
			harness.At(pod, "status", "containerStatuses"))
	})
}

// printed waits until a container has printed a line with this prefix, and returns the rest of the line.
func (f *fixture) printed(n *harness.RealNode, pod, container, prefix string) string {
	f.Helper()
	uid := harness.Text(f.pod(pod), "metadata", "uid")
	var rest string
	f.until(soon, func() (bool, string) {
		text, err := n.Output(f.space, pod, uid, container)
		f.check(err)
		for _, line := range strings.Split(text, "\n") {
			if after, ok := strings.CutPrefix(line, prefix); ok {
				rest = after
				return true, ""
			}
		}
		return false, fmt.Sprintf("container %s printed only %q", container, text)
	})
	return rest
}

func TestARealContainerStartsAndEndsHere(t *testing.T) {
	f := bare(t)
	node := f.realNode()
	script := map[harness.Ask]string{{Name: "main"}: "echo said=hello; sleep 1"}
	f.must(f.api.Create(harness.PodPath(f.space, ""), realPod("hello", script)))
	f.phase("hello", "Succeeded")
	if said := f.printed(node, "hello", "main", "said="); said != "hello" {
		t.Errorf("the container said %q", said)
	}
}

/* only the one line under limits has to do with milligpu */
const oneLinePod = `apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: ` + harness.Image + `
    command: [/bin/sh, -c, "echo devices=$NVIDIA_VISIBLE_DEVICES; sleep %d"]
    resources:
      limits:
        nvidia.com/vgpu: %d
`

func needsZeroTouch(t *testing.T) {
	t.Helper()
	if harness.Minor() < 36 {
		t.Skip("MutatingAdmissionPolicy needs Kubernetes 1.36, this is " + harness.Version())
	}
}

// zeroTouch applies the component and waits until its policy takes effect.
func (f *fixture) zeroTouch() {
	f.Helper()
	f.apply("components/zero-touch")
	f.until(soon, func() (bool, string) {
		probe := harness.Simple("probe", 300)
		probe.Scheduler = "nobody"
		pod := f.create(probe)
		f.delete("probe", 0)
		env := harness.Items(pod, "spec", "containers", 0, "env")
		return len(env) == 1, "the policy does not act"
	})
}

// uuids annotates a node with two GPUs that have UUIDs, as software on the node would.
func (f *fixture) uuids(node string) {
	f.Helper()
	const gpus = `[{"uuid":"GPU-0a","index":0,"milli":1000,"mib":16384,"model":"Tesla-T4"},` +
		`{"uuid":"GPU-1b","index":1,"milli":1000,"mib":16384,"model":"Tesla-T4"}]`
	f.patchNode(node, object{"annotations": object{"milligpu.io/gpus": gpus}})
}

func TestAPodWithOnlyTheOneLineSeesItsGPUAndFreesItWhenItsProcessEnds(t *testing.T) {
	needsZeroTouch(t)
	f := start(t)
	node := f.realNode()
	f.check(node.Advertise(2000))
	f.uuids("gpu-real")
	f.shows("gpu-real", "capacityMilli", 2000)
	f.zeroTouch()
	apply := func(name string, seconds, milli int) {
		text := fmt.Sprintf(oneLinePod, name, seconds, milli)
		_, err := f.w.Kubectl(text, "apply", "-n", f.space, "-f", "-")
		f.check(err)
	}
	apply("one", 4, 300)
	f.phase("one", "Running")
	shares := f.sharesOf(f.pod("one"))
	if seen := f.printed(node, "one", "main", "devices="); seen != shares[0].GPU {
		t.Errorf("the container sees %q, the ledger says %v", seen, shares)
	}
	f.consistent()
	/* this pod waits until the process of the first one ends; nobody patches a phase */
	apply("two", 0, 2000)
	f.phase("one", "Succeeded")
	f.bound("two")
	f.phase("two", "Succeeded")
	f.shows("gpu-real", "usedMilli", 0)
}

func TestEachContainerOfAPodSeesItsOwnGPUsOnly(t *testing.T) {
	needsZeroTouch(t)
	f := start(t)
	node := f.realNode()
	f.check(node.Advertise(2000))
	f.uuids("gpu-real")
	f.shows("gpu-real", "capacityMilli", 2000)
	f.zeroTouch()
	const script = "echo devices=$NVIDIA_VISIBLE_DEVICES; sleep 3"
	f.must(f.api.Create(harness.PodPath(f.space, ""), realPod("three", map[harness.Ask]string{
		{Name: "a", Milli: 700}: script, {Name: "b", Milli: 600}: script, {Name: "none"}: script})))
	f.phase("three", "Running")
	of := map[string]string{}
	for _, s := range f.sharesOf(f.pod("three")) {
		of[s.Container] = s.GPU
	}
	if of["a"] == of["b"] {
		t.Errorf("700 and 600 share a GPU: %v", of)
	}
	of["none"] = "void"
	for name, devices := range of {
		if seen := f.printed(node, "three", name, "devices="); seen != devices {
			t.Errorf("container %s sees %q instead of %q", name, seen, devices)
		}
	}
	f.consistent()
	f.phase("three", "Succeeded")
	f.shows("gpu-real", "usedMilli", 0)
}

func TestAContainerCanMapTheAnnotationItself(t *testing.T) {
	f := start(t)
	node := f.realNode()
	f.check(node.Advertise(2000))
	f.shows("gpu-real", "capacityMilli", 2000)
	pod := realPod("maps", map[harness.Ask]string{{Name: "main", Milli: 300}: "echo devices=$SEEN"})
	main := harness.At(pod, "spec", "containers").([]any)[0].(object)
	main["env"] = []any{object{"name": "SEEN", "valueFrom": object{"fieldRef": object{
		"fieldPath": "metadata.annotations['milligpu.io/visible-devices']"}}}}
	f.must(f.api.Create(harness.PodPath(f.space, ""), pod))
	f.phase("maps", "Succeeded")
	/* the id of a GPU that is known only by count names no device, so the container gets the index */
	if seen := f.printed(node, "maps", "main", "devices="); seen != "0" && seen != "1" {
		t.Errorf("the container sees %q", seen)
	}
	f.shows("gpu-real", "usedMilli", 0)
}

func (f *fixture) capacity(node string) string {
	f.Helper()
	text := harness.Text(f.must(f.api.Get(harness.NodePath(node))), "status", "capacity",
		harness.Resource)
	return strings.Replace(text, "k", "000", 1)
}

func (f *fixture) hasCapacity(node, milli string) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		seen := f.capacity(node)
		return seen == milli, "the capacity is " + seen + " instead of " + milli
	})
}

func TestWhatRunsOutlivesKubeletsRestartThoughItsNodeHasFewerGPUsNow(t *testing.T) {
	f := bare(t)
	f.advertising()
	node := f.realNode()
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--advertise")
	f.startDaemon()
	label := func(count string) {
		f.patchNode("gpu-real", object{"labels": object{"nvidia.com/gpu.count": count}})
	}
	runs := func(names ...string) {
		for _, name := range names {
			if phase := harness.Text(f.pod(name), "status", "phase"); phase != "Running" {
				t.Errorf("pod %s is %s", name, phase)
			}
		}
	}
	restart := func() {
		node.Kubelet().Stop()
		f.check(node.StartKubelet())
		time.Sleep(3 * time.Second) /* kubelet admits or fails its pods within the first second */
	}
	label("2")
	f.hasCapacity("gpu-real", "2000")
	for _, name := range []string{"one", "two"} {
		f.must(f.api.Create(harness.PodPath(f.space, ""), realPod(name,
			map[harness.Ask]string{{Name: "main", Milli: 1000}: stay})))
		f.phase(name, "Running")
	}
	label("1")
	f.drifts("", "gpu-real", "")
	restart()
	f.hasCapacity("gpu-real", "2000")
	runs("one", "two")
	f.delete("two", 0)
	f.until(soon, func() (bool, string) {
		return len(f.allocations()) == 1, "pod two still holds its share"
	})
	restart() /* kubelet writes its node, and this event makes milligpud lower the capacity */
	f.hasCapacity("gpu-real", "1000")
	restart()
	runs("one")
	/* what happens if somebody else lowers the capacity */
	label("0")
	f.check(node.Advertise(500))
	restart()
	f.phase("one", "Failed")
}
