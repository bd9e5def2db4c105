package tests

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

/* what a burst may cost on any machine */
const (
	burstNodes      = 100
	burstLimit      = 4 * time.Minute
	peakKiBMax      = 40 * 1024
	connectionsMax  = 8         /* watches, lists and the outbox; on a quiet machine they need 2 */
	bytesPerPodMax  = 12 * 1024 /* a Binding, its answer, and the events of the watch */
	bytesAtStartMax = 4 << 20
)

func TestAThousandPodsAtOnceAreBoundOverAFewConnections(t *testing.T) {
	burst(t, 1000)
}

func TestThreeThousandPodsAtOnceAreBoundOverAFewConnections(t *testing.T) {
	burst(t, 3000)
}

func burst(t *testing.T, pods int) {
	f := bare(t, harness.BurstNodes(burstNodes)...)
	relay, err := f.w.StartRelay()
	f.check(err)
	t.Cleanup(relay.Stop)
	f.d = f.daemon(relay.URL, f.w.CAFile)
	f.startDaemon()
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })

	before, err := harness.CPU(f.d.Proc.Pid())
	f.check(err)
	_, err = f.api.Burst(f.w.scheduler, f.space, "", pods, burstLimit)
	f.check(err)
	after, err := harness.CPU(f.d.Proc.Pid())
	f.check(err)
	f.noneInDoubt()
	if n := relay.Connections(); n > connectionsMax {
		t.Errorf("%d pods took %d connections to the API server", pods, n)
	}
	if n := relay.Bytes(); n > int64(bytesAtStartMax+pods*bytesPerPodMax) {
		t.Errorf("%d pods took %d bytes, %d for each", pods, n, n/int64(pods))
	}
	peak, err := harness.PeakKiB(f.d.Proc.Pid())
	f.check(err)
	if peak > peakKiBMax {
		t.Errorf("milligpud had %d KiB at its peak", peak)
	}
	t.Logf("%d pods: %d connections, for each %d bytes and %s of CPU, %d KiB at the peak", pods,
		relay.Connections(), relay.Bytes()/int64(pods), (after-before)/time.Duration(pods), peak)
	f.untilNothingIsOpen()
	if bound := len(f.allocations()); bound != pods {
		t.Errorf("the ledger has %d allocations for %d pods", bound, pods)
	}
}

// noneInDoubt checks that no bind call of kube-scheduler was answered "in doubt".
func (f *fixture) noneInDoubt() {
	f.Helper()
	var doubts []string
	for _, call := range f.w.front.Calls("bind", "") {
		if strings.Contains(call.Answer, "in doubt") {
			doubts = append(doubts, call.Pod+" "+call.Answer)
		}
	}
	if len(doubts) > 0 {
		f.Errorf("%d binds were in doubt with a healthy API server: %.900s", len(doubts),
			strings.Join(doubts, ", "))
	}
}

// Each Binding is sent once: an API server that is slow must not get more work from repetitions.
func TestAnAPIServerThatTakesHalfASecondForEachBindingBindsAllOfThem(t *testing.T) {
	f, proxy := through(t, harness.BurstNodes(burstNodes)...)
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	tries := countBindings(proxy, func(*http.Request) harness.Delay {
		return harness.Delay{Wait: 500 * time.Millisecond}
	})
	_, err := f.api.Burst(f.w.scheduler, f.space, "", 1000, burstLimit)
	f.check(err)
	f.noneInDoubt()
	tries.each(t, 1000, 1)
	f.untilNothingIsOpen()
}

// The API server takes fifty Bindings a second and answers 429 to the others. 150 pods need three seconds:
// after four, milligpud gives a bind up and kube-scheduler repeats it, perhaps for a newer version.
func TestAnAPIServerThatSaysTooManyRequestsGetsThemAtItsRate(t *testing.T) {
	f, proxy := through(t, harness.BurstNodes(burstNodes)...)
	t.Cleanup(func() { f.check(f.api.DeletePods(f.space)) })
	var mutex sync.Mutex
	second, taken, refused := int64(0), 0, 0
	tries := countBindings(proxy, func(*http.Request) harness.Delay {
		mutex.Lock()
		defer mutex.Unlock()
		if now := time.Now().Unix(); now != second {
			second, taken = now, 0
		}
		if taken++; taken > 50 || refused < 20 { /* always refuse some: a slow machine may never send fifty */
			refused++
			return harness.Delay{RetryAfter: 1}
		}
		return harness.Delay{}
	})
	_, err := f.api.Burst(f.w.scheduler, f.space, "", 150, burstLimit)
	f.check(err)
	f.noneInDoubt()
	mutex.Lock()
	defer mutex.Unlock()
	if refused == 0 || refused > 150 {
		t.Errorf("%d Bindings were turned away for 150 pods", refused)
	}
	late := 0
	for _, call := range f.w.front.Calls("bind", "") {
		if !strings.Contains(call.Answer, `"Error":""`) {
			late++
		}
	}
	if all := tries.all(); all > 150+refused+2*late {
		t.Errorf("150 pods, %d refusals and %d binds that were given up took %d Bindings", refused,
			late, all)
	}
	f.untilNothingIsOpen()
}

type bindingCount struct {
	mutex sync.Mutex
	of    map[string]int
}

func countBindings(proxy *harness.APIProxy, rule func(*http.Request) harness.Delay) *bindingCount {
	c := &bindingCount{of: map[string]int{}}
	proxy.Slow(func(r *http.Request) harness.Delay {
		if !harness.IsBinding(r, "") {
			return harness.Delay{}
		}
		c.mutex.Lock()
		c.of[r.URL.Path]++
		c.mutex.Unlock()
		return rule(r)
	})
	return c
}

func (c *bindingCount) all() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sum := 0
	for _, n := range c.of {
		sum += n
	}
	return sum
}

func (c *bindingCount) each(t *testing.T, pods, most int) {
	t.Helper()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var often []string
	for path, n := range c.of {
		if n > most {
			often = append(often, fmt.Sprintf("%s %d times", path, n))
		}
	}
	if len(often) > 0 {
		t.Errorf("%d Bindings were sent more than once: %.500s", len(often), strings.Join(often, ", "))
	}
	if len(c.of) != pods {
		t.Errorf("%d pods were sent a Binding, not %d", len(c.of), pods)
	}
}
