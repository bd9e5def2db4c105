package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// policiesOf renders an overlay and returns its policies.
func (f *fixture) policiesOf(overlay string) []string {
	f.Helper()
	documents, err := f.w.Render("overlays/" + overlay)
	f.check(err)
	return harness.OfKinds(documents, policyKinds...)
}

// firstYAML returns the first YAML of the README as a pod: whole, or as part of its one container.
func (f *fixture) firstYAML(name string) string {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "README.md"))
	f.check(err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil || !strings.Contains(block[1], "nvidia.com/vgpu: 300") {
		f.Fatalf("the first YAML of the README asks for no share: %v", block)
	}
	if strings.Contains(block[1], "kind: Pod") {
		return regexp.MustCompile(`(?m)^(metadata: *\n? *\{?name:) [\w-]+`).ReplaceAllString(block[1], "$1 "+name)
	}
	part := strings.ReplaceAll(strings.TrimSpace(block[1]), "\n", "\n    ")
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n"+
		"  - name: main\n    image: none\n    %s\n", name, part)
}

// tainted gives a node the taint that GPU nodes often have.
func (f *fixture) tainted(node string) {
	f.Helper()
	f.must(f.api.Merge("/api/v1/nodes/"+node, object{"spec": object{"taints": []object{
		{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}}}}))
}

// oneLineIsEnough creates the pod of the README on a tainted node and waits until it has its share.
func (f *fixture) oneLineIsEnough(overlay string) {
	f.Helper()
	f.tainted("node-a")
	f.applyPolicies(f.policiesOf(overlay))
	f.mutated(harness.Simple("probe", 300), func(made object) bool {
		return tolerates(made) && (overlay != "second-scheduler" ||
			harness.Text(made, "spec", "schedulerName") == "milligpu")
	})
	out, err := f.w.Kubectl(f.firstYAML("one"), "apply", "-n", f.space, "-f", "-")
	f.check(err)
	if strings.Contains(out, "Warning") {
		f.Errorf("%s warns of a pod that needs nothing: %s", overlay, out)
	}
	f.bound("one")
	if used := f.consistent(); len(used) != 1 {
		f.Errorf("%s: in use are %v", overlay, used)
	}
}

func tolerates(pod object) bool {
	for _, t := range harness.Items(pod, "spec", "tolerations") {
		if harness.Text(t, "key") == "nvidia.com/gpu" && harness.Text(t, "operator") == "Exists" {
			return harness.Text(t, "effect") == "NoSchedule"
		}
	}
	return false
}

func TestOneLineIsEnoughWithTheSecondScheduler(t *testing.T) {
	needsZeroTouch(t)
	f := start(t, oneNode(2))
	f.wired("overlays/second-scheduler/scheduler.yaml", "")
	f.oneLineIsEnough("second-scheduler")
}

/* the shared kube-scheduler is wired like these two */
func TestOneLineIsEnoughWithTheControlPlanesOwnScheduler(t *testing.T) {
	needsZeroTouch(t)
	for _, overlay := range []string{"default-scheduler", "kubeadm"} {
		t.Run(overlay, func(t *testing.T) {
			f := start(t, oneNode(2))
			f.oneLineIsEnough(overlay)
		})
	}
}

