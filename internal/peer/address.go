package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/facetheory/isr/store"
)

// CheckAddress checks the address of a process as its operator writes it: an IP address and a port, or a port alone,
// like :7946, for the private address of the machine.
func CheckAddress(text string) error {
	if strings.HasPrefix(text, ":") {
		text = "10.0.0.5" + text // any address: the form of the port is checked
	}
	_, err := store.ParsePeerAddress(text)
	return err
}

// ResolveAddress returns the address at which others reach this process. A port alone stands for the only private IPv4
// address among own, the addresses of the machine. Containers of ECS and pods have one, which is not known before they
// start.
func ResolveAddress(text string, own []net.Addr) (netip.AddrPort, error) {
	if err := CheckAddress(text); err != nil {
		return netip.AddrPort{}, err
	}
	port, alone := strings.CutPrefix(text, ":")
	if !alone {
		return store.ParsePeerAddress(text)
	}
	var private []string
	for _, address := range own {
		network, ok := address.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(network.IP); ok && ip.Unmap().Is4() && ip.Unmap().IsPrivate() {
			private = append(private, ip.Unmap().String())
		}
	}
	switch len(private) {
	case 0:
		return netip.AddrPort{}, errors.New("this machine has no private IPv4 address; give the IP address too, like 10.0.0.5:" + port)
	case 1:
		return store.ParsePeerAddress(private[0] + ":" + port)
	default:
		return netip.AddrPort{}, fmt.Errorf("this machine has several private addresses (%s); give the one that the other servers reach, like %s:%s",
			strings.Join(private, ", "), private[0], port)
	}
}
