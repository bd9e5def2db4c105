package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// folders returns the folders below manifests/ whose kustomization is of this kind.
func folders(t *testing.T, kind string) []string {
	t.Helper()
	root := filepath.Join(harness.Root(), "manifests")
	files, err := filepath.Glob(root + "/*/*/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(root, "base", "kustomization.yaml"))
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nkind: "+kind+"\n") {
			found = append(found, folder)
		}
	}
	return found
}

/* components that another one builds on */
var needs = map[string]string{"components/usage": "components/node", "components/mps": "components/node"}

// renderWith renders the base together with a component, and with the one that it needs.
func (f *fixture) renderWith(component string) string {
	f.Helper()
	return f.renderChanged(component, "")
}

// renderChanged is renderWith, with more in the kustomization.
func (f *fixture) renderChanged(component, more string) string {
	f.Helper()
	dir := f.TempDir()
	relative := func(folder string) string {
		path, err := filepath.Rel(dir, filepath.Join(harness.Root(), "manifests", folder))
		f.check(err)
		return path
	}
	components := relative(component)
	if first := needs[component]; first != "" {
		components = relative(first) + ", " + components
	}
	text := fmt.Sprintf("resources: [%s]\ncomponents: [%s]\n%s", relative("base"), components, more)
	f.check(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644))
	out, err := f.w.Kubectl("", "kustomize", "--load-restrictor=LoadRestrictionsNone", dir)
	f.check(err)
	return out
}

/* Two kinds in our manifests belong to the Prometheus operator, which this cluster does not have. With these
 * definitions, which require the fields that our objects must have, the API server can check them. */
const operatorKinds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: PrometheusRule, plural: prometheusrules, singular: prometheusrule}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [groups]
            properties:
              groups:
                type: array
                items:
                  type: object
                  required: [name, rules]
                  properties:
                    name: {type: string}
                    interval: {type: string}
                    rules:
                      type: array
                      items:
                        type: object
                        required: [alert, expr]
                        properties:
                          alert: {type: string}
                          expr: {x-kubernetes-int-or-string: true}
                          for: {type: string}
                          labels: {type: object, additionalProperties: {type: string}}
                          annotations: {type: object, additionalProperties: {type: string}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podmonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: PodMonitor, plural: podmonitors, singular: podmonitor}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [selector, podMetricsEndpoints]
            properties:
              namespaceSelector:
                type: object
                properties:
                  matchNames: {type: array, items: {type: string}}
              selector:
                type: object
                properties:
                  matchLabels: {type: object, additionalProperties: {type: string}}
              podMetricsEndpoints:
                type: array
                items:
                  type: object
                  properties:
                    port: {type: string}
                    path: {type: string}
                    scheme: {type: string}
                    interval: {type: string}
                    honorLabels: {type: boolean}
                    relabelings:
                      type: array
                      items:
                        type: object
                        properties:
                          sourceLabels: {type: array, items: {type: string}}
                          targetLabel: {type: string}