func TestTheTolerationIsAddedWhereItIsMissing(t *testing.T) {
	needsZeroTouch(t)
	f := bare(t)
	f.apply("components/toleration")
	keys := func(pod object) string {
		var all []string
		for _, t := range harness.Items(pod, "spec", "tolerations") {
			all = append(all, fmt.Sprintf("%s %s %s", harness.Text(t, "key"), harness.Text(t, "operator"),
				harness.Text(t, "effect")))
		}
		return strings.Join(all, ", ")
	}
	own := func(tolerations ...object) object {
		pod := harness.Simple("own", 300).Object()
		pod["spec"].(object)["tolerations"] = tolerations
		return f.must(f.api.Create(harness.PodPath(f.space, "")+"?dryRun=All", pod))
	}
	f.mutated(harness.Simple("asks", 300), tolerates)
	const ours = "nvidia.com/gpu Exists NoSchedule"
	for _, one := range []struct {
		has   object
		added bool
	}{
		{object{"key": "other", "operator": "Exists"}, true},
		{object{"key": "nvidia.com/gpu", "operator": "Equal", "value": "a"}, true},
		{object{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, true},
		{object{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, false},
		{object{"key": "nvidia.com/gpu", "operator": "Exists"}, false},
		{object{"operator": "Exists"}, false},
	} {
		seen := keys(own(one.has))
		first := fmt.Sprintf("%s %s %s", harness.Text(one.has, "key"), harness.Text(one.has, "operator"),
			harness.Text(one.has, "effect"))
		if !strings.HasPrefix(seen, first) {
			t.Errorf("the toleration of its author became %q", seen)
		}
		if strings.HasSuffix(seen, ", "+ours) != one.added {
			t.Errorf("a pod with %q got %q", first, seen)
		}
	}
	if plain := f.create(harness.Simple("plain", 0)); tolerates(plain) {
		t.Error("a pod that asks nothing got the toleration")
	}
	first := harness.PodShape{Name: "first", Apps: []harness.Ask{{Name: "main"}},
		Inits: []harness.Ask{{Name: "asks", Milli: 300}}}
	if !tolerates(f.create(first)) {
		t.Error("a pod whose init container asks got no toleration")
	}
}

/* elsewhere, the API server adds two tolerations to each pod before the policy sees it */
func TestTheTolerationIsAddedToAPodWithoutAny(t *testing.T) {
	needsZeroTouch(t)
	f := bareIn(ownCluster(t, harness.StartClusterOfBarePods), t)
	f.apply("components/toleration")
	made := f.mutated(harness.Simple("asks", 300), tolerates)
	if list := harness.Items(made, "spec", "tolerations"); len(list) != 1 {
		t.Errorf("its tolerations are %v", list)
	}
	if list := harness.Items(f.create(harness.Simple("plain", 0)), "spec", "tolerations"); len(list) != 0 {
		t.Errorf("the tolerations of a pod that asks nothing are %v", list)
	}
}

/* each kind that is checked, what is above the pod's spec, and the path that the warning names */
var workloads = []struct{ kind, group, head, path string }{
	{"Pod", "v1", "spec:", "spec"},
	{"Deployment", "apps/v1", templateHead, "spec.template.spec"},
	{"ReplicaSet", "apps/v1", templateHead, "spec.template.spec"},
	{"StatefulSet", "apps/v1", templateHead, "spec.template.spec"},
	{"DaemonSet", "apps/v1", templateHead, "spec.template.spec"},
	{"Job", "batch/v1", "spec:\n  template:\n    spec:\n      restartPolicy: Never", "spec.template.spec"},
	{"CronJob", "batch/v1", "spec:\n  schedule: 0 0 * * *\n  jobTemplate:\n    spec:\n      template:\n        spec:\n" +
		"          restartPolicy: Never", "spec.jobTemplate.spec.template.spec"},
}

const templateHead = "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:"

// workload is an object of a kind whose pods ask for this amount and have this line in their spec.
func workload(at, milli int, line string) string {
	kind := workloads[at]
	margin := "\n" + strings.Repeat("  ", strings.Count(kind.path, ".")+1)
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: w}\n%s%s%s%s"+
		"containers: [{name: main, image: none, resources: {limits: {nvidia.com/vgpu: %d}}}]\n",
		kind.group, kind.kind, kind.head, margin, line, margin, milli)
}

// warned creates an object in a dry run, and returns what kubectl prints beside its name.
func (f *fixture) warned(text string) string {
	f.Helper()
	out, err := f.w.Kubectl(text, "create", "--dry-run=server", "-n", f.space, "-f", "-")
	f.check(err)
	return out
}

func (f *fixture) untilItWarns() {
	f.Helper()
	f.until(soon, func() (bool, string) {
		out := f.warned(workload(0, 300, "schedulerName: nobody"))
		return strings.Contains(out, "Warning"), "no warning: " + out
	})
}

// warnsOf checks for each kind whether there is a warning of the scheduler that its pods name.
func (f *fixture) warnsOf(line, name string, due bool) {
	f.Helper()
	for at, kind := range workloads {
		what := kind.kind
		if what == "Pod" {
			what = "pod"
		}
		words := fmt.Sprintf("this %s asks for nvidia.com/vgpu and names scheduler %s; milligpu serves milligpu: "+
			"set %s.schedulerName: milligpu\n", what, name, kind.path)
		out := f.warned(workload(at, 300, line))
		if strings.Contains(out, "Warning") != due || strings.Contains(out, words) != due {
			f.Errorf("a %s with %q: %s", kind.kind, line, out)
		}
		if out := f.warned(workload(at, 0, line)); strings.Contains(out, "Warning") {
			f.Errorf("a %s that asks nothing, with %q: %s", kind.kind, line, out)
		}
	}
}

func TestPodsOfAnotherSchedulerAreWarnedOf(t *testing.T) {
	needsZeroTouch(t)
	f := bare(t)
	f.applyPolicies(f.policiesOf("second-scheduler"))
	f.untilItWarns()
	f.mutated(harness.Simple("probe", 300), func(made object) bool {
		return harness.Text(made, "spec", "schedulerName") == "milligpu"
	})
	f.warnsOf("terminationGracePeriodSeconds: 1", "default-scheduler", false)
	f.warnsOf("schedulerName: milligpu", "milligpu", false)
	f.warnsOf("schedulerName: nobody", "nobody", true)
}

