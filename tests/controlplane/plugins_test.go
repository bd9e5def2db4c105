package tests

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

/* how containerd says that a plugin is gone which it has asked about a container, and that one could not validate it */
const (
	closesPlugin = "closing plugin 20-milligpu, failed to handle CreateContainer request: "
	notValidated = "validator plugin 20-milligpu failed"
)

// containerdSays returns a function for what containerd has logged since now.
func (g *gpuNode) containerdSays() func() string {
	g.Helper()
	read := func() string {
		text, err := os.ReadFile(g.n.Containerd().Log)
		g.check(err)
		return string(text)
	}
	before := len(read())
	return func() string { return read()[before:] }
}

// in is the same node in a subtest.
func (g *gpuNode) in(t *testing.T) *gpuNode {
	node, f := *g, *g.fixture
	f.T = t
	node.fixture = &f
	return &node
}

// answer is how a plugin answers, and what containerd makes of it for a pod that requires the plugin.
type answer struct {
	sentence, does string
	validates      bool
	refusal        string /* "": the container is created */
	gpus           int    /* that it has then */
	closed         bool   /* the connection */
}

// The plugin is what milligpu-node is not. That a pod requires it is not enough, so our agent also validates; and it sends
// no frame of more than 4096 bytes (tests/unit/nri/test_mux.c). What happens when ours hangs or dies is in node_test.go.
var whileRequired = []answer{
	{sentence: "sends 6 kB in several frames: the container has its GPUs", does: "frames", validates: true, gpus: 2},
	{sentence: "sends rubbish: there is no container, and the connection stays", does: "rubbish",
		refusal: "cannot parse invalid wire-format data"},
	{sentence: "sends 6 kB in one frame: the container runs without its GPUs", does: "frame", closed: true},
	{sentence: "dies in the question: the container runs without its GPUs", does: "die", closed: true},
	{sentence: "hangs in the question: the container runs without its GPUs", does: "hang", closed: true},
	{sentence: "sends 6 kB in one frame, but validates: there is no container", does: "frame", validates: true,
		refusal: notValidated, closed: true},
	{sentence: "dies in the question, but validates: there is no container", does: "die", validates: true,
		refusal: notValidated, closed: true},
}

var withoutValidator = []answer{
	{sentence: "is not required, and sends 6 kB in one frame: the container runs without its GPUs", does: "frame",
		closed: true},
	{sentence: "is not required, and dies in the question: the container runs without its GPUs", does: "die",
		closed: true},
	{sentence: "is not required, and hangs in the question: the container runs without its GPUs", does: "hang",
		closed: true},
}

func TestAPluginThat(t *testing.T) {
	g := gpuNodeWithoutAgent(t)
	g.open = true
	for _, a := range whileRequired {
		t.Run(a.sentence, func(t *testing.T) { g.in(t).answers(a) })
	}
	g.check(g.n.Validate(false))
	for _, a := range withoutValidator {
		t.Run(a.sentence, func(t *testing.T) { g.in(t).answers(a) })
	}
}

func (g *gpuNode) answers(a answer) {
	says := g.containerdSays()
	plugin := func(args ...string) { g.check(g.n.StartPlugin("milligpu", append(args, "--index", "20")...)) }
	plugin("--does", a.does, fmt.Sprint("--validates=", a.validates))
	name := fmt.Sprint("pod-", len(g.due))
	uid := g.place(annotate(annotate(g.simple(name, 20), "milligpu.io/gpu-count", "2"),
		"milligpu.milligpu.test/cdi", "nvidia.com/gpu=all"))
	if a.refusal != "" {
		g.until(soon, func() (bool, string) { return strings.Contains(says(), a.refusal), says() })
		if g.starts(uid, "main") > 0 {
			g.Error("the container has started")
		}
	} else {
		g.ran(uid, "main", 1)
		if gpus := g.sightsOf(uid, "main")[0].gpus; len(gpus) != a.gpus {
			g.Errorf("the container has the GPUs %v", gpus)
		}
	}
	/* on a busy machine, any answer may come too late */
	text := says()
	closed, late := strings.Count(text, closesPlugin), strings.Count(text, closesPlugin+"context deadline exceeded")
	if a.closed && closed == 0 || !a.closed && closed > late {
		g.Errorf("containerd has closed the connection %d times, %d of them for a late answer:\n%s", closed, late, text)
	}
	if a.refusal != "" {
		plugin() /* which answers as it should, or the pod would be its end, too */
		g.ran(uid, "main", 1)
	}
}

func TestWhereForeignGPUsAreAllowedTwoPluginsEachAddOneToAPodWithoutAShare(t *testing.T) {
	g := gpuNodeWithoutAgent(t)
	g.check(g.n.StartAgent("--foreign-gpus=allow"))
	g.check(g.n.StartPlugin("other"))
	g.check(g.n.StartPlugin("third", "--index", "31"))
	uid := g.place(annotate(annotate(g.simple("plain", 0), "other.milligpu.test/cdi", "nvidia.com/gpu="+gpuIDs[0]),
		"third.milligpu.test/cdi", "nvidia.com/gpu="+gpuIDs[1]))
	g.due[uid]["main"] = slices.Clone(gpuIDs)
	g.ran(uid, "main", 1)
	ours := g.place(annotate(g.simple("ours", 300), "other.milligpu.test/cdi", "nvidia.com/gpu=all"))
	g.notCreated("ours", "nvidia.com/gpu=all")
	if g.starts(ours, "main") > 0 {
		t.Error("the container has started")
	}
}
