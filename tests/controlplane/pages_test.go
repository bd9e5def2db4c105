package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// stranger follows the pages on a cluster with one GPU node: blocks that are files are written, and blocks of commands run, as
// they stand, in a folder of their own that has what the tree has for a cluster.
type stranger struct {
	*fixture
	n       *harness.RealNode
	home    string
	bin     string
	changes []string          /* old, new: of all texts of the pages */
	more    map[string]string /* what is added to a file that a page has */
	printed string            /* by the last block of commands */
	last    harness.Block
}

/* Paths that differ between this machine and a node: folders, and the library that NVIDIA's runtime would bring into the
 * container. The grace period after a restore is short; statefulset_test.go waits for the one that is shipped. */
const ofThisMachine = `- target: {kind: DaemonSet, name: milligpu-node}
  patch: |
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: milligpu-node}
    spec:
      template:
        spec:
          containers:
          - name: milligpu-node
            env:
            - {name: MILLIGPU_NODE_NVML, value: /driver/libnvidia-ml.so.1}
            - {name: FAKE_NVML, value: /driver/driver}
            volumeMounts:
            - {name: driver, mountPath: /driver, readOnly: true}
          volumes:
          - {name: nri, hostPath: {path: "%[1]s"}}
          - {name: etc-cdi, hostPath: {path: "%[2]s"}}
          - {name: run-cdi, hostPath: {path: "%[2]s"}}
          - {name: state, hostPath: {path: "%[3]s"}}
          - {name: driver, hostPath: {path: "%[4]s"}}
- target: {kind: StatefulSet, name: milligpu}
  patch: |
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: milligpu}
    spec:
      template:
        spec:
          containers:
          - name: milligpud
            env:
            - {name: MILLIGPU_GRACE_PERIOD_S, value: "3"}
`

const registry = "registry.example.com/"

// cluster is what a stranger begins with: a node with two GPUs, as NVIDIA's GPU operator leaves it, and images that were built and
// pushed. No page has been followed yet.
func cluster(t *testing.T) *stranger {
	t.Helper()
	needsAgent(t)
	if isStandIn() {
		t.Skip("the stand-in is no image")
	}
	s := &stranger{fixture: managed(t), more: map[string]string{}}
	s.n = s.realNode()
	s.check(s.n.GPUs(gpuIDs...))
	_, err := s.n.FakeNVML()
	s.check(err)
	nvml(filepath.Join(s.n.DriverDir, "driver")).says(&gpuNode{fixture: s.fixture})
	s.patchNode("gpu-real", object{"labels": harness.GFDLabels(2, "Tesla-T4", 16384)})
	address := object{"type": "InternalIP", "address": "127.0.0.1"} /* as in install() */
	s.must(s.api.Merge(harness.NodePath("gpu-real")+"/status", object{"status": object{"addresses": []any{address}}}))
	/* the harness has applied the rights of manifests/base */
	s.kubectl("", "delete", "--ignore-not-found", "-k", filepath.Join(harness.Root(), "manifests/base"))
	s.kubectl(runtimeClass, "apply", "-f", "-")
	s.volume("ledger")
	s.images()
	door, err := s.n.Doorway()
	s.check(err)
	t.Cleanup(func() { door.Close() })
	s.folder()
	t.Cleanup(s.end)
	return s
}

// volume makes a volume for a ledger, as the StorageClass of a cluster would.
func (s *stranger) volume(name string) {
	s.Helper()
	path := filepath.Join(s.w.Dir, name)
	s.check(os.Mkdir(path, 0o755))
	s.kubectl(fmt.Sprintf(localVolume, path), "apply", "-f", "-")
}

