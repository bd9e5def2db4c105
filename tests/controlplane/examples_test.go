package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

// withCRDs creates the CRDs of cert-manager and of the frameworks in examples/, which build.sh takes from their modules, until
// the test ends.
func (f *fixture) withCRDs() {
	f.Helper()
	folder := filepath.Join(harness.Root(), "build", "controlplane", "crds")
	/* not by apply, which would write each of them into an annotation, too, where most are too large for it */
	_, err := f.w.Kubectl("", "create", "-f", folder)
	f.Cleanup(func() {
		_, err := f.w.Kubectl("", "delete", "--ignore-not-found", "-f", folder)
		f.check(err)
	})
	f.check(err)
	_, err = f.w.Kubectl("", "wait", "--for=condition=Established", "--timeout=120s", "-f", folder)
	f.check(err)
}

// examples returns the text of each file of examples/, by its name.
func (f *fixture) examples() map[string]string {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(), "examples", "*.yaml"))
	f.check(err)
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		f.check(err)
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

/* the places of a document where a misspelled or additional field must be noticed, by what it becomes there */
var slips = []struct{ pattern, slip string }{
	{`(?m)^spec:\n`, "spec:\n  surprise: 1\n"},
	{`\blimits:( |\n +nvidia)`, "limitz:$1"},
	{`\bnominalQuota:`, "nominalQuote:"},
}

// refusesSlips asserts that the API server knows the fields of this document, so that accepting it means something.
func (f *fixture) refusesSlips(what, document string) {
	f.Helper()
	slipped := 0
	for _, s := range slips {
		wrong := regexp.MustCompile(s.pattern).ReplaceAllString(document, s.slip)
		if wrong == document {
			continue
		}
		slipped++
		_, err := f.w.Kubectl(wrong, "apply", "-n", f.space, "--dry-run=server", "--validate=strict", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "unknown field") {
			f.Errorf("%s with %q: %v", what, s.slip, err)
		}
	}
	if slipped == 0 {
		f.Errorf("%s has no spec:\n%s", what, document)
	}
}

func TestTheExamplesAreWhatTheirCRDsAccept(t *testing.T) {
	f := bare(t)
	f.withCRDs()
	examples := f.examples()
	if len(examples) < 10 {
		t.Errorf("too few examples: %d", len(examples))
	}
	for file, text := range examples {
		out, err := f.w.Kubectl(text, "apply", "-n", f.space, "--dry-run=server", "--validate=strict", "-f", "-")
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if strings.Contains(out, "Warning") {
			t.Errorf("%s: %s", file, out)
		}
		for _, document := range strings.Split(text, "\n---\n") {
			f.refusesSlips(file, document)
		}
	}
}
