package tests

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// wired starts a kube-scheduler with a configuration from manifests/, adapted only to this machine's
// addresses and files and to the shared kube-scheduler. It returns the schedulerName for pods.
func (f *fixture) wired(file, certs string) string {
	f.Helper()
	text, err := harness.Manifest(file)
	f.check(err)
	webhook := f.d.Address("webhook")
	text = regexp.MustCompile(`(urlPrefix: https?://)[0-9.:]+`).ReplaceAllString(text,
		"${1}"+webhook)
	text = strings.ReplaceAll(text, "/etc/kubernetes/milligpu/", certs+"/")
	if strings.Contains(text, "/etc/kubernetes/scheduler.conf") {
		text = strings.ReplaceAll(text, "/etc/kubernetes/scheduler.conf", f.w.Kubeconfig)
	} else {
		text += fmt.Sprintf("clientConnection: {kubeconfig: %q}\n", f.w.Kubeconfig)
	}
	/* the shared kube-scheduler has this name already */
	text = strings.ReplaceAll(text, "schedulerName: default-scheduler", "schedulerName: wired")
	name := regexp.MustCompile(`schedulerName: (\S+)`).FindStringSubmatch(text)[1]
	scheduler, err := f.w.StartSchedulerWith(name, text)
	f.check(err)
	f.Cleanup(func() {
		if f.Failed() {
			f.Log("---- " + name + "\n" + scheduler.Tail(15))
		}
		scheduler.Stop()
	})
	return name
}

// configured prepares a milligpud with a configuration from manifests/; only addresses and paths are this
// machine's own.
func (f *fixture) configured(file, certs string) *harness.Daemon {
	f.Helper()
	text, err := harness.Manifest(file)
	f.check(err)
	path := filepath.Join(f.TempDir(), "config.yaml")
	text = strings.ReplaceAll(text, "/etc/milligpu-tls/", certs+"/")
	f.check(os.WriteFile(path, []byte(text), 0o644))
	return f.daemon(f.w.URL, f.w.CAFile, "--config", path)
}

func by(scheduler string, pod harness.PodShape) harness.PodShape {
	pod.Scheduler = scheduler
	return pod
}

// certificates makes certificates with the overlay's script, as an operator would, and returns their folder.
func (f *fixture) certificates() string {
	f.Helper()
	certs := filepath.Join(f.w.Dir, "certs-"+f.space)
	script := filepath.Join(harness.Root(), "manifests/overlays/default-scheduler/certs.sh")
	_, err := harness.Run("bash", script, certs, "127.0.0.1")
	f.check(err)
	return certs
}

func TestMutualTLSBetweenKubeSchedulerAndMilligpud(t *testing.T) {
	f := bare(t, oneNode(2))
	certs := f.certificates()
	f.d = f.configured("overlays/default-scheduler/config.yaml", certs)
	f.check(f.d.Start())
	f.turnedAway(certs)
	name := f.wired("overlays/default-scheduler/scheduler.yaml", certs)
	f.place(by(name, harness.Simple("secret", 300)))
	f.consistent()
}

// TestCertificatesAreRenewedWithoutARefusedCall follows the four steps of certs.sh --renew: whatever a scheduler shows and
// trusts at each step is accepted, by the running daemon.
func TestCertificatesAreRenewedWithoutARefusedCall(t *testing.T) {
	f := bare(t, oneNode(2))
	certs := f.certificates()
	old, renewed := certs+"-old", certs+"-new"
	f.run("cp", "-a", certs, old)
	f.run("bash", filepath.Join(harness.Root(), "manifests/overlays/default-scheduler/certs.sh"), "--renew", old, renewed,
		"127.0.0.1")
	f.d = f.configured("overlays/default-scheduler/config.yaml", certs)
	f.check(f.d.Start())
	before, after := f.schedulerWith(old), f.schedulerWith(renewed)
	f.answers(before, true)

	f.run("cp", renewed+"/client-ca.crt", certs) /* 1: milligpud trusts both clients */
	f.untilAnswered(after)
	f.answers(before, true)
	name := f.wired("overlays/default-scheduler/scheduler.yaml", renewed) /* 2: the scheduler is restarted */
	f.place(by(name, harness.Simple("between", 300)))
	f.run("cp", renewed+"/tls.crt", renewed+"/tls.key", certs) /* 3 */
	f.until(soon, func() (bool, string) { return !f.isAnswered(before), "the old certificate is still shown" })
	f.answers(after, true)
	f.place(by(name, harness.Simple("after", 300)))
	trusting, err := harness.ClientTLS(renewed+"/server-ca.crt", old+"/client.crt", old+"/client.key")
	f.check(err)
	f.answers(trusting, true)
	f.run("cp", renewed+"/client-ca.new.crt", certs+"/client-ca.crt") /* 4: the client of before is refused */
	f.until(soon, func() (bool, string) { return !f.isAnswered(trusting), "the old client is still answered" })
	f.answers(after, true)
	f.consistent()
}

// TestKubeSchedulerReadsAReplacedClientCertificate: a client certificate that is renewed by the same authority, as by
// cert-manager, needs no restart of kube-scheduler. What it had read at its start would have been turned away.
func TestKubeSchedulerReadsAReplacedClientCertificate(t *testing.T) {
	f := bare(t, oneNode(2))
	certs := f.certificates()
	folder := certs + "-scheduler"
	f.run("cp", "-a", certs, folder)
	f.run("cp", certs+"/tls.crt", folder+"/client.crt")
	f.run("cp", certs+"/tls.key", folder+"/client.key")
	f.d = f.configured("overlays/default-scheduler/config.yaml", certs)
	f.check(f.d.Start())
	f.answers(f.schedulerWith(folder), false)
	name := f.wired("overlays/default-scheduler/scheduler.yaml", folder)
	f.run("cp", certs+"/client.crt", certs+"/client.key", folder)
	f.place(by(name, harness.Simple("renewed", 300)))
	f.consistent()
}