// images imports our images under their names in the registry, too, and kube-scheduler's.
func (s *stranger) images() {
	s.Helper()
	for _, image := range []string{"milligpud", "milligpu-node"} {
		program, err := harness.Program(image, strings.ToUpper(strings.ReplaceAll(image, "-", "_")))
		s.check(err)
		s.check(s.n.ImportOwn(image, program))
		for _, tag := range []string{"0.1.0", "0.2.0"} {
			s.check(s.n.TagImage("docker.io/library/"+image+":0.1.0", registry+image+":"+tag))
		}
	}
	tag, err := s.n.ImportScheduler()
	s.check(err)
	/* nothing is pulled here: no registry can be reached */
	s.changes = []string{"v1.36.3", tag, "image: busybox\n", "image: " + harness.Image + "\n"}
}

// folder makes the folder of the commands, and what they call.
func (s *stranger) folder() {
	s.Helper()
	s.home = s.TempDir()
	s.bin = filepath.Join(s.home, "bin")
	own := filepath.Join(s.home, "milligpu")
	s.check(os.MkdirAll(own, 0o755))
	s.check(os.MkdirAll(s.bin, 0o755))
	for _, part := range []string{"manifests", "charts", "examples"} {
		s.run("cp", "-a", filepath.Join(harness.Root(), part), own)
	}
	program, err := harness.Program("milligpuctl", "MILLIGPUCTL")
	s.check(err)
	for name, of := range map[string]string{"kubectl": harness.Component("kubectl"), "milligpuctl": program,
		"kubectl-milligpu": program} {
		s.check(os.Symlink(of, filepath.Join(s.bin, name)))
	}
	s.more["kustomization.yaml"] = "patches:\n" + s.patches()
}

func (s *stranger) patches() string {
	return fmt.Sprintf(ofThisMachine, filepath.Dir(s.n.NRISocket), s.n.CDIDir, s.n.StateDir, s.n.DriverDir)
}

func (s *stranger) end() {
	if s.Failed() {
		s.Log(installed{s.fixture, s.n}.look())
	}
	for _, space := range []string{harness.Namespace, agents, "default"} {
		_, _ = s.w.Kubectl("", "-n", space, "delete", "statefulsets,daemonsets,jobs", "--all", "--cascade=foreground",
			"--timeout=120s")
		_, _ = s.w.Kubectl("", "-n", space, "delete", "pods", "--all", "--force", "--grace-period=0")
	}
}

// follows runs and writes what these sections of a page have for a cluster, in order; no section means all.
func (s *stranger) follows(page string, sections ...string) {
	s.Helper()
	done := 0
	for _, b := range s.blocks(page, sections...) {
		switch {
		case b.Mark == "run on a cluster" && b.File != "":
			s.writes(b)
			done++
		case b.Mark == "run on a cluster":
			s.runs(b)
			done++
		case b.Mark == "shown" && b.File == "" && s.last.Mark == "run on a cluster":
			s.compares(b)
		}
		s.last = b
	}
	if done == 0 {
		s.Fatalf("%s has no block for a cluster in %q", page, sections)
	}
}

// olderSection is what only a cluster before Kubernetes 1.36 does.
const olderSection = "Kubernetes 1.30 to 1.35"

func before136() bool { return harness.Minor() < 36 }

// blocks returns the marked blocks of these sections of a page.
func (s *stranger) blocks(page string, sections ...string) []harness.Block {
	s.Helper()
	all, err := harness.Page(page)
	s.check(err)
	return slices.DeleteFunc(all, func(b harness.Block) bool {
		ours := b.Section == olderSection
		if !before136() && ours || before136() && !ours && b.File == "notebook.yaml" { /* that section has its own */
			return true
		}
		return len(sections) > 0 && !slices.Contains(sections, b.Section)
	})
}

// but returns the sections of a page that have marked blocks, without one.
func (s *stranger) but(page, without string) []string {
	s.Helper()
	var sections []string
	for _, b := range s.blocks(page) {
		if b.Section != without {
			sections = append(sections, b.Section)
		}
	}
	return sections
}

