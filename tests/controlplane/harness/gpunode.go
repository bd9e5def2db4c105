package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

/* minor numbers of harmless devices (null, zero, full, random, urandom), which stand for GPUs */
var harmless = []int{3, 5, 7, 8, 9}

// GPUs gives the node these GPUs: device nodes in its folder, and the specification that nvidia-ctk would write. A
// container that gets one finds /dev/nvidiaN. The node's own /dev is not touched. A GPU keeps its minor number, by which it
// is known (UUID), also when it comes at another place the next time.
func (n *RealNode) GPUs(uuids ...string) error {
	if len(uuids) > len(harmless) {
		return fmt.Errorf("%d GPUs are more than %d", len(uuids), len(harmless))
	}
	var devices []Object
	var all []any
	for i, uuid := range uuids {
		if _, known := n.minors[uuid]; !known {
			n.minors[uuid] = harmless[len(n.minors)]
		}
		node, err := n.deviceNode(fmt.Sprintf("nvidia%d", i), n.minors[uuid])
		if err != nil {
			return err
		}
		edits := Object{"deviceNodes": []any{node}}
		devices = append(devices, Object{"name": fmt.Sprint(i), "containerEdits": edits},
			Object{"name": uuid, "containerEdits": edits})
		all = append(all, node)
	}
	devices = append(devices, Object{"name": "all", "containerEdits": Object{"deviceNodes": all}})
	control, err := n.deviceNode("nvidiactl", harmless[0])
	if err != nil {
		return err
	}
	return n.WriteCDI("nvidia", Object{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices,
		"containerEdits": Object{"env": []string{"NVIDIA_VISIBLE_DEVICES=void"}, "deviceNodes": []any{control}}})
}

// UUID returns the GPU whose device node has this minor number.
func (n *RealNode) UUID(minor int) string {
	for uuid, of := range n.minors {
		if of == minor {
			return uuid
		}
	}
	return fmt.Sprintf("no GPU, but a device with the minor number %d", minor)
}

func (n *RealNode) deviceNode(name string, minor int) (Object, error) {
	path := filepath.Join(n.dir, "dev", name)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|minor); err != nil {
		return nil, fmt.Errorf("mknod %s: %w", path, err)
	}
	return Object{"path": "/dev/" + name, "hostPath": path}, nil
}

