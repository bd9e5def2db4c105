package tests

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

func (f *fixture) countBound() int {
	f.Helper()
	n := 0
	for _, pod := range f.pods() {
		if nodeOf(pod) != "" {
			n++
		}
	}
	return n
}

// untried returns the pods that kube-scheduler has neither asked about nor said anything of.
func (f *fixture) untried() (names []string) {
	f.Helper()
	for _, pod := range f.pods() {
		name := harness.Text(pod, "metadata", "name")
		status, _, _ := harness.Condition(pod)
		if nodeOf(pod) == "" && status == "" && len(f.w.front.Calls("", f.space+"/"+name)) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// createAgain deletes a pod and creates it with the same name.
func (f *fixture) createAgain(name string) {
	f.Helper()
	pod := f.pod(name)
	f.delete(name, 0)
	f.must(f.api.Create(harness.PodPath(f.space, ""), object{"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": name, "annotations": harness.At(pod, "metadata", "annotations")}, "spec": pod["spec"]}))
}

// untilBound waits until n pods have nodes. Once, kube-scheduler 1.37.2 did not try the first 110 of 200 pods in 90 s; once, it
// did not try the first 101, its log did not name the first of them, and another one, started after 30 s, did no better. This is
// not what we test here, so such pods are created again, kube-scheduler is started again, and the test's log has a line.
func (f *fixture) untilBound(n int) {
	f.Helper()
	asked := time.Now().Add(soon / 3)
	f.until(soon, func() (bool, string) {
		have := f.countBound()
		if have < n && time.Now().After(asked) {
			asked = asked.Add(soon)
			if names := f.untried(); len(names) > 0 {
				f.Logf("kube-scheduler has not tried %d pods for %s\n%s%v", len(names), soon/3, f.storyOf(names[0]), f.pod(names[0]))
				for _, name := range names {
					f.createAgain(name)
				}
				f.newScheduler()
			}
		}
		return have >= n, fmt.Sprintf("%d of %d pods are bound", have, n)
	})
}

func (f *fixture) killAndStart() {
	f.Helper()
	f.w.front.Lead("")
	f.d.Proc.Kill()
	f.startDaemon()
}

func TestKillNineThreeTimesInABurstOf200PodsLosesNothing(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	for i := range 200 {
		f.create(harness.Simple(fmt.Sprintf("p%d", i), 100))
	}
	/* exactly 125 pods fit into 8000 + 4000 + 500 milli: 100 divides every GPU without a remainder */
	for _, bound := range []int{15, 50, 85} {
		f.untilBound(bound)
		f.killAndStart()
	}
	f.untilBound(125)
	time.Sleep(time.Second)
	if n := f.countBound(); n != 125 {
		t.Errorf("%d pods are bound where 125 fit", n)
	}
	used := f.consistent()
	for key, gpu := range f.gpus() {
		if used[key] != harness.Number(gpu, "milli") {
			t.Errorf("GPU %s is not full: %d", key, used[key])
		}
	}
	if n := len(f.allocations()); n != 125 {
		t.Errorf("%d allocations for 125 bound pods", n)
	}
}

func (f *fixture) bindingsSent(pod string) (codes []int) {
	f.Helper()
	audit, err := f.w.Audit()
	f.check(err)
	for _, a := range audit {
		if a.Subresource == "binding" && a.Namespace == f.space && a.Name == pod {
			codes = append(codes, a.Code)
		}
	}
	return codes
}

func TestABindingWhoseAnswerWasLostIsNotGrantedTwice(t *testing.T) {
	f, proxy := through(t, oneNode(4))
	var lost atomic.Int32
	proxy.Decide(func(r *http.Request) harness.Fate {
		if harness.IsBinding(r, "lost") && lost.Add(1) <= 2 {
			return harness.LoseAnswer
		}
		return harness.Pass
	})
	f.place(harness.Simple("lost", 600))
	used := f.consistent()
	if len(used) != 1 || len(f.allocations()) != 1 {
		t.Errorf("in use are %v", used)
	}
	f.until(soon, func() (bool, string) {
		binds := f.w.front.Calls("bind", f.space+"/lost")
		return len(binds) > 0 && binds[len(binds)-1].Answer != "", "the bind is not answered"
	})
	if n := lost.Load(); n < 2 {
		t.Errorf("the Binding was sent %d times: a lost answer was taken for a success", n)
	}
	codes := f.bindingsSent("lost")
	for i, code := range codes {
		if i == 0 && code != http.StatusCreated || i > 0 && code != http.StatusConflict {
			t.Errorf("the Bindings were answered %v", codes)
		}
	}
}

func TestABindingWhoseAnswerIsLostForEverIsResolvedAfterKillNine(t *testing.T) {
	f, proxy := through(t, oneNode(4))
	var sent atomic.Int32
	proxy.Decide(func(r *http.Request) harness.Fate {
		if harness.IsBinding(r, "lost") {
			sent.Add(1)
			return harness.LoseAnswer
		}
		/* a GET before the Binding may read the pod's request; a later one would show the outcome */
		if sent.Load() > 0 && strings.HasSuffix(r.URL.Path, "/pods/lost") {
			return harness.LoseAnswer
		}
		return harness.Pass
	})
	release := proxy.HoldWatches()
	defer release()
	f.create(harness.Simple("lost", 600))
	f.until(soon, func() (bool, string) { return sent.Load() > 0, "no Binding was sent" })
	f.w.front.Lead("")
	f.d.Proc.Kill()
	proxy.Decide(nil)
	release()
	f.startDaemon()
	f.bound("lost")
	if used := f.consistent(); len(used) != 1 || len(f.allocations()) != 1 {
		t.Errorf("in use are %v", used)
	}
}

func TestABindingThatNeverArrivedGoesToTheSameGPUAfterKillNine(t *testing.T) {
	f, proxy := through(t, oneNode(2), harness.NodeShape{Name: "node-b", Milli: 2000,
		Product: "Tesla-T4", MiB: 16384})
	var sent atomic.Int32
	proxy.Decide(func(r *http.Request) harness.Fate {
		if harness.IsBinding(r, "") {
			sent.Add(1)
			return harness.LoseAsk
		}
		return harness.Pass
	})
	f.create(harness.Simple("late", 600))
	f.until(soon, func() (bool, string) { return sent.Load() > 0, "no Binding was sent" })
	reserved := f.restPod("late")
	node := harness.Text(reserved, "allocation", "node")
	f.w.front.Lead("")
	f.d.Proc.Kill()
	proxy.Decide(nil)
	f.startDaemon()
	if pod := f.bound("late"); nodeOf(pod) != node {
		t.Errorf("reserved on %q, bound to %s", node, nodeOf(pod))
	}
	f.consistent()
}
