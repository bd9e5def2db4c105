// calls measures single calls on a real control plane, each beside what it is compared with, in turn: a filter of
// milligpud beside that of an extender that does nothing, and a bind by milligpud beside a bare POST of a Binding. It prints
// "name value unit".
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

const (
	space    = "calls"
	asked    = "asked"  /* the pod of the question */
	nobody   = "nobody" /* a kube-scheduler of this name does not exist */
	asker    = "calls-scheduler"
	delivery = 500 * time.Millisecond /* in which every watch delivers new pods */
	turns    = 16                     /* places in the list of names where a question begins, in turn */
)

var (
	nodes   = flag.Int("nodes", 1000, "number of nodes, all of which a filter names")
	gpus    = flag.Int("gpus", 8, "number of GPUs of each node")
	rounds  = flag.Int("rounds", 10, "number of rounds; each measures every peer")
	filters = flag.Int("filters", 100, "filter calls of each peer in a round")
	pods    = flag.Int("pods", 50, "binds of each peer in a round")
	syncs   = flag.Bool("sync", false, "let etcd sync its commits, and measure only binds")
)

type object = harness.Object

/* A peer does one call, number i of its round. */
type peer struct {
	name string
	call func(i int) error
	end  func() error /* what follows a call, and is not measured; nil: nothing */
	took []time.Duration
}

type environment struct {
	*harness.Cluster
	account *harness.Account
	d       *harness.Daemon
	idle    string /* HOST:PORT */
	names   []string
}

func main() {
	harness.BeIdle()
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: calls [--nodes N] [--gpus N] [--rounds N] [--filters N] [--pods N] [--sync]")
		os.Exit(2)
	}
	harness.EtcdSyncs = *syncs
	err := harness.WithCluster(func(cluster *harness.Cluster) error {
		w := &environment{Cluster: cluster}
		if err := w.prepare(); err != nil {
			return err
		}
		if !*syncs {
			if err := w.filters(); err != nil {
				return fmt.Errorf("filter: %w", err)
			}
		}
		if err := w.binds(); err != nil {
			return fmt.Errorf("bind: %w\n%s", err, w.d.Proc.Tail(20))
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "calls:", err)
		os.Exit(1)
	}
}

func (w *environment) prepare() (err error) {
	if w.account, err = w.CreateAccount(); err != nil {
		return err
	}
	if w.names, err = w.Admin.CreateNodes(harness.BurstNodesOf(*nodes, *gpus)); err != nil {
		return err
	}
	if _, err := w.Admin.Create("/api/v1/namespaces", object{"metadata": object{"name": space}}); err != nil {
		return err
	}
	if _, w.idle, err = w.StartIdle(); err != nil {
		return err
	}
	kubeconfig, err := w.account.Kubeconfig(w.Dir, "milligpud", w.URL, w.CAFile)
	if err != nil {
		return err
	}
	w.d = w.NewDaemon("milligpud", kubeconfig)
	w.d.Shipped = true
	return w.d.Start()
}

/* ---- measuring ---- */

