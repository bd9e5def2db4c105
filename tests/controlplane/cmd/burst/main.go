// burst measures how fast a real control plane binds pods that are all created at once: kube-scheduler
// alone, with an extender that does nothing, and with milligpud, in turn. It prints "name value unit".
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

const (
	scheduler = "burst-scheduler"
	limit     = 4 * time.Minute
)

var (
	nodes  = flag.Int("nodes", 100, "number of nodes, 16 GPUs each")
	rounds = flag.Int("rounds", 5, "number of rounds; each measures all three setups")
)

/* what one peer's rounds measured: "name unit" -> a value for each round */
type figures map[string][]float64

type environment struct {
	*harness.Cluster
	account *harness.Account
	idle    *harness.Idle
	space   int
}

func main() {
	flag.Parse()
	pods := []int{1000, 3000}
	if flag.NArg() > 0 {
		pods = nil
		for _, arg := range flag.Args() {
			var n int
			if _, err := fmt.Sscan(arg, &n); err != nil || n < 1 {
				fmt.Fprintln(os.Stderr, "usage: burst [--nodes N] [--rounds N] [PODS ...]")
				os.Exit(2)
			}
			pods = append(pods, n)
		}
	}
	err := harness.WithCluster(func(cluster *harness.Cluster) error { return measure(cluster, pods) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "burst:", err)
		os.Exit(1)
	}
}

func measure(cluster *harness.Cluster, pods []int) (err error) {
	w := &environment{Cluster: cluster}
	if w.account, err = cluster.CreateAccount(); err != nil {
		return err
	}
	if w.idle, err = harness.StartIdle(); err != nil {
		return err
	}
	for _, node := range harness.BurstNodes(*nodes) {
		if _, err := cluster.Admin.Create(harness.NodePath(""), node.Object()); err != nil {
			return err
		}
	}
	for _, n := range pods {
		if err := w.compare(n); err != nil {
			return err
		}
	}
	return nil
}

func (w *environment) compare(pods int) error {
	peers := []struct {
		name string
		run  func(int, figures) error
	}{{"alone", w.alone}, {"idle_extender", w.withIdle}, {"milligpu", w.withMilligpu}}
	all := map[string]figures{}
	for _, peer := range peers {
		all[peer.name] = figures{}
	}
	for range *rounds {
		for _, peer := range peers {
			if err := peer.run(pods, all[peer.name]); err != nil {
				return fmt.Errorf("%s, %d pods: %w", peer.name, pods, err)
			}
		}
	}
	prefix := fmt.Sprintf("burst.%d_nodes.%d_pods.", *nodes, pods)
	for _, peer := range peers {
		say(prefix+peer.name, all[peer.name])
	}
	ours := median(all["milligpu"]["time s"])
	fmt.Printf("%-70s %.2f times\n", prefix+"milligpu.to_alone", ours/median(all["alone"]["time s"]))
	fmt.Printf("%-70s %.2f times\n", prefix+"milligpu.to_idle_extender",
		ours/median(all["idle_extender"]["time s"]))
	return nil
}

func median(values []float64) float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	return sorted[len(sorted)/2]
}

func say(prefix string, f figures) {
	var names []string
	for name := range f {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		var what, unit string
		fmt.Sscan(name, &what, &unit)
		fmt.Printf("%-70s %.3g %s\n", prefix+"."+what, median(f[name]), unit)
	}
}

func (f figures) add(name string, value float64) { f[name] = append(f[name], value) }

/* runs one burst with a new kube-scheduler whose extender is at webhooks ("": no extender) */
func (w *environment) burst(pods int, f figures, webhooks string, binds bool) (string, error) {
	p, err := w.StartSchedulerWith(scheduler, harness.BurstScheduler(w.Cluster, scheduler, webhooks, binds))
	if err != nil {
		return "", err
	}
	defer p.Kill()
	w.space++
	space := fmt.Sprintf("burst-%d", w.space)
	if _, err := w.Admin.Create("/api/v1/namespaces",
		harness.Object{"metadata": harness.Object{"name": space}}); err != nil {
		return space, err
	}
	took, err := w.Admin.Burst(p, space, scheduler, pods, limit)
	f.add("time s", took.Seconds())
	return space, err
}

func (w *environment) clear(space string) error {
	if err := w.Admin.DeletePods(space); err != nil {
		return err
	}
	return harness.Until(limit, func() (bool, string) {
		list, err := w.Admin.Get(harness.PodPath(space, "") + "?limit=1")
		return err == nil && len(harness.Items(list, "items")) == 0, "pods are not gone"
	})
}

func (w *environment) alone(pods int, f figures) error {
	space, err := w.burst(pods, f, "", false)
	if err != nil {
		return err
	}
	return w.clear(space)
}

func (w *environment) withIdle(pods int, f figures) error {
	space, err := w.burst(pods, f, w.idle.URL, false)
	if err != nil {
		return err
	}
	return w.clear(space)
}

func (w *environment) withMilligpu(pods int, f figures) error {
	relay, err := w.StartRelay()
	if err != nil {
		return err
	}
	defer relay.Stop()
	name := fmt.Sprintf("milligpud-%d", w.space)
	kubeconfig, err := w.account.Kubeconfig(w.Dir, name, relay.URL, w.CAFile)
	if err != nil {
		return err
	}
	d := w.NewDaemon(name, kubeconfig)
	if err := d.Start(); err != nil {
		return err
	}
	defer d.Proc.Stop()
	before, err := harness.CPU(d.Proc.Pid())
	if err != nil {
		return err
	}
	space, err := w.burst(pods, f, "http://"+d.Address("webhook")+"/scheduler", true)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, d.Proc.Tail(20))
	}
	if err := w.tell(d, relay, pods, before, f); err != nil {
		return err
	}
	return w.clear(space)
}

func (w *environment) tell(d *harness.Daemon, relay *harness.Relay, pods int, before time.Duration, f figures) error {
	after, err := harness.CPU(d.Proc.Pid())
	if err != nil {
		return err
	}
	peak, err := harness.PeakKiB(d.Proc.Pid())
	if err != nil {
		return err
	}
	tries, err := d.Metric("milligpu_api_requests_total", `call="bind"`)
	if err != nil {
		return err
	}
	f.add("cpu_per_pod us", float64((after-before).Microseconds())/float64(pods))
	f.add("rss_peak MiB", float64(peak)/1024)
	f.add("connections connections", float64(relay.Connections()))
	f.add("bytes_per_pod B", float64(relay.Bytes())/float64(pods))
	f.add("bindings_per_pod calls", tries/float64(pods))
	f.add("in_doubt binds", float64(doubts(d)))
	return nil
}

/* counts the binds that milligpud's log reports as in doubt; -1: there is no log */
func doubts(d *harness.Daemon) int {
	log, err := os.ReadFile(d.Proc.Log)
	if err != nil {
		return -1
	}
	return harness.CountLines(string(log), "bind", "in doubt")
}
