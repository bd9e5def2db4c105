// Package tests runs milligpu on a real control plane; README.md lists what each file tests.
package tests

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// environment is what all tests share: one control plane, one kube-scheduler, the account with the rights of our
// manifests, and the containerd and kubelet of the one node where pods really run. Each test has its own Nodes, pods and
// milligpud.
type environment struct {
	*harness.Cluster
	account   *harness.Account
	front     *harness.Front
	scheduler *harness.Proc
	node      *harness.RealNode /* between the tests that need one, too; nil: the next such test starts it */
}

func (w *environment) startScheduler() (err error) {
	w.scheduler, err = w.StartScheduler("default-scheduler", w.front.URL)
	return err
}

// endNode ends the real node, if there is one.
func (w *environment) endNode() error {
	if w.node == nil {
		return nil
	}
	node := w.node
	w.node = nil
	return node.Stop()
}

var shared *environment

func build(cluster *harness.Cluster, err error) (*environment, error) {
	if err != nil {
		return nil, err
	}
	w := &environment{Cluster: cluster}
	if w.account, err = cluster.CreateAccount(); err != nil {
		return w, err
	}
	if w.front, err = harness.StartFront(); err != nil {
		return w, err
	}
	return w, w.startScheduler()
}

// ownCluster starts another control plane, which ends with the test.
func ownCluster(t *testing.T, start func(string) (*harness.Cluster, error)) *environment {
	t.Helper()
	dir, err := harness.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	w, err := build(start(dir))
	t.Cleanup(func() {
		if w != nil {
			if err := w.endNode(); err != nil {
				t.Error(err)
			}
			w.Stop()
		}
		if err := harness.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func run(m *testing.M) int {
	dir, err := harness.TempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := harness.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	shared, err = build(harness.StartCluster(dir))
	if shared != nil {
		defer shared.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the control plane does not start:", err)
		return 1
	}
	code := m.Run()
	if err := shared.endNode(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func TestMain(m *testing.M) {
	flag.Parse()
	/* child processes end with us, but folders stay; after an interruption, `run` removes them */
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		if shared != nil {
			shared.Stop()
		}
		os.Exit(1)
	}()
	os.Exit(run(m))
}
