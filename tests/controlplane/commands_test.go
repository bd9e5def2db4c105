package tests

import (
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// TestThePoliciesDoWhatTheirScriptSays runs tests/manifests/policies.sh, as manifests/README.md says.
func TestThePoliciesDoWhatTheirScriptSays(t *testing.T) {
	f := bare(t)
	f.kubectlInPath()
	out, err := harness.Run(filepath.Join(harness.Root(), "tests/manifests/policies.sh"), f.w.Kubeconfig)
	if err != nil || strings.Contains(out, "not ok") {
		t.Errorf("policies.sh: %v\n%s", err, out)
	}
}

// means says what words of the pages stand for in this cluster.
func (s *stranger) means(words ...string) {
	s.changes = append(words, s.changes...)
}

// followsApart is follows for a page that shows pieces of files, too: what is shown first is no output.
func (s *stranger) followsApart(page string, sections ...string) {
	s.Helper()
	s.last = harness.Block{}
	s.follows(page, sections...)
}

// endsAtOnce is makes with a pod that nobody waits half a minute for when it is deleted.
func (s *stranger) endsAtOnce(name string, milli int) {
	s.Helper()
	pod := s.simple(name, milli)
	pod["spec"].(object)["terminationGracePeriodSeconds"] = 1
	s.must(s.api.Create(harness.PodPath("default", ""), pod))
	s.kubectl("", "wait", "--for=condition=Ready", "pod/"+name, "--timeout=120s")
}

// TestTheCommandsOfThePagesOnAnInstalledCluster runs what the pages for users and operators have for a cluster, after the
// installation by its page.
func TestTheCommandsOfThePagesOnAnInstalledCluster(t *testing.T) {
	if harness.Minor() < 36 {
		t.Skip("the pods of these pages name no scheduler, and this is Kubernetes " + harness.Version())
	}
	s := cluster(t)
	s.means("=busybox ", "="+harness.Image+" ", `"busybox"`, `"`+harness.Image+`"`)
	s.follows("docs/operate/install.md", "3. Write a kustomization of your own", "4. Apply it")
	s.makes("first", 1000) /* the pod of the page gets the second GPU */
	s.followsApart("docs/NODE.md", "Install it beside a GPU operator")
	s.followsApart("docs/NODE.md", "The node side: milligpu-node")
	s.followsApart("docs/use.md", "How the container gets its GPU")
	s.means("| grep certificates\n", "| grep certificates || test $? = 1\n") /* no line has them yet */
	s.followsApart("docs/operate/runbooks.md")

	s.followsApart("manifests/overlays/default-scheduler/README.md", "Check the installation")

	s.endsAtOnce("web-0", 300)
	s.means("gpu-a", "gpu-real", "web-0-new-name", "one")
	s.followsApart("docs/DEFRAG.md", "How to use one")

	agent := strings.TrimPrefix(strings.TrimSpace(s.kubectl("", "-n", agents, "get", "pods", "-o", "name")), "pod/")
	s.means("POD-OF-THE-NODE", agent, "GPU-...", gpuIDs[0], "node NODE", "node gpu-real")
	s.followsApart("docs/NODE.md", "Sick GPUs")
	s.followsApart("docs/NODE.md", "Usage")
	s.followsApart("docs/NODE.md", "MPS")
	policies := harness.OfKinds(strings.Split(s.renderWith("components/required-plugin"), "\n---\n"), policyKinds...)
	s.kubectl(strings.Join(policies, "\n---\n"), "apply", "-f", "-")
	s.followsApart("docs/NODE.md", "Uninstall")
}
