package http3

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/facetheory/isr/internal/backoff"
)

// A Config configures a [Server]. All fields are required.
type Config struct {
	// TLS is the configuration of handshakes, whose NextProtos are "h3".
	TLS *tls.Config
	// Handler serves the requests. Writes of responses to clients that do not read must end: see [http.ResponseController].
	Handler http.Handler
	// Context returns the context of the requests of a connection.
	Context func(context.Context) context.Context
	// Peer returns whose a connection is.
	Peer Peer
	// Limits limit the connections.
	Limits *Limits
	// HeaderBytes bounds the head of a request.
	HeaderBytes int
	// Streams is how many requests a client may have open on a connection.
	Streams int64
	// StreamWindow and ConnectionWindow are how many bytes of a body, and of all on a connection, are buffered before they are read.
	StreamWindow, ConnectionWindow uint64
	// HeaderTime bounds handshakes, and the wait for the end of a request without a body.
	HeaderTime time.Duration
	// IdleTime is how long a connection may have no request that is being served. It bounds heads that do not become complete, too.
	IdleTime time.Duration
	// Requests, if not nil, counts requests.
	Requests *atomic.Int64
	// Log receives panics of the handler, and failures.
	Log *slog.Logger
}

// A Server serves HTTP/3 at a socket.
type Server struct {
	cfg    Config
	socket *Socket
	early  *quic.EarlyListener
	http   *http3.Server
	served chan struct{} // closed once it accepts no more connections

	running atomic.Int64 // requests that are being served
}

// Serve begins to serve at a socket: the new connections are those of this server, and no longer those of the one before. The
// caller must call Stop.
func (s *Socket) Serve(cfg Config) (*Server, error) {
	server := &Server{cfg: cfg, socket: s, served: make(chan struct{})}
	server.http = &http3.Server{
		Handler: http.HandlerFunc(server.serveRequest), MaxHeaderBytes: cfg.HeaderBytes, ConnContext: server.begin,
	}
	var err error
	server.early, err = s.listen(server, http3.ConfigureTLSConfig(cfg.TLS), &quic.Config{
		HandshakeIdleTimeout: cfg.HeaderTime / 2, MaxIdleTimeout: cfg.IdleTime, Allow0RTT: true,
		KeepAlivePeriod:    cfg.IdleTime / 2, // while a page is rendered for long, some clients send nothing
		MaxIncomingStreams: cfg.Streams, MaxIncomingUniStreams: uniStreams,
		InitialStreamReceiveWindow: cfg.StreamWindow, MaxStreamReceiveWindow: cfg.StreamWindow,
		InitialConnectionReceiveWindow: cfg.ConnectionWindow, MaxConnectionReceiveWindow: cfg.ConnectionWindow,
	}, cfg.Log)
	if err != nil {
		return nil, err
	}
	s.Share()
	go func() {
		defer close(server.served)
		_ = server.http.ServeListener(server.early) // until it is closed
	}()
	return server, nil
}

// uniStreams is how many streams a client may have beside those of requests: for control and the table of header fields, three, and a few
// that are to be ignored (RFC 9114, section 6.2).
const uniStreams = 8

// connectionKey is the context key of a *connection.
type connectionKey struct{}

// A connection is one of a client.
type connection struct {
	quic *quic.Conn
	idle *time.Timer // closes the connection

	mu      sync.Mutex
	running int // guarded by mu: requests that are being served
}

// begin returns the context of the requests of a new connection.
func (s *Server) begin(ctx context.Context, q *quic.Conn) context.Context {
	c := &connection{quic: q}
	c.idle = time.AfterFunc(s.cfg.IdleTime, c.closeIdle)
	context.AfterFunc(q.Context(), func() { c.idle.Stop() })
	if a, ok := q.Context().Value(admissionKey{}).(*admission); ok {
		go func() {
			select {
			case <-q.HandshakeComplete():
				a.verify()
			case <-q.Context().Done():
			}
		}()
	}
	return context.WithValue(s.cfg.Context(ctx), connectionKey{}, c)
}

// enter notes that a request is being served.
func (c *connection) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.idle.Stop()
}

func (c *connection) leave(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 && c.quic.Context().Err() == nil {
		c.idle.Reset(idle)
	}
}

// closeIdle closes the connection unless a request has just come.
func (c *connection) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == 0 {
		_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "idle")
	}
}

// StopAccepting accepts no more connections. Those that are not accepted yet are refused, unless another server follows, to which
// their clients connect again.
func (s *Server) StopAccepting() {
	_ = s.early.Close()
	<-s.served
}

// lastPackets is how long a connection stays open after the last request was served, for packets that were lost, unless its client closes it.
const lastPackets = time.Second

// Stop accepts no more connections and requests, which clients are told (GOAWAY, RFC 9114, section 5.2), lets those in flight finish until ctx
// is done, and closes the connections. Call it once.
func (s *Server) Stop(ctx context.Context) {
	s.StopAccepting() // or the server of quic-go could count a connection that comes while it ends
	closing, closeAll := context.WithCancel(context.WithoutCancel(ctx))
	defer closeAll()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.http.Shutdown(closing) // the error is that of closing
	}()
	s.awaitEnd(ctx, closed)
	closeAll()
	select {
	case <-closed:
	case <-time.After(lastPackets): // a handler does not return
	}
	s.socket.Release()
}

// awaitEnd waits until clients have closed all connections, or have had the time to receive what was sent.
func (s *Server) awaitEnd(ctx context.Context, closed <-chan struct{}) {
	quiet := time.Now() // since when no request is being served
	for time.Since(quiet) < lastPackets {
		select {
		case <-closed:
			return
		default:
		}
		if backoff.Wait(ctx, 5*time.Millisecond) != nil {
			if n := s.running.Load(); n > 0 {
				s.cfg.Log.Warn("requests canceled at shutdown", "protocol", "HTTP/3", "requests", n)
			}
			return
		}
		if s.running.Load() > 0 {
			quiet = time.Now()
		}
	}
}