`

func (f *fixture) withOperatorKinds() {
	f.Helper()
	_, err := f.w.Kubectl(operatorKinds, "apply", "-f", "-")
	f.check(err)
	_, err = f.w.Kubectl(operatorKinds, "wait", "--for=condition=Established", "--timeout=120s",
		"-f", "-")
	f.check(err)
	f.Cleanup(func() {
		_, err := f.w.Kubectl(operatorKinds, "delete", "-f", "-")
		f.check(err)
	})
}

func (f *fixture) dryRun(what, documents string) {
	f.Helper()
	if harness.Minor() < 36 {
		documents = f.withoutNewKinds(what, documents)
	}
	out, err := f.w.Kubectl(documents, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
	if err != nil {
		f.Errorf("%s: %v", what, err)
	} else if strings.Contains(out, "Warning") {
		f.Errorf("%s: %s", what, out)
	}
}

func (f *fixture) withoutNewKinds(what, documents string) string {
	var kept []string
	for _, document := range strings.Split(documents, "\n---\n") {
		if len(harness.OfKinds([]string{document}, "MutatingAdmissionPolicy",
			"MutatingAdmissionPolicyBinding")) > 0 {
			f.Logf("%s: MutatingAdmissionPolicy needs Kubernetes 1.36, this is %s", what,
				harness.Version())
			continue
		}
		kept = append(kept, document)
	}
	return strings.Join(kept, "\n---\n")
}

func TestAllManifestsPassTheAPIServer(t *testing.T) {
	f := bare(t)
	f.withOperatorKinds()
	f.withCRDs()
	plain, components := folders(t, "Kustomization"), folders(t, "Component")
	if len(plain) < 3 || len(components) < 3 {
		t.Errorf("too few folders: kustomizations %v, components %v", plain, components)
	}
	for _, folder := range plain {
		documents, err := f.w.Render(folder)
		f.check(err)
		f.dryRun(folder, strings.Join(documents, "\n---\n"))
	}
	for _, folder := range components {
		text := f.renderWith(folder)
		/* a dry run creates no namespace, and finds none for what is in it */
		spaces := harness.OfKinds(strings.Split(text, "\n---\n"), "Namespace")
		_, err := f.w.Kubectl(strings.Join(spaces, "\n---\n"), "apply", "-f", "-")
		f.check(err)
		f.dryRun(folder, text)
	}
}

func TestKubectlReadsTheManifestsBack(t *testing.T) {
	f := bare(t)
	documents, err := f.w.Render("base")
	f.check(err)
	others := harness.OfKinds(documents, "StatefulSet", "Service", "ConfigMap", "NetworkPolicy",
		"PriorityClass")
	text := strings.Join(others, "\n---\n")
	_, err = f.w.Kubectl(text, "apply", "-f", "-")
	f.check(err)
	out, err := f.w.Kubectl(text, "get", "-o", "name", "-f", "-")
	f.check(err)
	if n := len(strings.Fields(out)); n != len(others) {
		t.Errorf("%d of %d objects are read back:\n%s", n, len(others), out)
	}
	if out, err := f.w.Kubectl(text, "diff", "-f", "-"); err != nil {
		t.Errorf("what is read back differs: %v\n%s", err, out)
	}
	_, err = f.w.Kubectl(text, "delete", "--wait=false", "-f", "-")
	f.check(err)
}

/* the first two kinds need Kubernetes 1.36 */
var policyKinds = []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// apply creates the policies of a component until the test ends.
func (f *fixture) apply(component string) {
	f.Helper()
	text := f.renderWith(component)
	own := harness.OfKinds(strings.Split(text, "\n---\n"), policyKinds...)
	if len(own) == 0 {
		f.Fatalf("%s has no policy", component)
	}
	f.applyPolicies(own)
}

// applyPolicies creates policies until the test ends.
func (f *fixture) applyPolicies(policies []string) {
	f.Helper()
	documents := strings.Join(policies, "\n---\n")
	_, err := f.w.Kubectl(documents, "apply", "-f", "-")
	f.check(err)
	f.applied++
	f.Cleanup(func() {
		_, err := f.w.Kubectl(documents, "delete", "-f", "-")
		f.check(err)
		if f.applied--; f.applied == 0 {
			f.noPolicyActs()
		}
	})
}

// noPolicyActs waits until the API server has noticed that the policies are gone, which takes up to a
// second: they must not affect the pods of the next test.
func (f *fixture) noPolicyActs() {
	f.Helper()
	probe := harness.Simple("probe", 1500).With("milligpu.io/allocation", "{}")
	f.until(soon, func() (bool, string) {
		pod, err := f.api.Create(harness.PodPath("default", "")+"?dryRun=All", probe.Object())
		if err != nil {
			return false, "a policy still denies: " + err.Error()
		}
		touched := harness.At(pod, "spec", "containers", 0, "env") != nil ||
			harness.Text(pod, "spec", "schedulerName") != "default-scheduler" || requiredOf(pod) != "" ||
			tolerates(pod)
		return !touched, "a policy still changes pods"
	})
}

// denied waits until a policy denies this pod (about a second after the policy was created) and returns
// the message.
func (f *fixture) denied(pod harness.PodShape) string {
	f.Helper()
	var words string
	f.until(soon, func() (bool, string) {
		_, err := f.api.Create(harness.PodPath(f.space, ""), pod.Object())
		if err == nil {
			f.delete(pod.Name, 0)
			return false, pod.Name + " is not denied"
		}
		words = err.Error()
		return true, ""
	})
	return words
}

func TestTheGuardRefuses1500AtKubectlApply(t *testing.T) {
	f := bare(t)
	f.apply("components/guard")
	pod := harness.Simple("odd", 1500)
	pod.Scheduler = "nobody"
	words := f.denied(pod)
	if !strings.Contains(words, "1500") || !strings.Contains(words, "1000") ||
		!strings.Contains(words, "2000") {
		t.Errorf("the denial does not tell what to write: %s", words)
	}
	for i, good := range []harness.PodShape{harness.Simple("a", 3000), harness.Simple("b", 300),
		harness.Simple("c", 600).With("milligpu.io/gpu-count", "2")} {
		good.Scheduler = "nobody"
		if _, err := f.api.Create(harness.PodPath(f.space, ""), good.Object()); err != nil {
			t.Errorf("good pod %d is denied: %v", i, err)
		}
	}
}

func TestTheGuardLetsNobodyButOurBindingWriteOurAnnotations(t *testing.T) {
	f := start(t, oneNode(2))
	f.apply("components/guard")
	forged := harness.Simple("forged", 300).With("milligpu.io/allocation", "{}")
	forged.Scheduler = "nobody"
	f.denied(forged)
	generated := forged.Object()
	generated["metadata"].(object)["name"] = nil
	generated["metadata"].(object)["generateName"] = "forged-"
	if _, err := f.api.Create(harness.PodPath(f.space, ""), generated); err == nil {
		t.Error("a forged pod with generateName was admitted")
	}
	for _, key := range []string{"milligpu.io/signature", "required-plugins.noderesource.dev/pod"} {
		f.denied(harness.Simple("forged", 300).With(key, "[]"))
	}
	plain := harness.Simple("plain", 0).With("required-plugins.noderesource.dev/pod", "[]")
	plain.Scheduler = "nobody"
	f.must(f.api.Create(harness.PodPath(f.space, "")+"?dryRun=All", plain.Object()))
	f.place(harness.Simple("ours", 300))
	f.forges("PATCH", "?fieldManager=tenant&force=true", "application/apply-patch+yaml", "")
	f.forges("PATCH", "/status", "application/merge-patch+json", "")
	/* the API server applies what belongs to these subresources and drops the annotation */
	f.forges("PATCH", "/ephemeralcontainers", "application/strategic-merge-patch+json",
		`,"spec":{"ephemeralContainers":[{"name":"debug","image":"none"}]}`)
	f.forges("PATCH", "/resize", "application/strategic-merge-patch+json", "")
	for _, annotations := range []object{{"milligpu.io/allocation": "{}"},
		{"milligpu.io/visible-devices": nil}, {"visible-devices.milligpu.io/main": "7"},
		{"milligpu.io/signature": nil}, {"milligpu.io/signature": "v1:"},
		{"required-plugins.noderesource.dev": "[]"},
		{"required-plugins.noderesource.dev/container.main": "[]"}} {
		_, err := f.api.Merge(harness.PodPath(f.space, "ours"),
			object{"metadata": object{"annotations": annotations}})
		if err == nil {
			t.Errorf("the admin was allowed to write %v", annotations)
		}
	}
	f.must(f.api.Merge(harness.PodPath(f.space, "ours"),
		object{"metadata": object{"labels": object{"free": "yes"}}}))
	f.succeed("ours")
	f.until(soon, func() (bool, string) {
		return len(f.allocations()) == 0, "the ended pod still holds its share"
	})
}

// forges tries to overwrite the allocation of pod ours in this way, and checks that it stays as it was.
func (f *fixture) forges(method, where, kind, more string) {
	f.Helper()
	allocation := func() string {
		return fmt.Sprint(harness.At(f.pod("ours"), "metadata", "annotations", "milligpu.io/allocation"))
	}
	before := allocation()
	body := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"ours","annotations":` +
		`{"milligpu.io/allocation":"{}"}}` + more + `}`
	_, err := f.api.Do(method, harness.PodPath(f.space, "ours")+where, kind, body)
	if after := allocation(); after != before {
		f.Errorf("%s %s wrote %s over %s (%v)", method, where, after, before, err)
	}
}

