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

// environment is what all tests share: one control plane, one kube-scheduler, and the account with the
// rights of our manifests. Each test has its own nodes, pods and milligpud.
type environment struct {
	*harness.Cluster
	account   *harness.Account
	front     *harness.Front
	scheduler *harness.Proc
}

func (w *environment) startScheduler() (err error) {
	w.scheduler, err = w.StartScheduler("default-scheduler", w.front.URL)
	return err
}

var shared *environment

func build(dir string) (*environment, error) {
	cluster, err := harness.StartCluster(dir)
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
	shared, err = build(dir)
	if shared != nil {
		defer shared.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the control plane does not start:", err)
		return 1
	}
	return m.Run()
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
