// tenant measures how much a tenant who may only create pods in one namespace and connect to our ports can
// slow down the filter of others' pods: a thousand nodes, all different, the real API server and
// kube-scheduler. It prints "name value unit", and fails if milligpud ends or does not answer, or if the
// share of another pod has changed.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

const (
	scheduler = "tenant-scheduler"
	others    = "others"
	tenants   = "tenant"
	gpus      = 8
	makers    = 8
	pause     = 20 * time.Millisecond /* between two filter calls for the innocent pod */
)

var (
	nodes   = flag.Int("nodes", 1000, "number of nodes, 8 GPUs each, all different")
	seconds = flag.Int("seconds", 15, "duration of each attack, in seconds")
	only    = flag.String("only", "", "run only the attacks whose name contains this")
)

type object = harness.Object

type environment struct {
	*harness.Cluster
	d      *harness.Daemon
	tenant *harness.API
	names  []string
	draw   *rand.Rand
	mutex  sync.Mutex
	made   int
}

// An attack runs until stop is closed; its name says what it tries.
type attack struct {
	name string
	run  func(w *environment, stop <-chan struct{})
}

var attacks = []attack{
	{"nothing", func(_ *environment, stop <-chan struct{}) { <-stop }},
	{"ordinary_pods", pods(func(w *environment) object { return w.pod(1, 100, nil) })},
	{"six_containers_on_two_gpus", pods(func(w *environment) object {
		return w.pod(6, 2*(300+w.below(200)), object{"milligpu.io/gpu-count": "2"})
	})},
	{"six_containers_on_eight_gpus", pods(func(w *environment) object {
		return w.pod(6, 8*(100+w.below(60)), object{"milligpu.io/gpu-count": "8"})
	})},
	{"128_containers", pods(func(w *environment) object { return w.pod(128, 20+w.below(30), nil) })},
	{"128_containers_of_32_models", pods(func(w *environment) object {
		return w.pod(128, 20+w.below(30), object{"milligpu.io/gpu-model": models(w)})
	})},
	{"both_resources", pods(func(w *environment) object {
		pod := w.pod(5, 300+w.below(300), nil)
		limits := harness.At(pod, "spec", "containers", 0, "resources", "limits").(object)
		limits["nvidia.com/gpu"] = "2"
		return pod
	})},
	{"large_annotations", pods(func(w *environment) object {
		return w.pod(1, 100, object{"example.com/large": strings.Repeat("x", 250000)})
	})},
	{"control_characters", pods(func(w *environment) object {
		return w.pod(1, 100, object{"milligpu.io/gpu-model": "A\x1b[2J\u202e\u0000" + fmt.Sprint(w.below(1e9)),
			"milligpu.io/gpu-memory": "1e999999Gi", "milligpu.io/gpu-count": "\u0000"})
	})},
	{"forged_allocations", pods(func(w *environment) object {
		return w.pod(1, 100, object{"milligpu.io/allocation": `{"v":1,"containers":{"c0":[{"gpu":"` +
			w.names[0] + `/gpu-0","index":0,"milli":1000,"mib":0}]}}`})
	})},
	{"pods_that_name_their_node", pods(func(w *environment) object {
		pod := w.pod(1, 64000, nil)
		pod["spec"].(object)["nodeName"] = w.names[w.below(len(w.names))]
		return pod
	})},
	{"waiting_pods_that_change_their_mind", changing},
	{"idle_connections", connections("")},
	{"half_a_request", connections("POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\nContent-Le")},
	{"slow_bodies", connections("POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\n" +
		"Content-Type: application/json\r\nContent-Length: 16000000\r\n\r\n{")},
	{"garbage", connections(strings.Repeat("\x16\x03\x01\x00", 64))},
}

func main() {
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: tenant [--nodes N] [--seconds N] [--only PART]")
		os.Exit(2)
	}
	if err := harness.WithCluster(afternoon); err != nil {
		fmt.Fprintln(os.Stderr, "tenant:", err)
		os.Exit(1)
	}
}

func afternoon(cluster *harness.Cluster) error {
	w := &environment{Cluster: cluster, draw: rand.New(rand.NewSource(1))}
	if err := w.prepare(); err != nil {
		return err
	}
	before, err := w.sharesOfOthers()
	if err != nil {
		return err
	}
	for _, a := range attacks {
		if !strings.Contains(a.name, *only) {
			continue
		}
		if err := w.endure(a); err != nil {
			return fmt.Errorf("%s: %w\n%s", a.name, err, w.d.Proc.Tail(20))
		}
	}
	after, err := w.sharesOfOthers()
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("the others' shares were\n%s\nand are\n%s", before, after)
	}
	return nil
}