/* by turns in blocks of count calls, and each begins in turn */
func race(peers []*peer, count int, before func(*peer) error) error {
	for round := range *rounds {
		for k := range peers {
			r := peers[(round+k)%len(peers)]
			if err := before(r); err != nil {
				return err
			}
			for i := range count {
				began := time.Now()
				if err := r.call(i); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				r.took = append(r.took, time.Since(began))
				if r.end == nil {
					continue
				}
				if err := r.end(); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
		}
	}
	return nil
}

func median(took []time.Duration) float64 { return float64(harness.Median(took).Nanoseconds()) / 1000 }

/* the first peer is ours */
func say(what string, peers []*peer) {
	prefix := fmt.Sprintf("calls.%dx%d.%s.", *nodes, *gpus, what)
	for _, r := range peers {
		fmt.Printf("%-70s %.4g us\n", prefix+r.name+".p50", median(r.took))
	}
	ours := median(peers[0].took)
	for _, r := range peers[1:] {
		fmt.Printf("%-70s %.2f times\n", prefix+peers[0].name+".to_"+r.name, ours/median(r.took))
	}
}

/* ---- filter ---- */

/* what a real kube-scheduler asks about a pod and all nodes; the pod stays without a node */
func (w *environment) record() ([]byte, error) {
	front, err := harness.StartFront() /* leads nowhere: it answers 503 */
	if err != nil {
		return nil, err
	}
	pod := harness.Simple(asked, 300)
	pod.Scheduler = asker
	if _, err := w.Admin.Create(harness.PodPath(space, ""), pod.Object()); err != nil {
		return nil, err
	}
	config := "percentageOfNodesToScore: 100\n" + harness.BurstScheduler(w.Cluster, asker, front.URL, true)
	p, err := w.StartSchedulerWith(asker, config)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	var body string
	err = harness.Until(harness.Patience, func() (bool, string) {
		for _, call := range front.Calls("filter", "") {
			body = call.Body
		}
		return body != "", "kube-scheduler has not asked"
	})
	return []byte(body), err
}

/* the same question, beginning at another name each time, as kube-scheduler's do */
func rotated(body []byte) ([][]byte, error) {
	var ask map[string]json.RawMessage
	var names []string
	if err := json.Unmarshal(body, &ask); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(ask["NodeNames"], &names); err != nil {
		return nil, err
	}
	if len(names) != *nodes {
		return nil, fmt.Errorf("kube-scheduler asked about %d nodes of %d", len(names), *nodes)
	}
	at := bytes.Index(body, ask["NodeNames"])
	var all [][]byte
	for i := range turns {
		first := i * len(names) / turns
		list, err := json.Marshal(append(append([]string{}, names[first:]...), names[:first]...))
		if err != nil {
			return nil, err
		}
		all = append(all, bytes.Join([][]byte{body[:at], list, body[at+len(ask["NodeNames"]):]}, nil))
	}
	return all, nil
}

/* asks on one connection that is kept, and reads the answer to its end, but not what it says */
func filter(address string, bodies [][]byte) func(int) error {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	var number int
	return func(int) error {
		number++
		code, answer, err := harness.Post(client, "http://"+address+"/scheduler/filter", bodies[number%len(bodies)])
		if err == nil && (code != http.StatusOK || !bytes.Contains(answer, []byte(`"NodeNames":["`))) {
			err = fmt.Errorf("%d %.200s", code, answer)
		}
		return err
	}
}

/*
 * A bind to a node that does not exist. A kube-scheduler binds after its filter; a pod that asks again without a bind would get
 * a longer list. The idle extender knows no bind.
 */
func (w *environment) refusedBind(address string) (func() error, error) {
	pod, err := w.Admin.Get(harness.PodPath(space, asked))
	if err != nil {
		return nil, err
	}
	ask, err := harness.BindRequest(pod, "nowhere")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	return func() error {
		_, answer, err := harness.Post(client, "http://"+address+"/scheduler/bind", ask)
		if err == nil && bytes.Contains(answer, []byte(`"Error":""`)) {
			err = fmt.Errorf("a pod was bound to a node that does not exist")
		}
		return err
	}, nil
}

func (w *environment) asks(name, address string, bodies [][]byte) (*peer, error) {
	end, err := w.refusedBind(address)
	p := &peer{name: name, call: filter(address, bodies), end: end}
	if err != nil {
		return nil, err
	}
	for i := range turns { /* the first questions open the connection, and make what is remembered */
		if err := p.call(i); err != nil {
			return nil, err
		}
		if err := p.end(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (w *environment) filters() error {
	body, err := w.record()
	if err != nil {
		return err
	}
	bodies, err := rotated(body)
	if err != nil {
		return err
	}
	ours, err := w.asks("milligpu", w.d.Address("webhook"), bodies)
	if err != nil {
		return err
	}
	theirs, err := w.asks("idle_extender", w.idle, bodies)
	if err != nil {
		return err
	}
	peers := []*peer{ours, theirs}
	if err := race(peers, *filters, func(*peer) error { return nil }); err != nil {
		return err
	}
	say(fmt.Sprintf("filter.%d_names", *nodes), peers)
	return nil
}

/* ---- bind ---- */

/* pods that no kube-scheduler takes; milligpud has seen them when this returns */
func (w *environment) pending(prefix string) ([]object, error) {
	var all []object
	for i := range *pods {
		shape := harness.Simple(fmt.Sprintf("%s-%d", prefix, i), 300)
		shape.Scheduler = nobody
		pod, err := w.Admin.Create(harness.PodPath(space, ""), shape.Object())
		if err != nil {
			return nil, err
		}
		all = append(all, pod)
	}
	time.Sleep(delivery)
	return all, nil
}

/* milligpud's account on a connection of its own, HTTP/2 over TLS as milligpud's */
func (w *environment) bare() (func(pod object, node string) error, error) {
	ca, err := os.ReadFile(w.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	return func(pod object, node string) error {
		name := harness.Text(pod, "metadata", "name")
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"%s","uid":"%s"},`+
			`"target":{"kind":"Node","name":"%s"}}`, name, harness.Text(pod, "metadata", "uid"), node)
		request, err := http.NewRequest("POST", w.URL+harness.PodPath(space, name)+"/binding", strings.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+w.account.Token)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusCreated {
			err = fmt.Errorf("%s %s", response.Status, answer)
		}
		return err
	}, nil
}

func (w *environment) binds() error {
	bare, err := w.bare()
	if err != nil {
		return err
	}
	var waiting []object
	var number int
	place := func() string { number++; return w.names[number%len(w.names)] }
	peers := []*peer{
		{name: "milligpu", call: func(i int) error { return w.d.Bind(waiting[i], place()) }},
		{name: "bare_post", call: func(i int) error { return bare(waiting[i], place()) }},
	}
	/* the binds of a block find pods that wait, and milligpud takes nothing of the machine while it has no turn */
	block := 0
	err = race(peers, *pods, func(r *peer) (err error) {
		block++
		w.d.Proc.Signal(syscall.SIGCONT)
		waiting, err = w.pending(fmt.Sprintf("block-%d", block))
		if err == nil && r.name == "bare_post" {
			w.d.Proc.Signal(syscall.SIGSTOP)
		}
		return err
	})
	w.d.Proc.Signal(syscall.SIGCONT)
	if err != nil {
		return err
	}
	what := "bind"
	if *syncs {
		what = "bind_synced"
	}
	say(what, peers)
	return nil
}