func TestACopyAsksAnewAndWhereThatCannotBeIsToldWhatToRemove(t *testing.T) {
	needsZeroTouch(t)
	f := start(t, oneNode(2))
	f.apply("components/guard")
	f.place(harness.Simple("ours", 300))
	ours := f.pod("ours")
	copied := harness.Simple("copy", 300)
	for key, value := range harness.At(ours, "metadata", "annotations").(object) {
		copied = copied.With(key, fmt.Sprint(value))
	}
	copied = copied.With("a/b", "c")
	f.denied(harness.Simple("forged", 300).With("milligpu.io/allocation", "{}"))
	if words := f.denied(copied); !strings.Contains(words, "remove milligpu.io/allocation") {
		t.Errorf("the denial does not tell what to remove: %s", words)
	}
	f.apply("components/restores")
	f.until(soon, func() (bool, string) {
		_, err := f.api.Create(harness.PodPath(f.space, ""), copied.Object())
		return err == nil, fmt.Sprint("the copy is denied: ", err)
	})
	f.bound("copy")
	held := map[string]int{}
	for _, name := range []string{"ours", "copy"} {
		for _, share := range f.sharesOf(f.pod(name)) {
			held[name] += share.Milli
		}
	}
	if held["ours"] != 300 || held["copy"] != 300 {
		t.Errorf("each holds a share of its own, not %v", held)
	}
	if kept := harness.Text(f.pod("copy"), "metadata", "annotations", "a/b"); kept != "c" {
		t.Errorf("the author's own annotation is %q", kept)
	}
	f.consistent()
}

