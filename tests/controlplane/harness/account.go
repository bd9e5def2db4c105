package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Render runs `kubectl kustomize` on a folder below manifests/ and returns its documents.
func (c *Cluster) Render(folder string) ([]string, error) {
	out, err := Run(Component("kubectl"), "kustomize", filepath.Join(Root(), "manifests", folder))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(out), "\n---\n"), nil
}

var kindLine = regexp.MustCompile(`(?m)^kind: (\S+)$`)

// OfKinds keeps the documents of these kinds.
func OfKinds(documents []string, kinds ...string) []string {
	var kept []string
	for _, document := range documents {
		match := kindLine.FindStringSubmatch(document)
		for _, kind := range kinds {
			if match != nil && match[1] == kind {
				kept = append(kept, document)
			}
		}
	}
	return kept
}

// Account is the ServiceAccount of our manifests, with a token.
type Account struct {
	User  string
	Token string
}

// CreateAccount applies the ServiceAccount of manifests/base and its rights, and nothing else of it.
func (c *Cluster) CreateAccount() (*Account, error) {
	documents, err := c.Render("base")
	if err != nil {
		return nil, err
	}
	rights := OfKinds(documents, "Namespace", "ServiceAccount", "ClusterRole",
		"ClusterRoleBinding", "Role", "RoleBinding")
	accounts := OfKinds(documents, "ServiceAccount")
	if len(accounts) != 1 {
		return nil, fmt.Errorf("manifests/base has %d ServiceAccounts instead of one",
			len(accounts))
	}
	_, err = c.Kubectl(strings.Join(rights, "\n---\n"), "apply", "-f", "-")
	if err != nil {
		return nil, err
	}
	names := regexp.MustCompile(`(?m)^  name: (\S+)$`).FindStringSubmatch(accounts[0])
	if names == nil {
		return nil, fmt.Errorf("the ServiceAccount of manifests/base has no name")
	}
	token, err := c.Token(Namespace, names[1], nil)
	if err != nil {
		return nil, err
	}
	return &Account{User: "system:serviceaccount:" + Namespace + ":" + names[1], Token: token}, nil
}

// Token makes a token of a ServiceAccount, as kubelet does for a pod: it then names the pod and its node; nil: it
// names none.
func (c *Cluster) Token(namespace, account string, pod Object) (string, error) {
	spec := Object{"expirationSeconds": 7200}
	if pod != nil {
		spec["boundObjectRef"] = Object{"apiVersion": "v1", "kind": "Pod", "name": Text(pod, "metadata", "name"),
			"uid": Text(pod, "metadata", "uid")}
	}
	answer, err := c.Admin.Create("/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token",
		Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
	return Text(answer, "status", "token"), err
}

// Kubeconfig writes a kubeconfig for the account; server is the API server or a proxy in front of it.
func (a *Account) Kubeconfig(dir, name, server, caFile string) (string, error) {
	path := filepath.Join(dir, name+".kubeconfig")
	return path, WriteKubeconfig(path, server, caFile, a.Token)
}

// Manifest reads a file below manifests/.
func Manifest(path string) (string, error) {
	data, err := os.ReadFile(filepath.Join(Root(), "manifests", path))
	return string(data), err
}
