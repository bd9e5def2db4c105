package tests

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"milligpu.io/tests/controlplane/harness"
)

// newScheduler restarts kube-scheduler. After an outage, each of its many watches backs off on its own for
// up to half a minute. That is not what we test here, and would disturb the next tests.
func (f *fixture) newScheduler() {
	f.Helper()
	f.w.scheduler.Stop()
	f.check(f.w.startScheduler())
}

func TestPodsThatArriveWhileKubeAPIServerRestartsAreAllBound(t *testing.T) {
	f := start(t, harness.DemoNodes()...)
	for i := range 20 {
		f.create(harness.Simple(fmt.Sprintf("before%d", i), 200))
	}
	f.w.StopAPIServer()
	time.Sleep(time.Second)
	f.check(f.w.StartAPIServer())
	for i := range 20 {
		f.create(harness.Simple(fmt.Sprintf("after%d", i), 200))
	}
	f.untilBound(40)
	f.consistent()
	f.newScheduler()
}

func TestACutWatchIsTakenUpAgain(t *testing.T) {
	f, proxy := through(t, oneNode(1))
	f.place(harness.Simple("first", 900))
	if n := proxy.CutWatches(); n < 2 {
		t.Errorf("milligpud has %d watches open, pods and nodes are two", n)
	}
	f.delete("first", 0)
	f.place(harness.Simple("second", 900))
	f.addNode(harness.NodeShape{Name: "node-b", Milli: 1000, Product: "Tesla-T4", MiB: 16384})
	f.shows("node-b", "capacityMilli", 1000)
	f.consistent()
}

func TestChangesThatACompactionSwallowedAreFoundByANewList(t *testing.T) {
	f, proxy := through(t, oneNode(2))
	f.place(harness.Simple("ends", 900))
	f.place(harness.Simple("stays", 900))
	proxy.Decide(func(*http.Request) harness.Fate { return harness.LoseAsk })
	proxy.CutWatches()
	f.delete("ends", 0)
	f.addNode(harness.NodeShape{Name: "node-b", Milli: 1000, Product: "Tesla-T4", MiB: 16384})
	/* the restart empties the API server's cache of old versions, the compaction removes them from etcd */
	f.w.StopAPIServer()
	f.check(f.w.StartAPIServer())
	f.check(f.w.Compact())
	f.newScheduler()
	proxy.Decide(nil)
	f.until(soon, func() (bool, string) {
		return proxy.Gone() > 0, "milligpud was never told 410 Gone"
	})
	f.shows("node-b", "capacityMilli", 1000)
	f.shows("node-a", "usedMilli", 900)
	f.place(harness.Simple("next", 900))
	f.consistent()
}
