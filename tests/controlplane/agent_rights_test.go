package tests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

/* namespace and ServiceAccount of components/node have the same name */
const agents = "milligpu-node"

/* the sentences of the component's policy */
const (
	onlyTwo   = "milligpu-node writes milligpu.io/agent and milligpu.io/gpus only; this would change "
	otherNode = "milligpu-node of node node-a may not write to Node node-b"
	noNode    = "this token of milligpu-node was made for no node"
)

// agentRights applies components/node: the agents' account with its rights and its policy, and what milligpud gets.
func (f *fixture) agentRights() {
	f.Helper()
	f.rights("components/node", agents)
	f.apply("components/node")
	/* the API server learns of a role a moment later; a milligpud that is denied fails the test of the audit log */
	f.until(soon, func() (bool, string) {
		review, err := f.api.As(f.w.account.Token).Create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			object{"spec": object{"resourceAttributes": object{"verb": "patch", "resource": "configmaps",
				"namespace": agents, "name": "milligpu-keys"}}})
		f.check(err)
		allowed, _ := harness.At(review, "status", "allowed").(bool)
		return allowed, "milligpud has not got its role in " + agents
	})
}

// agentPod creates a pod of the agents' account on this node. Without a kubelet nothing runs in it.
func (f *fixture) agentPod(node string) object {
	f.Helper()
	pod := f.must(f.api.Create(harness.PodPath(agents, ""), object{"metadata": object{"generateName": "agent-"},
		"spec": object{"nodeName": node, "serviceAccountName": agents, "automountServiceAccountToken": false,
			"terminationGracePeriodSeconds": 0, "containers": []object{{"name": "main", "image": harness.Image,
				"command": []string{"/bin/sh", "-c", stay}}}}}))
	f.Cleanup(func() { f.check(f.api.Delete(harness.PodPath(agents, harness.Text(pod, "metadata", "name")), -1)) })
	return pod
}

// agentToken returns a token of the agents' account, and waits until RBAC and the policy act on it: nothing of that
// is written.
func (f *fixture) agentToken(pod object) string {
	f.Helper()
	token, err := f.w.Token(agents, agents, pod)
	f.check(err)
	f.until(soon, func() (bool, string) {
		_, err := f.api.As(token).Merge("/api/v1/nodes/"+nodeOf(pod)+"?dryRun=All", noted("example.com/probe", "1"))
		return err != nil && strings.Contains(err.Error(), onlyTwo), fmt.Sprint("the policy does not act: ", err)
	})
	return token
}

func noted(key string, value any) object {
	return object{"metadata": object{"annotations": object{key: value}}}
}

// deniedWith checks that an error is the API server's 403 with these words.
func (f *fixture) deniedWith(what string, err error, words string) {
	f.Helper()
	if harness.Code(err) != http.StatusForbidden || !strings.Contains(err.Error(), words) {
		f.Errorf("%s is not denied with %q: %v", what, words, err)
	}
}

/* what an agent has no business to write, and what the policy calls it */
var noneOfItsBusiness = []struct {
	patch object
	what  string
}{
	{object{"metadata": object{"labels": object{"nvidia.com/gpu.count": "9"}}}, "metadata.labels"},
	{object{"metadata": object{"labels": object{"there": nil}}}, "metadata.labels"},
	{object{"metadata": object{"finalizers": []string{"example.com/stays"}}}, "metadata.finalizers"},
	{object{"metadata": object{"ownerReferences": []object{{"apiVersion": "v1", "kind": "Pod", "name": "a",
		"uid": "b"}}}}, "metadata.ownerReferences"},
	{object{"spec": object{"unschedulable": true}}, "spec"},
	{object{"spec": object{"taints": []object{{"key": "a", "effect": "NoExecute"}}}}, "spec"},
	{object{"spec": object{"providerID": "cloud://another"}}, "spec"},
	{noted("milligpu.io/cordon", "all"), "the annotation milligpu.io/cordon"},
	{noted("milligpu.io/agents", "x"), "the annotation milligpu.io/agents"},
	{noted("there", "changed"), "the annotation there"},
	{noted("there", nil), "the annotation there"},
	{object{"metadata": object{"annotations": nil}}, "the annotation there"},
	{object{"metadata": object{"annotations": object{"milligpu.io/agent": "{}"},
		"labels": object{"more": "too"}}}, "metadata.labels"},
}

