package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

const pluginKubeconfig = `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "%s", certificate-authority: "%s"}}]
users:
- name: test
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      command: echo
      args: ['{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s"}}']
`

// The page tells what to do with a kubeconfig that names a credential plugin: kubectl executes it, milligpud goes through
// kubectl's proxy, and pods are bound.
func TestACredentialPluginByKubectlProxy(t *testing.T) {
	f := bare(t, harness.DemoNodes()...)
	ports, err := harness.FreePorts(1)
	f.check(err)
	blocks, err := harness.Page("docs/operate/packages.md")
	f.check(err)
	words, ours := []string{}, ""
	for _, b := range blocks {
		text := strings.ReplaceAll(b.Text, "8001", strconv.Itoa(ports[0]))
		if b.Section != "If the cluster is reached by a credential plugin" {
			continue
		}
		if b.File == "kubeconfig" {
			ours = text
		} else {
			words = strings.Fields(text)
		}
	}
	if ours == "" || len(words) < 2 || words[0] != "kubectl" {
		t.Fatalf("the page has no such blocks: %q, %q", ours, words)
	}
	login := filepath.Join(t.TempDir(), "login")
	f.check(os.WriteFile(login, fmt.Appendf(nil, pluginKubeconfig, f.w.URL, f.w.CAFile, f.w.account.Token), 0o600))
	proxy, err := f.w.Start("kubectl-proxy", harness.Component("kubectl"), append(words[1:], "--kubeconfig", login)...)
	f.check(err)
	t.Cleanup(proxy.Stop)

	f.d = f.daemon(f.w.URL, f.w.CAFile)
	f.check(os.WriteFile(f.d.Kubeconfig, []byte(ours), 0o600))
	f.startDaemon()
	f.place(harness.Simple("first", 300))
	f.delete("first", 0)
	f.until(soon, func() (bool, string) {
		return len(f.allocations()) == 0, "the pod's end is not seen through the proxy"
	})
	f.consistent()
}