// WriteCDI writes a CDI specification; the file appears at once and whole. The runtime's cache sees the old name
// leave the folder, and not that a file comes into it from another one.
func (n *RealNode) WriteCDI(name string, spec Object) error {
	data, err := json.MarshalIndent(spec, "", " ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(n.CDIDir, name+".new")
	if err := os.WriteFile(fresh, data, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(n.CDIDir, name+".json"))
}

// TakeKeys copies the public keys of milligpud into the agent's folder, as the mount of their ConfigMap would.
func (n *RealNode) TakeKeys() error {
	keys, err := n.cluster.Admin.Get("/api/v1/namespaces/" + n.KeysNamespace + "/configmaps/milligpu-keys")
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	data, _ := At(keys, "data").(Object)
	for id := range data {
		if err := os.WriteFile(filepath.Join(n.KeysDir, id), []byte(Text(data, id)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

/* without NVML: the tests write milligpu.io/gpus themselves */
func (n *RealNode) agentFlags(portFile string) []string {
	return []string{"--node", n.Name, "--nri-socket", n.NRISocket, "--state-dir", n.StateDir,
		"--keys-dir", n.KeysDir, "--cdi-dirs", n.CDIDir, "--kubeconfig", n.AgentKubeconfig,
		"--probe-listen", "127.0.0.1:0", "--port-file", portFile, "--nvml", ""}
}

// StartAgent starts milligpu-node, also after it was killed, and waits until it is ready.
func (n *RealNode) StartAgent(args ...string) (err error) {
	n.agent, err = n.startAgent("milligpu-node", args...)
	return err
}

// StartSecondAgent starts another milligpu-node beside the first, as two DaemonSets would: with the same folders.
func (n *RealNode) StartSecondAgent() (err error) {
	n.second, err = n.startAgent("milligpu-node-2")
	return err
}

// LaunchAgent starts milligpu-node and does not wait: on this node it is not expected to get ready.
func (n *RealNode) LaunchAgent(args ...string) (err error) {
	n.agent, _, err = n.launchAgent("milligpu-node", args...)
	return err
}

func (n *RealNode) launchAgent(name string, args ...string) (agent *Proc, portFile string, err error) {
	program, err := Program("milligpu-node", "MILLIGPU_NODE")
	if err != nil {
		return nil, "", err
	}
	if err := n.TakeKeys(); err != nil {
		return nil, "", err
	}
	portFile = filepath.Join(n.dir, name+".ports")
	if err := os.Remove(portFile); err != nil && !os.IsNotExist(err) {
		return nil, "", err
	}
	agent, err = StartProc(name, n.cluster.Dir, program, append(n.agentFlags(portFile), args...)...)
	return agent, portFile, err
}

func (n *RealNode) startAgent(name string, args ...string) (*Proc, error) {
	agent, portFile, err := n.launchAgent(name, args...)
	if err != nil {
		return nil, err
	}
	err = Until(Patience, func() (bool, string) {
		if !agent.Running() {
			return true, ""
		}
		return n.agentReady(portFile)
	})
	if err == nil && !agent.Running() {
		err = fmt.Errorf("milligpu-node ended: %v", agent.err)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, agent.Tail(20))
	}
	return agent, err
}

func (n *RealNode) agentReady(portFile string) (bool, string) {
	code, body, err := fetchAgent(portFile, "/readyz")
	if err != nil {
		return false, err.Error()
	}
	return code == http.StatusOK, "milligpu-node is not ready: " + body
}

func fetchAgent(portFile, path string) (int, string, error) {
	text, err := os.ReadFile(portFile)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return 0, "", errors.New("milligpu-node has not written its port file")
	}
	return fetch("http://" + fields[len(fields)-1] + path)
}

// AgentReady says whether milligpu-node is ready, and what it answers.
func (n *RealNode) AgentReady() (bool, string) {
	return n.agentReady(filepath.Join(n.dir, "milligpu-node.ports"))
}

// AgentMetric sums the samples of a metric of milligpu-node that have all of these labels.
func (n *RealNode) AgentMetric(name string, labels ...string) (float64, error) {
	_, body, err := fetchAgent(filepath.Join(n.dir, "milligpu-node.ports"), "/metrics")
	return sumOf(body, name, labels), err
}

// Uninstall runs `milligpu-node --uninstall`.
func (n *RealNode) Uninstall() error {
	program, err := Program("milligpu-node", "MILLIGPU_NODE")
	if err != nil {
		return err
	}
	_, err = Run(program, "--node", n.Name, "--kubeconfig", n.AgentKubeconfig, "--uninstall")
	return err
}

// Agent returns the process of milligpu-node; nil before StartAgent.
func (n *RealNode) Agent() *Proc { return n.agent }

// SecondAgent returns the process of the other milligpu-node.
func (n *RealNode) SecondAgent() *Proc { return n.second }

// StartPlugin starts another NRI plugin of this name, or starts it again, and waits until the runtime knows it.
func (n *RealNode) StartPlugin(name string, args ...string) error {
	n.plugins[name].Kill()
	process := "nri-plugin-" + name
	/* of all starts before; the first has none */
	log, _ := os.ReadFile(filepath.Join(n.cluster.Dir, process+".log"))
	plugin, err := StartProc(process, n.cluster.Dir, nodeProgram("nri-plugin"),
		append([]string{"--nri-socket", n.NRISocket, "--name", name}, args...)...)
	if err != nil {
		return err
	}
	n.plugins[name] = plugin
	return Until(Patience, func() (bool, string) {
		text, err := os.ReadFile(plugin.Log)
		said := string(text[min(len(log), len(text)):])
		return strings.Contains(said, "connected"), fmt.Sprint("another NRI plugin is not connected: ", said, err)
	})
}

// PluginTails returns the ends of the logs of the other NRI plugins.
func (n *RealNode) PluginTails(lines int) string {
	var all []string
	for name, plugin := range n.plugins {
		all = append(all, "---- nri-plugin "+name+"\n"+plugin.Tail(lines))
	}
	return strings.Join(all, "\n")
}

func (n *RealNode) killPlugins() {
	for _, plugin := range n.plugins {
		plugin.Kill()
	}
	n.plugins = map[string]*Proc{}
}

// running returns the one container with these labels that runs, and its first process. kubelet keeps dead ones for a while.
func (n *RealNode) running(labels string) (id string, pid int, err error) {
	list, err := n.ctr("containers", "ls", "-q", labels)
	if err != nil {
		return "", 0, err
	}
	tasks, err := n.ctr("tasks", "ls")
	if err != nil {
		return "", 0, err
	}
	all := strings.Fields(list)
	for _, task := range strings.Split(tasks, "\n") {
		fields := strings.Fields(task)
		if len(fields) != 3 || fields[2] != "RUNNING" || !slices.Contains(all, fields[0]) {
			continue
		}
		if id != "" {
			return "", 0, fmt.Errorf("%s and %s run with %s", id, fields[0], labels)
		}
		id = fields[0]
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return "", 0, err
		}
	}
	if id == "" {
		err = fmt.Errorf("nothing runs with %s in:\n%s", labels, tasks)
	}
	return id, pid, err
}

// KillSandbox kills the process that holds a pod's namespaces; kubelet then makes a new sandbox.
func (n *RealNode) KillSandbox(uid string) error {
	sandbox, _, err := n.running(fmt.Sprintf(
		`labels."io.kubernetes.pod.uid"==%q,labels."io.cri-containerd.kind"==sandbox`, uid))
	if err != nil {
		return err
	}
	_, err = n.ctr("tasks", "kill", "-s", "SIGKILL", sandbox)
	return err
}

// Process returns the first process of a pod's container that runs, as the host sees it.
func (n *RealNode) Process(uid, container string) (pid int, err error) {
	_, pid, err = n.running(fmt.Sprintf(
		`labels."io.kubernetes.pod.uid"==%q,labels."io.kubernetes.container.name"==%q`, uid, container))
	return pid, err
}

// Reboot ends everything on the node at once, as a loss of power would, and starts containerd and kubelet again, with
// the GPUs in this order. As with /run, containerd's state is gone, and its root stays. The agent does not start.
func (n *RealNode) Reboot(uuids ...string) error {
	n.spent = true
	n.killPlugins()
	for _, p := range []*Proc{n.kubelet, n.agent, n.second, n.devices, n.containerd} {
		p.Kill()
	}
	n.killShims()
	killCgroup(n.cgroup)
	if err := Unmount(n.dir); err != nil {
		return err
	}
	for _, dir := range []string{n.CDIDir, filepath.Join(n.dir, "state")} {
		if err := RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := n.GPUs(uuids...); err != nil {
		return err
	}
	if err := n.startContainerd(); err != nil {
		return err
	}
	return n.StartKubelet()
}

/* shims are no children of containerd, nor in the cgroup of their containers; they name our containerd's socket */
func (n *RealNode) killShims() {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && bytes.HasPrefix(text, []byte(nodeProgram("containerd-shim-runc-v2")+"\x00")) &&
			bytes.Contains(text, []byte(n.socket)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
