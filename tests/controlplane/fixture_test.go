package tests

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

type object = harness.Object

// soon is the limit for anything that should happen at once; a busy machine takes longer.
const soon = harness.Patience

// fixture is one test's own nodes, namespace and milligpud.
type fixture struct {
	*testing.T
	w       *environment
	api     *harness.API
	d       *harness.Daemon
	space   string
	applied int /* number of components whose policies are in force */
}

/* how often each test has started: `-count` repeats tests in one cluster, where namespaces are never deleted */
var begun = map[string]int{}

func spaceOf(t *testing.T) string {
	begun[t.Name()]++
	name := fmt.Sprintf("%s %d", t.Name(), begun[t.Name()])
	return fmt.Sprintf("t-%.6x", sha256.Sum256([]byte(name)))
}

// bare empties the shared cluster and adds these nodes, without a milligpud.
func bare(t *testing.T, nodes ...harness.NodeShape) *fixture {
	t.Helper()
	return bareIn(shared, t, nodes...)
}

func bareIn(w *environment, t *testing.T, nodes ...harness.NodeShape) *fixture {
	t.Helper()
	f := &fixture{T: t, w: w, api: w.Admin, space: spaceOf(t)}
	f.deleteAll()
	f.must(f.api.Create("/api/v1/namespaces", object{"metadata": object{"name": f.space}}))
	f.w.front.Forget()
	for _, node := range nodes {
		f.addNode(node)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(f.story())
		}
		f.deleteAll()
	})
	return f
}

// start is bare with a milligpud that has a new ledger and serves the shared kube-scheduler.
func start(t *testing.T, nodes ...harness.NodeShape) *fixture {
	t.Helper()
	f := bare(t, nodes...)
	f.d = f.daemon(f.w.URL, f.w.CAFile)
	f.startDaemon()
	return f
}

// through is start with a proxy between milligpud and the API server.
func through(t *testing.T, nodes ...harness.NodeShape) (*fixture, *harness.APIProxy) {
	t.Helper()
	f := bare(t, nodes...)
	proxy, err := f.w.StartAPIProxy(f.space)
	f.check(err)
	t.Cleanup(proxy.Stop)
	f.d = f.daemon(proxy.URL, proxy.CAFile)
	f.startDaemon()
	return f, proxy
}

// daemon prepares a milligpud that has the rights of our manifests and no others.
func (f *fixture) daemon(server, caFile string, args ...string) *harness.Daemon {
	f.Helper()
	name := "milligpud-" + f.space
	kubeconfig, err := f.w.account.Kubeconfig(f.w.Dir, name, server, caFile)
	f.check(err)
	d := f.w.NewDaemon(name, kubeconfig, args...)
	f.Cleanup(func() {
		f.w.front.Lead("")
		d.Proc.Stop()
	})
	return d
}

func (f *fixture) startDaemon() {
	f.Helper()
	f.check(f.d.Start())
	f.w.front.Lead(f.d.Address("webhook"))
}

func (f *fixture) check(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) must(o object, err error) object {
	f.Helper()
	f.check(err)
	return o
}

func (f *fixture) kubectl(stdin string, args ...string) string {
	f.Helper()
	out, err := f.w.Kubectl(stdin, args...)
	f.check(err)
	return out
}

// nothingDenied checks what an account has asked of the API server.
func (f *fixture) nothingDenied(user string) {
	f.Helper()
	audit, err := f.w.Audit()
	f.check(err)
	requests := 0
	for _, a := range audit {
		if a.User != user {
			continue
		}
		requests++
		if a.Code == http.StatusForbidden || a.Code == http.StatusUnauthorized {
			f.Errorf("denied: %s %s (%d)", a.Verb, a.URI, a.Code)
		}
	}
	if requests == 0 {
		f.Errorf("no request of %s is in the audit log", user)
	}
}

func (f *fixture) until(limit time.Duration, condition func() (bool, string)) {
	f.Helper()
	f.check(harness.Until(limit, condition))
}

// deleteAll deletes every pod and node of the cluster.
func (f *fixture) deleteAll() {
	f.Helper()
	f.until(soon, func() (bool, string) {
		pods := harness.Items(f.must(f.api.Get("/api/v1/pods")), "items")
		nodes := harness.Items(f.must(f.api.Get("/api/v1/nodes")), "items")
		spaces := map[string]bool{}
		for _, pod := range pods {
			spaces[harness.Text(pod, "metadata", "namespace")] = true
		}
		for space := range spaces {
			f.check(f.api.DeletePods(space))
		}
		for _, node := range nodes {
			f.check(f.api.Delete(harness.NodePath(harness.Text(node, "metadata", "name")), -1))
		}
		return len(pods)+len(nodes) == 0, "pods and nodes of the last test are not gone"
	})
}