func (s *stranger) changed(text string) string {
	return strings.NewReplacer(s.changes...).Replace(text)
}

func (s *stranger) writes(b harness.Block) {
	s.Helper()
	file := filepath.Join(s.home, b.File)
	s.check(os.MkdirAll(filepath.Dir(file), 0o755))
	s.check(os.WriteFile(file, []byte(s.changed(b.Text)+s.more[b.File]), 0o644))
}

func (s *stranger) runs(b harness.Block) {
	s.Helper()
	began := time.Now()
	s.printed = s.bash(b.At, s.changed(b.Text))
	s.Logf("%s: %s\n%s%s", b.At, time.Since(began).Round(time.Second), b.Text, s.printed)
}

// bash runs commands as in a terminal of the stranger's, and ends the test at the first that fails.
func (s *stranger) bash(at, commands string) string {
	s.Helper()
	cmd := exec.Command("timeout", "240", "bash", "-e", "-o", "pipefail", "-c", commands)
	cmd.Dir = s.home
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "HOME="+s.home, "KUBECONFIG="+s.w.Kubeconfig,
		"COLUMNS=120")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s----\n%s", at, err, commands, out)
	}
	return string(out)
}

func (s *stranger) compares(shown harness.Block) {
	s.Helper()
	if !harness.SameOutput(s.changed(shown.Text), s.printed) {
		s.Errorf("%s shows\n%s\nand the commands print\n%s", shown.At, harness.Masked(s.changed(shown.Text)),
			harness.Masked(s.printed))
	}
}

// hasItsShare checks that the pod of the page runs with the one share that it asks for.
func (s *stranger) hasItsShare(name string, milli int) {
	s.Helper()
	pod := s.must(s.api.Get(harness.PodPath("default", name)))
	if phase := harness.Text(pod, "status", "phase"); phase != "Running" {
		s.Errorf("pod %s is %s", name, phase)
	}
	if shares := s.sharesOf(pod); len(shares) != 1 || shares[0].Milli != milli {
		s.Errorf("pod %s has %v", name, shares)
	}
}

func TestTheMarkedBlocksOfAPageAreFoundAndCompared(t *testing.T) {
	const page = "# One\n\n<!-- run on a cluster -->\n\n    a\n      b\n\n    c\n\ntext\n\n    no mark\n" +
		"1. item\n\n   <!-- run on a cluster: dir/f.yaml -->\n   ```yaml\n   x:\n     y\n   ```\n\n## Two\n<!-- shown -->\n```\nz\n```\n"
	blocks, err := harness.Blocks("p.md", page)
	wanted := []harness.Block{{Mark: "run on a cluster", Section: "One", Text: "a\n  b\n\nc\n", At: "p.md:3"},
		{Mark: "run on a cluster", File: "dir/f.yaml", Section: "One", Text: "x:\n  y\n", At: "p.md:15"},
		{Mark: "shown", Section: "Two", Text: "z\n", At: "p.md:22"}}
	if err != nil || !slices.Equal(blocks, wanted) {
		t.Errorf("%v\n%q instead of\n%q", err, blocks, wanted)
	}
	for _, text := range []string{"<!-- shown -->\n", "<!-- shown -->\ntext\n", "<!-- shown -->\n\n   x\n", "<!-- shown -->\n```\n```\n"} {
		if blocks, err := harness.Blocks("p.md", text); err == nil {
			t.Errorf("%q has %v", text, blocks)
		}
	}
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{"a  1\n", "a 1\n", true}, {"a 1\n", "a 2\n", false}, {"a\n", "a\nb\n", false}, {"a\nb\n", "a\n", false},
		{"a\n...\nc\n", "a\nb\nb\nc\n", true}, {"a\n...\nc\n", "a\nc\n", true}, {"a\n...\nc\n", "a\nb\n", false},
		{"...\nc\n", "b\nc\n", true}, {"a\n...\n", "a\nb\n", true}, {"a.c\n", "abc\n", false},
		{"since 2026-11-27T08:52:53.025Z (0s)", "since 2027-01-01T00:00:00Z (12s)", true}, {"since then", "since 2027-01-01T00:00:00Z", false},
		{"f-20261127T085813Z", "f-20271127T085813Z", true},
		{"validator on", "validator not known until a container is made", true}, {"validator on", "validator off", false}, {"key 9b0fde8a200f6df9", "key 0123456789abcdef", true},
	} {
		if harness.SameOutput(c.shown, c.printed) != c.same {
			t.Errorf("shown %q, printed %q: the same is not %v", c.shown, c.printed, c.same)
		}
	}
}

