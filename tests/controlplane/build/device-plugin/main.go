// device-plugin stands in for NVIDIA's device plugin: it offers whole GPUs to kubelet, by their UUIDs, and answers as
// that one does, with the CDI names of its strategy cdi-cri or with the variable of its strategy envvar.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	gpus     []string
	strategy string
	prefer   string
}

func (p *plugin) options() *api.DevicePluginOptions {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: p.prefer != ""}
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return p.options(), nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	list := &api.ListAndWatchResponse{}
	for _, gpu := range p.gpus {
		list.Devices = append(list.Devices, &api.Device{ID: gpu, Health: api.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	<-stream.Context().Done() /* nothing changes */
	return nil
}

// GetPreferredAllocation puts the preferred GPU before the others; kubelet follows it where it can.
func (p *plugin) GetPreferredAllocation(_ context.Context, ask *api.PreferredAllocationRequest) (
	*api.PreferredAllocationResponse, error) {
	answer := &api.PreferredAllocationResponse{}
	for _, c := range ask.GetContainerRequests() {
		all := append(slices.Clone(c.GetMustIncludeDeviceIDs()), p.prefer)
		all = append(all, c.GetAvailableDeviceIDs()...)
		var some []string
		for _, gpu := range all {
			if slices.Contains(c.GetAvailableDeviceIDs(), gpu) && !slices.Contains(some, gpu) &&
				len(some) < int(c.GetAllocationSize()) {
				some = append(some, gpu)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses,
			&api.ContainerPreferredAllocationResponse{DeviceIDs: some})
	}
	return answer, nil
}

func (p *plugin) Allocate(_ context.Context, ask *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, c := range ask.GetContainerRequests() {
		gpus := c.GetDevicesIds()
		log.Printf("allocates %s", strings.Join(gpus, ","))
		one := &api.ContainerAllocateResponse{}
		if p.strategy == "envvar" {
			one.Envs = map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(gpus, ",")}
		} else {
			for _, gpu := range gpus {
				one.CdiDevices = append(one.CdiDevices, &api.CDIDevice{Name: "nvidia.com/gpu=" + gpu})
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, one)
	}
	return answer, nil
}

func (p *plugin) register(resource, socket string) error {
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(kubelet).Register(ctx, &api.RegisterRequest{Version: api.Version,
		Endpoint: filepath.Base(socket), ResourceName: resource, Options: p.options()})
	return err
}

func (p *plugin) run(resource, socket string) error {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		server.Stop() /* removes the socket */
	}()
	failed := make(chan error, 1)
	go func() {
		if err := p.register(resource, socket); err != nil {
			failed <- err
			server.Stop()
			return
		}
		log.Printf("registered %s with %d GPUs", resource, len(p.gpus))
	}()
	if err := server.Serve(listener); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func main() {
	p := &plugin{}
	gpus := flag.String("gpus", "", "the UUIDs of the node's GPUs")
	flag.StringVar(&p.strategy, "strategy", "cdi-cri", "how a container gets its GPUs: cdi-cri or envvar")
	flag.StringVar(&p.prefer, "prefer", "", "the UUID of the GPU that is given before others; empty: kubelet chooses")
	flag.String("test-dir", "", "nothing but a mark: by it, whoever ends the processes of a test finds this one")
	resource := flag.String("resource", "nvidia.com/gpu", "what pods ask for")
	flag.Parse()
	if *gpus == "" || flag.NArg() > 0 || (p.strategy != "cdi-cri" && p.strategy != "envvar") {
		fmt.Fprintln(os.Stderr, "usage: device-plugin --gpus UUID,... [--strategy cdi-cri|envvar] [--prefer UUID]")
		os.Exit(2)
	}
	p.gpus = strings.Split(*gpus, ",")
	if err := p.run(*resource, filepath.Join(api.DevicePluginPath, "milligpu-test-gpu.sock")); err != nil {
		log.Fatal(err)
	}
}
