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

func (s installed) verify(file string) {
	s.Helper()
	program, err := harness.Program("milligpuctl", "MILLIGPUCTL")
	s.check(err)
	_, err = harness.Run(program, "verify", file)
	s.check(err)
}

/* a volume for the backups, and a kustomization with the component */
const (
	backupVolume = `apiVersion: v1
kind: PersistentVolume
metadata: {name: backups}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: %s, name: milligpu-backups}
  local: {path: "%s"}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: In, values: [gpu-real]}
`
	withBackup = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%%s]
components: [%s]
`
)

// addBackup adds the component backup to what is installed.
func (s installed) addBackup() string {
	s.Helper()
	volume := filepath.Join(s.w.Dir, "backups")
	s.check(os.Mkdir(volume, 0o755))
	s.kubectl(fmt.Sprintf(backupVolume, harness.Namespace, volume), "apply", "-f", "-")
	component := filepath.Join(harness.Root(), "manifests", "components", "backup")
	path, err := filepath.Rel(s.TempDir(), component) /* another folder beside that of overlay() */
	s.check(err)
	documents := s.overlay(fmt.Sprintf(withBackup, path))
	s.kubectl(documents, "apply", "-l", "app.kubernetes.io/component=backup", "-f", "-")
	s.kubectl("", "-n", harness.Namespace, "patch", "statefulset", "milligpu",
		"--patch-file", filepath.Join(component, "statefulset-patch.yaml"))
	/* statefulset_test.go waits for the period that is shipped, 90 s */
	s.kubectl("", "-n", harness.Namespace, "set", "env", "statefulset/milligpu", "-c", "milligpud", "MILLIGPU_GRACE_PERIOD_S=3")
	s.Cleanup(func() { s.kubectl("", "delete", "persistentvolume", "backups", "--wait=false") })
	s.ready()
	return volume
}

// firstBlock runs the commands that docs/operate/backup.md has first in a section, and returns what they print.
func (s installed) firstBlock(section string) string {
	s.Helper()
	blocks, err := harness.Page("docs/operate/backup.md")
	s.check(err)
	text := ""
	for _, block := range blocks {
		if block.Section == section && block.Mark == "run on a cluster" {
			text = strings.TrimSpace(block.Text)
			break
		}
	}
	said := ""
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "kubectl" {
			s.Fatalf("%s: no command of kubectl: %q", section, line)
		}
		said += s.kubectl("", words[1:]...)
	}
	return said
}

func (s installed) backups(volume string) []string {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(volume, "ledger-*.db"))
	s.check(err)
	return files
}

// The Job of the CronJob runs beside milligpud and asks over its socket; the newest of its backups is restored.
func TestBackupsOfTheStatefulSetEachNight(t *testing.T) {
	s := install(t)
	s.runs("first", 300)
	volume := s.addBackup()
	if shown := s.kubectl("", "-n", harness.Namespace, "get", "cronjob", "milligpu-backup"); !strings.Contains(shown, "17 2 * * *") {
		t.Error("kubectl get cronjob shows: ", shown)
	}
	said := s.firstBlock("Back up each night")
	if !regexp.MustCompile(`ledger-\d{8}T\d{6}Z\.db: \d+ bytes, verified; 1 backups, 0 removed`).MatchString(said) {
		t.Error("the Job says: ", said)
	}
	files := s.backups(volume)
	if len(files) != 1 {
		t.Fatalf("%d backups are there: %v", len(files), files)
	}
	s.verify(files[0])
	if shown := s.exec("doctor"); !regexp.MustCompile(`(?m)^ok +backup `).MatchString(shown) {
		t.Error("doctor shows: ", shown)
	}

	/* without milligpud the Job fails, and the backup stays */
	s.scale(0)
	s.kubectl("", "-n", harness.Namespace, "create", "job", "--from=cronjob/milligpu-backup", "alone")
	s.until(soon, func() (bool, string) {
		for _, pod := range harness.Items(s.must(s.api.Get(harness.PodPath(harness.Namespace, ""))), "items") {
			_, reason, message := harness.Condition(pod)
			if reason == "Unschedulable" && strings.Contains(message, "affinity") {
				return true, ""
			}
		}
		return false, "the Job's pod does not wait for milligpud's node"
	})
	s.kubectl("", "-n", harness.Namespace, "delete", "job", "alone", "--cascade=foreground")
	if again := s.backups(volume); len(again) != 1 {
		t.Errorf("%d backups are there: %v", len(again), again)
	}
	s.scale(1)
	s.ready()

	s.runs("second", 400)
	said = s.restore("restore-newest")
	if !strings.Contains(said, "restored from /var/lib/milligpu-backups/"+filepath.Base(files[0])) {
		t.Error("the Job that restores says: ", said)
	}
	s.until(soon, func() (bool, string) {
		shown := s.exec("allocations")
		return strings.Contains(shown, "first") && strings.Contains(shown, "second"), shown
	})
	s.nothingDenied(s.w.account.User)
}