func TestAStatefulSetByTheFirstLinesOfTheReadme(t *testing.T) {
	if before136() {
		t.Skip("the README's first lines are for Kubernetes 1.36 and later")
	}
	s := cluster(t)
	s.check(s.n.Advertise(2000))
	s.home = filepath.Join(s.home, "milligpu") /* its commands are for the folder of the tree */
	overlay := filepath.Join(s.home, "manifests/overlays/second-scheduler/kustomization.yaml")
	text, err := os.ReadFile(overlay)
	s.check(err)
	s.check(os.WriteFile(overlay, []byte(s.changed(string(text))), 0o644))
	s.follows("README.md", "Install it")
	s.hasItsShare("notebook", 300)
}

// simple is a pod as the pages have one.
func (s *stranger) simple(name string, milli int) object {
	pod := harness.Simple(name, milli).Object()
	spec := pod["spec"].(object)
	delete(spec, "schedulerName")
	if before136() {
		spec["schedulerName"] = "milligpu"
	}
	harness.Items(pod, "spec", "containers")[0]["image"] = harness.Image
	return pod
}

// makes creates a pod in the namespace of the pages' pods, and waits until it runs.
func (s *stranger) makes(name string, milli int) {
	s.Helper()
	s.must(s.api.Create(harness.PodPath("default", ""), s.simple(name, milli)))
	s.kubectl("", "wait", "--for=condition=Ready", "pod/"+name, "--timeout=120s")
	s.hasItsShare(name, milli)
}

// sound checks that milligpud has exactly the shares that are written on these pods, and no GPU is given beyond its size.
func (s *stranger) sound(names ...string) {
	s.Helper()
	var all object
	s.check(json.Unmarshal([]byte(s.bash("sound", "kubectl milligpu allocations -n default -o json")), &all))
	list := harness.Items(all, "items")
	has, used := map[string][]share{}, map[string]int{}
	for _, allocation := range list {
		name := harness.Text(allocation, "name")
		if has[name] != nil {
			s.Errorf("pod %s has two allocations", name)
		}
		has[name] = restShares(allocation)
		for _, one := range has[name] {
			used[one.GPU] += one.Milli
		}
	}
	for _, name := range names {
		if on := s.sharesOf(s.must(s.api.Get(harness.PodPath("default", name)))); !slices.Equal(on, has[name]) {
			s.Errorf("pod %s has %v, and milligpud says %v", name, on, has[name])
		}
	}
	if len(list) != len(names) {
		s.Errorf("milligpud has %d allocations, of %v instead of %q", len(list), has, names)
	}
	for gpu, milli := range used {
		if milli > 1000 {
			s.Errorf("GPU %s is given %d times over: %v", gpu, milli, has)
		}
	}
}

