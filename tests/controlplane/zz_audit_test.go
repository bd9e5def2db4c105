package tests

import (
	"net/http"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

func TestALineOfTheAuditLogThatIsBeingWrittenIsLeftOut(t *testing.T) {
	const line = `{"requestReceivedTimestamp":"2026-11-29T16:35:36.690053Z","verb":"get","responseStatus":{"code":403}}` + "\n"
	for n := range len(line) {
		audit, err := harness.ReadAudit(strings.NewReader(line + line[:n]))
		if err != nil || len(audit) != 1 || audit[0].Verb != "get" || audit[0].Code != http.StatusForbidden {
			t.Fatalf("a line and %q: %v, %v", line[:n], audit, err)
		}
	}
	if audit, err := harness.ReadAudit(strings.NewReader(line[9:])); err == nil {
		t.Errorf("a line that is no JSON is %v", audit)
	}
}

/* The file's name makes this test run last, so that it covers the requests of all others. */

func TestWithTheRightsOfOurManifestsNothingWasDeniedAndNoPodWasPatched(t *testing.T) {
	audit, err := shared.Audit()
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]int{}
	for _, a := range audit {
		if a.User != shared.account.User || strings.Contains(a.URI, withOurRights) {
			continue
		}
		what := a.Verb + " " + a.Resource
		if a.Subresource != "" {
			what += "/" + a.Subresource
		}
		requests[what]++
		denied := a.Code == http.StatusForbidden || a.Code == http.StatusUnauthorized
		if denied && !shared.Starting(a.At) {
			t.Errorf("denied: %s %s (%d)", a.Verb, a.URI, a.Code)
		}
		writes := a.Verb != "get" && a.Verb != "list" && a.Verb != "watch"
		binds := a.Verb == "create" && a.Subresource == "binding"
		if a.Resource == "pods" && writes && !binds {
			t.Errorf("milligpud sent %s %s", a.Verb, a.URI)
		}
	}
	t.Logf("as %s: %v", shared.account.User, requests)
	if requests["create pods/binding"] == 0 {
		t.Skip("no test before this one let milligpud bind a pod")
	}
}