/* "none" is what somebody might write for no node, and a good name of one */
var nodeNames = []string{"node-a", "node-b", "none"}

// threeNodes have a label and an annotation of somebody else.
func threeNodes(t *testing.T) *fixture {
	t.Helper()
	f := bare(t)
	for _, node := range nodeNames {
		shape := oneNode(2)
		shape.Name = node
		f.addNode(shape)
		f.patchNode(node, object{"labels": object{"there": "before"}, "annotations": object{"there": "before"}})
	}
	return f
}

func (f *fixture) versions() string {
	f.Helper()
	var all []string
	for _, node := range harness.Items(f.must(f.api.Get("/api/v1/nodes")), "items") {
		all = append(all, harness.Text(node, "metadata", "name")+" "+harness.Text(node, "metadata", "resourceVersion"))
	}
	return strings.Join(all, ", ")
}

func TestAnAgentWritesTwoAnnotationsOfItsOwnNodeAndNothingElse(t *testing.T) {
	f := threeNodes(t)
	f.agentRights()
	agent := f.api.As(f.agentToken(f.agentPod("node-a")))
	two := object{"milligpu.io/agent": `{"v":1}`, "milligpu.io/gpus": "[]"}
	both := object{"metadata": object{"annotations": two}}
	f.must(agent.Merge("/api/v1/nodes/node-a", both))
	f.must(agent.Merge("/api/v1/nodes/node-a", noted("milligpu.io/agent", `{"v":1,"closed":true}`)))
	f.annotated("node-a", map[string]string{"there": "before", "milligpu.io/agent": `{"v":1,"closed":true}`,
		"milligpu.io/gpus": "[]"})

	before := f.versions()
	// A patch that changes nothing: the agent looks at its Node by the answer, and nothing is written.
	node := f.must(agent.Merge("/api/v1/nodes/node-a", object{}))
	if gpus := harness.Text(node, "metadata", "annotations", "milligpu.io/gpus"); gpus != "[]" {
		f.Errorf("the answer to an empty patch shows %q", gpus)
	}
	if now := f.versions(); now != before {
		f.Errorf("an empty patch wrote: %s, before %s", now, before)
	}
	for _, no := range noneOfItsBusiness {
		for _, kind := range []string{"application/merge-patch+json", "application/strategic-merge-patch+json"} {
			_, err := agent.Do("PATCH", "/api/v1/nodes/node-a", kind, no.patch)
			f.deniedWith(fmt.Sprint(no.patch), err, onlyTwo+no.what)
		}
	}
	_, err := agent.Do("PATCH", "/api/v1/nodes/node-a", "application/json-patch+json",
		`[{"op": "add", "path": "/metadata/labels/more", "value": "too"}]`)
	f.deniedWith("a JSON patch", err, onlyTwo+"metadata.labels")
	_, err = agent.Do("PATCH", "/api/v1/nodes/node-a?fieldManager=agent&force=true", "application/apply-patch+yaml",
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a","annotations":{"there":"mine"}}}`)
	f.deniedWith("server-side apply", err, onlyTwo+"the annotation there")
	for _, patch := range []object{both, noted("there", "changed"), {"spec": object{"unschedulable": true}}, {}} {
		_, err := agent.Merge("/api/v1/nodes/node-b", patch)
		f.deniedWith(fmt.Sprint(patch, " to node-b"), err, otherNode)
	}
	loose, err := f.w.Token(agents, agents, nil)
	f.check(err)
	for _, node := range nodeNames {
		for _, patch := range []object{both, noted("milligpu.io/agent", nil), noted("there", "changed"), {}} {
			_, err := f.api.As(loose).Merge("/api/v1/nodes/"+node, patch)
			f.deniedWith(fmt.Sprint(patch, " to ", node, " without a node"), err, noNode)
		}
	}
	if after := f.versions(); after != before {
		t.Errorf("something was written: %s, before %s", after, before)
	}
	f.must(agent.Merge("/api/v1/nodes/node-a", object{"metadata": object{"annotations": object{
		"milligpu.io/agent": nil, "milligpu.io/gpus": nil}}}))
	f.annotated("node-a", map[string]string{"there": "before"})
}

// annotated checks that a node has exactly these annotations.
func (f *fixture) annotated(node string, want map[string]string) {
	f.Helper()
	seen := harness.At(f.must(f.api.Get("/api/v1/nodes/"+node)), "metadata", "annotations")
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		f.Errorf("%s has the annotations %v instead of %v", node, seen, want)
	}
}

