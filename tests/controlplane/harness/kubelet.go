package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// RealNode is a kubelet with a containerd of its own, both in the cluster's folder; gpunode.go has its GPUs.
type RealNode struct {
	Name    string
	LogsDir string

	NRISocket string
	CDIDir    string /* the only folder of CDI specifications that its containerd knows */
	StateDir  string /* of milligpu-node, as is the next one */
	KeysDir   string
	SeenDir   string /* for what containers write down */
	DriverDir string /* with the library that stands in for NVIDIA's */

	KeysNamespace   string /* where TakeKeys finds the public keys */
	AgentKubeconfig string /* the admin's, if a test gives milligpu-node no account of its own */

	cluster    *Cluster
	dir        string
	socket     string
	cgroup     string
	bridge     string
	gateway    string /* its address, once Doorway has given it one */
	validator  bool
	containerd *Proc
	kubelet    *Proc
	agent      *Proc
	second     *Proc            /* another milligpu-node on the same node */
	minors     map[string]int   /* of the GPUs, by uuid */
	plugins    map[string]*Proc /* the other NRI plugins, by name */
	registered Object           /* the Node, as kubelet registered it */
	spent      bool
	devices    *Proc    /* the device plugin */
	made       []string /* folders that were not there before kubelet made them, deepest first */
}

// Forbidden returns the system call that containers need and this machine refuses, or "".
func Forbidden(dir string) string {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Sprintf("geteuid() = %d: containers need root here", uid)
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	if err := cmd.Run(); err != nil {
		return "clone(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|CLONE_NEWIPC|CLONE_NEWUTS): " +
			err.Error()
	}
	place := filepath.Join(dir, "may-i-mount")
	if err := os.MkdirAll(place, 0o755); err != nil {
		return err.Error()
	}
	if err := syscall.Mount("tmpfs", place, "tmpfs", 0, "size=64k"); err != nil {
		return "mount(tmpfs): " + err.Error()
	}
	if err := syscall.Unmount(place, 0); err != nil {
		return "umount: " + err.Error()
	}
	name := fmt.Sprintf("milligpu-may-i-%d", os.Getpid())
	defer removeCgroup(name)
	if err := makeCgroup(name); err != nil {
		return err.Error()
	}
	return ""
}

// StartRealNode starts containerd and kubelet and waits until the node is Ready.
func (c *Cluster) StartRealNode(name string) (*RealNode, error) {
	n := &RealNode{Name: name, cluster: c, dir: filepath.Join(c.Dir, "node"),
		/* `run` and `down` find the cgroup by this name if we are killed */
		cgroup: "milligpu-" + strings.TrimPrefix(filepath.Base(c.Dir), "milligpu-"),
		bridge: fmt.Sprintf("mg%d", os.Getpid()), validator: true, minors: map[string]int{}, plugins: map[string]*Proc{},
		KeysNamespace: Namespace, AgentKubeconfig: c.Kubeconfig}
	n.LogsDir = filepath.Join(n.dir, "pod-logs")
	n.socket = filepath.Join(n.dir, "containerd.sock")
	n.NRISocket = filepath.Join(n.dir, "nri", "nri.sock") /* pods mount the folder */
	n.CDIDir = filepath.Join(n.dir, "cdi")
	n.StateDir = filepath.Join(n.dir, "state-of-agent")
	n.KeysDir = filepath.Join(n.dir, "keys")
	n.SeenDir = filepath.Join(n.dir, "seen")
	n.DriverDir = filepath.Join(n.dir, "driver")
	if err := n.start(); err != nil {
		err = fmt.Errorf("%w\n---- containerd\n%s\n---- kubelet\n%s", err,
			n.containerd.Tail(15), n.kubelet.Tail(30))
		if stopped := n.Stop(); stopped != nil {
			err = fmt.Errorf("%w\n%w", err, stopped)
		}
		return nil, err
	}
	return n, nil
}

