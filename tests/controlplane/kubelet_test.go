package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// realNode is a node whose pods really run; where the machine forbids it the test is skipped.
func (f *fixture) realNode(name string) *harness.RealNode {
	f.Helper()
	if call := harness.Forbidden(f.w.Dir); call != "" {
		f.Skip("this machine refuses containers: " + call)
	}
	node, err := f.w.StartRealNode(name)
	f.check(err)
	f.Cleanup(func() {
		f.endPods()
		if f.Failed() {
			f.Log("---- kubelet\n" + node.Kubelet().Tail(25))
		}
		if err := node.Stop(); err != nil {
			f.Error(err)
		}
	})
	return node
}

// endPods deletes the pods and gives kubelet the time to end their containers in order.
func (f *fixture) endPods() {
	for _, pod := range f.pods() {
		f.delete(harness.Text(pod, "metadata", "name"), 1)
	}
	err := harness.Until(soon, func() (bool, string) {
		left := len(f.pods())
		return left == 0, fmt.Sprint(left, " pods are left")
	})
	if err != nil {
		f.Error(err)
	}
}

// realPod runs a shell script in each container; milli 0 asks nothing.
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
	f.until(45*time.Second, func() (bool, string) {
		pod := f.pod(name)
		return harness.Text(pod, "status", "phase") == phase, fmt.Sprintf(
			"pod %s is %s instead of %s: %v", name, harness.Text(pod, "status", "phase"), phase,
			harness.At(pod, "status", "containerStatuses"))
	})
}

// printed waits until a container has printed a line that starts with this, and returns the rest.
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
	node := f.realNode("gpu-real")
	script := map[harness.Ask]string{{Name: "main"}: "echo said=hello; sleep 1"}
	f.must(f.api.Create(harness.PodPath(f.space, ""), realPod("hello", script)))
	f.phase("hello", "Succeeded")
	if said := f.printed(node, "hello", "main", "said="); said != "hello" {
		t.Errorf("the container said %q", said)
	}
}
