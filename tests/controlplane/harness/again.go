package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

/* what kubelet does not write at its registration: the API server does, for each Node anew */
var ofOneNode = []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"}

// learn keeps the Node as kubelet has registered it, so that Register can post it again.
func (n *RealNode) learn() error {
	node, err := n.cluster.Admin.Get(NodePath(n.Name))
	if err != nil {
		return err
	}
	metadata, _ := At(node, "metadata").(Object)
	for _, key := range ofOneNode {
		delete(metadata, key)
	}
	n.registered = node
	return nil
}

// Register posts the Node that somebody has deleted, as new. kubelet registers it only when it starts, and writes the
// status of whichever Node has its name.
func (n *RealNode) Register() error {
	_, err := n.cluster.Admin.Create(NodePath(""), n.registered)
	return err
}

// Spent says whether Clean could not make the node as it was after its start: it was rebooted, kubelet has met a device
// plugin, whose resource its Node shows from then on, or a test has said so.
func (n *RealNode) Spent() bool { return n.spent }

// Spend gives the next test a node of its own. A containerd or kubelet that is killed between the creation of a container
// and its start leaves one that holds its share until kubelet's garbage collection, which comes once a minute.
func (n *RealNode) Spend() { n.spent = true }

// Ended says whether a pod was started here, and no process of it is left.
func (n *RealNode) Ended(uid string) (bool, error) {
	all, err := n.ctr("containers", "ls", "-q", fmt.Sprintf(`labels."io.kubernetes.pod.uid"==%q`, uid))
	if err != nil {
		return false, err
	}
	tasks, err := n.ctr("tasks", "ls", "-q")
	if err != nil {
		return false, err
	}
	of, running := strings.Fields(all), strings.Fields(tasks)
	return len(of) > 0 && !slices.ContainsFunc(of, func(id string) bool { return slices.Contains(running, id) }), nil
}

// Clean ends everything on the node but containerd and kubelet, and makes its folders, GPUs and settings as they were
// after its start. Its pods are gone already. It fails if they have left something that runs.
func (n *RealNode) Clean() error {
	var problems []string
	for _, agent := range []*Proc{n.agent, n.second} {
		if err := agent.End(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	n.killPlugins()
	n.agent, n.second = nil, nil
	for _, p := range []*Proc{n.containerd, n.kubelet} {
		if !p.Running() {
			problems = append(problems, fmt.Sprintf("%s has ended: %v", p.Name, p.err))
		}
	}
	if problems != nil {
		return fmt.Errorf("the node cannot serve another test: %s", strings.Join(problems, "; "))
	}
	if !n.validator {
		if err := n.Validate(true); err != nil {
			return err
		}
	}
	/* the API server forgets a pod that is deleted without grace before kubelet has ended it */
	err := Until(Patience, func() (bool, string) {
		list, err := n.ctr("tasks", "ls", "-q")
		return err == nil && strings.TrimSpace(list) == "", fmt.Sprint("containers are left: ", list, err)
	})
	if err != nil {
		return err
	}
	n.minors = map[string]int{}
	n.KeysNamespace, n.AgentKubeconfig = Namespace, n.cluster.Kubeconfig
	return n.emptyFolders()
}

/* the folders stay: containerd watches the one of CDI */
func (n *RealNode) emptyFolders() error {
	for _, dir := range []string{filepath.Join(n.dir, "dev"), n.CDIDir, n.StateDir, n.KeysDir, n.SeenDir, n.DriverDir} {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := RemoveAll(filepath.Join(dir, file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
