// cri-client asks the container runtime for many containers in the sandbox of a pod, which it does not start. It writes one
// line for each: "created NAME" or "refused NAME: WHY".
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

/* the labels by which kubelet knows a pod and its containers */
const (
	labelUID       = "io.kubernetes.pod.uid"
	labelPod       = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelContainer = "io.kubernetes.container.name"
)

type creator struct {
	runtime  cri.RuntimeServiceClient
	sandbox  *cri.PodSandbox
	image    string
	variable string
	logs     string
}

// find returns the one sandbox of the pod that runs.
func find(ctx context.Context, runtime cri.RuntimeServiceClient, uid string) (*cri.PodSandbox, error) {
	answer, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		State:         &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{labelUID: uid}}})
	if err != nil {
		return nil, err
	}
	if len(answer.GetItems()) != 1 {
		return nil, fmt.Errorf("pod %s has %d sandboxes that run", uid, len(answer.GetItems()))
	}
	return answer.GetItems()[0], nil
}

// create asks for a container as kubelet does, with the variable NVIDIA_VISIBLE_DEVICES. The folder of its logs must be
// told: when kubelet removes a container, it removes all files whose path begins with that of its log, so for one without
// a log those of the folder in which kubelet runs.
func (c *creator) create(ctx context.Context, name string) error {
	pod := c.sandbox.GetMetadata()
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name},
		Image:    &cri.ImageSpec{Image: c.image},
		Command:  []string{"/bin/true"},
		Envs:     []*cri.KeyValue{{Key: "NVIDIA_VISIBLE_DEVICES", Value: []byte(c.variable)}},
		Labels: map[string]string{labelUID: pod.GetUid(), labelPod: pod.GetName(), labelNamespace: pod.GetNamespace(),
			labelContainer: name},
		LogPath: filepath.Join(name, "0.log"),
		Linux:   &cri.LinuxContainerConfig{},
	}
	_, err := c.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: c.sandbox.GetId(), Config: config,
		SandboxConfig: &cri.PodSandboxConfig{Metadata: pod, Labels: c.sandbox.GetLabels(),
			LogDirectory: filepath.Join(c.logs, pod.GetNamespace()+"_"+pod.GetName()+"_"+pod.GetUid()),
			Annotations:  c.sandbox.GetAnnotations(), Linux: &cri.LinuxPodSandboxConfig{}}})
	return err
}

func (c *creator) run(ctx context.Context, socket, uid, prefix string, count int) error {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	c.runtime = cri.NewRuntimeServiceClient(connection)
	if c.sandbox, err = find(ctx, c.runtime, uid); err != nil {
		return err
	}
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if err := c.create(ctx, name); err != nil {
			fmt.Printf("refused %s: %s\n", name, status.Convert(err).Message())
			continue
		}
		fmt.Printf("created %s\n", name)
	}
	return nil
}

func main() {
	c := &creator{}
	socket := flag.String("socket", "", "the runtime's socket")
	uid := flag.String("pod", "", "the uid of a pod that runs")
	prefix := flag.String("prefix", "many", "with what the names of the containers begin")
	count := flag.Int("count", 1, "how many containers")
	limit := flag.Duration("timeout", 2*time.Minute, "for all of them")
	flag.StringVar(&c.logs, "logs", "", "kubelet's podLogsDir")
	flag.StringVar(&c.image, "image", "", "their image, which the runtime has")
	flag.StringVar(&c.variable, "variable", "", "their NVIDIA_VISIBLE_DEVICES")
	flag.Parse()
	if *socket == "" || *uid == "" || c.image == "" || c.logs == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: cri-client --socket PATH --pod UID --image IMAGE --logs DIR [--variable GPUS] "+
			"[--prefix NAME] [--count N] [--timeout TIME]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := c.run(ctx, *socket, *uid, *prefix, *count); err != nil {
		log.Fatal(err)
	}
}