func (n *RealNode) start() error {
	for _, program := range []string{"runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: apt-get install runc containernetworking-plugins "+
				"busybox-static", err)
		}
	}
	if err := n.writeFiles(); err != nil {
		return err
	}
	if err := makeCgroup(n.cgroup); err != nil {
		return err
	}
	for _, dir := range []string{devicePlugins, filepath.Dir(devicePlugins)} {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			n.made = append(n.made, dir)
		}
	}
	if err := n.startContainerd(); err != nil {
		return err
	}
	if err := n.importImage(filepath.Join(n.dir, "image.tar")); err != nil {
		return err
	}
	if err := n.StartKubelet(); err != nil {
		return err
	}
	return n.learn()
}

func (n *RealNode) writeFiles() error {
	/* the node of an earlier test was in the same folder; its GPUs and pods are none of ours */
	for _, dir := range []string{"cni", "dev", "cdi", "nri", "state-of-agent", "keys", "seen", "driver"} {
		dir = filepath.Join(n.dir, dir)
		if err := RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	image, err := busyboxFiles(busybox)
	if err != nil {
		return err
	}
	config := Object{"Env": []string{"PATH=/bin"}, "Cmd": []string{"/bin/sleep", "1000000"}}
	if err := writeImage(filepath.Join(n.dir, "image.tar"), Image, config, image); err != nil {
		return err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return err
	}
	network := fmt.Sprintf("10.%d.%d.", 200+os.Getpid()%50, os.Getpid()/50%250)
	n.gateway = network + "1"
	files := map[string]string{
		"bridge":          n.bridge + "\n",
		"containerd.toml": n.containerdConfig(),
		"kubelet.yaml":    n.kubeletConfig(ports[0]),
		"cni/10-test.conflist": fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "milligpu",
"plugins": [{"type": "bridge", "bridge": "%s", "isGateway": false, "ipMasq": false,
"ipam": {"type": "host-local", "subnet": "%s", "dataDir": "%s", "routes": [{"dst": "%s"}]}}]}
`, n.bridge, network+"0/24", filepath.Join(n.dir, "ipam"), n.cluster.services+"0/24"),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

/* the time-outs of NRI are the defaults: registration 5 s, request 2 s */
func (n *RealNode) containerdConfig() string {
	if ContainerdBefore(2, 0) {
		return n.oldContainerdConfig()
	}
	grpc, ttrpc, version := "plugins.'io.containerd.server.v1.grpc'", "plugins.'io.containerd.server.v1.ttrpc'", 4
	if ContainerdBefore(2, 3) {
		grpc, ttrpc, version = "grpc", "ttrpc", 3
	}
	text := fmt.Sprintf(`version = %[7]d
root = "%[1]s/root"
state = "%[1]s/state"
[%[8]s]
  address = "%[2]s"
[%[9]s]
  address = "%[2]s.ttrpc"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "native"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "%[3]s"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  cdi_spec_dirs = ["%[4]s"]
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "%[5]s"
  # the handler of NVIDIA's RuntimeClass, which the pods of components/node name
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "%[5]s"
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "%[1]s/cni"
[plugins.'io.containerd.internal.v1.opt']
  path = "%[1]s/opt"
[plugins.'io.containerd.nri.v1.nri']
  socket_path = "%[6]s"
  plugin_path = "%[1]s/nri-plugins"
  plugin_config_path = "%[1]s/nri-conf.d"
`, n.dir, n.socket, Image, n.CDIDir, nodeProgram("containerd-shim-runc-v2"), n.NRISocket, version, grpc, ttrpc)
	if ContainerdBefore(2, 2) {
		return text
	}
	return text + fmt.Sprintf(`  [plugins.'io.containerd.nri.v1.nri'.default_validator]
    enable = %t
`, n.validator)
}

/* 1.7: NRI and CDI are off unless they are turned on */
func (n *RealNode) oldContainerdConfig() string {
	return fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[2]s"
[ttrpc]
  address = "%[2]s.ttrpc"
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = "%[3]s"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ["%[4]s"]
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = "native"
  [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "%[5]s"
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[1]s/cni"
[plugins.'io.containerd.internal.v1.opt']
  path = "%[1]s/opt"
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = "%[6]s"
  plugin_path = "%[1]s/nri-plugins"
  plugin_config_path = "%[1]s/nri-conf.d"
`, n.dir, n.socket, Image, n.CDIDir, nodeProgram("containerd-shim-runc-v2"), n.NRISocket)
}

