package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

/* the overlay as it is shipped, with the cluster's kube-scheduler */
const withItsScheduler = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
images: [{name: registry.k8s.io/kube-scheduler, newTag: %s}]
`

/* a local volume, as the README wants one */
const localVolume = `apiVersion: v1
kind: PersistentVolume
metadata: {name: ledger}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: "%s"}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: In, values: [gpu-real]}
`

// installed is the overlay second-scheduler on a node, from our image, as a user would apply it.
type installed struct {
	*fixture
	n *harness.RealNode
}

func install(t *testing.T) installed {
	t.Helper()
	f := managed(t)
	s := installed{f, f.realNode()}
	s.check(s.n.GPUs(gpuIDs...))
	s.check(s.n.Advertise(2000))
	s.uuids("gpu-real")
	/* kubelet leaves out its address, since it is on loopback; kubectl exec goes there */
	address := object{"type": "InternalIP", "address": "127.0.0.1"}
	s.must(s.api.Merge(harness.NodePath("gpu-real")+"/status", object{"status": object{"addresses": []any{address}}}))
	program, err := harness.Program("milligpud", "MILLIGPUD")
	s.check(err)
	s.check(s.n.ImportOwn("milligpud", program))
	tag, err := s.n.ImportScheduler()
	s.check(err)
	door, err := s.n.Doorway()
	s.check(err)
	t.Cleanup(func() { door.Close() })
	volume := filepath.Join(s.w.Dir, "volume")
	s.check(os.Mkdir(volume, 0o755))
	s.kubectl(fmt.Sprintf(localVolume, volume), "apply", "-f", "-")
	documents := s.overlay(fmt.Sprintf(withItsScheduler, "%s", tag))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.look())
		}
		s.kubectl(documents, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
		s.kubectl("", "-n", harness.Namespace, "delete", "pods", "--all", "--force", "--grace-period=0")
	})
	s.kubectl(documents, "apply", "-f", "-")
	s.ready()
	return s
}

// overlay renders a kustomization that lies outside the tree, whose only resource is the overlay.
func (s installed) overlay(text string) string {
	s.Helper()
	dir := s.TempDir()
	path, err := filepath.Rel(dir, filepath.Join(harness.Root(), "manifests", "overlays", "second-scheduler"))
	s.check(err)
	s.check(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(fmt.Sprintf(text, path)), 0o644))
	return s.kubectl("", "kustomize", "--load-restrictor=LoadRestrictionsNone", dir)
}

/* after a restore, not before the grace period has passed */
func (s installed) ready() {
	s.Helper()
	s.kubectl("", "-n", harness.Namespace, "rollout", "status", "statefulset/milligpu", "--timeout=180s")
}

func (s installed) look() string {
	out, err := s.w.Kubectl("", "-n", harness.Namespace, "describe", "pods,statefulsets,jobs,pvc")
	text := fmt.Sprint("---- ", harness.Namespace, "\n", out, err)
	logs, _ := filepath.Glob(filepath.Join(s.n.LogsDir, harness.Namespace+"_*", "*", "*.log"))
	for _, log := range logs {
		text += "---- " + log + "\n" + harness.TailFile(log, 20) + "\n"
	}
	return text
}

// exec runs milligpuctl in the container of milligpud.
func (s installed) exec(args ...string) string {
	s.Helper()
	return s.kubectl("", append([]string{"-n", harness.Namespace, "exec", "milligpu-0", "-c", "milligpud", "--",
		"milligpuctl"}, args...)...)
}

// runs creates a pod that names the scheduler of the overlay, and waits until its container runs.
func (s installed) runs(name string, milli int) {
	s.Helper()
	pod := harness.Simple(name, milli).Object()
	spec := harness.At(pod, "spec").(object)
	spec["schedulerName"], spec["automountServiceAccountToken"] = "milligpu", false
	harness.Items(pod, "spec", "containers")[0]["image"] = harness.Image
	s.must(s.api.Create(harness.PodPath(s.space, ""), pod))
	s.until(soon, func() (bool, string) {
		pod := s.pod(name)
		_, reason, message := harness.Condition(pod)
		return harness.Text(pod, "status", "phase") == "Running", fmt.Sprint(name, " does not run: ", reason, " ", message)
	})
	if harness.Text(s.pod(name), "metadata", "annotations", "milligpu.io/allocation") == "" {
		s.Errorf("pod %s runs without an allocation", name)
	}
}

// restore runs a Job of manifests/ on the volume of the ledger, while nothing else has it open.
func (s installed) restore(manifests string) string {
	s.Helper()
	s.scale(0)
	job := filepath.Join(harness.Root(), "manifests", manifests)
	s.kubectl("", "apply", "-k", job)
	s.kubectl("", "-n", harness.Namespace, "wait", "--for=condition=Complete", "job/milligpu-restore", "--timeout=120s")
	pods := harness.Items(s.must(s.api.Get(harness.PodPath(harness.Namespace, ""))), "items")
	if len(pods) != 1 {
		s.Fatalf("%d pods are in %s, not the Job's one", len(pods), harness.Namespace)
	}
	said, err := s.n.Output(harness.Namespace, harness.Text(pods[0], "metadata", "name"),
		harness.Text(pods[0], "metadata", "uid"), "milligpuctl")
	s.check(err)
	s.kubectl("", "delete", "-k", job)
	s.scale(1)
	s.ready()
	return said
}

// scale waits until so many pods of milligpud are there.
func (s installed) scale(pods int) {
	s.Helper()
	s.kubectl("", "-n", harness.Namespace, "scale", "statefulset/milligpu", fmt.Sprint("--replicas=", pods))
	s.until(soon, func() (bool, string) {
		list := harness.Items(s.must(s.api.Get(harness.PodPath(harness.Namespace, ""))), "items")
		return len(list) == pods, fmt.Sprint(len(list), " pods are in ", harness.Namespace)
	})
}

func TestMilligpudRunsFromItsImageAndItsStatefulSet(t *testing.T) {
	s := install(t)
	s.runs("first", 300)
	const ledger, backup = "/var/lib/milligpu/ledger.db", "/var/lib/milligpu/backup.db"
	verified := s.exec("verify", ledger)
	if !strings.Contains(verified, "ok") {
		t.Error("verify says: ", verified)
	}
	s.exec("backup", backup)
	s.exec("verify", backup)
	if shown := s.exec("allocations"); !strings.Contains(shown, "first") {
		t.Error("allocations shows: ", shown)
	}
	if out, err := s.w.Kubectl("", "-n", harness.Namespace, "exec", "milligpu-0", "-c", "milligpud", "--", "sh", "-c", "true"); err == nil {
		t.Error("there is a shell in the image: ", out)
	}

	/* the ledger with the second pod goes aside; what runs is learned from the API server again */
	s.runs("second", 400)
	said := s.restore("restore")
	if files, _ := filepath.Glob(filepath.Join(s.w.Dir, "volume", "ledger.db.replaced-*")); len(files) == 0 {
		t.Error("no former ledger is beside the restored one; the Job says: ", said)
	}
	s.until(soon, func() (bool, string) {
		shown := s.exec("allocations")
		return strings.Contains(shown, "first") && strings.Contains(shown, "second"), shown
	})
	s.exec("verify", ledger)
	s.nothingDenied(s.w.account.User)
}
