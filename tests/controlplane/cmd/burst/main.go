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
	fillers   = 16 /* binds at a time that fill the nodes */
)

var (
	nodes  = flag.Int("nodes", 100, "number of nodes")
	gpus   = flag.Int("gpus", 16, "number of GPUs of each node")
	half   = flag.Bool("half", false, "before, each node gets a pod that holds half of its GPUs, bound by milligpud")
	rounds = flag.Int("rounds", 5, "number of rounds; each measures all three setups")
)

/* what one peer's rounds measured: "name unit" -> a value for each round */
type figures map[string][]float64

type environment struct {
	*harness.Cluster
	account *harness.Account
	d       *harness.Daemon /* one ledger; a process for each round */
	direct  string          /* kubeconfig without the relay */
	idle    *harness.Proc
	idleURL string
	names   []string /* of the nodes */
	space   int
}

type peer struct {
	name string
	run  func(int, figures) error
}

func main() {
	harness.BeIdle()
	flag.Parse()
	pods := []int{1000, 3000}
	if flag.NArg() > 0 {
		pods = nil
		for _, arg := range flag.Args() {
			var n int
			if _, err := fmt.Sscan(arg, &n); err != nil || n < 1 {
				fmt.Fprintln(os.Stderr, "usage: burst [--nodes N] [--gpus N] [--half] [--rounds N] [PODS ...]")
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

func measure(cluster *harness.Cluster, pods []int) error {
	w := &environment{Cluster: cluster}
	if err := w.prepare(); err != nil {
		return err
	}
	for _, n := range pods {
		if err := w.compare(n); err != nil {
			return err
		}
	}
	return nil
}

func (w *environment) prepare() (err error) {
	if w.account, err = w.CreateAccount(); err != nil {
		return err
	}
	var address string
	if w.idle, address, err = w.StartIdle(); err != nil {
		return err
	}
	w.idleURL = "http://" + address + "/scheduler"
	if w.names, err = w.Admin.CreateNodes(harness.BurstNodesOf(*nodes, *gpus)); err != nil {
		return err
	}
	if w.direct, err = w.account.Kubeconfig(w.Dir, "milligpud", w.URL, w.CAFile); err != nil {
		return err
	}
	/* No grace period: no earlier milligpud has Bindings in flight. In the next rounds, the ledger is the same one. */
	w.d = w.NewDaemon("milligpud", w.direct)
	w.d.Shipped = true
	if *half {
		return w.fillHalf()
	}
	return nil
}

func (w *environment) compare(pods int) error {
	peers := []peer{{"alone", w.alone}, {"idle_extender", w.withIdle}, {"milligpu", w.withMilligpu}}
	all := map[string]figures{}
	for _, peer := range peers {
		all[peer.name] = figures{}
	}
	for round := range *rounds {
		for i := range peers { /* each begins in turn */
			peer := peers[(round+i)%len(peers)]
			if err := peer.run(pods, all[peer.name]); err != nil {
				return fmt.Errorf("%s, %d pods: %w", peer.name, pods, err)
			}
		}
	}
	if err := w.count(pods, all["milligpu"]); err != nil {
		return fmt.Errorf("the round that counts, %d pods: %w", pods, err)
	}
	fill := "empty"
	if *half {
		fill = "half"
	}
	prefix := fmt.Sprintf("burst.%dx%d.%s.%d_pods.", *nodes, *gpus, fill, pods)
	for _, peer := range peers {
		say(prefix+peer.name, all[peer.name])
	}
	ours := harness.Median(all["milligpu"]["time s"])
	for _, peer := range []string{"alone", "idle_extender"} {
		theirs := harness.Median(all[peer]["time s"])
		fmt.Printf("%-70s %.2f times\n", prefix+"milligpu.to_"+peer, ours/theirs)
		fmt.Printf("%-70s %.2f times\n", prefix+"milligpu.pods_per_s_to_"+peer, theirs/ours)
	}
	return nil
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
		fmt.Printf("%-70s %.4g %s\n", prefix+"."+what, harness.Median(f[name]), unit)
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
	space, err := w.newSpace()
	if err != nil {
		return space, err
	}
	took, err := w.Admin.Burst(p, space, scheduler, pods, limit)
	f.add("time s", took.Seconds())
	f.add("pods_per_s pods/s", float64(pods)/took.Seconds())
	return space, err
}

func (w *environment) newSpace() (string, error) {
	w.space++
	space := fmt.Sprintf("burst-%d", w.space)
	return space, w.createSpace(space)
}

func (w *environment) createSpace(space string) error {
	_, err := w.Admin.Create("/api/v1/namespaces", harness.Object{"metadata": harness.Object{"name": space}})
	return err
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
	spent, err := meter(w.idle)
	if err != nil {
		return err
	}
	space, err := w.burst(pods, f, w.idleURL, false)
	if err != nil {
		return err
	}
	if err := spent(pods, f); err != nil {
		return err
	}
	return w.clear(space)
}

/* starts milligpud, which ends with the round: while it waits for its turn, it would take part of the machine */
func (w *environment) withMilligpu(pods int, f figures) error {
	if err := w.start(w.direct); err != nil {
		return err
	}
	defer w.d.Proc.Stop()
	space, err := w.burstOfOurs(pods, f)
	if err != nil {
		return err
	}
	return w.clear(space)
}

func (w *environment) start(kubeconfig string) error {
	w.d.Kubeconfig = kubeconfig
	if err := w.d.Start(); err != nil {
		return err
	}
	return settle(w.d.Proc)
}

func (w *environment) burstOfOurs(pods int, f figures) (string, error) {
	spent, err := meter(w.d.Proc)
	if err != nil {
		return "", err
	}
	space, err := w.burst(pods, f, "http://"+w.d.Address("webhook")+"/scheduler", true)
	if err != nil {
		return space, fmt.Errorf("%w\n%s", err, w.d.Proc.Tail(20))
	}
	if err := spent(pods, f); err != nil {
		return space, err
	}
	peak, err := harness.PeakKiB(w.d.Proc.Pid())
	f.add("rss_peak MiB", float64(peak)/1024)
	return space, err
}

/* one more round through a relay, which takes part of the machine, too: its time counts for nothing */
func (w *environment) count(pods int, f figures) error {
	relay, err := w.StartRelay()
	if err != nil {
		return err
	}
	defer relay.Stop()
	kubeconfig, err := w.account.Kubeconfig(w.Dir, "milligpud-relayed", relay.URL, w.CAFile)
	if err != nil {
		return err
	}
	if err := w.start(kubeconfig); err != nil {
		return err
	}
	defer w.d.Proc.Stop()
	lists := relay.Bytes()
	space, err := w.burstOfOurs(pods, figures{})
	if err != nil {
		return err
	}
	tries, err := w.d.Metric("milligpu_api_requests_total", `call="bind"`)
	if err != nil {
		return err
	}
	f.add("connections connections", float64(relay.Connections()))
	f.add("bytes_per_pod B", float64(relay.Bytes()-lists)/float64(pods))
	f.add("bindings_per_pod calls", tries/float64(pods))
	f.add("in_doubt binds", float64(doubts(w.d)))
	return w.clear(space)
}

/* the returned function adds the CPU time of a process since this call, once it has nothing more to do */
func meter(p *harness.Proc) (func(pods int, f figures) error, error) {
	before, err := harness.CPU(p.Pid())
	return func(pods int, f figures) error {
		if err := settle(p); err != nil {
			return err
		}
		after, err := harness.CPU(p.Pid())
		f.add("cpu_per_pod us", float64((after-before).Microseconds())/float64(pods))
		return err
	}, err
}

/* waits until the process takes less than a tenth of a core */
func settle(p *harness.Proc) error {
	before, err := harness.CPU(p.Pid())
	if err != nil {
		return err
	}
	return harness.Until(harness.Patience, func() (bool, string) {
		time.Sleep(200 * time.Millisecond)
		after, err := harness.CPU(p.Pid())
		if err != nil {
			return false, err.Error()
		}
		quiet := after-before <= 20*time.Millisecond
		before = after
		return quiet, p.Name + " is busy"
	})
}

/* counts the binds that milligpud's log reports as in doubt, in all rounds so far; -1: there is no log */
func doubts(d *harness.Daemon) int {
	log, err := os.ReadFile(d.Proc.Log)
	if err != nil {
		return -1
	}
	return harness.CountLines(string(log), "bind", "in doubt")
}

/* ---- half of the GPUs ---- */

func (w *environment) fillHalf() error {
	const space = "half"
	if err := w.createSpace(space); err != nil {
		return err
	}
	if err := w.d.Start(); err != nil {
		return err
	}
	defer w.d.Proc.Stop()
	work, done := make(chan string), make(chan error, fillers)
	for range fillers {
		go func() {
			var first error
			for node := range work {
				if err := w.fill(space, node); err != nil && first == nil {
					first = fmt.Errorf("%s: %w", node, err)
				}
			}
			done <- first
		}()
	}
	for _, name := range w.names {
		work <- name
	}
	close(work)
	var first error
	for range fillers {
		if err := <-done; err != nil {
			first = err
		}
	}
	if first != nil {
		return first
	}
	bound, err := w.Admin.AllBound(space)
	if err == nil && !bound {
		err = fmt.Errorf("pods that hold half of a node are not bound")
	}
	return err
}

func (w *environment) fill(space, node string) error {
	shape := harness.Simple("half-of-"+node, *gpus/2*1000)
	shape.Scheduler = "nobody"
	pod, err := w.Admin.Create(harness.PodPath(space, ""), shape.Object())
	if err != nil {
		return err
	}
	return w.d.Bind(pod, node)
}