func TestAnAgentReadsNothingAndDeletesNothing(t *testing.T) {
	f := threeNodes(t)
	f.agentRights()
	agent := f.api.As(f.agentToken(f.agentPod("node-a")))
	for _, try := range []struct{ method, path, body string }{
		{"GET", "/api/v1/pods", ""},
		{"GET", "/api/v1/namespaces/" + agents + "/pods", ""},
		{"GET", "/api/v1/secrets", ""},
		{"GET", "/api/v1/namespaces/" + agents + "/secrets", ""},
		{"GET", "/api/v1/namespaces/" + agents + "/configmaps/milligpu-keys", ""},
		{"GET", "/api/v1/nodes", ""},
		{"GET", "/api/v1/nodes/node-a", ""},
		{"DELETE", "/api/v1/nodes/node-a", ""},
		{"POST", "/api/v1/nodes", `{"metadata":{"name":"node-c"}}`},
		{"PUT", "/api/v1/nodes/node-a", `{"metadata":{"name":"node-a"}}`},
		{"POST", "/api/v1/namespaces/" + agents + "/pods", `{"metadata":{"name":"a"}}`},
	} {
		_, err := agent.Do(try.method, try.path, "application/json", try.body)
		f.deniedWith(try.method+" "+try.path, err, `User "system:serviceaccount:milligpu-node:milligpu-node" cannot `)
	}
	for _, try := range []struct{ path, kind, body string }{
		{"/api/v1/nodes/node-a/status", "application/merge-patch+json", `{"status":{"phase":"a"}}`},
		{"/api/v1/namespaces/" + agents + "/configmaps/milligpu-keys", "application/merge-patch+json", `{"data":{}}`},
		{"/api/v1/nodes/node-c?fieldManager=agent", "application/apply-patch+yaml",
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-c"}}`},
	} {
		_, err := agent.Do("PATCH", try.path, try.kind, try.body)
		f.deniedWith("PATCH "+try.path, err, " cannot ")
	}
}

const statusToo = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: given-by-mistake}
rules: [{apiGroups: [""], resources: [nodes, nodes/status], verbs: [create, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: given-by-mistake}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: given-by-mistake}
subjects: [{kind: ServiceAccount, name: milligpu-node, namespace: milligpu-node}]
`

func TestThePolicyLimitsAnAgentThatWasGivenTheStatusOfNodesByMistake(t *testing.T) {
	f := threeNodes(t)
	f.agentRights()
	agent := f.api.As(f.agentToken(f.agentPod("node-a")))
	_, err := f.w.Kubectl(statusToo, "apply", "-f", "-")
	f.check(err)
	f.Cleanup(func() {
		_, err := f.w.Kubectl(statusToo, "delete", "-f", "-")
		f.check(err)
	})
	path := "/api/v1/nodes/node-a/status"
	f.until(soon, func() (bool, string) {
		_, err := agent.Merge(path+"?dryRun=All", object{"status": object{"phase": "probe"}})
		return err != nil && strings.Contains(err.Error(), onlyTwo+"status"), fmt.Sprint("not denied so: ", err)
	})
	before := f.versions()
	_, err = agent.Merge(path, object{"status": object{"capacity": object{harness.Resource: "9000"}}})
	f.deniedWith("a capacity", err, onlyTwo+"status")
	_, err = agent.Merge(path, object{"metadata": object{"labels": object{"more": "too"}}})
	f.deniedWith("a label by the status", err, onlyTwo+"metadata.labels")
	_, err = agent.Merge("/api/v1/nodes/node-b/status", object{"status": object{"phase": "a"}})
	f.deniedWith("the status of node-b", err, otherNode)
	_, err = agent.Create("/api/v1/nodes", object{"metadata": object{"name": "node-c"}})
	f.deniedWith("a new node", err, "may not write to Node node-c")
	full := f.must(f.api.Get("/api/v1/nodes/node-a"))
	harness.At(full, "metadata", "labels").(object)["more"] = "too"
	_, err = agent.Do("PUT", "/api/v1/nodes/node-a", "application/json", full)
	f.deniedWith("a PUT", err, onlyTwo+"metadata.labels")
	if after := f.versions(); after != before {
		t.Errorf("something was written: %s, before %s", after, before)
	}
}

// doctorOfNodes returns what `milligpuctl doctor --nodes` says of gpu-real, its status and its text.
func (g *gpuNode) doctorOfNodes() string {
	g.Helper()
	program, err := harness.Program("milligpuctl", "MILLIGPUCTL")
	g.check(err)
	/* exit status 1: something is to do */
	out, err := harness.Run(program, "doctor", "--nodes", "--kubeconfig", g.w.Kubeconfig)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) > 2 || !strings.Contains(lines[0], "gpu-real") {
		g.Fatalf("this should be about gpu-real: %s", out)
	}
	if fine := strings.HasPrefix(out, "ok ") || strings.HasPrefix(out, "WARNING "); fine != (err == nil) {
		g.Errorf("the exit status does not fit: %v\n%s", err, out)
	}
	return out
}

func TestAnAgentWithItsOwnAccountReportsItsNodeServesItsPodsAndIsUninstalled(t *testing.T) {
	needsAgent(t)
	if isStandIn() {
		t.Skip("the stand-in reports nothing")
	}
	f := bare(t)
	f.agentRights()
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--keys-namespace", agents)
	f.startDaemon()
	g := bareGPUNode(f)
	f.kubectlInPath()
	g.says(g.doctorOfNodes(), "FAILED", "no agent: the node takes no new shares where agents are needed")

	pod := g.agentPod("gpu-real")
	path := harness.PodPath(agents, harness.Text(pod, "metadata", "name"))
	var err error
	account := &harness.Account{Token: g.agentToken(pod)}
	g.n.AgentKubeconfig, err = account.Kubeconfig(f.w.Dir, "agent-"+f.space, f.w.URL, f.w.CAFile)
	g.check(err)
	g.n.KeysNamespace = agents
	g.until(soon, func() (bool, string) {
		said := g.ctl("doctor")
		return strings.Contains(said, "is published in ConfigMap milligpu-keys of namespace "+agents), said
	})
	g.says(g.ctl("doctor"), "grants all 12 needed permissions")
	g.check(g.n.StartAgent())
	g.until(soon, func() (bool, string) {
		return g.reported() != "", "the agent has not written milligpu.io/agent"
	})
	g.says(g.doctorOfNodes(), "FAILED", "its agent is gone")
	labels := object{"app.kubernetes.io/name": "milligpu", "app.kubernetes.io/component": "node"}
	g.must(g.api.Merge(path, object{"metadata": object{"labels": labels}}))
	g.until(soon, func() (bool, string) {
		said := g.doctorOfNodes()
		return strings.Contains(said, "the Node shows no GPU with a UUID"), said
	})
	g.showUUIDs() /* there is no NVML here, by which the agent would write them */
	said := g.doctorOfNodes()
	g.says(said, "WARNING", "its agent does not say which pod it is") /* it runs beside that pod, not in it */
	t.Log(said)

	uid := g.place(g.simple("pod", 300))
	if len(g.due[uid]["main"]) != 1 {
		t.Errorf("a pod of 300 gets %v", g.due[uid])
	}
	if requiredOf(g.pod("pod")) != requiresAgent {
		t.Error("its Binding does not require the agent that its node reported")
	}
	g.ran(uid, "main", 1) /* and at the end g.compare sees what it saw */

	g.n.Agent().Stop()
	g.check(g.n.Uninstall())
	if left := g.reported(); left != `{"leaving":"uninstalled"}` {
		t.Errorf("the node's agent is not uninstalled: %s", left)
	}
	g.startedOnce("pod", uid)
}

// reported returns what the agent wrote to its Node.
func (g *gpuNode) reported() string {
	return harness.Text(g.must(g.api.Get("/api/v1/nodes/gpu-real")), "metadata", "annotations", "milligpu.io/agent")
}