func (f *fixture) run(command string, arguments ...string) {
	f.Helper()
	_, err := harness.Run(command, arguments...)
	f.check(err)
}

// schedulerWith is a scheduler with all files of a folder of certificates.
func (f *fixture) schedulerWith(folder string) *tls.Config {
	f.Helper()
	config, err := harness.ClientTLS(folder+"/server-ca.crt", folder+"/client.crt", folder+"/client.key")
	f.check(err)
	return config
}

func (f *fixture) isAnswered(config *tls.Config) bool {
	const body = `{"Pod":{"metadata":{"name":"x","namespace":"x","uid":"x"}},"NodeNames":["node-a"]}`
	code, _, err := f.d.Webhook("https", "filter", body, config)
	return err == nil && code < http.StatusBadRequest
}

func (f *fixture) answers(config *tls.Config, wanted bool) {
	f.Helper()
	if f.isAnswered(config) != wanted {
		f.Errorf("a scheduler is answered: %v; wanted: %v", !wanted, wanted)
	}
}

func (f *fixture) untilAnswered(config *tls.Config) {
	f.Helper()
	f.until(soon, func() (bool, string) { return f.isAnswered(config), "the new client is not answered yet" })
}

// turnedAway checks that the webhooks reject a client without a certificate, with a wrong one, or without
// TLS, and accept our own.
func (f *fixture) turnedAway(certs string) {
	f.Helper()
	const body = `{"Pod":{"metadata":{"name":"x","namespace":"x","uid":"x"}},"NodeNames":["node-a"]}`
	without, err := harness.ClientTLS(certs+"/server-ca.crt", "", "")
	f.check(err)
	strangers, err := harness.NewAuthority(f.w.Dir, "stranger-ca")
	f.check(err)
	certFile, keyFile, err := strangers.Issue("stranger")
	f.check(err)
	stranger, err := harness.ClientTLS(certs+"/server-ca.crt", certFile, keyFile)
	f.check(err)
	/* another authority signed the server's certificate, so it must not let a client in */
	server, err := harness.ClientTLS(certs+"/server-ca.crt", certs+"/tls.crt", certs+"/tls.key")
	f.check(err)
	for name, config := range map[string]*tls.Config{"no certificate": without,
		"a stranger's certificate": stranger, "the server's certificate": server} {
		code, answer, err := f.d.Webhook("https", "filter", body, config)
		if err == nil && code < http.StatusBadRequest {
			f.Errorf("a client with %s was answered %d %s", name, code, answer)
		}
	}
	code, answer, err := f.d.Webhook("http", "filter", body, nil)
	if err == nil && code < http.StatusBadRequest {
		f.Errorf("a client without TLS was answered %d %s", code, answer)
	}
	ours, err := harness.ClientTLS(certs+"/server-ca.crt", certs+"/client.crt", certs+"/client.key")
	f.check(err)
	code, answer, err = f.d.Webhook("https", "filter", body, ours)
	if err != nil || code != http.StatusOK {
		f.Errorf("our own client was answered %d %s %v", code, answer, err)
	}
}

func TestTheSecondSchedulersConfigurationPlacesAPod(t *testing.T) {
	f := bare(t, oneNode(2))
	f.d = f.configured("base/config.yaml", "")
	f.startDaemon()
	name := f.wired("overlays/second-scheduler/scheduler.yaml", "")
	if name != "milligpu" {
		t.Errorf("the second scheduler is called %q", name)
	}
	f.place(by(name, harness.Simple("one", 300)))
	f.create(by(name, harness.Simple("odd", 1500)))
	f.refusedWith("odd", "2000")
	f.consistent()
}

func TestNodesThatShowOnlyTheirLabelsWorkWithTheUnadvertisedWiring(t *testing.T) {
	labelled := oneNode(0)
	labelled.Labels = map[string]string{"nvidia.com/gpu.count": "2"}
	f := start(t, labelled, harness.NodeShape{Name: "without", Product: "", MiB: 0})
	name := f.wired("overlays/second-scheduler/scheduler-unadvertised.yaml", "")
	for i := range 4 {
		f.place(by(name, harness.Simple(fmt.Sprintf("p%d", i), 500)))
	}
	f.create(by(name, harness.Simple("waits", 500)))
	f.refusedWith("waits", "no GPU with 500 milli free")
	if used := f.consistent(); len(used) != 2 {
		t.Errorf("in use are %v", used)
	}
}

func TestTheWholeGPUWiringKeepsWholeGPUPodsOffNodesWithShares(t *testing.T) {
	sharing, empty := oneNode(2), oneNode(2)
	sharing.WholeGPUs, empty.WholeGPUs = 2, 2
	empty.Name = "node-b"
	f := start(t, sharing)
	name := f.wired("overlays/second-scheduler/scheduler-whole-gpus.yaml", "")
	f.place(by(name, harness.Simple("share", 300)))
	whole := by(name, harness.Simple("whole", 0))
	whole.Extra = map[string]string{"nvidia.com/gpu": "1"}
	f.create(whole)
	f.refused("whole")
	f.stays("whole", time.Second)
	f.addNode(empty)
	if pod := f.bound("whole"); nodeOf(pod) != "node-b" {
		t.Errorf("the whole-GPU pod is on %s", nodeOf(pod))
	}
	/* and no share is placed on the node where that pod runs */
	f.create(by(name, harness.Simple("two", 2000)))
	f.refused("two")
	if drift := f.drift("mixed", "", ""); len(drift) > 0 {
		t.Errorf("a node is mixed: %v", drift)
	}
}