// storyOf returns what happened to one pod: its webhook calls, and what kube-scheduler says of it.
func (f *fixture) storyOf(pod string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---- %s\n", pod)
	for _, call := range tail(f.w.front.Calls("", f.space+"/"+pod), 8) {
		fmt.Fprintf(&b, "%s\n", call)
	}
	for _, line := range tail(harness.LinesWith(f.w.scheduler.Log, f.space+"/"+pod+`"`), 16) {
		fmt.Fprintf(&b, "%.400s\n", line)
	}
	return b.String()
}

// story returns what explains a failed test: its pods, the last webhook calls, the first pod without a node, the
// ends of the logs.
func (f *fixture) story() string {
	var b strings.Builder
	pods, err := f.api.Get(harness.PodPath(f.space, ""))
	if err != nil {
		return err.Error() + "\n" + f.w.Tails(15)
	}
	items := harness.Items(pods, "items")
	for i, pod := range items {
		if i == 30 {
			b.WriteString("...\n")
			break
		}
		_, reason, message := harness.Condition(pod)
		fmt.Fprintf(&b, "pod %s on %q %s %s\n", harness.Text(pod, "metadata", "name"), nodeOf(pod), reason, message)
	}
	for _, call := range tail(f.w.front.Calls("", ""), 12) {
		fmt.Fprintf(&b, "%s\n", call)
	}
	if waiting := slices.IndexFunc(items, func(pod object) bool { return nodeOf(pod) == "" }); waiting >= 0 {
		b.WriteString(f.storyOf(harness.Text(items[waiting], "metadata", "name")))
	}
	if f.d != nil {
		b.WriteString("---- milligpud\n" + f.d.Proc.Tail(40) + "\n")
	}
	b.WriteString("---- kube-scheduler\n" + f.w.scheduler.Tail(8))
	return b.String()
}

func tail[T any](list []T, n int) []T {
	if len(list) > n {
		return list[len(list)-n:]
	}
	return list
}

func (f *fixture) addNode(node harness.NodeShape) object {
	f.Helper()
	return f.must(f.api.Create("/api/v1/nodes", node.Object()))
}

func (f *fixture) create(pod harness.PodShape) object {
	f.Helper()
	return f.must(f.api.Create(harness.PodPath(f.space, ""), pod.Object()))
}

func (f *fixture) pod(name string) object {
	f.Helper()
	return f.must(f.api.Get(harness.PodPath(f.space, name)))
}

func (f *fixture) pods() []object {
	f.Helper()
	return harness.Items(f.must(f.api.Get(harness.PodPath(f.space, ""))), "items")
}

func nodeOf(pod object) string { return harness.Text(pod, "spec", "nodeName") }

// bound waits until a pod has a node and returns it.
func (f *fixture) bound(name string) object {
	f.Helper()
	var pod object
	f.until(soon, func() (bool, string) {
		pod = f.pod(name)
		_, _, message := harness.Condition(pod)
		return nodeOf(pod) != "", "pod " + name + " is not bound: " + message
	})
	return pod
}

// place creates a pod and waits until it is bound.
func (f *fixture) place(pod harness.PodShape) object {
	f.Helper()
	f.create(pod)
	return f.bound(pod.Name)
}

// refused waits until a pod's condition says that it cannot be scheduled, and returns the message.
func (f *fixture) refused(name string) string {
	f.Helper()
	var message string
	f.until(soon, func() (bool, string) {
		pod := f.pod(name)
		if nodeOf(pod) != "" {
			f.Fatalf("pod %s was placed on %s", name, nodeOf(pod))
		}
		_, reason, text := harness.Condition(pod)
		message = text
		return reason == "Unschedulable" || reason == "SchedulerError",
			"pod " + name + " was not refused yet"
	})
	return message
}

// refusedWith is refused, and checks that the message contains this text.
func (f *fixture) refusedWith(name, text string) {
	f.Helper()
	if message := f.refused(name); !strings.Contains(message, text) {
		f.Errorf("pod %s is refused with %q, which does not say %q", name, message, text)
	}
}

// stays checks that a pod is still unbound after this time.
func (f *fixture) stays(name string, long time.Duration) {
	f.Helper()
	time.Sleep(long)
	if node := nodeOf(f.pod(name)); node != "" {
		f.Errorf("pod %s was placed on %s although there is no room", name, node)
	}
}

