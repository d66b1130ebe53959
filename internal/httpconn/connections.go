package httpconn

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ConnectionLimits are the limits of [Connections].
type ConnectionLimits struct {
	// Total is how many connections all clients may have. Zero or less means no limit.
	Total int
	// PerClient is how many connections one client may have. Zero or less means no limit.
	PerClient int
	// Buffers is the budget of the heads of requests that net/http receives: the bytes of a head beyond the first 8 KiB are
	// acquired, and released once the request has been served. If there is no room for them, the connection is
	// closed. It does not count the heads of HTTP/2. Nil means no limit.
	Buffers Buffers
	// Logger receives, at most once a minute each, that connections of a client are refused, and that connections
	// are closed since there are too many. Nil means slog.Default().
	Logger *slog.Logger
}

// Buffers is a budget of bytes that clients share. The zero Prefix is no client. It is safe for concurrent use.
type Buffers interface {
	// TryAcquire acquires n bytes for a client, and returns false if they are not free. It does not wait.
	TryAcquire(client netip.Prefix, n int64) bool
	// Release returns n bytes of a client.
	Release(client netip.Prefix, n int64)
}

// Connections limits how many connections clients have, on one or more listeners. A connection that waits for a request
// is closed to make room for a new one: that which has waited longest, of the client itself if it
// has as many as it may have, and otherwise of the client that has most. A connection waits from its beginning, or its last
// response, until the head of a request has been received. If none waits, or if the new connection is
// of the client that has most, the new connection is closed.
//
// It is safe for concurrent use.
type Connections struct {
	limits ConnectionLimits
	log    *slog.Logger

	mu         sync.Mutex
	clients    map[netip.Prefix]map[*coalescingConn]struct{} // guarded by mu; of clients that have connections
	count      int                                           // guarded by mu: connections in clients
	reclaimed  int64                                         // guarded by mu
	refused    int64                                         // guarded by mu
	complained [2]time.Time                                  // guarded by mu: when each warning was logged last
}

// The warnings.
const (
	warnClient = iota
	warnTotal
)

// A Peer returns the client of the address of a connection, and whether the limit of a client
// applies to it: not to a proxy, for example, whose connections are of many clients.
type Peer func(net.Addr) (client netip.Prefix, limited bool)

// NewConnections returns limits that no listener has yet.
func NewConnections(limits ConnectionLimits) *Connections {
	log := limits.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Connections{limits: limits, log: log, clients: make(map[netip.Prefix]map[*coalescingConn]struct{})}
}

// Limit limits the connections that a listener accepts from now on, which must be the one that
// [CoalesceWrites] has returned. If the server serves on a listener around it, such as one for TLS or the
// PROXY protocol, the address of a connection that peer does not limit is asked for again at its first request: by then a proxy
// has said whose it is. Limit sets the server's ConnState, which calls the previous one. Call it
// before the server serves.
func (k *Connections) Limit(s *http.Server, l net.Listener, peer Peer) {
	if cl, ok := l.(*coalescingListener); ok {
		cl.limits, cl.peer = k, peer
	}
	outer := s.ConnState
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if c := innermost(conn); c != nil && c.waits != nil {
			k.note(c, conn, state, peer)
		}
		if outer != nil {
			outer(conn, state)
		}
	}
}

// SetPerClient changes how many connections one client may have, for those that it opens from now on.
func (k *Connections) SetPerClient(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limits.PerClient = n
}

// innermost returns the connection of [CoalesceWrites] within others; nil if there is none.
func innermost(conn net.Conn) *coalescingConn {
	for {
		switch c := conn.(type) {
		case *coalescingConn:
			return c
		case interface{ NetConn() net.Conn }: // TLS
			conn = c.NetConn()
		case interface{ Raw() net.Conn }: // the PROXY protocol
			conn = c.Raw()
		default:
			return nil
		}
	}
}

// A waits reports whether a connection waits for a request, for [Connections].
type waits struct {
	state atomic.Int32
	since atomic.Int64 // the last response of net/http, in ns since the connection was accepted; 0: none
	begun bool         // it had a request; of the goroutine that serves the connection
	// arrived reports that net/http has read bytes since the connection waits.
	arrived atomic.Bool
	head    heldHead

	// Guarded by Connections.mu.
	client  netip.Prefix
	limited bool
	counted bool     // it is in Connections.clients
	outer   net.Conn // the connection as the server has it; nil before StateNew
}

const (
	isWaiting int32 = iota
	isServing
	isReclaimed
	isHijacked
)

// note notes a state that net/http reports, of HTTP/2 that it has streams.
func (k *Connections) note(c *coalescingConn, outer net.Conn, state http.ConnState, peer Peer) {
	switch w := c.waits; state {
	case http.StateNew:
		k.mu.Lock()
		w.outer = outer
		k.mu.Unlock()
	case http.StateActive:
		w.state.CompareAndSwap(isWaiting, isServing)
		if !w.begun { // only this goroutine changes it
			w.begun = true
			k.begin(c, outer, peer)
		}
	case http.StateIdle:
		w.head.release(k.limits.Buffers)
		w.since.Store(int64(time.Since(c.accepted)))
		w.arrived.Store(false)
		w.state.CompareAndSwap(isServing, isWaiting)
	case http.StateHijacked: // Close forgets it
		w.state.Store(isHijacked)
	case http.StateClosed:
	}
}

