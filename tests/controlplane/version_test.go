package tests

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// conflicts counts Bindings, those that met a newer version of the pod (409), and GETs of pods.
type conflicts struct{ bindings, conflicts, gets float64 }

func (f *fixture) conflicts() (c conflicts) {
	f.Helper()
	for _, part := range []struct {
		to     *float64
		labels []string
	}{
		{&c.bindings, []string{`call="bind"`}},
		{&c.conflicts, []string{`call="bind"`, `code="409"`}},
		{&c.gets, []string{`call="check"`}},
	} {
		n, err := f.d.Metric("milligpu_api_requests_total", part.labels...)
		f.check(err)
		*part.to = n
	}
	return c
}

// report logs the counts, and fails if a conflict cost more than one GET and one more Binding.
func (f *fixture) report(what string, pods int, took time.Duration, before conflicts) {
	f.Helper()
	after := f.conflicts()
	n := after.conflicts - before.conflicts
	f.Logf("%s: %d pods in %.1f s, %.0f Bindings, %.0f met a newer pod (%.1f %%), %.0f GETs", what, pods,
		took.Seconds(), after.bindings-before.bindings, n, 100*n/float64(pods), after.gets-before.gets)
	if gets := after.gets - before.gets; gets > n {
		f.Errorf("%.0f conflicts took %.0f GETs", n, gets)
	}
	if sent := after.bindings - before.bindings; sent > float64(pods)+n {
		f.Errorf("%d pods and %.0f conflicts took %.0f Bindings", pods, n, sent)
	}
	f.noneInDoubt()
}

// How many Bindings meet a pod that was written to after milligpud judged it, and what that costs.
func TestABindingThatMeetsANewerPodCostsOneLookAndOneMore(t *testing.T) {
	const pods = 1000
	f := bare(t)
	f.d = f.daemon(f.w.URL, f.w.CAFile)
	f.startDaemon()
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	for _, node := range harness.BurstNodes(burstNodes) {
		f.addNode(node)
	}
	f.until(soon, func() (bool, string) {
		nodes, err := f.d.List("/api/v1/nodes")
		return err == nil && len(nodes) == burstNodes, "the nodes are not known"
	})
	before := f.conflicts()
	took, err := f.api.Burst(f.w.scheduler, f.space, "", pods, burstLimit)
	f.check(err)
	f.report("a burst", pods, took, before)
	f.untilNothingIsOpen()
}

// kube-scheduler writes the reason into each refused pod, often just before it asks again.
func TestPodsThatWereRefusedBeforeAreBoundInTheirNewVersion(t *testing.T) {
	const pods = 1000
	f := start(t, oneNode(8))
	node := f.must(f.api.Get("/api/v1/nodes"))["items"].([]any)[0]
	f.patchNode(harness.Text(node, "metadata", "name"), object{"annotations": object{"milligpu.io/cordon": "all"}})
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	f.check(f.api.CreatePods(f.space, "", pods))
	f.until(burstLimit, func() (bool, string) {
		waiting := 0
		for _, pod := range f.pods() {
			if strings.Contains(condition(pod), "300 milli") {
				waiting++
			}
		}
		return waiting == pods, fmt.Sprintf("%d pods were refused", waiting)
	})
	before := f.conflicts()
	began := time.Now()
	for _, node := range harness.BurstNodes(burstNodes) {
		f.addNode(node)
	}
	f.until(burstLimit, func() (bool, string) {
		done, err := f.api.AllBound(f.space)
		return err == nil && done, "pods are not bound"
	})
	f.report("refused before", pods, time.Since(began), before)
	f.untilNothingIsOpen()
}

// condition returns the message of a pod's PodScheduled condition.
func condition(pod object) string {
	status, _ := pod["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		if c, _ := item.(map[string]any); c["type"] == "PodScheduled" {
			text, _ := c["message"].(string)
			return text
		}
	}
	return ""
}

// If a volume waits for its first consumer, kube-scheduler writes nominatedNodeName into the pod, waits for
// the volume, and then asks us to bind.
func TestPodsWithVolumesAreBoundInTheirNewVersion(t *testing.T) {
	const pods = 200
	f := start(t, harness.BurstNodes(20)...)
	f.volumes(pods)
	stop := make(chan struct{})
	done := make(chan struct{})
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	go func() { f.bindVolumes(stop); close(done) }()
	defer func() { close(stop); <-done }()
	changes, stopWatch, err := f.api.Watch(harness.PodPath(f.space, ""),
		harness.Text(f.must(f.api.Get(harness.PodPath(f.space, ""))), "metadata", "resourceVersion"))
	f.check(err)
	before := f.conflicts()
	began := time.Now()
	for i := range pods {
		pod := harness.Simple(fmt.Sprintf("p%d", i), 300).Object()
		spec := pod["spec"].(harness.Object)
		spec["volumes"] = []any{object{"name": "v",
			"persistentVolumeClaim": object{"claimName": fmt.Sprintf("claim-%d", i)}}}
		f.must(f.api.Create("/api/v1/namespaces/"+f.space+"/pods", pod))
	}
	f.until(burstLimit, func() (bool, string) {
		done, err := f.api.AllBound(f.space)
		return err == nil && done, "pods are not bound"
	})
	took := time.Since(began)
	stopWatch()
	nominated := map[string]bool{}
	for change := range changes {
		if harness.Text(change.Object, "status", "nominatedNodeName") != "" {
			nominated[harness.Text(change.Object, "metadata", "name")] = true
		}
	}
	t.Logf("%d of %d pods were nominated before they were bound", len(nominated), pods)
	f.report("with volumes", pods, took, before)
	f.untilNothingIsOpen()
}

