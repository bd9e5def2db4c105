package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"milligpu.io/tests/controlplane/harness"
)

/* Paths and addresses that differ between this machine and a node: folders, the API server (there is no pod network that
 * leads to it), and the library that NVIDIA's runtime would bring into the container. All else of the component is as it is
 * shipped. */
const onThisMachine = `patches:
- patch: |
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: milligpu-node, namespace: milligpu-node}
    spec:
      template:
        spec:
          hostNetwork: true
          containers:
          - name: milligpu-node
            args: ["--probe-listen=127.0.0.1:%[1]d", --nvml=/driver/libnvidia-ml.so.1, --inventory-s=1]
            env:
            - {name: KUBERNETES_SERVICE_HOST, value: 127.0.0.1}
            - {name: KUBERNETES_SERVICE_PORT, value: "%[2]s"}
            - {name: FAKE_NVML, value: /driver/driver}
            volumeMounts:
            - {name: driver, mountPath: /driver, readOnly: true}
          volumes:
          - {name: nri, hostPath: {path: "%[3]s"}}
          - {name: etc-cdi, hostPath: {path: "%[4]s"}}
          - {name: run-cdi, hostPath: {path: "%[4]s"}}
          - {name: state, hostPath: {path: "%[5]s"}}
          - {name: driver, hostPath: {path: "%[6]s"}}
- target: {kind: DaemonSet}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/ports/0/containerPort, value: %[1]d}
`

/* as the GPU operator has it */
const runtimeClass = `apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
`

/* the user that the token of their account is */
const agentsAccount = "system:serviceaccount:" + agents + ":" + agents

// managed is bare in a cluster of its own, which has DaemonSets and accounts.
func managed(t *testing.T) *fixture {
	t.Helper()
	if err := shared.endNode(); err != nil { /* two kubelets would share a folder */
		t.Fatal(err)
	}
	f := bareIn(ownCluster(t, harness.StartManagedCluster), t)
	f.until(soon, func() (bool, string) {
		_, err := f.api.Get("/api/v1/namespaces/" + f.space + "/serviceaccounts/default")
		return err == nil, fmt.Sprint("the namespace has no account: ", err)
	})
	return f
}

// asDaemonSet is a node whose agent comes from the component node, as a user would apply it.
type asDaemonSet struct {
	*gpuNode
	documents string
}

func withDaemonSet(t *testing.T) asDaemonSet {
	t.Helper()
	needsAgent(t)
	if isStandIn() {
		t.Skip("the stand-in is no image")
	}
	f := managed(t)
	g := bareGPUNode(f)
	_, err := g.n.FakeNVML()
	g.check(err)
	nvml(filepath.Join(g.n.DriverDir, "driver")).says(g)
	program, err := harness.Program("milligpu-node", "MILLIGPU_NODE")
	g.check(err)
	g.check(g.n.ImportOwn("milligpu-node", program))
	g.patchNode("gpu-real", object{"labels": object{"nvidia.com/gpu.present": "true"}})
	d := asDaemonSet{g, g.componentNode()}
	g.kubectl(runtimeClass, "apply", "-f", "-")
	g.Cleanup(func() {
		if t.Failed() {
			t.Log(d.look())
		}
		/* the pods of a DaemonSet that is there come again */
		g.kubectl(d.documents, "delete", "--ignore-not-found", "-f", "-")
	})
	g.kubectl(d.documents, "apply", "-f", "-")
	f.d = f.daemon(f.w.URL, f.w.CAFile, "--keys-namespace", agents, "--key-wait-s", "2")
	f.startDaemon()
	return d
}

// componentNode renders the component for this machine. milligpud is not in it: it runs beside the cluster, as in all tests.
func (g *gpuNode) componentNode() string {
	g.Helper()
	ports, err := harness.FreePorts(1)
	g.check(err)
	server := g.w.URL[strings.LastIndex(g.w.URL, ":")+1:]
	out := g.renderChanged("components/node", fmt.Sprintf(onThisMachine, ports[0], server,
		filepath.Dir(g.n.NRISocket), g.n.CDIDir, g.n.StateDir, g.n.DriverDir))
	var own []string
	for _, document := range strings.Split(out, "\n---\n") {
		if strings.Contains(document, agents) && len(harness.OfKinds([]string{document}, "StatefulSet")) == 0 {
			own = append(own, document)
		}
	}
	return strings.Join(own, "\n---\n")
}

func (d asDaemonSet) look() string {
	out, err := d.w.Kubectl("", "-n", agents, "describe", "pods")
	text := fmt.Sprint("---- pods of the DaemonSet\n", out, err)
	list, _ := d.api.Get(harness.PodPath(agents, ""))
	for _, pod := range harness.Items(list, "items") {
		log, err := d.n.Output(agents, harness.Text(pod, "metadata", "name"), harness.Text(pod, "metadata", "uid"), agents)
		text += fmt.Sprint("---- log of the agent\n", log, err)
	}
	return text
}

// rolledOut waits until the DaemonSet's pod on the node is the new one, and is ready.
func (d asDaemonSet) rolledOut() {
	d.Helper()
	d.kubectl("", "-n", agents, "rollout", "status", "daemonset/milligpu-node", "--timeout=120s")
}

func TestTheAgentRunsFromItsImageAndItsDaemonSet(t *testing.T) {
	d := withDaemonSet(t)
	d.rolledOut()
	d.until(soon, func() (bool, string) {
		return d.gpus()["gpu-real "+gpuIDs[1]] != nil && d.reported() != "", "milligpud does not know the agent or its GPUs"
	})
	d.kubectlInPath()
	t.Setenv("KUBECONFIG", d.w.Kubeconfig)
	d.says(d.doctorOfNodes(), "ok ", "containerd://"+harness.ContainerdVersion()+", agent ", ", driver 570.1, CDI nvidia.com/gpu, ")
	first := d.place(d.simple("first", 300))
	d.ran(first, "main", 1)

	/* a new version of the agent, while a pod comes */
	d.kubectl("", "-n", agents, "set", "env", "daemonset/milligpu-node", "A=B")
	second := d.place(d.simple("second", 300))
	d.rolledOut()
	d.ran(second, "main", 1)
	d.startedOnce("first", first)

	/* a key that the agent learns of only by its mount */
	d.ctl("replace-key")
	d.until(soon, func() (bool, string) {
		said := d.ctl("keys")
		return strings.Count(said, "signing") == 1 && strings.Contains(said, "retiring"), said
	})
	d.ran(d.place(d.simple("third", 300)), "main", 1)
	d.consistent()
	d.nothingDenied(agentsAccount)

	/* the commands of docs/NODE.md */
	d.kubectl("", "delete", "namespace", agents)
	d.kubectl("", "delete", "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding",
		agents)
	d.kubectl("", "annotate", "nodes", "-l", "nvidia.com/gpu.present=true", "--overwrite",
		`milligpu.io/agent={"leaving":"uninstalled"}`, "milligpu.io/gpus-")
	if left := d.reported(); left != `{"leaving":"uninstalled"}` {
		t.Errorf("the node's agent is not uninstalled: %s", left)
	}
	d.startedOnce("first", first)
	d.startedOnce("second", second)
}
