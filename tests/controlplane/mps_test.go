package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// mpsNode is a node whose agent shares GPUs by MPS where the label says so.
type mpsNode struct {
	*gpuNode
	dir string
}

// mpsFolder begins an mpsNode, whose agent is to be started with these arguments. Its daemons end with the test.
func mpsFolder(t *testing.T) (m *mpsNode, arguments []string) {
	t.Helper()
	/* short enough for the daemon's sockets */
	dir, err := os.MkdirTemp("/tmp", "milligpu-mps-")
	if err != nil {
		t.Fatal(err)
	}
	m = &mpsNode{dir: dir}
	t.Cleanup(m.sweep)
	return m, []string{"--mps", "label", "--mps-dir", dir, "--mps-shm", "/dev/shm", "--mps-look-s", "1"}
}

// withMPS is a node whose daemon is tests/fake_mps.
func withMPS(t *testing.T) *mpsNode {
	t.Helper()
	m, arguments := mpsFolder(t)
	control := filepath.Join(harness.Root(), "tests", "fake_mps", "nvidia-cuda-mps-control")
	m.gpuNode, _ = withDriver(t, append(arguments, "--mps-control", control)...)
	return m
}

func (m *mpsNode) label(value any) {
	m.Helper()
	m.patchNode("gpu-real", object{"labels": object{"milligpu.io/mps": value}})
}

// daemons are the processes of the daemons that live.
func (m *mpsNode) daemons() (pids []int) {
	records, _ := filepath.Glob(filepath.Join(m.dir, "*", "daemon"))
	for _, record := range records {
		text, _ := os.ReadFile(record)
		pid, _ := strconv.Atoi(strings.Fields(string(text) + " 0")[0])
		if pid > 1 && syscall.Kill(pid, 0) == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (m *mpsNode) sweep() {
	for _, pid := range m.daemons() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	os.RemoveAll(m.dir)
}

// client is a pod with a share that writes down what it finds of MPS, and leaves a file in /dev/shm.
func (m *mpsNode) client(name, mark string, user int) object {
	/* the line comes last: after it, the file is there */
	script := `touch /dev/shm/` + mark + `; ` +
		`echo "$POD|$CUDA_MPS_PIPE_DIRECTORY|$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE|` +
		`$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT|$(cd /run/milligpu/mps && echo *)|$(id -u)" >>/seen/mps; ` + stay
	main := watcher(harness.Ask{Name: "main", Milli: 300}, script)
	main["env"] = append(main["env"].([]any), object{"name": "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "value": "100"})
	main["securityContext"] = object{"runAsUser": user}
	return m.watched(name, main)
}

func (m *mpsNode) seen(uid string) string {
	text, _ := os.ReadFile(filepath.Join(m.n.SeenDir, "mps"))
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, uid+"|") {
			return line[len(uid)+1:]
		}
	}
	return ""
}

func TestWithTheLabelASharesContainerIsAClientOfMPS(t *testing.T) {
	m := withMPS(t)
	before := m.place(m.simple("before", 300)) /* it stays what it is */
	m.ran(before, "main", 1)
	m.label("on")
	m.until(soon, func() (bool, string) { return len(m.daemons()) == 2, "two daemons do not run" })
	mark := filepath.Base(m.dir)
	uid := m.place(m.client("client", mark, 0))
	m.ran(uid, "main", 1)
	want := "/run/milligpu/mps|30|0=4915M|control control_lock nvidia-cuda-mps-control.pid|0"
	m.until(soon, func() (bool, string) {
		return m.seen(uid) == want, fmt.Sprintf("it sees %q, not %q", m.seen(uid), want)
	})
	if err := os.Remove(filepath.Join("/dev/shm", mark)); err != nil {
		t.Error("its /dev/shm is not the daemon's: ", err)
	}
	gpu := m.due[uid]["main"][0]
	m.until(soon, func() (bool, string) {
		log, _ := os.ReadFile(filepath.Join(m.dir, gpu, "log", "control.log"))
		return strings.HasSuffix(strings.TrimSpace(string(log)), "sees "+gpu), "the daemon sees another GPU: " + string(log)
	})
	m.must(m.api.Create(harness.PodPath(m.space, ""), m.client("second", mark, 1000)))
	m.remember("second")
	m.notCreated("second", "runAsUser: 0 for it")
	m.delete("second", 1)
	m.label(nil)
	m.until(soon, func() (bool, string) { return len(m.daemons()) == 1, "not one daemon runs" })
	m.startedOnce("client", uid)
	m.delete("client", 1)
	m.until(soon, func() (bool, string) { return len(m.daemons()) == 0, "a daemon runs without clients" })
	m.startedOnce("before", before)
	m.consistent()
}
