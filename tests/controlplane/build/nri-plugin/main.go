// nri-plugin is the other NRI plugin on a node of the tests: it does to a container what the pod's annotations say.
//
//	plugin.milligpu.test/cdi   DEVICE,...   adds these CDI devices
//	plugin.milligpu.test/env   NAME=VALUE   sets this variable
//	plugin.milligpu.test/does  hang | die   never answers, or ends in the middle of the request
//
// With the flags of milligpu-node, it is a stand-in for that agent instead (standin.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

const annotation = "plugin.milligpu.test/"

type other struct{}

// Synchronize comes when the runtime has accepted us: the tests wait for the line.
func (other) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	log.Print("connected")
	return nil, nil
}

func (other) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (
	*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	wish := func(key string) string { return pod.GetAnnotations()[annotation+key] }
	switch wish("does") {
	case "hang":
		log.Printf("hangs in %s of %s", container.GetName(), pod.GetName())
		select {}
	case "die":
		log.Printf("dies in %s of %s", container.GetName(), pod.GetName())
		os.Exit(1)
	}
	adjustment := &api.ContainerAdjustment{}
	for _, device := range strings.Split(wish("cdi"), ",") {
		if device != "" {
			adjustment.AddCDIDevice(&api.CDIDevice{Name: device})
		}
	}
	if name, value, ok := strings.Cut(wish("env"), "="); ok {
		adjustment.AddEnv(name, value)
	}
	return adjustment, nil, nil
}

// serve connects again whenever the runtime ends the connection, until somebody ends us.
func serve(plugin any, socket, name, index string) {
	for ; ; time.Sleep(200 * time.Millisecond) {
		s, err := stub.New(plugin, stub.WithSocketPath(socket), stub.WithPluginName(name),
			stub.WithPluginIdx(index), stub.WithOnClose(func() {}))
		if err == nil {
			err = s.Run(context.Background())
		}
		log.Printf("the connection has ended: %v", err)
	}
}

func main() {
	socket := flag.String("nri-socket", "", "socket of the runtime")
	index := flag.String("index", "30", "two digits: the order among plugins")
	agent := agentFlags()
	flag.Parse()
	if *socket == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: nri-plugin --nri-socket SOCKET [--index NN]")
		os.Exit(2)
	}
	if agent.node != "" {
		agent.serve(*socket)
	}
	serve(other{}, *socket, "other", *index)
}
