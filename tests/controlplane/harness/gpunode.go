package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

/* minor numbers of harmless devices (null, zero, full, random, urandom), which stand for GPUs */
var harmless = []int{3, 5, 7, 8, 9}

// GPUs gives the node these GPUs: device nodes in its folder, and the specification that nvidia-ctk would write. A
// container that gets one finds /dev/nvidiaN. The node's own /dev is not touched.
func (n *RealNode) GPUs(uuids ...string) error {
	if len(uuids) > len(harmless) {
		return fmt.Errorf("%d GPUs are more than %d", len(uuids), len(harmless))
	}
	var devices []Object
	var all []any
	for i, uuid := range uuids {
		node, err := n.deviceNode(fmt.Sprintf("nvidia%d", i), harmless[i])
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

func (n *RealNode) deviceNode(name string, minor int) (Object, error) {
	path := filepath.Join(n.dir, "dev", name)
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
	keys, err := n.cluster.Admin.Get("/api/v1/namespaces/" + Namespace + "/configmaps/milligpu-keys")
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
		"--keys-dir", n.KeysDir, "--cdi-dirs", n.CDIDir, "--kubeconfig", n.cluster.Kubeconfig,
		"--probe-listen", "127.0.0.1:0", "--port-file", portFile, "--nvml", ""}
}

// StartAgent starts milligpu-node, also after it was killed, and waits until it is ready.
func (n *RealNode) StartAgent(args ...string) error {
	program, err := Program("milligpu-node", "MILLIGPU_NODE")
	if err != nil {
		return err
	}
	if err := n.TakeKeys(); err != nil {
		return err
	}
	portFile := filepath.Join(n.dir, "agent.ports")
	if err := os.Remove(portFile); err != nil && !os.IsNotExist(err) {
		return err
	}
	n.agent, err = StartProc("milligpu-node", n.cluster.Dir, program,
		append(n.agentFlags(portFile), args...)...)
	if err != nil {
		return err
	}
	err = Until(20*time.Second, func() (bool, string) {
		if !n.agent.Running() {
			return true, ""
		}
		return n.agentReady(portFile)
	})
	if err == nil && !n.agent.Running() {
		err = fmt.Errorf("milligpu-node ended: %v", n.agent.err)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, n.agent.Tail(20))
	}
	return err
}

func (n *RealNode) agentReady(portFile string) (bool, string) {
	text, err := os.ReadFile(portFile)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return false, "milligpu-node has not written its port file"
	}
	code, body, err := fetch("http://" + fields[len(fields)-1] + "/readyz")
	if err != nil {
		return false, err.Error()
	}
	return code == http.StatusOK, "milligpu-node is not ready: " + body
}

// Agent returns the process of milligpu-node; nil before StartAgent.
func (n *RealNode) Agent() *Proc { return n.agent }

// StartPlugin starts the other NRI plugin, or starts it again, and waits until the runtime knows it.
func (n *RealNode) StartPlugin() (err error) {
	n.plugin.Kill()
	n.plugin, err = StartProc("nri-plugin", n.cluster.Dir, nodeProgram("nri-plugin"), "--nri-socket", n.NRISocket)
	if err != nil {
		return err
	}
	return Until(10*time.Second, func() (bool, string) {
		tail := n.plugin.Tail(1) /* each start is in the same file; the last line is of this one */
		return strings.Contains(tail, "connected"), "the other NRI plugin is not connected: " + tail
	})
}

// Plugin returns the process of the other NRI plugin.
func (n *RealNode) Plugin() *Proc { return n.plugin }

// KillSandbox kills the process that holds a pod's namespaces; kubelet then makes a new sandbox.
func (n *RealNode) KillSandbox(uid string) error {
	list, err := n.ctr("containers", "ls", "-q", fmt.Sprintf(
		`labels."io.kubernetes.pod.uid"==%q,labels."io.cri-containerd.kind"==sandbox`, uid))
	if err != nil {
		return err
	}
	sandboxes := strings.Fields(list)
	if len(sandboxes) != 1 {
		return fmt.Errorf("pod %s has the sandboxes %q", uid, sandboxes)
	}
	_, err = n.ctr("tasks", "kill", "-s", "SIGKILL", sandboxes[0])
	return err
}