// full fills both GPUs up beside these pods, to the last thousandth, so that the next pod waits.
func (s *stranger) full(names ...string) {
	s.Helper()
	for i, gpu := range gpuIDs {
		free := 1000
		for _, name := range names {
			for _, one := range s.sharesOf(s.must(s.api.Get(harness.PodPath("default", name)))) {
				if one.GPU == gpu {
					free -= one.Milli
				}
			}
		}
		rest := fmt.Sprint("rest-", i)
		s.makes(rest, free)
		names = append(names, rest)
	}
	s.sound(names...)
	s.must(s.api.Create(harness.PodPath("default", ""), s.simple("waits", 1)))
	s.until(soon, func() (bool, string) {
		_, reason, message := harness.Condition(s.must(s.api.Get(harness.PodPath("default", "waits"))))
		return reason == "Unschedulable", fmt.Sprint("both GPUs are full, and a pod waits with ", reason, " ", message)
	})
}

// restarts returns how often kubelet has started milligpud again in its pod, and whether it is ready.
func (s *stranger) restarts() (times int, ready bool) {
	s.Helper()
	pod := s.must(s.api.Get(harness.PodPath(harness.Namespace, "milligpu-0")))
	for _, status := range harness.Items(pod, "status", "containerStatuses") {
		if harness.Text(status, "name") == "milligpud" {
			return harness.Number(status, "restartCount"), harness.At(status, "ready") == true
		}
	}
	s.Fatalf("no milligpud in %v", harness.At(pod, "status"))
	return 0, false
}

// killed kills milligpud as kill -9 on its node does, and waits until kubelet has started it again.
func (s *stranger) killed() {
	s.Helper()
	before, _ := s.restarts()
	pod := s.must(s.api.Get(harness.PodPath(harness.Namespace, "milligpu-0")))
	pid, err := s.n.Process(harness.Text(pod, "metadata", "uid"), "milligpud")
	s.check(err)
	s.check(syscall.Kill(pid, syscall.SIGKILL))
	s.until(soon, func() (bool, string) {
		times, ready := s.restarts()
		return times > before && ready, fmt.Sprintf("milligpud was started %d times more, ready: %v", times-before, ready)
	})
}

func TestTheFirstHourOfAStatefulSetAndItsDaemonSet(t *testing.T) {
	s := cluster(t)
	install, uninstall := "docs/operate/install.md", "Uninstall"
	s.follows(install, s.but(install, uninstall)...)
	s.hasItsShare("notebook", 300)

	s.follows("docs/operate/backup.md", "Back up and restore")
	s.makes("later", 500) /* the backup does not know it */
	s.killed()
	s.sound("notebook", "later")
	if !before136() { /* not even the page differs there */
		s.follows("docs/operate/backup.md", "Restore a backup")
		s.sound("notebook", "later")
	}
	s.full("notebook", "later")
	s.nothingDenied("system:serviceaccount:" + harness.Namespace + ":milligpu")
	s.nothingDenied(agentsAccount)

	s.follows(install, uninstall)
	if left := (release{s.fixture}).left(); len(left) > 0 {
		t.Errorf("after it is uninstalled: %q", left)
	}
	s.hasItsShare("notebook", 300)
}

// formerLedger puts a ledger of the version before on the volume, as if its milligpud had run in this cluster.
func (s *stranger) formerLedger() {
	s.Helper()
	ledger := filepath.Join(s.w.Dir, "ledger", "ledger.db")
	s.run("cp", filepath.Join(harness.Root(), "tests/released/7.db"), ledger)
	system := s.must(s.api.Get("/api/v1/namespaces/kube-system"))
	s.run("sqlite3", ledger, fmt.Sprintf("UPDATE meta SET cluster='%s'", harness.Text(system, "metadata", "uid")))
	s.check(os.Chown(ledger, 65532, 65532))
}

// copies counts the copies that migrations of that ledger have left.
func (s *stranger) copies() int {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.w.Dir, "ledger", "ledger.db.v7-*"))
	s.check(err)
	return len(files)
}

// running returns the images of the daemon and the agent that run.
func (s *stranger) running() string {
	s.Helper()
	text := ""
	for _, space := range []string{harness.Namespace, agents} {
		text += s.kubectl("", "-n", space, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image} ")
	}
	return strings.TrimSpace(text)
}

