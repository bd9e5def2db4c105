package tests

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// processIs returns the state of a process ("S") and its parent; "" if there is none.
func processIs(pid int) (state string, parent int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ = strconv.Atoi(fields[1])
		state = fields[0]
	}
	return state, parent
}

func ends(pid int) bool {
	state, _ := processIs(pid)
	return state == "" || state == "Z" || state == "X"
}

// The old pod ignores SIGTERM, and its shim sleeps: kubelet cannot end it before the other pod is there.
func TestThePodAfterOneThatWasDeletedByForceStartsWhenThatHasEnded(t *testing.T) {
	g := withAgent(t)
	old := g.place(g.watched("old", watcher(harness.Ask{Name: "main", Milli: 700}, "trap '' TERM; sleep 600; true")))
	g.ran(old, "main", 1)
	g.ran(g.place(g.simple("beside", 700)), "main", 1) /* on the other GPU */
	pid, err := g.n.Process(old, "main")
	g.check(err)
	_, shim := processIs(pid)
	g.check(syscall.Kill(shim, syscall.SIGSTOP))
	wake := func() { _ = syscall.Kill(shim, syscall.SIGCONT) }
	t.Cleanup(wake)
	g.delete("old", 0)
	uid := g.place(g.simple("new", 700))
	if !slices.Equal(g.due[uid]["main"], g.due[old]["main"]) {
		t.Fatalf("the new pod got %v, and the old one had %v", g.due[uid], g.due[old])
	}
	g.notCreated("new", "no 700 milli free for its pod yet; will be retried automatically. Other pods still run there "+
		"with 700 milli (one that was deleted by force runs until kubelet has ended its containers): "+g.space+"/old (700)")
	g.ran(g.place(g.simple("small", 300)), "main", 1) /* fits beside either */
	if ends(pid) {
		t.Fatal("the old pod has ended too early to be in the way")
	}
	if g.starts(uid, "main") > 0 {
		t.Error("the new pod has started beside the old one")
	}
	wake()
	g.until(soon, func() (bool, string) {
		return g.starts(uid, "main") > 0, "the new pod does not start: " + g.waiting()
	})
	if !ends(pid) {
		t.Errorf("the new pod has started while process %d of the old one runs", pid)
	}
	if refused, err := g.n.AgentMetric("milligpu_node_overlaps_total"); err != nil || refused < 1 {
		t.Errorf("the agent has counted %v refusals: %v", refused, err)
	}
	g.startedOnce("beside", harness.Text(g.pod("beside"), "metadata", "uid"))
	g.consistent()
}
