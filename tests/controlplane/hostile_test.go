package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// hostile returns objects at the limits of what an API server accepts (tests/support/hostile.h).
func (f *fixture) hostile(seed, count int, what ...string) []string {
	f.Helper()
	var program string
	for _, preset := range []string{"release", "dev", "fast", "asan"} {
		found, _ := filepath.Glob(filepath.Join(harness.Root(), "build", preset, "tests", "hostile"))
		program = strings.Join(append(found, program), "")
		if program != "" {
			break
		}
	}
	if program == "" && os.Getenv("CI") == "true" {
		f.Fatal("the program hostile is not built, and CI skips nothing")
	}
	if program == "" {
		f.Skip("the program hostile is not built")
	}
	out, err := exec.Command(program, append([]string{fmt.Sprint(seed), fmt.Sprint(count)},
		what...)...).Output()
	f.check(err)
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

func (f *fixture) restart() {
	f.Helper()
	f.w.front.Lead("")
	f.d.Proc.Stop()
	f.startDaemon()
}

// createOn makes a pod that may run on this node only.
func (f *fixture) createOn(node string, pod harness.PodShape) {
	f.Helper()
	made := pod.Object()
	made["spec"].(object)["nodeSelector"] = object{"kubernetes.io/hostname": node}
	f.must(f.api.Create(harness.PodPath(f.space, ""), made))
}

// counted waits until milligpud has an allocation for each of these pods.
func (f *fixture) counted(uids map[string]string) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		live := f.allocations()
		for uid, name := range uids {
			if live[uid] == nil {
				return false, "pod " + name + " is bound and not counted"
			}
		}
		return true, ""
	})
}

func TestATenantCannotHideItsBoundPod(t *testing.T) {
	f := start(t, oneNode(1))
	pod := f.place(harness.Simple("hidden", 800))
	uids := map[string]string{harness.Text(pod, "metadata", "uid"): "hidden"}
	f.must(f.api.Merge(harness.PodPath(f.space, "hidden"), object{"metadata": object{
		"annotations": object{"milligpu.io/gpu-count": "\x00"}}}))
	f.restart()
	f.counted(uids)
	f.create(harness.Simple("second", 800))
	f.refused("second")

	/* the same without a ledger: the pod's annotation says what it holds */
	f.loseLedger(func() {})
	f.counted(uids)
	if node := nodeOf(f.pod("second")); node != "" {
		t.Errorf("one GPU was given twice, the second time to a pod on %s", node)
	}
	f.check(f.api.Delete(harness.PodPath(f.space, "hidden"), 0))
	f.bound("second")
}

func TestAPodWithALongSchedulerNameIsCounted(t *testing.T) {
	f := start(t, oneNode(1))
	pod := harness.Simple("stranger", 700)
	pod.Scheduler = strings.Repeat("s", 300)
	made := pod.Object()
	made["spec"].(object)["nodeName"] = "node-a"
	uid := harness.Text(f.must(f.api.Create(harness.PodPath(f.space, ""), made)), "metadata", "uid")
	f.counted(map[string]string{uid: "stranger"})
	f.restart()
	f.counted(map[string]string{uid: "stranger"})
}

func TestAWaitingPodThatCannotBeReadIsRefusedOnce(t *testing.T) {
	f := start(t, oneNode(1))
	f.create(harness.Simple("odd", 100).With("milligpu.io/gpu-memory", "\x00"))
	f.refusedWith("odd", "the pod cannot be read: metadata.annotations")
	f.must(f.api.Merge(harness.PodPath(f.space, "odd"), object{"metadata": object{
		"annotations": object{"milligpu.io/gpu-memory": nil}}}))
	f.bound("odd")
}

func TestWhateverTheAPIServerTakesIsCounted(t *testing.T) {
	f := start(t, oneNode(64))
	uids := map[string]string{}
	for _, body := range f.hostile(36, 120, "pods", f.space, "node-a") {
		pod, err := f.api.Create(harness.PodPath(f.space, ""), body)
		if err != nil {
			t.Errorf("the API server does not take it: %v: %.300s", err, body)
			continue
		}
		uids[harness.Text(pod, "metadata", "uid")] = harness.Text(pod, "metadata", "name")
	}
	f.counted(uids)
	for i, patch := range f.hostile(37, 120, "pod-patches") {
		_, err := f.api.Merge(harness.PodPath(f.space, fmt.Sprintf("h%d", i)), patch)
		if err != nil && harness.Code(err) != 422 { /* 422: the annotations together are too large */
			t.Errorf("the API server does not take it: %v: %.300s", err, patch)
		}
	}
	f.restart()
	f.counted(uids)
	f.loseLedger(func() {})
	f.counted(uids)
	for _, name := range uids {
		f.check(f.api.Delete(harness.PodPath(f.space, name), 0))
	}
	f.until(soon, func() (bool, string) {
		left := len(f.allocations())
		return left == 0, fmt.Sprintf("%d pods are gone and still counted", left)
	})
}

func TestANodeThatCannotBeReadKeepsItsPodsAndTakesNoMore(t *testing.T) {
	f := start(t, oneNode(2))
	for _, body := range f.hostile(38, 60, "nodes") {
		if _, err := f.api.Create("/api/v1/nodes", body); err != nil {
			t.Errorf("the API server does not take it: %v: %.300s", err, body)
		}
	}
	f.createOn("node-a", harness.Simple("first", 300))
	pod := f.bound("first")
	uids := map[string]string{harness.Text(pod, "metadata", "uid"): "first"}
	f.must(f.api.Merge(harness.NodePath("node-a"), object{"metadata": object{
		"annotations": object{"milligpu.io/gpus": "[\x00]"}}}))
	f.drifts("unreadable", "node-a", "")
	f.createOn("node-a", harness.Simple("second", 300))
	f.refused("second")
	f.restart()
	f.counted(uids)
	used := harness.Number(f.must(f.d.Get("/api/v1/nodes/node-a")), "usedMilli")
	if used != 300 {
		t.Errorf("300 milli run there, %d are counted", used)
	}
	f.must(f.api.Merge(harness.NodePath("node-a"), object{"metadata": object{
		"annotations": object{"milligpu.io/gpus": nil}}}))
	f.bound("second")
	for i, patch := range f.hostile(39, 60, "node-patches") {
		if _, err := f.api.Merge(harness.NodePath(fmt.Sprintf("h%d", i)), patch); err != nil {
			t.Errorf("the API server does not take it: %v: %.300s", err, patch)
		}
	}
	f.restart()
	list, err := f.d.List("/api/v1/nodes")
	f.check(err)
	if len(list) != 61 {
		t.Errorf("the API server has 61 nodes, milligpud %d", len(list))
	}
}