func TestBefore136PodsThatNameNoSchedulerAreWarnedOf(t *testing.T) {
	f := bare(t)
	policies := f.policiesOf("second-scheduler-before-1.36")
	if left := harness.OfKinds(policies, policyKinds[:2]...); len(left) > 0 {
		t.Fatalf("1.35 does not know %v", left)
	}
	f.applyPolicies(policies)
	f.untilItWarns()
	f.warnsOf("terminationGracePeriodSeconds: 1", "default-scheduler", true)
	f.warnsOf("schedulerName: milligpu", "milligpu", false)
	f.warnsOf("schedulerName: nobody", "nobody", true)
	f.warnsOf("nodeName: node-a", "", false) /* no scheduler has it; the guard denies that */
	f.warnsOfChanges()
}

func TestBefore136APodBringsItsSchedulerAndItsToleration(t *testing.T) {
	f := start(t, oneNode(2))
	f.wired("overlays/second-scheduler/scheduler.yaml", "")
	f.tainted("node-a")
	f.applyPolicies(f.policiesOf("second-scheduler-before-1.36"))
	f.untilItWarns()
	readme, err := harness.Manifest("README.md")
	f.check(err)
	block := regexp.MustCompile(`(?m)^    spec:\n((?:^      .*\n)+)`).FindStringSubmatch(readme)
	if block == nil {
		t.Fatal("manifests/README.md does not say what a pod needs")
	}
	needs := strings.ReplaceAll(block[1], "      ", "  ")
	out, err := f.w.Kubectl(f.firstYAML("one")+needs, "apply", "-n", f.space, "-f", "-")
	f.check(err)
	if strings.Contains(out, "Warning") {
		t.Errorf("a pod that brings all is warned of: %s", out)
	}
	f.bound("one")
	f.create(by("milligpu", harness.Simple("stays-away", 300)))
	f.refusedWith("stays-away", "untolerated taint")
	f.consistent()
}

// warnsOfChanges checks that a workload is warned of when its spec changes, and not when something else does.
func (f *fixture) warnsOfChanges() {
	f.Helper()
	_, err := f.w.Kubectl(workload(1, 300, "schedulerName: nobody"), "create", "-n", f.space, "-f", "-")
	f.check(err)
	out, err := f.w.Kubectl("", "label", "-n", f.space, "deployment/w", "c=d")
	f.check(err)
	if strings.Contains(out, "Warning") {
		f.Errorf("a label is warned of: %s", out)
	}
	out, err = f.w.Kubectl("", "set", "image", "-n", f.space, "deployment/w", "main=other")
	f.check(err)
	if !strings.Contains(out, "Warning") {
		f.Errorf("a change of the spec is not warned of: %s", out)
	}
	_, err = f.w.Kubectl("", "delete", "-n", f.space, "deployment/w")
	f.check(err)
}

func TestPodsOfAnotherSchedulerAreDeniedWhereThatIsChosen(t *testing.T) {
	f := bare(t)
	policies := f.policiesOf("second-scheduler-before-1.36")
	const warn = "validationActions:\n  - Warn\n  - Audit\n"
	text := strings.Join(policies, "\n---\n") + "\n"
	if strings.Count(text, warn) != 1 {
		t.Fatalf("not one policy warns: %s", text)
	}
	f.applyPolicies([]string{strings.Replace(text, warn, "validationActions:\n  - Deny\n", 1)})
	words := f.denied(harness.Simple("one", 300))
	if !strings.Contains(words, "names scheduler default-scheduler; milligpu serves milligpu") {
		t.Errorf("the denial does not tell what to write: %s", words)
	}
	f.create(by("milligpu", harness.Simple("good", 300)))
	f.create(harness.Simple("plain", 0))
}

func TestAPodThatAnotherSchedulerHasBoundIsNamed(t *testing.T) {
	f := start(t, oneNode(2))
	f.place(harness.Simple("ours", 300))
	other, err := f.w.StartSchedulerWith("other", harness.BurstScheduler(f.w.Cluster, "other", "", false))
	f.check(err)
	defer other.Stop()
	f.place(by("other", harness.Simple("taken", 300)))
	words := fmt.Sprintf("%s/taken asks for nvidia.com/vgpu and names scheduler other, which has not asked milligpud since "+
		"its start; milligpud serves default-scheduler: set spec.schedulerName: default-scheduler", f.space)
	f.until(soon, func() (bool, string) {
		out := f.ctl("pod", f.space+"/taken")
		return strings.Contains(out, words), "milligpuctl pod does not name the scheduler: " + out
	})
	out := f.ctl("doctor", "-o", "json")
	if !strings.Contains(out, f.space+"/taken (other on node-a)") {
		t.Errorf("doctor does not name the pod: %s", out)
	}
	if strings.Contains(out, f.space+"/ours (") {
		t.Errorf("doctor names our own pod: %s", out)
	}
}
