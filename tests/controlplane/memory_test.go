package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// meteredNode is a node whose agent meters what containers use, and reports it to a milligpud that tells of it.
type meteredNode struct {
	*gpuNode
	driver  nvml
	follows <-chan object
	events  []object /* of the stream, so far */
}

func withMeter(t *testing.T, arguments ...string) *meteredNode {
	t.Helper()
	needsDriver(t)
	m := &meteredNode{}
	f, reports := reporting(t)
	m.gpuNode, m.driver = driven(f, append(reports, arguments...)...)
	m.follow()
	return m
}

// reporting starts a milligpud that takes reports; with these arguments an agent sends them, each second.
func reporting(t *testing.T) (f *fixture, arguments []string) {
	t.Helper()
	f = bare(t)
	authority, err := harness.NewAuthority(t.TempDir(), "reports-ca")
	f.check(err)
	certFile, keyFile, err := authority.Issue("reports")
	f.check(err)
	ports, err := harness.FreePorts(1)
	f.check(err)
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0]) /* the same after a restart */
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--report-listen", listen, "--report-cert", certFile, "--report-key", keyFile)
	f.startDaemon()
	return f, []string{"--meter-s", "1", "--report-s", "1", "--report-url", "https://" + listen,
		"--report-ca", authority.File}
}

// follow begins to read the stream of events.
func (m *meteredNode) follow() {
	m.Helper()
	cancel, end := context.WithCancel(context.Background())
	m.Cleanup(end)
	follows, err := m.d.Follow(cancel)
	m.check(err)
	m.follows, m.events = follows, nil
}

// runs places a pod with one container and returns its uid and the first process of it.
func (m *meteredNode) runs(name string, milli int) (uid string, pid int) {
	m.Helper()
	uid = m.place(m.simple(name, milli))
	m.ran(uid, "main", 1)
	return uid, m.process(uid)
}

func (m *meteredNode) process(uid string) int {
	m.Helper()
	pid, err := m.n.Process(uid, "main")
	m.check(err)
	return pid
}

func (m *meteredNode) share(uid string) object {
	m.Helper()
	return harness.Items(m.allocations()[uid], "shares")[0]
}

// granted returns the GPU of a pod and its MiB there.
func (m *meteredNode) granted(uid string) (gpu string, mib int) {
	m.Helper()
	share := m.share(uid)
	return harness.Text(share, "gpu"), harness.Number(share, "mib")
}

// measured waits until milligpud shows this for a share.
func (m *meteredNode) measured(uid, what string, value any) {
	m.Helper()
	m.until(soon, func() (bool, string) {
		share := m.share(uid)
		return fmt.Sprint(share[what]) == fmt.Sprint(value), fmt.Sprintf("%s is not %v in %v", what, value, share)
	})
}

// sample waits until the agent shows this value of a metric.
func (m *meteredNode) sample(want int, name string, labels ...string) {
	m.Helper()
	m.until(soon, func() (bool, string) {
		value, err := m.n.AgentMetric(name, labels...)
		return err == nil && value == float64(want), fmt.Sprintf("%s%v is %v instead of %d: %v", name, labels, value, want, err)
	})
}

// over returns how the stream of events has told so far that a container of a pod holds too much memory.
func (m *meteredNode) over(uid string) (told []string) {
	m.Helper()
	for {
		select {
		case event, is := <-m.follows:
			if !is {
				m.Fatal("the stream of events has ended")
			}
			m.events = append(m.events, event)
			continue
		default:
		}
		break
	}
	for _, event := range m.events {
		if facts, is := harness.At(event, "command").(object); is && facts["kind"] == "over" && facts["uid"] == uid {
			told = append(told, harness.Text(facts, "why"))
		}
	}
	return told
}

// isTold waits until the pod has an Event with this text, and the stream of events so many entries that say how.
func (m *meteredNode) isTold(name, uid, text, how string, times int) {
	m.Helper()
	m.event(name, "GPUMemoryOverShare: container main "+text)
	m.until(soon, func() (bool, string) {
		told := m.over(uid)
		return strings.Count(strings.Join(told, " "), how) == times,
			fmt.Sprintf("the stream tells %q of %s, not %d times %q", told, name, times, how)
	})
}

// goesOn checks that a container's first process is the one that it was.
func (m *meteredNode) goesOn(name, uid string, pid int) {
	m.Helper()
	m.startedOnce(name, uid)
	if now := m.process(uid); now != pid {
		m.Errorf("the process of pod %s is %d, and was %d", name, now, pid)
	}
}

func uses(gpu string, pid, mib int) string {
	return fmt.Sprintf("process %s %d %d sm=40", gpu, pid, mib)
}