/* the GPUs have random sizes, so that no two nodes are alike */
func (w *environment) prepare() error {
	for i := range *nodes {
		node := harness.NodeShape{Name: fmt.Sprintf("unlike-%04d", i), Milli: gpus * 1000,
			WholeGPUs: gpus}
		var list []object
		for g := range gpus {
			list = append(list, object{"uuid": fmt.Sprintf("GPU-%04d-%d", i, g), "index": g,
				"milli": 400 + w.below(600), "mib": 81920, "model": "A100"})
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		node.Annotations = map[string]string{"milligpu.io/gpus": string(text)}
		if _, err := w.Admin.Create(harness.NodePath(""), node.Object()); err != nil {
			return err
		}
		w.names = append(w.names, node.Name)
	}
	account, err := w.CreateAccount()
	if err != nil {
		return err
	}
	kubeconfig, err := account.Kubeconfig(w.Dir, "milligpud", w.URL, w.CAFile)
	if err != nil {
		return err
	}
	w.d = w.NewDaemon("milligpud", kubeconfig)
	w.d.Shipped = true
	if err := w.d.Start(); err != nil {
		return err
	}
	if err := w.guard(); err != nil {
		return err
	}
	_, err = w.StartSchedulerWith(scheduler,
		harness.BurstScheduler(w.Cluster, scheduler, "http://"+w.d.Address("webhook")+"/scheduler", true))
	if err != nil {
		return err
	}
	if err := w.makeTenant(); err != nil {
		return err
	}
	if _, err := w.Admin.Create("/api/v1/namespaces", object{"metadata": object{"name": others}}); err != nil {
		return err
	}
	if err := w.Admin.CreatePods(others, scheduler, 50); err != nil {
		return err
	}
	return harness.Until(time.Minute, func() (bool, string) {
		bound, err := w.Admin.AllBound(others)
		return bound && err == nil, "the others' pods are not bound"
	})
}

func (w *environment) guard() error {
	documents, err := w.Render("components/guard")
	if err != nil {
		return err
	}
	_, err = w.Kubectl(strings.Join(documents, "\n---\n"), "apply", "-f", "-")
	return err
}

/* creates a namespace, and an account that may do anything with the pods there and nothing else */
func (w *environment) makeTenant() error {
	const rights = `{"apiVersion":"v1","kind":"List","items":[
 {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}},
 {"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"jane","namespace":"tenant"}},
 {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"jane","namespace":"tenant"},
  "rules":[{"apiGroups":[""],"resources":["pods","pods/status","pods/ephemeralcontainers","pods/resize"],
   "verbs":["*"]}]},
 {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"jane","namespace":"tenant"},
  "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"jane"},
  "subjects":[{"kind":"ServiceAccount","name":"jane","namespace":"tenant"}]}]}`
	if _, err := w.Kubectl(rights, "apply", "-f", "-"); err != nil {
		return err
	}
	answer, err := w.Admin.Create("/api/v1/namespaces/tenant/serviceaccounts/jane/token",
		object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}})
	if err != nil {
		return err
	}
	w.tenant = w.Admin.As(harness.Text(answer, "status", "token"))
	return nil
}

/* ---- what a tenant does ---- */

func (w *environment) below(n int) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.draw.Intn(n)
}

func models(w *environment) string {
	var list []string
	for range 32 {
		list = append(list, fmt.Sprintf("*%d*", w.below(1000)))
	}
	return strings.Join(append(list, "A100"), ",")
}

func (w *environment) pod(containers, milli int, annotations object) object {
	w.mutex.Lock()
	w.made++
	name := fmt.Sprintf("p%d", w.made)
	w.mutex.Unlock()
	var list []any
	for i := range containers {
		list = append(list, object{"name": fmt.Sprintf("c%d", i), "image": "pause",
			"resources": object{"limits": object{harness.Resource: fmt.Sprint(milli)}}})
	}
	return object{"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": name, "annotations": annotations},
		"spec": object{"schedulerName": scheduler, "containers": list,
			"automountServiceAccountToken": false}}
}

/* creates pods, many at a time, as fast as the API server accepts them; refusals do not matter */
func pods(shape func(w *environment) object) func(*environment, <-chan struct{}) {
	return func(w *environment, stop <-chan struct{}) {
		var group sync.WaitGroup
		for range makers {
			group.Add(1)
			go func() {
				defer group.Done()
				for !over(stop) {
					_, _ = w.tenant.Create(harness.PodPath(tenants, ""), shape(w))
				}
			}()
		}
		group.Wait()
	}
}

