package admin

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of wrong tokens: wrongTokens of a client are logged and answered as wrong, and one more
// each wrongTokenEvery. Others get 429.
const (
	wrongTokens     = 10
	wrongTokenEvery = 6 * time.Second
	// maxClients bounds the clients that are remembered.
	maxClients = 4096
)

// attempts limits wrong tokens by client: an IPv4 address, or a /64 network of IPv6. It is safe
// for concurrent use.
type attempts struct {
	mu sync.Mutex
	// full is guarded by mu: when the client will have all its attempts again, as in the
	// generic cell rate algorithm.
	full map[netip.Prefix]time.Time
}

func newAttempts() *attempts { return &attempts{full: make(map[netip.Prefix]time.Time)} }

// clientOf returns the network of a remote address; invalid ones share one.
func clientOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // bits are valid for the address
	return network
}

// wait returns how long a client must wait before it may send another wrong token; 0 for not.
func (a *attempts) wait(remote string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	full, known := a.full[clientOf(remote)]
	if !known {
		return 0
	}
	return max(full.Sub(now)-(wrongTokens-1)*wrongTokenEvery, 0)
}

// fail counts a wrong token of a client.
func (a *attempts) fail(remote string, now time.Time) {
	client := clientOf(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.full[client]; !known && len(a.full) >= maxClients {
		a.forgetLocked(now)
	}
	full := a.full[client]
	if full.Before(now) {
		full = now
	}
	a.full[client] = full.Add(wrongTokenEvery)
}

// forgetLocked forgets the clients that have all their attempts again, or else any one.
func (a *attempts) forgetLocked(now time.Time) {
	for client, full := range a.full {
		if !full.After(now) {
			delete(a.full, client)
		}
	}
	for client := range a.full {
		if len(a.full) < maxClients {
			return
		}
		delete(a.full, client)
	}
}

func errTooManyAttempts(wait time.Duration) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: "too_many_attempts", RetryAfter: wait,
		Message: "too many wrong tokens from this address", Hint: "correct the token; the right one is accepted at once",
	}
}
