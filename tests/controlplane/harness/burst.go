package harness

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// BurstNodes returns n nodes of 16 GPUs each.
func BurstNodes(n int) []NodeShape { return BurstNodesOf(n, 16) }

// BurstNodesOf returns n nodes of as many GPUs each.
func BurstNodesOf(n, gpus int) []NodeShape {
	var nodes []NodeShape
	for i := range n {
		nodes = append(nodes, NodeShape{Name: fmt.Sprintf("burst-%03d", i), Milli: 1000 * gpus,
			Product: "A100-SXM4-80GB", MiB: 81920})
	}
	return nodes
}

// CreateNodes creates nodes, and returns their names.
func (a *API) CreateNodes(nodes []NodeShape) ([]string, error) {
	var names []string
	for _, node := range nodes {
		if _, err := a.Create(NodePath(""), node.Object()); err != nil {
			return nil, err
		}
		names = append(names, node.Name)
	}
	return names, nil
}

// Median is the middle one; of an even number the larger of the two.
func Median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

const creators = 32

// CreatePods posts pods p0, p1, ... of 300 thousandths each, many at a time.
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

// AllBound says whether every pod of a namespace has a node. It lists at most one pod without a node,
// which is cheap however many there are.
func (a *API) AllBound(space string) (bool, error) {
	list, err := a.Get(PodPath(space, "") + "?limit=1&fieldSelector=" +
		url.QueryEscape("spec.nodeName="))
	return err == nil && len(Items(list, "items")) == 0, err
}

// DeletePods deletes all pods of a namespace. A busy API server may need longer for thousands than our requests wait, and
// then goes on with what is left.
func (a *API) DeletePods(space string) error {
	var last error
	err := Until(Patience, func() (bool, string) {
		var late net.Error
		if last = a.Delete(PodPath(space, ""), 0); errors.As(last, &late) && late.Timeout() {
			return false, last.Error()
		}
		return true, ""
	})
	return cmp.Or(err, last)
}

// Burst suspends a kube-scheduler, creates all pods, resumes it, and returns how long it takes to bind
// them.
func (a *API) Burst(scheduler *Proc, space, name string, count int, limit time.Duration) (time.Duration, error) {
	scheduler.Signal(syscall.SIGSTOP)
	defer scheduler.Signal(syscall.SIGCONT)
	if err := a.CreatePods(space, name, count); err != nil {
		return 0, err
	}
	time.Sleep(500 * time.Millisecond) /* so that every watch has delivered them */
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

// PeakKiB returns the peak resident memory of a process.
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

// CPU returns the CPU time of a process, all threads together.
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

// Relay forwards TCP connections and counts them and their bytes.
type Relay struct {
	URL string

	listener    net.Listener
	target      string
	connections atomic.Int64
	bytes       atomic.Int64
	mutex       sync.Mutex
	open        map[net.Conn]bool
}

// StartRelay starts a relay in front of the cluster's API server; TLS passes through it unchanged.
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

// Connections returns the number of connections so far.
func (r *Relay) Connections() int { return int(r.connections.Load()) }

// Bytes returns the number of bytes so far, in both directions.
func (r *Relay) Bytes() int64 { return r.bytes.Load() }

// Stop ends the relay and its connections.
func (r *Relay) Stop() {
	r.listener.Close()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for conn := range r.open {
		conn.Close()
	}
}

/* the argument with which a program of StartIdle starts itself again */
const idleArgument = "be-the-idle-extender"

// StartIdle starts an extender that does nothing, in a process of its own: every node fits, and all score the same. The
// program must begin with BeIdle. Its URL is http://ADDRESS/scheduler.
func (c *Cluster) StartIdle() (p *Proc, address string, err error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, "", err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	if p, err = c.Start("idle-extender", program, idleArgument, address); err != nil {
		return nil, "", err
	}
	return p, address, Until(Patience, func() (bool, string) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false, err.Error()
		}
		conn.Close()
		return true, ""
	})
}

// BeIdle is that extender, and does not return, if StartIdle has started this process.
func BeIdle() {
	if len(os.Args) != 3 || os.Args[1] != idleArgument {
		return
	}
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
	server := &http.Server{Addr: os.Args[2], Handler: mux, ErrorLog: quiet()}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// CountLines counts the lines that contain all of these words.
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

// BurstScheduler returns a kube-scheduler configuration: without an extender (webhooks is ""), with one
// that only filters and scores, or with one that also binds and preempts.
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
