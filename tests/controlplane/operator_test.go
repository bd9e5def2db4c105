package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// ctl runs milligpuctl as an operator would and returns what it printed.
func (f *fixture) ctl(args ...string) string {
	f.Helper()
	program, err := harness.Program("milligpuctl", "MILLIGPUCTL")
	f.check(err)
	out, err := harness.Run(program, append(args, "--server", "http://"+f.d.Address("admin"))...)
	f.check(err)
	return out
}

// kubectlInPath is for milligpuctl, which runs kubectl.
func (f *fixture) kubectlInPath() {
	f.Setenv("PATH", filepath.Dir(harness.Component("kubectl"))+":"+os.Getenv("PATH"))
	f.Setenv("KUBECACHEDIR", filepath.Join(f.w.Dir, "kubectl-cache"))
}

func (f *fixture) says(text string, words ...string) {
	f.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			f.Errorf("the output does not contain %q:\n%s", word, text)
		}
	}
}

func TestAnOperatorSeesWhoHoldsWhatAndWhyAPodWaits(t *testing.T) {
	f := start(t, oneNode(2))
	f.place(harness.Simple("first", 700))
	f.place(harness.Simple("second", 700))
	f.create(harness.Simple("waits", 500))
	f.refused("waits")
	f.untilNothingIsOpen()
	f.restPod("waits")
	f.says(f.ctl("top"), "node-a", "Tesla-T4", "700", "1 pod waits")
	f.says(f.ctl("allocations", "-A"), "first", "second", "bound")
	f.says(f.ctl("pod", f.space+"/first"), "bound", "node-a/gpu-0")
	f.says(f.ctl("pod", f.space+"/waits"), "no GPU with 500 milli free",
		"largest free piece 300 milli")
	f.says(f.ctl("waiting"), "waits")
	/* milligpud asks the API server about its rights: those of manifests/base and no others */
	f.says(f.ctl("doctor"), "rights", "grants all 12 needed permissions", "wake", "scheduler")
	moment := time.Now().UTC().Format(time.RFC3339Nano)
	f.delete("first", 0)
	f.bound("waits")
	/* the history still says who held the GPU, also at a given moment in the past */
	then := f.ctl("history", "node-a/gpu-0", "--at", moment)
	f.says(then, "first")
	if strings.Contains(then, "waits") {
		t.Errorf("at %s it was not yet there:\n%s", moment, then)
	}
	f.says(f.ctl("history", "node-a/gpu-0"), "first", "waits")
}

func TestABackupOfARunningLedgerIsALedger(t *testing.T) {
	f := start(t, oneNode(2))
	f.place(harness.Simple("first", 700))
	copied := filepath.Join(f.TempDir(), "copy.db")
	f.ctl("backup", copied)
	f.d.Ledger = copied
	if shares := f.databaseShares(); len(shares) != 1 {
		t.Errorf("the copy holds %v", shares)
	}
	/* milligpud continues with the copy as with its own ledger */
	f.w.front.Lead("")
	f.d.Proc.Stop()
	f.startDaemon()
	f.says(f.ctl("allocations", "-A"), "first")
	if drift := f.drift("", "", ""); len(drift) > 0 {
		t.Errorf("drift is reported although the backup is up to date: %v", drift)
	}
}
