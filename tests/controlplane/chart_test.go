package tests

import (
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

const helm = "build/controlplane/helm-3.22.0/helm"

// release is charts/milligpu in a cluster of its own, as Helm knows it.
type release struct {
	*fixture
}

func (r release) helm(args ...string) string {
	r.Helper()
	out, err := harness.Run(filepath.Join(harness.Root(), helm), append(args, "--namespace", harness.Namespace, "--kubeconfig",
		r.w.Kubeconfig)...)
	r.check(err)
	return out
}

// settings returns the settings that the release has in the cluster.
func (r release) settings() string {
	r.Helper()
	return r.kubectl("", "-n", harness.Namespace, "get", "configmap", "milligpu-config", "-o", "yaml")
}

// left lists what has our name in its own, of every kind that can be listed.
func (r release) left() []string {
	r.Helper()
	kinds := strings.Fields(r.kubectl("", "api-resources", "--verbs=list", "-o", "name"))
	var left []string
	for _, kind := range kinds {
		if strings.HasPrefix(kind, "events") || kind == "namespaces" {
			continue
		}
		for _, name := range strings.Fields(r.kubectl("", "get", kind, "-A", "-o",
			`jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)) {
			if strings.Contains(filepath.Base(name), "milligpu") {
				left = append(left, kind+" "+name)
			}
		}
	}
	return left
}

// TestTheChartIsInstalledUpgradedRolledBackAndUninstalled does with the real Helm what charts/milligpu/README.md says; a
// milligpud with the chart's rights makes the objects that are no part of the release.
func TestTheChartIsInstalledUpgradedRolledBackAndUninstalled(t *testing.T) {
	r := release{managed(t)}
	/* the harness has applied the rights of manifests/base */
	r.kubectl("", "delete", "--ignore-not-found", "-k", filepath.Join(harness.Root(), "manifests/base"))
	r.kubectl("", "create", "namespace", harness.Namespace)
	if left := r.left(); len(left) > 0 {
		t.Fatalf("before it is installed: %q", left)
	}
	chart := filepath.Join(harness.Root(), "charts/milligpu")
	components := "components.guard=true"
	if harness.Version() < "1.36" {
		components += `,components.before-1\.36=true`
	}
	notes := r.helm("install", "milligpu", chart, "--set", components)
	r.says(notes, "doctor")
	r.kubectl("", "-n", harness.Namespace, "get", "statefulset/milligpu", "service/milligpu", "serviceaccount/milligpu")

	token, err := r.w.Token(harness.Namespace, "milligpu", nil)
	r.check(err)
	r.w.account = &harness.Account{User: "system:serviceaccount:" + harness.Namespace + ":milligpu", Token: token}
	r.d = r.daemon(r.w.URL, r.w.CAFile)
	r.startDaemon()
	r.d.Proc.Stop()
	r.kubectl("", "-n", harness.Namespace, "get", "csistoragecapacity/milligpu-bell", "configmap/milligpu-keys")

	r.helm("upgrade", "milligpu", chart, "--reuse-values", "--set", "config.shortlist=3")
	r.says(r.settings(), "shortlist: 3")
	r.helm("rollback", "milligpu", "1")
	if strings.Contains(r.settings(), "shortlist: 3") {
		t.Error("the rollback leaves the setting")
	}
	r.helm("uninstall", "milligpu")
	const ledger = "persistentvolumeclaims " + harness.Namespace + "/ledger-milligpu-0"
	r.until(soon, func() (bool, string) {
		left := strings.Join(r.left(), ", ")
		return left == ledger || left == "", "after it is uninstalled: " + left
	})
}