func TestTheUpgradeOfAStatefulSetAndTheWayBack(t *testing.T) {
	s := cluster(t)
	s.formerLedger()
	s.follows("docs/operate/install.md", "3. Write a kustomization of your own", olderSection, "4. Apply it")
	s.makes("before", 300)
	if s.copies() != 1 {
		t.Errorf("the migration has left %d copies", s.copies())
	}
	s.follows("docs/operate/upgrade.md", "Upgrade")
	if images := s.running(); images != registry+"milligpud:0.2.0 "+registry+"milligpu-node:0.2.0" {
		t.Errorf("after the upgrade, %s run", images)
	}
	s.makes("between", 400)
	s.sound("before", "between")

	for _, b := range s.blocks("docs/operate/backup.md", "Restore a backup") {
		if b.File != "" {
			s.writes(b)
		}
	}
	s.follows("docs/operate/upgrade.md", "Roll back")
	if images := s.running(); images != registry+"milligpud:0.1.0 "+registry+"milligpu-node:0.1.0" {
		t.Errorf("after the way back, %s run", images)
	}
	/* the ledger was the former one again, and this program has migrated it once more */
	if s.copies() != 2 {
		t.Errorf("the migrations have left %d copies", s.copies())
	}
	s.full("before", "between")
}

/* Helm with what this machine has elsewhere, as its users change a chart that has no value for it. */
const helmOfThisMachine = `#!/bin/sh
case $1 in
install | upgrade) exec %[1]s "$@" --post-renderer %[2]s/changed ;;
*) exec %[1]s "$@" ;;
esac
`

const changedByKustomize = `#!/bin/sh
set -eu
dir=$(mktemp -d)
cat >$dir/all.yaml
cp %[1]s/kustomization.yaml $dir
%[1]s/kubectl kustomize $dir
rm -r $dir
`

// helms puts Helm where the stranger finds it.
func (s *stranger) helms() {
	s.Helper()
	for name, text := range map[string]string{
		"helm":               fmt.Sprintf(helmOfThisMachine, filepath.Join(harness.Root(), helm), s.bin),
		"changed":            fmt.Sprintf(changedByKustomize, s.bin),
		"kustomization.yaml": "resources: [all.yaml]\npatches:\n" + s.patches()} {
		s.check(os.WriteFile(filepath.Join(s.bin, name), []byte(text), 0o755))
	}
}

func TestTheChartsStatefulSetByItsPage(t *testing.T) {
	s := cluster(t)
	s.helms()
	s.home = filepath.Join(s.home, "milligpu") /* its commands are for the folder of the tree */
	const page = "charts/milligpu/README.md"
	if before136() { /* as the page says in words */
		s.changes = append(s.changes, "components:\n", "components:\n  before-1.36: true\n")
	}
	s.follows(page, "Install")
	s.makes("before", 300)
	s.follows(page, "Upgrade")
	if images := s.running(); images != registry+"milligpud:0.2.0 "+registry+"milligpu-node:0.2.0" {
		t.Errorf("after the upgrade, %s run", images)
	}
	s.kubectl("", "-n", harness.Namespace, "scale", "statefulset/milligpu", "--replicas=0") /* to put a copy back */
	s.follows(page, "Roll back")
	if images := s.running(); images != registry+"milligpud:0.1.0 "+registry+"milligpu-node:0.1.0" {
		t.Errorf("after the way back, %s run", images)
	}
	s.full("before")
	s.nothingDenied("system:serviceaccount:" + harness.Namespace + ":milligpu")
	s.follows(page, "Uninstall")
	const ledger = "persistentvolumeclaims " + harness.Namespace + "/ledger-milligpu-0" /* as the page says */
	s.until(soon, func() (bool, string) {
		left := strings.Join(release{s.fixture}.left(), ", ")
		return left == ledger, "after it is uninstalled: " + left
	})
	s.hasItsShare("before", 300)
}
