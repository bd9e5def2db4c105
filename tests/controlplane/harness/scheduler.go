package harness

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Extender is how a kube-scheduler reaches milligpud.
type Extender struct {
	URL       string /* of the webhooks, without a trailing slash */
	TLSConfig string /* YAML flow mapping, or "" */
	Unmanaged bool   /* ignoredByScheduler: true */
}

func schedulerYAML(kubeconfig, name string, e Extender) string {
	security := ""
	if e.TLSConfig != "" {
		security = "  enableHTTPS: true\n  tlsConfig: " + e.TLSConfig + "\n"
	}
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
  weight: 10
  nodeCacheCapable: true
  ignorable: false
  httpTimeout: 10s
%s  managedResources:
  - {name: %s, ignoredByScheduler: %t}
`, kubeconfig, name, e.URL, security, Resource, e.Unmanaged)
}

// StartScheduler starts a kube-scheduler for the pods that carry this scheduler name.
func (c *Cluster) StartScheduler(name string, e Extender) (*Proc, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(c.Dir, "scheduler-"+name+".yaml")
	text := schedulerYAML(c.Kubeconfig, name, e)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := c.Start("kube-scheduler-"+name, Component("kube-scheduler"), "--config="+config,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
		"--cert-dir="+filepath.Join(c.Dir, "pki-scheduler-"+name),
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics")
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/readyz", ports[0])
	/* its certificate is its own and nobody's business: only readiness is asked */
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	err = Until(40*time.Second, func() (bool, string) {
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