func TestAContainerOverItsMemoryIsToldOfAndGoesOn(t *testing.T) {
	m := withMeter(t, "--over-memory", "event", "--over-grace-s", "0")
	uid, pid := m.runs("greedy", 300)
	gpu, mib := m.granted(uid)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib))
	m.measured(uid, "peakMib", mib)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib+1))
	m.isTold("greedy", uid, "holds more memory of GPU "+gpu, "seen", 1)
	m.measured(uid, "over", "seen")
	/* one more reading, after which kill would have killed */
	m.driver.says(m.gpuNode, uses(gpu, pid, mib+2))
	m.measured(uid, "peakMib", mib+2)
	m.goesOn("greedy", uid, pid)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib))
	m.measured(uid, "over", nil)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib+1))
	m.isTold("greedy", uid, "holds more memory of GPU "+gpu, "seen", 2)
	m.goesOn("greedy", uid, pid)
	m.consistent()
}

func TestAContainerOverItsMemoryIsKilledAndStartsAgainOnItsGPUWhileOthersLive(t *testing.T) {
	m := withMeter(t, "--over-memory", "kill", "--over-grace-s", "1")
	greedy, _ := m.runs("greedy", 300)
	neighbour, beside := m.runs("neighbour", 300)
	without, free := m.runs("without", 0)
	gpu, mib := m.granted(greedy)
	if other, _ := m.granted(neighbour); other != gpu {
		t.Fatalf("they are on %s and %s", gpu, other)
	}
	stranger, err := harness.StartProc("stranger", t.TempDir(), "/bin/sleep", "600")
	m.check(err)
	t.Cleanup(stranger.Kill)
	for times := 1; times <= 2; times++ {
		m.measured(greedy, "over", nil)
		m.driver.says(m.gpuNode, uses(gpu, m.process(greedy), mib+1), uses(gpu, beside, mib),
			uses(gpu, free, 9000), uses(gpu, stranger.Pid(), 9000))
		m.ran(greedy, "main", times+1) /* compare judges with which GPU */
		m.isTold("greedy", greedy, "was ended because it held more memory of GPU "+gpu, "killed", times)
		m.until(soon, func() (bool, string) {
			status := harness.Items(m.pod("greedy"), "status", "containerStatuses")[0]
			return harness.Number(status, "restartCount") == times &&
				harness.Number(status, "lastState", "terminated", "exitCode") == 137, fmt.Sprint("it was not killed: ", status)
		})
	}
	m.goesOn("neighbour", neighbour, beside)
	m.goesOn("without", without, free)
	if !stranger.Running() {
		t.Error("a process of no pod was killed")
	}
	if told := m.over(neighbour); told != nil {
		t.Errorf("the neighbour, which has what it was granted, is told of: %q", told)
	}
}

func TestAKillIsToldOfWhenMilligpudIsBackThoughTheContainerRunsAgain(t *testing.T) {
	m := withMeter(t, "--over-memory", "kill", "--over-grace-s", "1")
	uid, pid := m.runs("greedy", 300)
	gpu, mib := m.granted(uid)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib))
	m.measured(uid, "peakMib", mib)
	m.w.front.Lead("")
	m.d.Proc.Stop()
	m.driver.says(m.gpuNode, uses(gpu, pid, mib+1))
	m.ran(uid, "main", 2)
	m.driver.says(m.gpuNode, uses(gpu, m.process(uid), 1))
	m.sample(1, "milligpu_node_container_used_mib", `pod="greedy"`) /* the meter has forgotten who was killed */
	m.sample(0, "milligpu_node_container_over", `pod="greedy"`)
	m.startDaemon()
	m.follow()
	m.isTold("greedy", uid, "was ended because it held more memory of GPU "+gpu, "killed", 1)
	m.measured(uid, "over", nil)
	m.measured(uid, "peakMib", 1)
	m.isTold("greedy", uid, "was ended because it held more memory of GPU "+gpu, "killed", 1)
	m.consistent()
}

func TestAContainerOverItsMemoryIsOnlyShownWithReport(t *testing.T) {
	m := withMeter(t, "--over-memory", "report", "--over-grace-s", "0")
	uid, pid := m.runs("greedy", 300)
	gpu, mib := m.granted(uid)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib+1))
	of := []string{`namespace="` + m.space + `",pod="greedy",container="main",gpu="` + gpu + `"`}
	m.sample(1, "milligpu_node_container_over", of...)
	m.sample(300, "milligpu_node_container_granted_milli", of...)
	m.sample(400, "milligpu_node_container_used_milli", of...)
	m.sample(mib, "milligpu_node_container_granted_mib", of...)
	m.sample(mib+1, "milligpu_node_container_used_mib", of...)
	m.driver.says(m.gpuNode, uses(gpu, pid, mib+2))
	m.measured(uid, "peakMib", mib+2)
	m.says(m.ctl("top"), "MEASURED", "400")
	m.goesOn("greedy", uid, pid)
	if told, share := m.over(uid), m.share(uid); told != nil || share["over"] != nil {
		t.Errorf("it is told of: %q, %v", told, share)
	}
	lines, err := m.api.Events(m.space, "greedy")
	m.check(err)
	if all := strings.Join(lines, "\n"); strings.Contains(all, "GPUMemoryOverShare") {
		t.Error("it has an Event:\n" + all)
	}
	m.consistent()
}