// begin is called at the first request of a connection, when its handshake is over. It asks again which client it is of,
// if it was not limited.
func (k *Connections) begin(c *coalescingConn, outer net.Conn, peer Peer) {
	if encrypted, ok := outer.(*tls.Conn); ok && encrypted.ConnectionState().NegotiatedProtocol == "h2" {
		c.http2.Store(true)
	}
	w := c.waits
	if w.limited { // only this goroutine changes it
		return
	}
	client, limited := peer(outer.RemoteAddr())
	if !limited {
		return
	}
	k.mu.Lock()
	if !w.counted {
		k.mu.Unlock()
		return
	}
	k.forgetLocked(c)
	w.client, w.limited = client, true
	victims, admitted := k.roomLocked(client, true)
	if admitted {
		k.addLocked(c)
	} else {
		victims = append(victims, c)
	}
	k.mu.Unlock()
	closeAll(victims)
}

// admit counts a new connection. It returns false if there is no room for it.
func (k *Connections) admit(c *coalescingConn, peer Peer) bool {
	client, limited := peer(c.RemoteAddr())
	c.waits = &waits{client: client, limited: limited}
	k.mu.Lock()
	victims, admitted := k.roomLocked(client, limited)
	if admitted {
		k.addLocked(c)
	}
	k.mu.Unlock()
	closeAll(victims)
	return admitted
}

// roomLocked makes room for a connection of a client, and returns the connections that are to be closed for that, which it
// has forgotten, and whether there is room.
func (k *Connections) roomLocked(client netip.Prefix, limited bool) (victims []*coalescingConn, admitted bool) {
	if limited && k.limits.PerClient > 0 && len(k.clients[client]) >= k.limits.PerClient {
		if victims = k.reclaimLocked(client, 1); len(victims) == 0 {
			k.refused++
			k.warnLocked(warnClient, "one client has as many connections as it may have, and further ones are closed; if it is a load balancer, its network must be one of the trusted proxies",
				"client", client, "connections", len(k.clients[client]), "limit", k.limits.PerClient)
			return nil, false
		}
	}
	if k.limits.Total <= 0 || k.count < k.limits.Total {
		return victims, true
	}
	k.warnLocked(warnTotal, "there are as many connections as open files allow, and those that wait for requests are closed; allow more open files (RLIMIT_NOFILE)",
		"connections", k.count, "clients", len(k.clients))
	largest, found := k.largestLocked()
	if !found || limited && len(k.clients[client]) > len(k.clients[largest]) {
		k.refused++
		return victims, false
	}
	return append(victims, k.reclaimLocked(largest, k.batch())...), true
}

// batch is how many connections are closed at once if there are too many, so that each new connection
// does not look through all others.
func (k *Connections) batch() int { return 1 + k.limits.Total/64 }

// largestLocked returns the client that has most connections, of those that have one that waits. Clients whose
// connections are not limited come last.
func (k *Connections) largestLocked() (largest netip.Prefix, found bool) {
	most := math.MinInt
	for client, conns := range k.clients {
		size := math.MinInt + 1
		for c := range conns {
			if c.waits.limited {
				size = len(conns)
			}
			break // all of a client are alike
		}
		if size <= most {
			continue
		}
		for c := range conns {
			if c.waiting() {
				largest, most, found = client, size, true
				break
			}
		}
	}
	return largest, found
}

// reclaimLocked forgets the n connections of a client that have waited longest, fewer if no more wait, and returns them.
func (k *Connections) reclaimLocked(client netip.Prefix, n int) (victims []*coalescingConn) {
	for range n {
		var oldest *coalescingConn
		var since time.Time
		for c := range k.clients[client] {
			if at := c.waitingSince(); c.waiting() && (oldest == nil || at.Before(since)) {
				oldest, since = c, at
			}
		}
		if oldest == nil {
			break
		}
		if oldest.waits.state.CompareAndSwap(isWaiting, isReclaimed) {
			k.forgetLocked(oldest)
			k.reclaimed++
			victims = append(victims, oldest)
		}
	}
	return victims
}

// exhausted makes room after the system had no descriptor for a new connection, whatever has them.
func (k *Connections) exhausted() {
	k.mu.Lock()
	var victims []*coalescingConn
	if largest, found := k.largestLocked(); found {
		victims = k.reclaimLocked(largest, k.batch())
	}
	k.mu.Unlock()
	closeAll(victims)
}

// isExhausted reports whether an error means that there are no descriptors.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (k *Connections) addLocked(c *coalescingConn) {
	conns := k.clients[c.waits.client]
	if conns == nil {
		conns = make(map[*coalescingConn]struct{})
		k.clients[c.waits.client] = conns
	}
	conns[c] = struct{}{}
	c.waits.counted = true
	k.count++
}

