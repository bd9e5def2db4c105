package harness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Namespace is the value of --namespace for every milligpud of the tests.
const Namespace = "milligpu-system"

// Daemon is one milligpud: its files stay when it is stopped, so that it can be started again.
type Daemon struct {
	Name         string
	Ledger       string
	Kubeconfig   string
	Args         []string /* additional flags */
	Shipped      bool     /* the policy is the one that is shipped, not binpack */
	GracePeriodS string   /* grace period; 0 in most tests, where no earlier milligpud can have granted anything */
	Proc         *Proc

	cluster *Cluster
	ports   map[string]string
}

// NewDaemon prepares a milligpud with a ledger of its own; Start starts it.
func (c *Cluster) NewDaemon(name, kubeconfig string, args ...string) *Daemon {
	return &Daemon{Name: name, Ledger: filepath.Join(c.Dir, name+".db"), Kubeconfig: kubeconfig,
		Args: args, GracePeriodS: "0", cluster: c}
}

// Spawn starts milligpud and returns when it has written its port file, or has ended.
func (d *Daemon) Spawn() error {
	program, err := Program("milligpud", "MILLIGPUD")
	if err != nil {
		return err
	}
	portFile := filepath.Join(d.cluster.Dir, d.Name+".ports")
	if err := os.Remove(portFile); err != nil && !os.IsNotExist(err) {
		return err
	}
	args := append([]string{"--kubeconfig", d.Kubeconfig, "--ledger", d.Ledger,
		"--webhook-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--probe-listen", "127.0.0.1:0", "--port-file", portFile,
		"--namespace", Namespace, "--grace-period-s", d.GracePeriodS}, d.Args...)
	if !d.Shipped && !slices.Contains(d.Args, "--policy") {
		args = append(args, "--policy", "binpack") // the tests of places count on it
	}
	d.Proc, err = d.cluster.Start(d.Name, program, args...)
	if err != nil {
		return err
	}
	return Until(Patience, func() (bool, string) {
		if !d.Proc.Running() {
			return true, ""
		}
		d.ports, err = readPorts(portFile)
		return err == nil, "milligpud has not written its port file"
	})
}

// Start starts milligpud and returns when it is ready.
func (d *Daemon) Start() error {
	if err := d.Spawn(); err != nil {
		return err
	}
	err := Until(Patience, func() (bool, string) {
		if !d.Proc.Running() {
			return true, ""
		}
		code, body, err := d.Fetch("/readyz?verbose")
		if err != nil {
			return false, err.Error()
		}
		return code == http.StatusOK, "milligpud is not ready: " + body
	})
	if err == nil && !d.Proc.Running() {
		err = fmt.Errorf("milligpud ended: %v", d.Proc.err)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, d.Proc.Tail(30))
	}
	return err
}

func readPorts(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ports := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		name, address, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("%s: line %q is not NAME ADDRESS", path, line)
		}
		ports[name] = address
	}
	return ports, nil
}

// Address returns the address of the listener "webhook", "admin" or "probe".
func (d *Daemon) Address(listener string) string { return d.ports[listener] }

// Fetch sends a GET to the admin listener and returns status and body.
func (d *Daemon) Fetch(path string) (int, string, error) {
	return fetch("http://" + d.Address("admin") + path)
}

var plain = &http.Client{Timeout: 30 * time.Second}

func fetch(url string) (int, string, error) {
	response, err := plain.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Get fetches an object from the REST API.
func (d *Daemon) Get(path string) (Object, error) {
	code, body, err := d.Fetch(path)
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %d %s", path, code, body)
	}
	var out Object
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return out, nil
}

// List fetches a whole collection, page by page.
func (d *Daemon) List(path string) ([]Object, error) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	var all []Object
	token := ""
	for {
		page := path
		if token != "" {
			page += separator + "continue=" + url.QueryEscape(token)
		}
		list, err := d.Get(page)
		if err != nil {
			return nil, err
		}
		all = append(all, Items(list, "items")...)
		if token = Text(list, "continue"); token == "" {
			return all, nil
		}
	}
}

// Metric sums the samples of a metric that have all of these labels.
func (d *Daemon) Metric(name string, labels ...string) (float64, error) {
	_, body, err := d.Fetch("/metrics")
	return sumOf(body, name, labels), err
}

func sumOf(body, name string, labels []string) (sum float64) {
	for _, line := range strings.Split(body, "\n") {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		matches := true
		for _, label := range labels {
			matches = matches && strings.Contains(line, label)
		}
		var value float64
		_, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value)
		if matches && err == nil {
			sum += value
		}
	}
	return sum
}

// Follow returns what the stream of events tells from the first entry on, one event after the other, until it is cancelled
// or milligpud ends.
func (d *Daemon) Follow(cancel context.Context) (<-chan Object, error) {
	request, err := http.NewRequestWithContext(cancel, "GET", "http://"+d.Address("admin")+"/api/v1/events?since=0", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("GET /api/v1/events: %s", response.Status)
	}
	events := make(chan Object)
	go func() {
		defer close(events)
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			data, is := strings.CutPrefix(lines.Text(), "data: ")
			var event Object
			if !is || json.Unmarshal([]byte(data), &event) != nil {
				continue
			}
			select {
			case events <- event:
			case <-cancel.Done():
				return
			}
		}
	}()
	return events, nil
}

// SQL runs a query on the ledger's file, read-only, with the sqlite3 command, and returns the rows.
func (d *Daemon) SQL(query string) ([][]string, error) {
	out, err := Run("sqlite3", "-readonly", "-batch", "-cmd", ".timeout 5000", d.Ledger, query)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if line != "" {
			rows = append(rows, strings.Split(line, "|"))
		}
	}
	return rows, nil
}

// RemoveLedger deletes the database as an accident would.
func (d *Daemon) RemoveLedger() error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(d.Ledger + suffix); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// Webhook posts a body to a webhook as kube-scheduler would.
func (d *Daemon) Webhook(scheme, verb, body string, config *tls.Config) (int, string, error) {
	client := &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	code, answer, err := Post(client, scheme+"://"+d.Address("webhook")+"/scheduler/"+verb, []byte(body))
	return code, string(answer), err
}

// Post sends JSON, and reads the answer to its end, so that the connection can be used again.
func Post(client *http.Client, url string, body []byte) (int, []byte, error) {
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// BindRequest is what kube-scheduler sends for a bind.
func BindRequest(pod Object, node string) ([]byte, error) {
	return json.Marshal(Object{"PodName": Text(pod, "metadata", "name"), "PodUID": Text(pod, "metadata", "uid"),
		"PodNamespace": Text(pod, "metadata", "namespace"), "Node": node})
}

// Bind asks the webhook to bind a pod, as kube-scheduler would, on a connection that is kept.
func (d *Daemon) Bind(pod Object, node string) error {
	ask, err := BindRequest(pod, node)
	if err != nil {
		return err
	}
	code, answer, err := Post(plain, "http://"+d.Address("webhook")+"/scheduler/bind", ask)
	if err == nil && (code != http.StatusOK || !bytes.Contains(answer, []byte(`"Error":""`))) {
		err = fmt.Errorf("bind: %d %s", code, answer)
	}
	return err
}