// limitedNode is a node with a driver that limits cgroups which are there.
func limitedNode(t *testing.T) *meteredNode {
	t.Helper()
	dir, _, err := harness.CgroupDir(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	m := &meteredNode{}
	m.gpuNode, m.driver = withDriver(t, "--memory-limit", "require", "--cgroup-dir", dir)
	m.driver.says(m.gpuNode, "limits real")
	return m
}

// limit is what the driver is told of a container that runs.
func (m *meteredNode) limit(uid, container string) string {
	m.Helper()
	pid, err := m.n.Process(uid, container)
	m.check(err)
	dir, place, err := harness.CgroupDir(pid)
	m.check(err)
	for _, s := range restShares(m.allocations()[uid]) {
		if s.Container == container {
			return fmt.Sprintf("%s %s%s 0 %d\n", s.GPU, dir, place, s.MiB<<20)
		}
	}
	m.Fatalf("container %s has no share", container)
	return ""
}

// limits is what the driver was told of containers; the agent also tries a cgroup of its own.
func (m *meteredNode) limits() (lines string) {
	text, _ := os.ReadFile(string(m.driver) + ".limits")
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if !strings.Contains(line, "/milligpu-scratch-") {
			lines += line
		}
	}
	return lines
}

func TestTheDriverLimitsTheCgroupOfEachContainerBeforeItBegins(t *testing.T) {
	m := limitedNode(t)
	first := "cat /seen/driver.limits >/seen/at-start; echo end >>/seen/at-start; "
	uid := m.place(m.watched("pod", watcher(harness.Ask{Name: "main", Milli: 300}, first+stay),
		watcher(harness.Ask{Name: "beside", Milli: 200}, stay), watcher(harness.Ask{Name: "none"}, stay)))
	for _, name := range []string{"main", "beside", "none"} {
		m.ran(uid, name, 1)
	}
	main, beside := m.limit(uid, "main"), m.limit(uid, "beside")
	if limits := m.limits(); limits != main+beside {
		t.Errorf("the driver limits\n%sinstead of\n%s%s", limits, main, beside)
	}
	atStart := func() string {
		var text []byte
		m.until(soon, func() (bool, string) {
			text, _ = os.ReadFile(filepath.Join(m.n.SeenDir, "at-start"))
			return strings.HasSuffix(string(text), "end\n"), "the container does not say what it saw at its start"
		})
		return string(text)
	}
	if saw := atStart(); !strings.Contains(saw, main) {
		t.Errorf("when the container began, the driver limited\n%s", saw)
	}
	m.check(os.Remove(filepath.Join(m.n.SeenDir, "at-start")))
	m.kill(uid, "main")
	m.ran(uid, "main", 2)
	again := m.limit(uid, "main")
	if saw := atStart(); again == main || !strings.Contains(saw, again) {
		t.Errorf("when it began again, in another cgroup, the driver limited\n%sand not\n%s", saw, again)
	}
	m.consistent()
}

func (m *meteredNode) kill(uid, container string) {
	m.Helper()
	pid, err := m.n.Process(uid, container)
	m.check(err)
	process, err := os.FindProcess(pid)
	m.check(err)
	m.check(process.Kill())
}

func TestWhereALimitIsRequiredNothingStartsWithoutUntilTheDriverHasIt(t *testing.T) {
	m := limitedNode(t)
	m.driver.says(m.gpuNode, "limits no")
	uid := m.place(m.simple("pod", 300))
	m.event("pod", "its GPU memory cannot be limited")
	m.until(soon, func() (bool, string) { return strings.Contains(m.waiting(), "--memory-limit=auto"), m.waiting() })
	if m.starts(uid, "main") > 0 {
		t.Error("the container has started without a limit")
	}
	m.driver.says(m.gpuNode, "limits real")
	m.ran(uid, "main", 1)
	if want := m.limit(uid, "main"); !strings.HasSuffix(m.limits(), want) {
		t.Errorf("the driver limits\n%sinstead of\n%s", m.limits(), want)
	}
	m.consistent()
}
