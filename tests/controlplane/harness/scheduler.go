package harness

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

/* as in the overlays of manifests/, but with backoffs that are short enough for a test */
func schedulerYAML(kubeconfig, name, webhooks string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: "%s", qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: %s
extenders:
- urlPrefix: "%s"
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  preemptVerb: preempt
  weight: 130
  nodeCacheCapable: true
  ignorable: false
  httpTimeout: 10s
  managedResources:
  - {name: %s, ignoredByScheduler: false}
`, kubeconfig, name, webhooks, Resource)
}

// StartScheduler starts a kube-scheduler for pods with this schedulerName; webhooks is the URL prefix of
// the extender, without a trailing slash. Its log tells what happens to each pod.
func (c *Cluster) StartScheduler(name, webhooks string) (*Proc, error) {
	return c.StartSchedulerWith(name, schedulerYAML(c.Kubeconfig, name, webhooks), "--v=3")
}

// StartSchedulerWith starts a kube-scheduler with this configuration.
func (c *Cluster) StartSchedulerWith(name, text string, args ...string) (*Proc, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(c.Dir, "scheduler-"+name+".yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	args = append([]string{"--config=" + config, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir=" + filepath.Join(c.Dir, "pki-scheduler-"+name),
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"}, args...)
	p, err := c.Start("kube-scheduler-"+name, Component("kube-scheduler"), args...)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/readyz", ports[0])
	/* the certificate is self-signed; a question about readiness need not verify it */
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	err = Until(Patience, func() (bool, string) {
		if !p.Running() {
			return false, p.Name + " ended"
		}
		response, err := client.Get(url)
		if err != nil {
			return false, err.Error()
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, p.Name + " is not ready"
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, p.Tail(20))
	}
	return p, err
}