const volumeClass = "waits-for-consumer"

func (f *fixture) volumes(count int) {
	f.Helper()
	const classes = "/apis/storage.k8s.io/v1/storageclasses"
	f.must(f.api.Create(classes, object{"metadata": object{"name": volumeClass},
		"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}))
	f.Cleanup(func() { f.check(f.api.Delete(classes+"/"+volumeClass, 0)) })
	for i := range count {
		volume := fmt.Sprintf("volume-%s-%d", f.space, i)
		f.must(f.api.Create("/api/v1/persistentvolumes", object{"metadata": object{"name": volume},
			"spec": object{"capacity": object{"storage": "1Gi"}, "accessModes": []any{"ReadWriteOnce"},
				"storageClassName": volumeClass, "hostPath": object{"path": "/nowhere"}}}))
		f.must(f.api.Merge("/api/v1/persistentvolumes/"+volume+"/status",
			object{"status": object{"phase": "Available"}}))
		f.Cleanup(func() { _ = f.api.Delete("/api/v1/persistentvolumes/"+volume, 0) })
		f.must(f.api.Create("/api/v1/namespaces/"+f.space+"/persistentvolumeclaims", object{
			"metadata": object{"name": fmt.Sprintf("claim-%d", i)},
			"spec": object{"accessModes": []any{"ReadWriteOnce"}, "storageClassName": volumeClass,
				"resources": object{"requests": object{"storage": "1Gi"}}}}))
	}
}

// bindVolumes does what kube-scheduler expects of the persistent volume controller, which does not run here.
func (f *fixture) bindVolumes(stop <-chan struct{}) {
	claimed := map[string]bool{}
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		list, err := f.api.Get("/api/v1/persistentvolumes")
		if err != nil {
			continue
		}
		items, _ := list["items"].([]any)
		for _, item := range items {
			volume, _ := item.(map[string]any)
			claim := harness.Text(volume, "spec", "claimRef", "name")
			name := harness.Text(volume, "metadata", "name")
			if claim == "" || claimed[name] || harness.Text(volume, "spec", "claimRef", "namespace") != f.space {
				continue
			}
			path := "/api/v1/namespaces/" + f.space + "/persistentvolumeclaims/" + claim
			_, err := f.api.Merge(path, object{"metadata": object{"annotations": object{
				"pv.kubernetes.io/bind-completed": "yes"}}, "spec": object{"volumeName": name}})
			claimed[name] = err == nil
		}
	}
}

// If a tenant writes to a pod between our reading and the Binding, milligpud judges the new version before
// anything is bound.
func TestAPodThatIsWrittenToWhileItsBindingIsOnItsWayIsJudgedAgain(t *testing.T) {
	f, proxy := through(t, oneNode(4))
	var sent atomic.Int32
	proxy.Slow(func(r *http.Request) harness.Delay {
		if harness.IsBinding(r, "moved") && sent.Add(1) == 1 {
			_, err := f.api.Merge("/api/v1/namespaces/"+f.space+"/pods/moved", object{"metadata": object{
				"annotations": object{"milligpu.io/gpu-count": "2"}}})
			if err != nil {
				t.Error(err)
			}
		}
		return harness.Delay{}
	})
	f.create(harness.Simple("moved", 600))
	if shares := f.sharesOf(f.bound("moved")); len(shares) != 2 || shares[0].Milli != 300 {
		t.Errorf("the pod requests 300 of each of two GPUs and holds %v", shares)
	}
	if c := f.conflicts(); c.conflicts != 1 || c.gets != 1 || sent.Load() != 2 {
		t.Errorf("%d Bindings, %.0f conflicts, %.0f GETs", sent.Load(), c.conflicts, c.gets)
	}
	f.consistent()
}

var named = regexp.MustCompile(`in doubt: the Binding of version (\d+): `)

// kube-scheduler writes nothing if a failure repeats the same condition. The version in the text changes
// the condition, so kube-scheduler writes it, and that write is the evidence.
func TestTheErrorOfADoubtMakesKubeSchedulerWriteTheCondition(t *testing.T) {
	f, proxy := through(t, oneNode(4))
	var sent atomic.Int32
	proxy.Decide(func(r *http.Request) harness.Fate {
		if harness.IsBinding(r, "doubted") {
			sent.Add(1)
			return harness.LoseAsk
		}
		return harness.Pass
	})
	f.create(harness.Simple("doubted", 600))
	versions := map[int]bool{}
	f.until(2*time.Minute, func() (bool, string) {
		pod := f.pod("doubted")
		if match := named.FindStringSubmatch(condition(pod)); match != nil {
			version, _ := strconv.Atoi(match[1])
			now, _ := strconv.Atoi(harness.Text(pod, "metadata", "resourceVersion"))
			if now <= version {
				t.Errorf("the condition names version %d, and the pod is in %d", version, now)
			}
			versions[version] = true
		}
		return len(versions) >= 3, fmt.Sprintf("%d doubts were written: %s", len(versions), condition(pod))
	})
	proxy.Decide(nil)
	f.bound("doubted")
	t.Logf("%d Bindings lost, versions %v named, %d filter calls", sent.Load(), versions,
		f.calls("filter", "doubted"))
	if calls := f.calls("filter", "doubted"); calls > 8*int(sent.Load())+8 {
		t.Errorf("%d lost Bindings made %d filter calls", sent.Load(), calls)
	}
	if used := f.consistent(); len(used) != 1 || len(f.allocations()) != 1 {
		t.Errorf("in use are %v", used)
	}
}
