package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Sockets are the listening sockets of TCP, and the sockets of UDP, of a process: those that it was given, and those that it has opened. The zero value
// was given none. It is safe for concurrent use.
type Sockets struct {
	predecessor *Predecessor // nil if no process has started this one as its successor
	lock        *os.File     // of the data folder; nil if there is none

	mu    sync.Mutex
	given []*socket         // guarded by mu: in the order of their descriptors
	open  []syscall.RawConn // guarded by mu: of the sockets that were returned, also closed ones
}

// A socket is one that the process was given.
type socket struct {
	name string // of the service manager; empty if it is a predecessor's
	at   netip.AddrPort
	udp  bool // of UDP; otherwise it listens for connections of TCP
	file *os.File
	used bool // a listener has it
}

// Receive returns the sockets that this process was started with, and takes them out of its environment, so that processes
// that it starts do not take them for theirs. It fails if a socket is neither one of TCP that listens nor one of UDP.
func Receive() (*Sockets, error) {
	s := new(Sockets)
	if err := s.receivePredecessor(); err != nil {
		return nil, err
	}
	for _, file := range activation.Files(true) {
		one := &socket{name: file.Name(), file: file}
		if s.predecessor != nil {
			one.name = ""
		}
		if err := one.inspect(); err != nil {
			return nil, fmt.Errorf("socket %s of the service manager: %w; isr serve takes sockets of TCP, as ListenStream=127.0.0.1:8080 makes them, and of UDP for HTTP/3 (ListenDatagram=)", one.name, err)
		}
		s.given = append(s.given, one)
	}
	return s, nil
}

// inspect finds out of which protocol the socket is, and its address.
func (o *socket) inspect() error {
	raw, err := o.file.SyscallConn() // File.Fd would make the socket blocking, also for other processes
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var kind, listens int
		var address unix.Sockaddr
		if kind, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
			return
		}
		if listens, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil {
			return
		}
		if address, err = unix.Getsockname(int(fd)); err != nil {
			return
		}
		switch a := address.(type) {
		case *unix.SockaddrInet4:
			o.at = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)) //nolint:gosec // a port
		case *unix.SockaddrInet6:
			o.at = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)) //nolint:gosec // a port
		}
		o.udp = kind == unix.SOCK_DGRAM
		if listens == 0 && !o.udp || !o.at.IsValid() {
			err = errors.New("it does not listen for connections of TCP")
		}
	})
	return errors.Join(err, controlErr)
}

// Managed reports whether a service manager has given sockets to the process: they stay open when it ends.
func (s *Sockets) Managed() bool { return len(s.given) > 0 && s.predecessor == nil }

// Listen returns a listener at an address of TCP: on the socket that the process was given for it, or else on a new one.
// given reports which.
func (s *Sockets) Listen(ctx context.Context, address string) (l net.Listener, given bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.takeLocked(address, false, func(file *os.File) (err error) {
		l, err = net.FileListener(file)
		return err
	})
	given = l != nil
	if l == nil && err == nil {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err != nil {
		return nil, false, err
	}
	raw, err := l.(*net.TCPListener).SyscallConn() //nolint:forcetypeassert // of the network tcp
	if err != nil {
		return nil, false, errors.Join(err, l.Close())
	}
	s.open = append(s.open, raw)
	return l, given, nil
}

// ListenUDP returns a socket at an address of UDP: the one that the process was given for it, or else a new one. given reports
// which.
func (s *Sockets) ListenUDP(ctx context.Context, address string) (c *net.UDPConn, given bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found net.PacketConn
	err = s.takeLocked(address, true, func(file *os.File) (err error) {
		found, err = net.FilePacketConn(file)
		return err
	})
	given = found != nil
	if found == nil && err == nil {
		found, err = new(net.ListenConfig).ListenPacket(ctx, "udp", address)
	}
	if err != nil {
		return nil, false, err
	}
	c = found.(*net.UDPConn) //nolint:forcetypeassert // of the network udp
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, false, errors.Join(err, c.Close())
	}
	s.open = append(s.open, raw)
	return c, given, nil
}

// Again returns another listener on the socket of one that Listen has returned. Connections go to either of them; the socket stays
// open until both are closed.
func (s *Sockets) Again(l net.Listener) (net.Listener, error) {
	raw, err := l.(*net.TCPListener).SyscallConn() //nolint:forcetypeassert // of Listen
	if err != nil {
		return nil, err
	}
	fd, err := duplicate(raw)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), l.Addr().String())
	again, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	raw, err = again.(*net.TCPListener).SyscallConn() //nolint:forcetypeassert // of the same socket
	if err != nil {
		return nil, errors.Join(err, again.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, raw)
	return again, nil
}

// takeLocked calls use with the socket that was given for an address, if there is one. Callers must hold mu.
func (s *Sockets) takeLocked(address string, udp bool, use func(*os.File) error) error {
	if len(s.given) == 0 {
		return nil
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	for _, one := range s.given {
		if one.used || one.udp != udp || !sameAddress(at.AddrPort(), one.at) {
			continue
		}
		if err := use(one.file); err != nil {
			return fmt.Errorf("socket %s: %w", one, err)
		}
		one.used = true
		return one.file.Close()
	}
	return nil
}

// sameAddress reports whether a socket at an address accepts the connections to a configured address. A socket of :: has
// those of IPv4, too, as Linux does it.
func sameAddress(configured, socket netip.AddrPort) bool {
	a, b := configured.Addr().Unmap(), socket.Addr().Unmap()
	if configured.Port() != socket.Port() || configured.Port() == 0 {
		return false
	}
	if !a.IsValid() { // the address was only a port
		return b.IsUnspecified()
	}
	return a.WithZone("") == b.WithZone("") || a.IsUnspecified() && b.IsUnspecified()
}

// String names the socket as operators know it.
func (o *socket) String() string {
	at := o.at.String()
	if o.udp {
		at = "UDP " + at
	}
	if o.name == "" {
		return at
	}
	return o.name + " (" + at + ")"
}

// CheckUsed fails if a service manager has given a socket that no listener has used: its connections would wait forever.
// addresses are the configured ones. Sockets of a predecessor that no listener has used are closed: its configuration
// had another listener.
func (s *Sockets) CheckUsed(addresses []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unused []string
	for _, one := range s.given {
		switch {
		case one.used:
		case s.predecessor != nil || one.name == "":
			_ = one.file.Close()
			one.used = true
		default:
			unused = append(unused, one.String())
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return fmt.Errorf("the service manager has handed in the socket %s, which is no address of this server, whose addresses are %s; "+
		"make ListenStream= of the socket unit (systemctl edit isr.socket), with ListenDatagram= for listeners with http3, and the configuration the same",
		strings.Join(unused, ", "), strings.Join(addresses, ", "))
}

// duplicate returns duplicates of the descriptors of the open listeners.
func (s *Sockets) duplicate() (fds []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			closeAll(fds)
		}
	}()
	for _, raw := range s.open {
		fd, err := duplicate(raw)
		switch {
		case errors.Is(err, net.ErrClosed):
		case err != nil:
			return fds, err
		default:
			fds = append(fds, fd)
		}
	}
	return slices.Clip(fds), nil
}

// duplicate returns a duplicate of a descriptor that processes do not inherit unless they are given it.
func duplicate(raw syscall.RawConn) (fd int, err error) {
	controlErr := raw.Control(func(from uintptr) { fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(controlErr, err)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
