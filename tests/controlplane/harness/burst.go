package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// BurstNodes are n nodes of 16 GPUs.
func BurstNodes(n int) []NodeShape {
	var nodes []NodeShape
	for i := range n {
		nodes = append(nodes, NodeShape{Name: fmt.Sprintf("burst-%03d", i), Milli: 16000,
			Product: "A100-SXM4-80GB", MiB: 81920})
	}
	return nodes
}

const creators = 32

// CreatePods posts pods p0, p1, ... of 300 thousandths, many at a time.
func (a *API) CreatePods(space, scheduler string, count int) error {
	var next atomic.Int64
	errs := make(chan error, creators)
	for range creators {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					errs <- nil
					return
				}
				pod := Simple(fmt.Sprintf("p%d", i), 300)
				pod.Scheduler = scheduler
				if _, err := a.Create(PodPath(space, ""), pod.Object()); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	var first error
	for range creators {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}

// AllBound asks for one pod of the namespace that has no node: cheap, however many there are.
func (a *API) AllBound(space string) (bool, error) {
	list, err := a.Get(PodPath(space, "") + "?limit=1&fieldSelector=" +
		url.QueryEscape("spec.nodeName="))
	return err == nil && len(Items(list, "items")) == 0, err
}

// DeletePods removes all of a namespace at once.
func (a *API) DeletePods(space string) error {
	return a.Delete(PodPath(space, ""), 0)
}

// Burst lets a kube-scheduler loose on pods that are all there, and says how long it takes to bind
// them. The scheduler sleeps while they are made.
func (a *API) Burst(scheduler *Proc, space, name string, count int, limit time.Duration) (time.Duration, error) {
	scheduler.Signal(syscall.SIGSTOP)
	defer scheduler.Signal(syscall.SIGCONT)
	if err := a.CreatePods(space, name, count); err != nil {
		return 0, err
	}
	time.Sleep(500 * time.Millisecond) /* so that everybody has heard of them */
	began := time.Now()
	scheduler.Signal(syscall.SIGCONT)
	err := Until(limit, func() (bool, string) {
		done, err := a.AllBound(space)
		if err != nil {
			return false, err.Error()
		}
		return done, "pods are not bound"
	})
	return time.Since(began), err
}

// PeakKiB is the most memory that a process had at any time.
func PeakKiB(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		var kib int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("process %d shows no VmHWM", pid)
}

// CPU of a process, of all its threads.
func CPU(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var user, system int
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// Relay passes bytes on and counts them, and the connections they came by.
type Relay struct {
	URL string

	listener    net.Listener
	target      string
	connections atomic.Int64
	bytes       atomic.Int64
	mutex       sync.Mutex
	open        map[net.Conn]bool
}

// StartRelay starts one in front of the cluster's API server, whose certificate it leaves alone.
func (c *Cluster) StartRelay() (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{URL: "https://" + listener.Addr().String(), listener: listener,
		target: strings.TrimPrefix(c.URL, "https://"), open: map[net.Conn]bool{}}
	go r.accept()
	return r, nil
}

func (r *Relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			in.Close()
			continue
		}
		r.connections.Add(1)
		r.mutex.Lock()
		r.open[in], r.open[out] = true, true
		r.mutex.Unlock()
		go r.carry(in, out)
		go r.carry(out, in)
	}
}

func (r *Relay) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	_, _ = io.Copy(counting{to, &r.bytes}, from)
}

type counting struct {
	io.Writer
	sum *atomic.Int64
}

func (c counting) Write(data []byte) (int, error) {
	n, err := c.Writer.Write(data)
	c.sum.Add(int64(n))
	return n, err
}

// Connections that were made so far.
func (r *Relay) Connections() int { return int(r.connections.Load()) }

// Bytes that were carried so far, both ways.
func (r *Relay) Bytes() int64 { return r.bytes.Load() }

// Stop ends it and what runs through it.
func (r *Relay) Stop() {
	r.listener.Close()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for conn := range r.open {
		conn.Close()
	}
}

// Idle is an extender that does nothing: every node fits, none is better.
type Idle struct {
	URL    string
	server *http.Server
}

// StartIdle starts one.
func StartIdle() (*Idle, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	idle := &Idle{URL: "http://" + listener.Addr().String() + "/scheduler"}
	mux := http.NewServeMux()
	mux.HandleFunc("/scheduler/filter", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ NodeNames *[]string }
		if json.NewDecoder(r.Body).Decode(&ask) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(Object{"NodeNames": ask.NodeNames})
	})
	mux.HandleFunc("/scheduler/prioritize", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ NodeNames *[]string }
		if json.NewDecoder(r.Body).Decode(&ask) != nil || ask.NodeNames == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		scores := []Object{}
		for _, name := range *ask.NodeNames {
			scores = append(scores, Object{"Host": name, "Score": 0})
		}
		_ = json.NewEncoder(w).Encode(scores)
	})
	idle.server = &http.Server{Handler: mux, ErrorLog: quiet()}
	go idle.server.Serve(listener)
	return idle, nil
}

// Stop ends it.
func (i *Idle) Stop() { i.server.Close() }

// CountLines with all of these words.
func CountLines(text string, words ...string) int {
	count := 0
	for _, line := range strings.Split(text, "\n") {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			count++
		}
	}
	return count
}

// BurstScheduler is a kube-scheduler's configuration: without an extender, with one that only
// filters and scores, or with one that binds, too.
func BurstScheduler(c *Cluster, name, webhooks string, binds bool) string {
	text := schedulerYAML(c.Kubeconfig, name, webhooks)
	if webhooks == "" {
		return text[:strings.Index(text, "extenders:")]
	}
	if binds {
		return text
	}
	for _, verb := range []string{"  bindVerb: bind\n", "  preemptVerb: preempt\n"} {
		text = strings.Replace(text, verb, "", 1)
	}
	return text
}
