package http3

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

// A Socket is a socket of UDP, of which one server after the other has the new connections. The connections of previous servers go
// on, since they cannot change their socket. It is safe for concurrent use.
type Socket struct {
	conn      *net.UDPConn
	transport quic.Transport
	current   atomic.Pointer[Server] // which new connections are for; nil before the first

	mu    sync.Mutex
	users int                 // guarded by mu: the owner, and servers
	early *quic.EarlyListener // guarded by mu: of the current server; nil before the first
}

// NewSocket returns a socket at which nothing is served yet: what arrives waits in the buffer of the system. The caller must call
// Release.
func NewSocket(conn *net.UDPConn) *Socket {
	s := &Socket{conn: conn, users: 1}
	key := new(quic.StatelessResetKey)
	_, _ = rand.Read(key[:]) // never fails
	s.transport = quic.Transport{Conn: conn, StatelessResetKey: key, VerifySourceAddress: s.suspicious, ConnContext: s.admit}
	return s
}

// Addr returns the address of the socket.
func (s *Socket) Addr() net.Addr { return s.conn.LocalAddr() }

// Share returns the socket for one more owner, who must call Release.
func (s *Socket) Share() *Socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	return s
}

// Release closes the socket, and the connections that are left, once all owners have released it.
func (s *Socket) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	if s.early != nil {
		_ = s.transport.Close()
	}
	_ = s.conn.Close()
}

// wantedBuffer is how many bytes quic-go asks the system to buffer for a socket.
const wantedBuffer = 7 << 20

// listen has new connections accepted for a server, and no longer for the one before.
func (s *Socket) listen(server *Server, config *tls.Config, with *quic.Config, log *slog.Logger) (*quic.EarlyListener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.early == nil
	if first {
		// Its warning names neither what suffers nor what to do, and the log has ours.
		_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	} else {
		_ = s.early.Close() // also if its server has closed it
	}
	s.current.Store(server)
	early, err := s.transport.ListenEarly(config, with)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP/3 on %s: %w", s.Addr(), err)
	}
	s.early = early
	if got, err := s.receiveBuffer(); first && err == nil && got < wantedBuffer {
		log.Warn("the system buffers few packets of UDP, and HTTP/3 will be slow under load; allow more: sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000",
			"listener", s.Addr().String(), "bytes", got, "wanted", wantedBuffer)
	}
	return early, nil
}

// receiveBuffer returns how many bytes of packets the system buffers.
func (s *Socket) receiveBuffer() (n int, err error) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		n, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF) //nolint:gosec // a descriptor
	})
	return n, errors.Join(err, controlErr)
}

// suspicious reports whether a client has to confirm its address before it gets a connection.
func (s *Socket) suspicious(from net.Addr) bool {
	server := s.current.Load()
	client, _ := server.cfg.Peer(from)
	return server.cfg.Limits.suspicious(client)
}

// admissionKey is the context key of a connection's *admission.
type admissionKey struct{}

// admit counts a new connection until its context is done. It fails if there are too many.
func (s *Socket) admit(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	server := s.current.Load()
	client, limited := server.cfg.Peer(info.RemoteAddr)
	a, err := server.cfg.Limits.admit(client, limited, info.AddrVerified)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, a.release)
	return context.WithValue(ctx, admissionKey{}, a), nil
}