// forget forgets a connection that is closed.
func (k *Connections) forget(c *coalescingConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.waits.counted {
		k.forgetLocked(c)
	}
}

func (k *Connections) forgetLocked(c *coalescingConn) {
	w := c.waits
	conns := k.clients[w.client]
	delete(conns, c)
	if len(conns) == 0 {
		delete(k.clients, w.client)
	}
	w.counted = false
	k.count--
}

// warnLocked logs a warning, at most once a minute.
func (k *Connections) warnLocked(kind int, text string, args ...any) {
	if now := time.Now(); now.Sub(k.complained[kind]) >= time.Minute {
		k.complained[kind] = now
		k.log.Warn(text, args...)
	}
}

// A ConnectionCount is what [Connections] has counted.
type ConnectionCount struct {
	Open      int   // now
	Reclaimed int64 // closed to make room for others, since the start
	Refused   int64 // closed at once, since the start
}

// Count returns what has been counted.
func (k *Connections) Count() ConnectionCount {
	k.mu.Lock()
	defer k.mu.Unlock()
	return ConnectionCount{Open: k.count, Reclaimed: k.reclaimed, Refused: k.refused}
}

// freeHead is how many bytes of a head are not counted. Most heads are shorter.
const freeHead = 8 << 10

// A heldHead is what a connection has received of the head of a request, and has acquired for that.
type heldHead struct {
	received int64 // of the goroutine that reads

	mu     sync.Mutex
	client netip.Prefix // guarded by mu: which the bytes are of
	held   int64        // guarded by mu
	closed bool         // guarded by mu
}

var errHeads = errors.New("no room for the head of the request in the budget of buffers")

// receive counts n bytes that were read. It fails if there is no room for them.
func (h *heldHead) receive(b Buffers, client netip.Prefix, n int) error {
	before := max(h.received, freeHead)
	h.received += int64(n)
	more := h.received - before
	if b == nil || more <= 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return net.ErrClosed
	}
	if h.held == 0 {
		h.client = client
	}
	if !b.TryAcquire(h.client, more) {
		return errHeads
	}
	h.held += more
	return nil
}

// release releases what is held, after a request.
func (h *heldHead) release(b Buffers) {
	h.received = 0
	h.give(b, false)
}

// close releases what is held, at the end of the connection.
func (h *heldHead) close(b Buffers) { h.give(b, true) }

func (h *heldHead) give(b Buffers, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = h.closed || closed
	if h.held > 0 {
		b.Release(h.client, h.held)
		h.held = 0
	}
}

// Arriving reports whether a request of HTTP/1 is on its way from the system to its handler. Its connection is idle for net/http, or
// is about to be: [http.Server.Shutdown] would close it, and on a busy machine a request may be on its way for long. A head that
// stays incomplete is on its way until ReadHeaderTimeout, and so is a body that is not read.
func (k *Connections) Arriving() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, conns := range k.clients {
		for c := range conns {
			if c.arrivingLocked() {
				return true
			}
		}
	}
	return false
}

// arrivingLocked reports whether bytes have come that no handler has. Those that net/http has read of TLS, or with the PROXY protocol,
// may have been the beginning of the connection. Callers must hold Connections.mu.
func (c *coalescingConn) arrivingLocked() bool {
	w := c.waits
	if c.http2.Load() || w.state.Load() == isHijacked {
		return false
	}
	return c.waiting() && w.arrived.Load() && w.outer == c || hasUnread(c.TCPConn)
}

// received notes that n bytes were read for net/http.
func (k *Connections) received(c *coalescingConn, n int) error {
	w := c.waits
	if n == 0 || w.state.Load() != isWaiting || c.http2.Load() {
		return nil
	}
	w.arrived.Store(true)
	var client netip.Prefix
	if w.limited { // only the goroutine that reads changes it
		client = w.client
	}
	return w.head.receive(k.limits.Buffers, client, n)
}

// waiting reports whether the connection waits for a request.
func (c *coalescingConn) waiting() bool {
	return c.waits.state.Load() == isWaiting && c.answering.state.Load() >= 0
}

// waitingSince returns when the connection was accepted, or its last response was sent.
func (c *coalescingConn) waitingSince() time.Time {
	return c.accepted.Add(time.Duration(max(c.waits.since.Load(), c.answering.state.Load(), 0)))
}

// closeAll closes connections that wait for requests. Callers must not hold Connections.mu.
func closeAll(conns []*coalescingConn) {
	for _, c := range conns {
		if c.http2.Load() {
			go c.goAway()
		} else {
			_ = c.Close()
		}
	}
}

// goAwayTime bounds telling the client of an HTTP/2 connection that it is closed.
const goAwayTime = time.Second

// goAway closes an HTTP/2 connection without streams. The client then sends requests again
// by another connection (RFC 9113, section 6.8).
func (c *coalescingConn) goAway() {
	_ = c.TCPConn.SetWriteDeadline(time.Now().Add(goAwayTime))
	// GOAWAY: 8 bytes, type 7, no flags, stream 0; any stream may have been processed, NO_ERROR.
	_, _ = c.waits.outer.Write([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	_ = c.Close()
}
