// nri-plugin is another NRI plugin on a node of the tests: it does to a container what the pod's annotations say, of
// those that begin with its own name (--name):
//
//	other.milligpu.test/cdi   DEVICE,...   adds these CDI devices
//	other.milligpu.test/env   NAME=VALUE   sets this variable
//	other.milligpu.test/node  PATH MAJOR MINOR   adds this character device
//	other.milligpu.test/rule  MAJOR MINOR        lets the container open this character device
//
// With --validates, it subscribes to ValidateContainerAdjustment, and agrees with everything. --does says what it does
// instead of a good answer when it is asked about a container:
//
//	hang      never answers
//	die       ends in the middle of the request
//	rubbish   answers with bytes that are no protobuf
//	frame     answers with 6 kB more, in one frame of the multiplexer
//	frames    answers the same in several frames, which is good
//
// With the flags of milligpu-node, it is a stand-in for that agent instead (standin.go).
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type other struct{ name, does string }

// Synchronize comes when the runtime has accepted us: the tests wait for the line.
func (*other) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	log.Print("connected")
	return nil, nil
}

func (o *other) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (
	*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	log.Printf("%s is asked about %s of %s, does: %s", o.name, container.GetName(), pod.GetName(), o.does)
	adjustment := &api.ContainerAdjustment{}
	switch o.does {
	case "hang":
		select {}
	case "die":
		os.Exit(1)
	case "rubbish":
		adjustment.ProtoReflect().SetUnknown([]byte("rubbish")) /* it is sent as it is */
	case "frame", "frames":
		adjustment.AddEnv("LONG", strings.Repeat("x", 6000))
	}
	wish := func(key string) string { return pod.GetAnnotations()[o.name+".milligpu.test/"+key] }
	for _, device := range strings.Split(wish("cdi"), ",") {
		if device != "" {
			adjustment.AddCDIDevice(&api.CDIDevice{Name: device})
		}
	}
	if name, value, ok := strings.Cut(wish("env"), "="); ok {
		adjustment.AddEnv(name, value)
	}
	addDevices(adjustment, wish("node"), wish("rule"))
	return adjustment, nil, nil
}

func addDevices(adjustment *api.ContainerAdjustment, node, rule string) {
	var path string
	var major, minor int64
	if n, _ := fmt.Sscanf(node, "%s %d %d", &path, &major, &minor); n == 3 {
		adjustment.AddDevice(&api.LinuxDevice{Path: path, Type: "c", Major: major, Minor: minor})
	}
	if n, _ := fmt.Sscanf(rule, "%d %d", &major, &minor); n == 2 {
		adjustment.Linux = &api.LinuxContainerAdjustment{Resources: &api.LinuxResources{
			Devices: []*api.LinuxDeviceCgroup{{Allow: true, Type: "c", Major: api.Int64(major),
				Minor: api.Int64(minor), Access: "rwm"}}}}
	}
}

// validating is subscribed to one event more, since it has the method.
type validating struct{ *other }

func (validating) ValidateContainerAdjustment(context.Context, *api.ValidateContainerAdjustmentRequest) error {
	return nil
}

// oneFrame is the connection to the runtime. The multiplexer writes a header and what it announces, in turn; we send
// each message in one frame, however long it is.
type oneFrame struct {
	net.Conn
	header   []byte            /* of the frame that is written now */
	messages map[uint32][]byte /* what there is of the message of each connection */
}

func (c *oneFrame) Write(p []byte) (int, error) {
	if c.header == nil {
		c.header = append([]byte{}, p...)
		return len(p), nil
	}
	header, id := c.header, binary.BigEndian.Uint32(c.header)
	c.header = nil
	message := append(c.messages[id], p...)
	c.messages[id] = message
	if len(message) < 10+int(binary.BigEndian.Uint32(message)) { /* ttrpc's header, and what it announces */
		return len(p), nil
	}
	delete(c.messages, id)
	binary.BigEndian.PutUint32(header[4:], uint32(len(message)))
	_, err := c.Conn.Write(append(header, message...))
	return len(p), err
}

func dialForOneFrame(socket string) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	return &oneFrame{Conn: conn, messages: map[uint32][]byte{}}, err
}

// serve connects again whenever the runtime ends the connection, until somebody ends us.
func serve(plugin any, socket, name, index string, options ...stub.Option) {
	options = append(options, stub.WithSocketPath(socket), stub.WithPluginName(name), stub.WithPluginIdx(index),
		stub.WithOnClose(func() {}))
	for ; ; time.Sleep(200 * time.Millisecond) {
		s, err := stub.New(plugin, options...)
		if err == nil {
			err = s.Run(context.Background())
		}
		log.Printf("the connection has ended: %v", err)
	}
}

func main() {
	socket := flag.String("nri-socket", "", "socket of the runtime")
	index := flag.String("index", "30", "two digits: the order among plugins")
	validates := flag.Bool("validates", false, "subscribe to ValidateContainerAdjustment")
	o := &other{}
	flag.StringVar(&o.name, "name", "other", "name of the plugin")
	flag.StringVar(&o.does, "does", "", "hang, die, rubbish, frame or frames")
	agent := agentFlags()
	flag.Parse()
	if *socket == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: nri-plugin --nri-socket SOCKET [--name NAME] [--index NN] [--validates] "+
			"[--does WHAT]")
		os.Exit(2)
	}
	var options []stub.Option
	if o.does == "frame" {
		options = append(options, stub.WithDialer(dialForOneFrame))
	}
	switch {
	case agent.node != "":
		agent.serve(*socket)
	case *validates:
		serve(validating{o}, *socket, o.name, *index, options...)
	default:
		serve(o, *socket, o.name, *index, options...)
	}
}
