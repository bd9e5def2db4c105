package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/nri/pkg/api"
)

// agent does what the tests ask of milligpu-node, without signatures and in the shortest way: with it, the tests
// themselves can be tested, and a failure can be told from one of the node.
type agent struct{ node, stateDir, probe, portFile string }

func agentFlags() *agent {
	a := &agent{}
	flag.StringVar(&a.node, "node", "", "be a stand-in for milligpu-node on this node")
	flag.StringVar(&a.stateDir, "state-dir", "", "folder for the first allocation of each pod")
	flag.StringVar(&a.probe, "probe-listen", "127.0.0.1:0", "address of /readyz")
	flag.StringVar(&a.portFile, "port-file", "", "file for the address of /readyz")
	for _, name := range []string{"keys-dir", "cdi-dirs", "foreign-gpus", "kubeconfig", "nvml", "log-level"} {
		flag.String(name, "", "not used here")
	}
	return a
}

func (a *agent) serve(socket string) {
	listener, err := net.Listen("tcp", a.probe)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(a.portFile, []byte("probe "+listener.Addr().String()+"\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		os.Exit(0) /* an agent that is ended in order ends well */
	}()
	serve(a, socket, "milligpu", "20")
}

// allocation returns the first one that this node saw of the pod, and an error if it is not what the pod carries now.
func (a *agent) allocation(pod *api.PodSandbox) (string, error) {
	const key = "milligpu.io/allocation"
	carried, record := pod.GetAnnotations()[key], filepath.Join(a.stateDir, pod.GetUid())
	known, err := os.ReadFile(record)
	if errors.Is(err, os.ErrNotExist) && carried != "" {
		return carried, os.WriteFile(record, []byte(carried), 0o644)
	}
	if err == nil && string(known) != carried {
		return "", errors.New("annotation " + key + " was changed after the pod got its GPUs")
	}
	return carried, nil
}

// devices returns the CDI devices of a container's share; ours says whether the pod has any.
func (a *agent) devices(pod *api.PodSandbox, container *api.Container) (names []string, ours bool, err error) {
	text, err := a.allocation(pod)
	if err != nil || text == "" {
		return nil, false, err
	}
	var allocation struct {
		Containers map[string][]struct{ GPU string }
	}
	if err := json.Unmarshal([]byte(text), &allocation); err != nil {
		return nil, true, err
	}
	for _, share := range allocation.Containers[container.GetName()] {
		names = append(names, "nvidia.com/gpu="+share.GPU)
	}
	return names, true, nil
}

func (a *agent) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (
	*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	names, ours, err := a.devices(pod, container)
	if err != nil || !ours {
		return nil, nil, err
	}
	adjustment := &api.ContainerAdjustment{}
	adjustment.AddEnv("NVIDIA_VISIBLE_DEVICES", "void")
	for _, name := range names {
		adjustment.AddCDIDevice(&api.CDIDevice{Name: name})
	}
	return adjustment, nil, nil
}

func (a *agent) ValidateContainerAdjustment(_ context.Context, request *api.ValidateContainerAdjustmentRequest) error {
	names, ours, err := a.devices(request.GetPod(), request.GetContainer())
	if err != nil || !ours {
		return err
	}
	var added []string
	for _, device := range request.GetAdjust().GetCDIDevices() {
		added = append(added, device.GetName())
		if strings.Contains(device.GetName(), "/gpu=") && !slices.Contains(names, device.GetName()) {
			return fmt.Errorf("another NRI plugin gives it %s", device.GetName())
		}
	}
	for _, name := range names {
		if !slices.Contains(added, name) {
			return fmt.Errorf("it would run without its GPU %s", name)
		}
	}
	return nil
}