/* keeps changing the requests of fifty pods that cannot be placed */
func changing(w *environment, stop <-chan struct{}) {
	var names []string
	for range 50 {
		pod := w.pod(6, 2000, object{"milligpu.io/gpu-count": "2"})
		if _, err := w.tenant.Create(harness.PodPath(tenants, ""), pod); err == nil {
			names = append(names, harness.Text(pod, "metadata", "name"))
		}
	}
	for i := 0; !over(stop) && len(names) > 0; i++ {
		_, _ = w.tenant.Merge(harness.PodPath(tenants, names[i%len(names)]), object{"metadata": object{
			"annotations": object{"milligpu.io/gpu-count": fmt.Sprint(2 + i%7)}}})
	}
}

/* opens connections to each listener from an address of its own, up to 9,000 or the limit on open files */
func connections(say string) func(*environment, <-chan struct{}) {
	return func(w *environment, stop <-chan struct{}) {
		var open []net.Conn
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: time.Second}
		for !over(stop) {
			for _, listener := range []string{"webhook", "admin", "probe"} {
				conn, err := from.Dial("tcp", w.d.Address(listener))
				if err != nil {
					continue
				}
				_, _ = conn.Write([]byte(say))
				open = append(open, conn)
			}
			if len(open) > 3*3000 {
				_ = open[0].Close()
				open = open[1:]
			}
			time.Sleep(time.Millisecond)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	}
}

func over(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

/* ---- what others notice ---- */

func (w *environment) endure(a attack) error {
	pid := w.d.Proc.Pid()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		a.run(w, stop)
		close(ended)
	}()
	filter, livez, err := w.ask(time.Duration(*seconds) * time.Second)
	close(stop)
	<-ended
	if err != nil {
		return err
	}
	if !w.d.Proc.Running() {
		return fmt.Errorf("milligpud (%d) has ended", pid)
	}
	peak, err := harness.PeakKiB(pid)
	if err != nil {
		return err
	}
	prefix := "tenant." + a.name + "."
	fmt.Printf("%-60s %.3g ms\n", prefix+"filter_p50", at(filter, 0.5))
	fmt.Printf("%-60s %.3g ms\n", prefix+"filter_p99", at(filter, 0.99))
	fmt.Printf("%-60s %.3g ms\n", prefix+"filter_max", at(filter, 1))
	fmt.Printf("%-60s %.3g ms\n", prefix+"livez_max", at(livez, 1))
	fmt.Printf("%-60s %.3g MiB\n", prefix+"rss_peak", float64(peak)/1024)
	return w.clear()
}

func at(ms []float64, part float64) float64 {
	sort.Float64s(ms)
	return ms[int(part*float64(len(ms)-1))]
}

/* calls the filter for an innocent pod over all nodes, and kubelet's probe, again and again; in ms */
func (w *environment) ask(limit time.Duration) (filter, livez []float64, err error) {
	pod := harness.Simple("innocent", 300).Object()
	pod["metadata"].(object)["uid"] = "00000000-0000-4000-8000-000000000001"
	pod["metadata"].(object)["namespace"] = others
	body, err := json.Marshal(object{"Pod": pod, "Nodes": nil, "NodeNames": w.names})
	if err != nil {
		return nil, nil, err
	}
	client := http.Client{Timeout: 30 * time.Second}
	took := func(ask func() (*http.Response, error)) (float64, error) {
		began := time.Now()
		answer, err := ask()
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
		}
		return float64(time.Since(began).Microseconds()) / 1000, err
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(pause) {
		ms, err := took(func() (*http.Response, error) {
			return client.Post("http://"+w.d.Address("webhook")+"/scheduler/filter", "application/json",
				bytes.NewReader(body))
		})
		if err != nil {
			return nil, nil, fmt.Errorf("the innocent's filter: %w", err)
		}
		filter = append(filter, ms)
		ms, err = took(func() (*http.Response, error) {
			probe := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			return probe.Get("http://" + w.d.Address("probe") + "/livez")
		})
		if err != nil {
			return nil, nil, fmt.Errorf("kubelet's probe: %w", err)
		}
		livez = append(livez, ms)
	}
	return filter, livez, nil
}

/* the shares of the pods in the namespace others, a line for each pod */
func (w *environment) sharesOfOthers() (string, error) {
	list, err := w.d.List("/api/v1/allocations?namespace=" + others)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, a := range list {
		shares, err := json.Marshal(a["shares"])
		if err != nil {
			return "", err
		}
		lines = append(lines, harness.Text(a, "name")+" "+harness.Text(a, "node")+" "+string(shares))
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("nobody holds anything")
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n"), nil
}

func (w *environment) clear() error {
	return harness.Until(2*time.Minute, func() (bool, string) {
		if err := w.Admin.DeletePods(tenants); err != nil {
			return false, err.Error()
		}
		list, err := w.Admin.Get(harness.PodPath(tenants, "") + "?limit=1")
		return err == nil && len(harness.Items(list, "items")) == 0, "the tenant's pods are not gone"
	})
}