func TestTheGuardRefusesWhoAsksAndNamesItsNode(t *testing.T) {
	f := start(t, oneNode(2))
	f.apply("components/guard")
	squatter := harness.Simple("squatter", 64000).Object()
	squatter["spec"].(object)["nodeName"] = "node-a"
	f.until(soon, func() (bool, string) {
		_, err := f.api.Create(harness.PodPath(f.space, ""), squatter)
		if err == nil {
			f.delete("squatter", 0)
			return false, "the squatter is not denied"
		}
		return strings.Contains(err.Error(), "names node node-a itself"), err.Error()
	})
	f.place(harness.Simple("whole", 1000))
	f.place(harness.Simple("other", 1000))
}

func TestTheGuardKeepsWhatABoundPodAskedAndARebuildBelievesItsAllocation(t *testing.T) {
	f := start(t, oneNode(2))
	pod := harness.Simple("ours", 600).With("milligpu.io/gpu-count", "2")
	f.place(pod)
	before := f.remembered()
	/* edit the request while there is no guard, and lose the ledger */
	f.must(f.api.Merge(harness.PodPath(f.space, "ours"),
		object{"metadata": object{"annotations": object{"milligpu.io/gpu-count": nil}}}))
	f.loseLedger(func() {})
	f.untilNothingIsOpen()
	if after := f.remembered(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before %v\nafter  %v", before, after)
	}
	f.apply("components/guard")
	edits := 0
	f.until(soon, func() (bool, string) {
		edits++ /* they pass until the policy takes effect */
		_, err := f.api.Merge(harness.PodPath(f.space, "ours"), object{"metadata": object{
			"annotations": object{"milligpu.io/gpu-count": fmt.Sprint(edits)}}})
		if err == nil {
			return false, "the edit is not denied"
		}
		return strings.Contains(err.Error(), "was read when the pod was bound"), err.Error()
	})
	f.succeed("ours") /* the guard still allows a write to the status */
}

// withOurRights is the field manager of requests that a test sends as our ServiceAccount, and milligpud
// never sends; the test of the audit log ignores them.
const withOurRights = "somebody-with-our-rights"

// rights applies the roles of a component, and namespaces and accounts that it has besides; each of them contains this
// word, and nothing of the base does. Roles stay until the test ends.
func (f *fixture) rights(component, word string) {
	f.Helper()
	var places, roles []string
	for _, document := range strings.Split(f.renderWith(component), "\n---\n") {
		if !strings.Contains(document, word) {
			continue
		}
		one := []string{document}
		places = append(places, harness.OfKinds(one, "Namespace", "ServiceAccount")...)
		roles = append(roles, harness.OfKinds(one, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")...)
	}
	_, err := f.w.Kubectl(strings.Join(append(places, roles...), "\n---\n"), "apply", "-f", "-")
	f.check(err)
	f.Cleanup(func() {
		_, err := f.w.Kubectl(strings.Join(roles, "\n---\n"), "delete", "-f", "-")
		f.check(err)
	})
}

// advertising applies components/advertise: the additional rights of our ServiceAccount, and the policy.
func (f *fixture) advertising() {
	f.Helper()
	f.rights("components/advertise", "name: milligpu-advertise")
	f.apply("components/advertise")
}

func TestWhoAdvertisesWritesOneAmountOfANodeAndNothingElse(t *testing.T) {
	labelled := oneNode(0)
	labelled.Labels = map[string]string{"nvidia.com/gpu.count": "2"}
	f := bare(t, labelled)
	f.advertising()
	/* the field manager tells the test of the audit log that this was not milligpud */
	path := "/api/v1/nodes/node-a/status?fieldManager=" + withOurRights
	ours := f.api.As(f.w.account.Token)
	status := func(name string, value any) object { return object{"status": object{name: value}} }
	denies := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "403: nodes \"node-a\" is forbidden") &&
			strings.Contains(err.Error(), "milligpu writes the capacity of nvidia.com/vgpu only")
	}
	others := []object{
		status("addresses", []object{{"type": "InternalIP", "address": "10.9.9.9"}}),
		status("conditions", []object{{"type": "Ready", "status": "True"}}),
		status("daemonEndpoints", object{"kubeletEndpoint": object{"Port": 6666}}),
		status("capacity", object{"cpu": "1000"}),
		status("capacity", object{"nvidia.com/vgpu": "3000", "nvidia.com/gpu": "9"}),
		status("allocatable", object{"cpu": "1000"}),
		{"metadata": object{"labels": object{"nvidia.com/gpu.count": "9"}}},
		{"metadata": object{"annotations": object{"milligpu.io/gpus": "[]"}}},
		{"metadata": object{"finalizers": []string{"example.com/stays"}}},
	}
	tries := 0
	f.until(soon, func() (bool, string) {
		tries++ /* they pass until the policy takes effect */
		_, err := ours.Merge(path, status("phase", fmt.Sprint(tries)))
		return denies(err), fmt.Sprint("the policy does not act: ", err)
	})
	before := harness.At(f.must(f.api.Get("/api/v1/nodes/node-a")), "metadata", "resourceVersion")
	for _, patch := range others {
		if _, err := ours.Merge(path, patch); !denies(err) {
			t.Errorf("%v: %v", patch, err)
		}
	}
	after := f.must(f.api.Get("/api/v1/nodes/node-a"))
	if harness.At(after, "metadata", "resourceVersion") != before {
		t.Errorf("something was written: %v", after)
	}
	f.must(f.api.Merge(path, others[0])) /* the policy does not apply to other users */
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--advertise")
	f.startDaemon()
	f.until(soon, func() (bool, string) {
		node := f.must(f.api.Get("/api/v1/nodes/node-a"))
		seen := harness.Text(node, "status", "capacity", "nvidia.com/vgpu")
		return seen == "2000" || seen == "2k", "milligpud has not advertised: " + seen
	})
}

