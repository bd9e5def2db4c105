package harness

import (
	"io"
	"net"
	"os"
	"strings"
)

// Doorway makes the API server reachable for pods that have a network of their own: the node gets an address there, which
// kubelet's probes need too, and connections to the returned listener go on to the API server until it is closed. CNI's
// bridge plugin could give the address, but would make the whole machine a router (isGateway).
func (n *RealNode) Doorway() (net.Listener, error) {
	if _, err := os.Stat("/sys/class/net/" + n.bridge); os.IsNotExist(err) {
		if _, err := Run("ip", "link", "add", n.bridge, "type", "bridge"); err != nil {
			return nil, err
		}
	}
	for _, args := range []string{"address replace " + n.gateway + "/24 dev " + n.bridge, "link set " + n.bridge + " up"} {
		if _, err := Run("ip", strings.Fields(args)...); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(n.gateway, "0"))
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
