package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

/* kubelet's folder of device plugins, which no flag changes, and what kubelet leaves there */
const devicePlugins = "/var/lib/kubelet/device-plugins"

var kubeletLeaves = []string{"kubelet.sock", "kubelet_internal_checkpoint"}

// OtherKubelet returns the pid of a kubelet on this machine that is not ours, or 0: two of them share the folder of device
// plugins, so neither can serve one.
func (n *RealNode) OtherKubelet() int {
	files, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, file := range files {
		name, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && strings.TrimSpace(string(name)) == "kubelet" && (n == nil || pid != n.kubelet.Pid()) {
			return pid
		}
	}
	return 0
}

// StartDevicePlugin starts what stands in for NVIDIA's device plugin, for these GPUs, or starts it again, and waits until
// the Node offers them.
func (n *RealNode) StartDevicePlugin(gpus []string, args ...string) (err error) {
	n.spent = true
	n.devices.Stop()
	/* `run` and `down` know its process by our folder */
	n.devices, err = StartProc("device-plugin", n.cluster.Dir, nodeProgram("device-plugin"),
		append([]string{"--gpus", strings.Join(gpus, ","), "--test-dir", n.dir + "/"}, args...)...)
	if err != nil {
		return err
	}
	return Until(Patience, func() (bool, string) {
		node, err := n.cluster.Admin.Get(NodePath(n.Name))
		if err != nil || !n.devices.Running() {
			return false, fmt.Sprint("the device plugin has ended: ", err, n.devices.Tail(5))
		}
		shown := Text(node, "status", "allocatable", "nvidia.com/gpu")
		return shown == fmt.Sprint(len(gpus)), fmt.Sprintf("the Node offers %q GPUs\n%s", shown, n.devices.Tail(5))
	})
}

// DevicePlugin returns the process of the device plugin.
func (n *RealNode) DevicePlugin() *Proc { return n.devices }

/* leaves kubelet's folder as it was, unless another kubelet uses it now */
func (n *RealNode) leaveDevicePlugins() error {
	if n.kubelet == nil || n.OtherKubelet() != 0 {
		return nil
	}
	for _, name := range kubeletLeaves {
		if err := os.Remove(filepath.Join(devicePlugins, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	for _, dir := range n.made {
		/* one with anything else in it is not ours alone */
		if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOTEMPTY && err != syscall.ENOENT {
			return fmt.Errorf("rmdir %s: %w", dir, err)
		}
	}
	return nil
}

// FakeNVML builds the library that stands in for NVIDIA's, for an agent that is started with `--nvml LIBRARY`.
func (n *RealNode) FakeNVML() (library string, err error) {
	library = filepath.Join(n.DriverDir, "libnvidia-ml.so.1")
	_, err = Run("cc", "-shared", "-fPIC", "-pthread", "-o", library,
		filepath.Join(Root(), "tests", "fake_nvml", "fake_nvml.c"))
	return library, err
}
