package harness

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Picky is another product's extender, which accepts only a few nodes. Unless it is silent, it gives a reason
// for each node that it refuses: with each list the pod's condition changes, so kube-scheduler asks again.
type Picky struct {
	URL string

	server *http.Server
	accept []string
	silent bool
	mutex  sync.Mutex
	sizes  []int
}

// StartPicky starts an extender that accepts only the nodes of these names.
func StartPicky(silent bool, accept ...string) (*Picky, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Picky{URL: "http://" + listener.Addr().String(), accept: accept, silent: silent}
	p.server = &http.Server{Handler: http.HandlerFunc(p.filter), ErrorLog: quiet()}
	go p.server.Serve(listener)
	return p, nil
}

func (p *Picky) filter(w http.ResponseWriter, r *http.Request) {
	var ask struct{ NodeNames []string }
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	passed, failed := []string{}, map[string]string{}
	for _, name := range ask.NodeNames {
		if slices.Contains(p.accept, name) {
			passed = append(passed, name)
		} else if !p.silent {
			failed[name] = "it does not please"
		}
	}
	p.mutex.Lock()
	p.sizes = append(p.sizes, len(ask.NodeNames))
	p.mutex.Unlock()
	json.NewEncoder(w).Encode(map[string]any{"NodeNames": passed, "FailedNodes": failed})
}

// Sizes returns the lengths of the node lists that it was asked about, oldest first.
func (p *Picky) Sizes() []int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return append([]int(nil), p.sizes...)
}

// Stop ends it.
func (p *Picky) Stop() { p.server.Close() }

// StartSchedulerBeside starts a kube-scheduler that calls another extender after our webhooks.
func (c *Cluster) StartSchedulerBeside(name, webhooks, other string) (*Proc, error) {
	return c.StartSchedulerWith(name, schedulerYAML(c.Kubeconfig, name, webhooks)+fmt.Sprintf(
		`- {urlPrefix: "%s", filterVerb: filter, nodeCacheCapable: true, httpTimeout: 10s}
`, other))
}
