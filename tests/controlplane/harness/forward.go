package harness

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// Doorway gives the cluster's pods the Service `kubernetes`, as kube-proxy would: the node has its address, and connections to
// the returned listener go on to the API server until it is closed. The node also gets the address that kubelet's probes come
// from. CNI's bridge plugin could give that one, but would make the whole machine a router (isGateway).
func (n *RealNode) Doorway() (net.Listener, error) {
	if _, err := os.Stat("/sys/class/net/" + n.bridge); os.IsNotExist(err) {
		if _, err := Run("ip", "link", "add", n.bridge, "type", "bridge"); err != nil {
			return nil, err
		}
	}
	service := n.cluster.services + "1"
	/* without one of its own, a bridge has the address of one of its ports, and another one when pods come and go: pods then lose
	 * us for seconds */
	pid := os.Getpid()
	own := fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", pid>>24&255, pid>>16&255, pid>>8&255, pid&255)
	for _, args := range []string{"link set " + n.bridge + " address " + own, "address replace " + n.gateway + "/24 dev " + n.bridge,
		"address replace " + service + "/32 dev " + n.bridge, "link set " + n.bridge + " up"} {
		if _, err := Run("ip", strings.Fields(args)...); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(service, "443"))
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			one, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(one, strings.TrimPrefix(n.cluster.URL, "https://"))
		}
	}()
	return listener, nil
}

func forward(one net.Conn, to string) {
	defer one.Close()
	other, err := net.Dial("tcp4", to)
	if err != nil {
		return
	}
	defer other.Close()
	go func() {
		_, _ = io.Copy(other, one)
		other.Close()
	}()
	_, _ = io.Copy(one, other)
}
