package tests

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

const shortNodes = 60 /* below 100 nodes kube-scheduler asks about all of them */

// short starts with 60 equal nodes and binpack, which prefers them by name while they are empty.
func short(t *testing.T, shortlist int) *fixture {
	t.Helper()
	f := bare(t, numbered(shortNodes)...)
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--policy", "binpack", "--shortlist", fmt.Sprint(shortlist))
	f.startDaemon()
	return f
}

// refusedBefore returns the lengths of the lists, and the time from the first question to the bind.
func refusedBefore(t *testing.T, shortlist int, silent bool) ([]int, time.Duration) {
	f := short(t, shortlist)
	picky := f.beside(shortNodes, silent, "n020", "n050")
	f.createChoosy("waits", 300)
	if node := nodeOf(f.bound("waits")); node != "n020" {
		t.Errorf("shortlist %d: it is on %s, not on the best of those that the other extender accepts",
			shortlist, node)
	}
	f.consistent()
	pod := f.space + "/waits"
	asked, bound := f.w.front.Calls("filter", pod), f.w.front.Calls("bind", pod)
	/* the pod may be bound before its call is answered, and noted */
	f.until(soon, func() (bool, string) {
		bound = f.w.front.Calls("bind", pod)
		return len(asked) > 0 && len(bound) > 0, fmt.Sprintf("%d questions and %d binds were seen", len(asked), len(bound))
	})
	return picky.Sizes(), bound[len(bound)-1].At.Sub(asked[0].At)
}

// The price of retries: n020 is the 21st of 60 nodes. A list is four times as long as the one before.
func TestAShortlistOfOneCostsTwoMoreAttemptsWhereAnotherExtenderRefuses(t *testing.T) {
	for shortlist, want := range map[int][]int{1: {1, 4, 16, shortNodes}, 16: {16, shortNodes}} {
		for _, silent := range []bool{true, false} {
			/* each with its own kube-scheduler */
			t.Run(fmt.Sprintf("%d silent %t", shortlist, silent), func(t *testing.T) {
				sizes, took := refusedBefore(t, shortlist, silent)
				t.Logf("shortlist %d, reasons %t: lists of %v nodes, bound after %v", shortlist, !silent,
					sizes, took.Round(time.Millisecond))
				/* a pod that is tried again within a moment may get a list of the same length */
				if lengths := slices.Compact(slices.Clone(sizes)); !slices.Equal(lengths, want) {
					t.Errorf("the lists had %v names, not %v", sizes, want)
				}
				if len(sizes) > len(want)+1 {
					t.Errorf("%d attempts for %d lengths", len(sizes), len(want))
				}
			})
		}
	}
}

// The tightest GPU that has room, of equals the first by name.
func tightest(free []int, milli int) int {
	best := -1
	for i, left := range free {
		if left >= milli && (best < 0 || left < free[best]) {
			best = i
		}
	}
	return best
}

func TestWithAShortlistOfOneEachPodLandsWhereThePolicyWantsIt(t *testing.T) {
	f := short(t, 1)
	free := slices.Repeat([]int{1000}, shortNodes)
	draw := rand.New(rand.NewSource(1))
	for i := range 60 {
		name, milli := fmt.Sprintf("p%d", i), 50+10*draw.Intn(80)
		want := tightest(free, milli)
		free[want] -= milli
		if node := nodeOf(f.place(harness.Simple(name, milli))); node != fmt.Sprintf("n%03d", want) {
			t.Fatalf("%s of %d is on %s, and the policy prefers n%03d", name, milli, node, want)
		}
		if asked := f.calls("filter", name); asked != 1 {
			t.Errorf("kube-scheduler asked %d times about %s", asked, name)
		}
	}
	f.consistent()
}
