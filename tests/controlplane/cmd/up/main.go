// up starts a control plane and a milligpud, leaves them running, and prints the environment to set.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"milligpu.io/tests/controlplane/harness"
)

func main() {
	withNode := len(os.Args) == 3 && os.Args[2] == "--node"
	if len(os.Args) != 2 && !withNode {
		fmt.Fprintln(os.Stderr, "usage: up FOLDER [--node]")
		os.Exit(2)
	}
	dir := os.Args[1]
	harness.Detached = true
	cluster, daemon, err := bringUp(dir)
	var node *harness.RealNode
	if err == nil && withNode {
		node, err = bringUpNode(cluster)
	}
	/* also if only a part has started, so that `down` can end that part */
	if cluster != nil {
		if err := writePids(dir, cluster, node); err != nil {
			fmt.Fprintln(os.Stderr, "up:", err)
		}
	}
	if err == nil {
		err = writeEnvironment(dir, cluster, daemon)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

func bringUp(dir string) (*harness.Cluster, *harness.Daemon, error) {
	cluster, err := harness.StartCluster(dir)
	if err != nil {
		return nil, nil, err
	}
	account, err := cluster.CreateAccount()
	if err != nil {
		return cluster, nil, err
	}
	if _, err := cluster.Admin.CreateNodes(harness.DemoNodes()); err != nil {
		return cluster, nil, err
	}
	kubeconfig, err := account.Kubeconfig(dir, "milligpud", cluster.URL, cluster.CAFile)
	if err != nil {
		return cluster, nil, err
	}
	daemon := cluster.NewDaemon("milligpud", kubeconfig)
	if err := daemon.Start(); err != nil {
		return cluster, nil, err
	}
	_, err = cluster.StartScheduler("default-scheduler",
		"http://"+daemon.Address("webhook")+"/scheduler")
	return cluster, daemon, err
}

/* two, so that a pod can be seen not to see one */
const gpus = `[{"uuid":"GPU-0a","index":0,"milli":1000,"mib":16384,"model":"Tesla-T4"},` +
	`{"uuid":"GPU-1b","index":1,"milli":1000,"mib":16384,"model":"Tesla-T4"}]`

func bringUpNode(cluster *harness.Cluster) (*harness.RealNode, error) {
	if call := harness.Forbidden(cluster.Dir); call != "" {
		return nil, fmt.Errorf("this machine refuses containers: %s", call)
	}
	node, err := cluster.StartRealNode("gpu-real")
	if err != nil {
		return nil, err
	}
	if err := node.GPUs("GPU-0a", "GPU-1b"); err != nil {
		return node, err
	}
	if err := node.Advertise(2000); err != nil {
		return node, err
	}
	_, err = cluster.Admin.Merge(harness.NodePath(node.Name), harness.Object{"metadata": harness.Object{
		"annotations": harness.Object{"milligpu.io/gpus": gpus}}})
	if err != nil {
		return node, err
	}
	if _, err := harness.Program("milligpu-node", "MILLIGPU_NODE"); err != nil {
		fmt.Fprintln(os.Stderr, "up: gpu-real has no agent:", err)
		return node, nil
	}
	return node, node.StartAgent()
}

/* one line per process: pid, program, name. `down` signals a pid only while it still runs that program. */
func writePids(dir string, cluster *harness.Cluster, node *harness.RealNode) error {
	var lines []string
	pids := cluster.Pids()
	maps.Copy(pids, node.Pids())
	for name, pid := range pids {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil {
			lines = append(lines, fmt.Sprintf("%d %s %s\n", pid, program, name))
		}
	}
	sort.Strings(lines)
	return os.WriteFile(filepath.Join(dir, "pids"), []byte(strings.Join(lines, "")), 0o644)
}

func writeEnvironment(dir string, c *harness.Cluster, d *harness.Daemon) error {
	program, err := harness.Program("milligpud", "MILLIGPUD")
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`export KUBECONFIG=%s
export PATH=%s:%s:$PATH
export MILLIGPU_SERVER=http://%s
`, c.Kubeconfig, filepath.Dir(harness.Component("kubectl")), filepath.Dir(program),
		d.Address("admin"))
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s# webhooks on %s, logs in %s\n", text, d.Address("webhook"), dir)
	return nil
}