// mutated waits until a policy has changed a pod as it should, and returns that pod.
func (f *fixture) mutated(pod harness.PodShape, done func(object) bool) object {
	f.Helper()
	var made object
	f.until(soon, func() (bool, string) {
		made = f.create(pod)
		f.delete(pod.Name, 0)
		return done(made), fmt.Sprint("the policy does not act: ", harness.At(made, "spec"))
	})
	return made
}

func TestZeroTouchGivesAskingContainersTheirVariableAndTheOthersNone(t *testing.T) {
	needsZeroTouch(t)
	f := bare(t)
	f.apply("components/zero-touch")
	pod := harness.PodShape{Name: "many", Scheduler: "nobody",
		Apps:     []harness.Ask{{Name: "asks", Milli: 300}, {Name: "not"}},
		Inits:    []harness.Ask{{Name: "first", Milli: 700}},
		Sidecars: []harness.Ask{{Name: "beside", Milli: 100}}}
	made := f.mutated(pod, func(made object) bool {
		return harness.At(made, "spec", "containers", 0, "env") != nil
	})
	all := append(harness.Items(made, "spec", "containers"),
		harness.Items(made, "spec", "initContainers")...)
	for _, c := range all {
		name, variable := harness.Text(c, "name"), harness.At(c, "env", 0)
		want := "metadata.annotations['visible-devices.milligpu.io/" + name + "']"
		path := harness.Text(variable, "valueFrom", "fieldRef", "fieldPath")
		if name == "not" {
			want, path = "void", harness.Text(variable, "value")
		}
		if harness.Text(variable, "name") != "NVIDIA_VISIBLE_DEVICES" || path != want {
			t.Errorf("container %s has %v", name, variable)
		}
	}
	plain := harness.Simple("plain", 0)
	plain.Scheduler = "nobody"
	if env := harness.At(f.create(plain), "spec", "containers", 0, "env"); env != nil {
		t.Errorf("a pod that asks nothing got %v", env)
	}
}

func TestTheSchedulerNameOfAskingPodsBecomesOurs(t *testing.T) {
	needsZeroTouch(t)
	f := bare(t)
	f.apply("components/scheduler-name")
	made := f.mutated(harness.Simple("asks", 300), func(made object) bool {
		return harness.Text(made, "spec", "schedulerName") != "default-scheduler"
	})
	if name := harness.Text(made, "spec", "schedulerName"); !strings.Contains(name, "milligpu") {
		t.Errorf("the scheduler is called %q", name)
	}
	chosen := harness.Simple("chosen", 300)
	chosen.Scheduler = "other"
	if name := harness.Text(f.create(chosen), "spec", "schedulerName"); name != "other" {
		t.Errorf("a chosen scheduler became %q", name)
	}
	plain := f.create(harness.Simple("plain", 0))
	if name := harness.Text(plain, "spec", "schedulerName"); name != "default-scheduler" {
		t.Errorf("the scheduler of a pod that asks nothing became %q", name)
	}
}