// event waits until an Event about a pod contains this text.
func (f *fixture) event(name, text string) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		lines, err := f.api.Events(f.space, name)
		f.check(err)
		all := strings.Join(lines, "\n")
		return strings.Contains(all, text),
			fmt.Sprintf("no event of %s says %q, only:\n%s", name, text, all)
	})
}

func (f *fixture) succeed(name string) {
	f.Helper()
	f.must(f.api.Merge(harness.PodPath(f.space, name)+"/status",
		object{"status": object{"phase": "Succeeded"}}))
}

func (f *fixture) delete(name string, grace int) {
	f.Helper()
	f.check(f.api.Delete(harness.PodPath(f.space, name), grace))
}

// showMilli changes how much of our resource a node shows.
func (f *fixture) showMilli(node string, milli int) {
	f.Helper()
	room := object{harness.Resource: fmt.Sprint(milli)}
	f.must(f.api.Merge(harness.NodePath(node)+"/status",
		object{"status": object{"capacity": room, "allocatable": room}}))
}

func (f *fixture) patchNode(node string, metadata object) {
	f.Helper()
	f.must(f.api.Merge(harness.NodePath(node), object{"metadata": metadata}))
}

// share is one container's piece of one GPU.
type share struct {
	Container, GPU    string
	Index, Milli, MiB int
}

// sharesOf returns the shares in the annotation that came with the Binding, sorted.
func (f *fixture) sharesOf(pod object) []share {
	f.Helper()
	text := harness.Text(pod, "metadata", "annotations", "milligpu.io/allocation")
	if text == "" {
		f.Fatalf("pod %s has no milligpu.io/allocation", harness.Text(pod, "metadata", "name"))
	}
	var parsed object
	f.check(json.Unmarshal([]byte(text), &parsed))
	containers, _ := harness.At(parsed, "containers").(object)
	var all []share
	for name := range containers {
		for _, s := range harness.Items(containers, name) {
			all = append(all, share{name, harness.Text(s, "gpu"), harness.Number(s, "index"),
				harness.Number(s, "milli"), harness.Number(s, "mib")})
		}
	}
	sort.Slice(all, func(i, j int) bool { return fmt.Sprint(all[i]) < fmt.Sprint(all[j]) })
	return all
}

// restShares returns the shares of an allocation from the REST API, in the same form.
func restShares(allocation object) []share {
	var all []share
	for _, s := range harness.Items(allocation, "shares") {
		all = append(all, share{harness.Text(s, "container"), harness.Text(s, "gpu"),
			harness.Number(s, "index"), harness.Number(s, "milli"), harness.Number(s, "mib")})
	}
	sort.Slice(all, func(i, j int) bool { return fmt.Sprint(all[i]) < fmt.Sprint(all[j]) })
	return all
}

// allocations returns the live allocations by pod uid.
func (f *fixture) allocations() map[string]object {
	f.Helper()
	list, err := f.d.List("/api/v1/allocations")
	f.check(err)
	byUID := map[string]object{}
	for _, allocation := range list {
		uid := harness.Text(allocation, "uid")
		if byUID[uid] != nil {
			f.Errorf("pod %s has two allocations", harness.Text(allocation, "name"))
		}
		byUID[uid] = allocation
	}
	return byUID
}

// gpus returns all GPUs of the REST API by "node gpu".
func (f *fixture) gpus() map[string]object {
	f.Helper()
	nodes, err := f.d.List("/api/v1/nodes")
	f.check(err)
	all := map[string]object{}
	for _, node := range nodes {
		for _, gpu := range harness.Items(node, "gpus") {
			all[harness.Text(node, "name")+" "+harness.Text(gpu, "id")] = gpu
		}
	}
	return all
}

// drift returns the drift that is reported now, of a kind, about a node and a pod ("" = any).
func (f *fixture) drift(kind, node, pod string) []object {
	f.Helper()
	list, err := f.d.List("/api/v1/drift")
	f.check(err)
	var some []object
	for _, d := range list {
		if (kind == "" || harness.Text(d, "kind") == kind) &&
			(node == "" || harness.Text(d, "node") == node) &&
			(pod == "" || harness.Text(d, "name") == pod) {
			some = append(some, d)
		}
	}
	return some
}

// drifts waits until such drift is reported.
func (f *fixture) drifts(kind, node, pod string) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		return len(f.drift(kind, node, pod)) > 0,
			fmt.Sprintf("no drift %q of node %q pod %q, only %v", kind, node, pod,
				f.drift("", "", ""))
	})
}

