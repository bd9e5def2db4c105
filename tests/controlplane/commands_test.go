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
