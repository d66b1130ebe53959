package http3

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

const (
	// clientConnections is how many connections a client may have at most. A browser has one for a host. Each may hold a few MiB: heads
	// of requests that are not complete, and what has arrived and is not read.
	clientConnections = 64
	// unverified is how many connections may have an address that their client has not confirmed, before further clients must
	// first return a token (Retry, RFC 9000, section 8.1.2), and unverifiedOfClient how many those of a client are. Until then the address may
	// be somebody else's.
	unverified         = 256
	unverifiedOfClient = 8
)

var errTooMany = errors.New("too many connections")

// Limits limit how many connections clients have, on one or more sockets. One more is refused, and its visitor uses TCP. It is
// safe for concurrent use.
type Limits struct {
	mu         sync.Mutex
	total      int                           // guarded by mu; 0 or less: no limit
	perClient  int                           // guarded by mu
	clients    map[netip.Prefix]*connections // guarded by mu; of clients that have connections
	open       int                           // guarded by mu
	unverified int                           // guarded by mu
	refused    int64                         // guarded by mu
}

// connections are the connections of a client.
type connections struct{ open, unverified int }

// NewLimits returns limits of the connections of all clients, without one if total is 0 or less, and of one client.
func NewLimits(total, perClient int) *Limits {
	l := &Limits{total: total, clients: make(map[netip.Prefix]*connections)}
	l.SetPerClient(perClient)
	return l
}

// SetPerClient changes how many connections one client may have, at most 64.
func (l *Limits) SetPerClient(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.perClient = min(n, clientConnections)
}

// Count returns how many connections there are, and how many were refused since the start.
func (l *Limits) Count() (open int, refused int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.refused
}

// A Peer returns the client of an address, and whether the limit of a client applies to it: not to a proxy, for example, whose
// connections are of many clients.
type Peer func(net.Addr) (client netip.Prefix, limited bool)

// suspicious reports whether a client has to confirm its address before it gets a connection.
func (l *Limits) suspicious(client netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[client]
	return l.unverified >= unverified || c != nil && c.unverified >= unverifiedOfClient
}

// admit counts a new connection, whose address is verified or not. It fails if there are too many.
func (l *Limits) admit(client netip.Prefix, limited, verified bool) (*admission, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[client]
	if l.total > 0 && l.open >= l.total || limited && c != nil && c.open >= l.perClient {
		l.refused++
		return nil, errTooMany
	}
	if c == nil {
		c = new(connections)
		l.clients[client] = c
	}
	c.open++
	l.open++
	a := &admission{limits: l, client: client, verified: verified}
	if !verified {
		c.unverified++
		l.unverified++
	}
	return a, nil
}

// An admission is a connection that is counted.
type admission struct {
	limits   *Limits
	client   netip.Prefix
	verified bool // guarded by limits.mu
}

// verify notes that the client has confirmed its address.
func (a *admission) verify() {
	a.limits.mu.Lock()
	defer a.limits.mu.Unlock()
	a.verifyLocked()
}

func (a *admission) verifyLocked() {
	if !a.verified {
		a.verified = true
		a.limits.unverified--
		a.limits.clients[a.client].unverified--
	}
}

// release forgets a connection that is closed. It is called once.
func (a *admission) release() {
	l := a.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	a.verifyLocked()
	c := l.clients[a.client]
	c.open--
	l.open--
	if c.open == 0 {
		delete(l.clients, a.client)
	}
}
