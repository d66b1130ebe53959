package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

const (
	// MinSecret and MaxSecret bound the length of a secret, in bytes.
	MinSecret, MaxSecret = 32, 1024
	// validFor is how far the time of a request may be from the clock of its receiver.
	validFor = 30 * time.Second
	// maxNonces bounds the requests of the last minute. More are refused.
	maxNonces = 1 << 16

	fromField  = "Isr-Peer-From"
	timeField  = "Isr-Peer-Time"
	nonceField = "Isr-Peer-Nonce"
	macField   = "Isr-Peer-Mac"
)

// errUnauthenticated is wrapped by errors of requests and replies that are not of a peer.
var errUnauthenticated = errors.New("not authenticated")

// A secret authenticates the messages of a fleet.
type secret []byte

// newSecret returns an error if the secret is too short to be one.
func newSecret(text []byte) (secret, error) {
	if len(text) < MinSecret || len(text) > MaxSecret {
		return nil, fmt.Errorf("the secret of the peers has %d bytes; expected %d to %d, such as the output of `openssl rand -hex 32`", len(text), MinSecret, MaxSecret)
	}
	return secret(text), nil
}

// mac returns the HMAC of texts, each with its length, so that no two lists have the same.
func (s secret) mac(texts ...string) string {
	h := hmac.New(sha256.New, s)
	for _, text := range texts {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s secret) ofRequest(from, to, at, nonce, path, body string) string {
	return s.mac("isr peer request 1", from, to, at, nonce, path, body)
}

func (s secret) ofReply(nonce string, status int, body string) string {
	return s.mac("isr peer reply 1", nonce, strconv.Itoa(status), body)
}

// sign authenticates a request, and returns its nonce.
func (s secret) sign(h http.Header, from, to netip.AddrPort, now time.Time, path, body string) (nonce string) {
	nonce, at := rand.Text(), strconv.FormatInt(now.UnixMilli(), 10)
	h.Set(fromField, from.String())
	h.Set(timeField, at)
	h.Set(nonceField, nonce)
	h.Set(macField, s.ofRequest(from.String(), to.String(), at, nonce, path, body))
	return nonce
}

// verify returns the sender of a request. A nil seen admits repetitions, for requests that change nothing. The
// error wraps errUnauthenticated.
func (s secret) verify(h http.Header, to netip.AddrPort, now time.Time, seen *nonces, path, body string) (from netip.AddrPort, nonce string, err error) {
	at, nonce := h.Get(timeField), h.Get(nonceField)
	want := s.ofRequest(h.Get(fromField), to.String(), at, nonce, path, body)
	if !hmac.Equal([]byte(want), []byte(h.Get(macField))) {
		return from, "", fmt.Errorf("%w: the peer has another secret, or another address for this process than %s", errUnauthenticated, to)
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return from, "", fmt.Errorf("%w: %w", errUnauthenticated, err)
	}
	if off := now.Sub(time.UnixMilli(ms)); off.Abs() > validFor {
		return from, "", fmt.Errorf("%w: the clocks differ by %s, at most %s is allowed", errUnauthenticated, off, validFor)
	}
	if seen != nil && !seen.add(nonce, now) {
		return from, "", fmt.Errorf("%w: the request was received before, or there are too many", errUnauthenticated)
	}
	from, err = store.ParsePeerAddress(h.Get(fromField))
	if err != nil {
		return from, "", fmt.Errorf("%w: %w", errUnauthenticated, err)
	}
	return from, nonce, nil
}

// nonces are the nonces of authenticated requests of the last minute. The zero value is empty. It
// is safe for concurrent use.
type nonces struct {
	mu            sync.Mutex
	recent, older map[string]struct{} // guarded by mu; together at most maxNonces
	since         time.Time           // guarded by mu: when recent began
}

// add reports whether a nonce is new, and can be remembered for as long as its request is valid.
func (n *nonces) add(nonce string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	// A request is valid from validFor before its time until validFor after it.
	if age := now.Sub(n.since).Abs(); age > 2*validFor {
		n.older, n.recent, n.since = n.recent, make(map[string]struct{}), now
		if age > 4*validFor {
			n.older = nil
		}
	}
	_, recent := n.recent[nonce]
	_, older := n.older[nonce]
	if recent || older || len(n.recent)+len(n.older) >= maxNonces {
		return false
	}
	n.recent[nonce] = struct{}{}
	return true
}