/* a container that ended is started again after a second, and what is written to the Node is seen at once: nothing in the
 * tests is about how long kubelet waits. The gate is open by default from 1.35 on. */
func (n *RealNode) kubeletConfig(port int) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: "unix://%s"
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 1Mi, nodefs.available: 0%%, imagefs.available: 0%%}
podLogsDir: "%s"
resolvConf: ""
clusterDNS: [10.0.0.10]
syncFrequency: 1s
nodeStatusUpdateFrequency: 500ms
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
`, port, n.socket, n.cgroup, n.LogsDir)
}

/* only what it prints on its standard output: on the other, it warns of cgroups v1 each time */
func (n *RealNode) ctr(args ...string) (string, error) {
	cmd := exec.Command(nodeProgram("ctr"), append([]string{"-a", n.socket, "-n", "k8s.io"}, args...)...)
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("ctr %s: %w\n%s", strings.Join(args, " "), err, &warnings)
	}
	return string(out), err
}

// startContainerd also starts it again: what runs is not its child and is found again.
func (n *RealNode) startContainerd() (err error) {
	n.containerd, err = StartProc("containerd", n.cluster.Dir, nodeProgram("containerd"), "--config",
		filepath.Join(n.dir, "containerd.toml"))
	if err != nil {
		return err
	}
	return Until(Patience, func() (bool, string) {
		_, err := n.ctr("version")
		return err == nil, fmt.Sprint("containerd does not answer: ", err)
	})
}

func (n *RealNode) importImage(archive string) error {
	_, err := n.ctr("images", "import", "--local", "--snapshotter", "native", archive)
	return err
}

// RestartContainerd ends containerd in order and starts it; the containers go on.
func (n *RealNode) RestartContainerd() error {
	n.containerd.Stop()
	return n.startContainerd()
}

// KillContainerd is RestartContainerd after SIGKILL.
func (n *RealNode) KillContainerd() error {
	n.containerd.Kill()
	return n.startContainerd()
}

// Validate switches the validator of required plugins, which is on at first, and restarts containerd.
func (n *RealNode) Validate(on bool) error {
	n.validator = on
	file := filepath.Join(n.dir, "containerd.toml")
	if err := os.WriteFile(file, []byte(n.containerdConfig()), 0o644); err != nil {
		return err
	}
	return n.RestartContainerd()
}

// DumpContainerdConfig returns the configuration that containerd makes of this file and of those that it imports.
func DumpContainerdConfig(file string) (string, error) {
	return Run(nodeProgram("containerd"), "--config", file, "config", "dump")
}

func (n *RealNode) runKubelet() (err error) {
	n.kubelet, err = StartProc("kubelet", n.cluster.Dir, Component("kubelet"),
		"--kubeconfig="+n.cluster.Kubeconfig, "--config="+filepath.Join(n.dir, "kubelet.yaml"),
		"--hostname-override="+n.Name, "--node-ip=127.0.0.1",
		"--root-dir="+filepath.Join(n.dir, "kubelet"),
		"--cert-dir="+filepath.Join(n.dir, "kubelet-pki"))
	return err
}

// StartKubelet starts kubelet, also after it was stopped, and waits until the node is Ready.
func (n *RealNode) StartKubelet() error {
	if err := n.runKubelet(); err != nil {
		return err
	}
	var ended error
	err := Until(Patience, func() (bool, string) {
		if !n.kubelet.Running() {
			/* containerd answers before its CRI plugin does; kubelet ends then, and a service manager starts it again */
			if last := n.kubelet.Tail(1); !strings.Contains(last, "server is not initialized") {
				ended = fmt.Errorf("kubelet ended: %s", last) /* nothing starts it again: no test waits for it */
				return true, ""
			}
			_ = n.runKubelet()
			return false, "kubelet ended"
		}
		node, err := n.cluster.Admin.Get(NodePath(n.Name))
		if err != nil {
			return false, err.Error()
		}
		for _, c := range Items(node, "status", "conditions") {
			if Text(c, "type") == "Ready" {
				return Text(c, "status") == "True", Text(c, "message")
			}
		}
		return false, "the node has no Ready condition"
	})
	if ended != nil {
		return ended
	}
	return err
}

// Advertise adds our resource to the node's capacity, as an operator would by hand, and waits until kubelet
// shows it as allocatable.
func (n *RealNode) Advertise(milli int) error {
	patch := fmt.Sprintf(`[{"op":"add","path":"/status/capacity/nvidia.com~1vgpu","value":"%d"}]`,
		milli)
	_, err := n.cluster.Admin.Do("PATCH", NodePath(n.Name)+"/status",
		"application/json-patch+json", patch)
	if err != nil {
		return err
	}
	return Until(Patience, func() (bool, string) {
		node, err := n.cluster.Admin.Get(NodePath(n.Name))
		if err != nil {
			return false, err.Error()
		}
		return Text(node, "status", "allocatable", Resource) != "",
			"kubelet does not show the resource as allocatable"
	})
}

// Output returns what a container has printed so far.
func (n *RealNode) Output(namespace, pod, uid, container string) (string, error) {
	pattern := filepath.Join(n.LogsDir, namespace+"_"+pod+"_"+uid, container, "*.log")
	files, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			/* each line: time, stream, F or P, what was printed */
			if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
				text.WriteString(fields[3] + "\n")
			}
		}
	}
	return text.String(), nil
}

// Kubelet returns kubelet's process.
func (n *RealNode) Kubelet() *Proc { return n.kubelet }

// Containerd returns containerd's process.
func (n *RealNode) Containerd() *Proc { return n.containerd }

// Pids returns the pids of all running processes by name (for cmd/up).
func (n *RealNode) Pids() map[string]int {
	pids := map[string]int{}
	if n == nil {
		return pids
	}
	for _, p := range []*Proc{n.kubelet, n.containerd, n.agent, n.second, n.devices} {
		if p != nil && p.Running() {
			pids[p.Name] = p.Pid()
		}
	}
	return pids
}

// Stop ends kubelet, all containers and containerd, and removes their cgroups, mounts and bridge.
func (n *RealNode) Stop() error {
	n.devices.Stop()
	n.kubelet.Stop()
	n.killPlugins()
	var problems []string
	if err := n.leaveDevicePlugins(); err != nil {
		problems = append(problems, err.Error())
	}
	for _, agent := range []*Proc{n.agent, n.second} {
		if err := agent.End(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	n.endTasks()
	n.containerd.Stop()
	if err := removeCgroup(n.cgroup); err != nil {
		problems = append(problems, err.Error())
	}
	if err := Unmount(n.dir); err != nil {
		problems = append(problems, err.Error())
	}
	n.removeBridge()
	if problems != nil {
		return fmt.Errorf("the node left something: %s", strings.Join(problems, "; "))
	}
	return nil
}

func (n *RealNode) endTasks() {
	if n.containerd == nil || !n.containerd.Running() {
		return
	}
	_ = Until(Patience, func() (bool, string) {
		list, err := n.ctr("tasks", "ls", "-q")
		for _, task := range strings.Fields(list) {
			_, _ = n.ctr("tasks", "rm", "-f", task)
		}
		return err == nil && strings.TrimSpace(list) == "", "tasks are left"
	})
	list, _ := n.ctr("containers", "ls", "-q")
	for _, container := range strings.Fields(list) {
		_, _ = n.ctr("containers", "rm", container)
	}
}

func (n *RealNode) removeBridge() {
	if _, err := os.Stat("/sys/class/net/" + n.bridge); err == nil {
		_, _ = Run("busybox", "ip", "link", "set", n.bridge, "down")
		_, _ = Run("busybox", "brctl", "delbr", n.bridge)
	}
}

// Unmount unmounts everything below a folder, newest mount first.
func Unmount(dir string) error {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	lines := strings.Split(string(mounts), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) < 2 || !strings.HasPrefix(fields[1], dir+"/") {
			continue
		}
		if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("umount %s: %w", fields[1], err)
		}
	}
	return nil
}