// untilNothingIsOpen waits until no reservation is left; a bind that is queued or in doubt has one.
func (f *fixture) untilNothingIsOpen() {
	f.Helper()
	f.until(soon, func() (bool, string) {
		summary := f.must(f.d.Get("/api/v1/summary"))
		return harness.Number(summary, "allocations", "reserved") == 0,
			fmt.Sprint("reservations are left over: ", harness.At(summary, "allocations"))
	})
}

// isLive says whether the pod is bound and has not ended.
func isLive(pod object) bool {
	phase := harness.Text(pod, "status", "phase")
	return nodeOf(pod) != "" && phase != "Succeeded" && phase != "Failed"
}

// The end of a pod is known a little later in the ledger than at the API server.
func (f *fixture) untilOnlyLivePodsHold() {
	f.Helper()
	f.until(soon, func() (bool, string) {
		ended := f.allocations()
		for _, pod := range f.pods() {
			if isLive(pod) {
				delete(ended, harness.Text(pod, "metadata", "uid"))
			}
		}
		return len(ended) == 0, fmt.Sprintf("%d pods that are gone have an allocation", len(ended))
	})
}

// asks says whether a container of the pod requests a share.
func asks(pod object) bool {
	for _, list := range []string{"containers", "initContainers"} {
		for _, container := range harness.Items(pod, "spec", list) {
			if harness.Text(container, "resources", "limits", harness.Resource) != "" {
				return true
			}
		}
	}
	return false
}

// consistent checks that API server, REST API and database agree, and that no GPU has more in use than its
// capacity. It returns the milli in use by "node gpu".
func (f *fixture) consistent() map[string]int {
	f.Helper()
	f.untilNothingIsOpen()
	f.untilOnlyLivePodsHold()
	used := map[string]int{}
	live := f.allocations()
	fromDatabase := f.databaseShares()
	for _, pod := range f.pods() {
		uid, name := harness.Text(pod, "metadata", "uid"), harness.Text(pod, "metadata", "name")
		if !isLive(pod) {
			continue
		}
		allocation := live[uid]
		if allocation == nil {
			if asks(pod) {
				f.Errorf("bound pod %s has no allocation", name)
			}
			continue
		}
		delete(live, uid)
		f.same(name, pod, allocation, fromDatabase[uid])
		for _, charge := range harness.Items(allocation, "charges") {
			used[nodeOf(pod)+" "+harness.Text(charge, "gpu")] += harness.Number(charge, "milli")
		}
	}
	for _, allocation := range live {
		f.Errorf("allocation of %s, which is not a live bound pod", harness.Text(allocation, "name"))
	}
	f.nothingOver(used)
	return used
}

func (f *fixture) same(name string, pod, allocation object, database []share) {
	f.Helper()
	if harness.Text(allocation, "state") != "bound" {
		f.Errorf("bound pod %s is %q in the ledger", name, harness.Text(allocation, "state"))
	}
	if harness.Text(allocation, "node") != nodeOf(pod) {
		f.Errorf("pod %s is on %s, the ledger says %s", name, nodeOf(pod),
			harness.Text(allocation, "node"))
	}
	annotated := fmt.Sprint(f.sharesOf(pod))
	if rest := fmt.Sprint(restShares(allocation)); rest != annotated {
		f.Errorf("pod %s: annotation %s, REST %s", name, annotated, rest)
	}
	if rows := fmt.Sprint(database); rows != annotated {
		f.Errorf("pod %s: annotation %s, database %s", name, annotated, rows)
	}
}

func (f *fixture) nothingOver(used map[string]int) {
	f.Helper()
	for key, gpu := range f.gpus() {
		if used[key] > harness.Number(gpu, "milli") {
			f.Errorf("GPU %s has %d of %d milli in use", key, used[key],
				harness.Number(gpu, "milli"))
		}
		if harness.Number(gpu, "usedMilli") != used[key] {
			f.Errorf("GPU %s: REST says %d milli in use, its pods hold %d", key,
				harness.Number(gpu, "usedMilli"), used[key])
		}
	}
}

// restPod returns the REST view of a pod, once milligpud's watch has shown it.
func (f *fixture) restPod(name string) (pod object) {
	f.Helper()
	f.until(soon, func() (bool, string) {
		var err error
		pod, err = f.d.Get("/api/v1/pods/" + url.PathEscape(f.space) + "/" + url.PathEscape(name))
		return err == nil, fmt.Sprint("milligpud does not know pod ", name, ": ", err)
	})
	return pod
}

func (f *fixture) calls(verb, pod string) int {
	return len(f.w.front.Calls(verb, f.space+"/"+pod))
}
