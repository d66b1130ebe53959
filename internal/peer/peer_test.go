package peer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/peer"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
)

var page = store.Key{Tenant: "a", Text: "example.com/<1>"}

const fleetSecret = "0123456789abcdef0123456789abcdef"

// A listening cache reports what it is told.
type listening struct {
	asked chan store.Key
	ended chan bool // answers of AwaitFlight
	heard chan int64
	from  chan netip.AddrPort
	gone  chan struct{}               // closed when a caller of AwaitFlight has gone
	local func(store.PeerBody) []byte // nil: it has no bodies
}

func newListening() *listening {
	return &listening{make(chan store.Key, 10), make(chan bool, 10), make(chan int64, 10), make(chan netip.AddrPort, 10), make(chan struct{}), nil}
}

func (l *listening) AwaitFlight(ctx context.Context, k store.Key) bool {
	l.asked <- k
	select {
	case ended := <-l.ended:
		return ended
	case <-ctx.Done():
		close(l.gone)
		return false
	}
}

func (l *listening) HearChange(_ context.Context, seq int64) error {
	l.heard <- seq
	if seq == 13 {
		return errors.New("the log does not reach it")
	}
	return nil
}

func (l *listening) LocalBody(_ context.Context, b store.PeerBody) []byte {
	if l.local == nil {
		return nil
	}
	return l.local(b)
}

func (l *listening) HearPeer(at netip.AddrPort) { l.from <- at }

// node starts a node with a secret.
func node(t *testing.T, secret string, cache peer.Cache, now func() time.Time) *peer.Node {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(free.Addr().String())
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := peer.New(peer.Config{Address: at, Secret: []byte(secret), Now: now, Logger: slog.New(slog.NewTextHandler(new(testbed.Log), nil))})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", n.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	server := n.Server(cache)
	go func() { _ = server.Serve(n.Limit(l)) }()
	t.Cleanup(func() {
		n.Close()
		_ = server.Close()
	})
	return n
}

func TestAwaitLease(t *testing.T) {
	t.Parallel()
	cache := newListening()
	holder, waiter := node(t, fleetSecret, cache, nil), node(t, fleetSecret, newListening(), nil)
	for _, want := range []bool{true, false} {
		go func() {
			if k := <-cache.asked; k != page {
				t.Errorf("asked for %v", k)
			}
			cache.ended <- want
		}()
		if got := waiter.AwaitLease(t.Context(), holder.Address(), page); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if from := <-cache.from; from != waiter.Address() {
			t.Errorf("heard of %v, want %v", from, waiter.Address())
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	go func() {
		<-cache.asked
		cancel()
	}()
	if waiter.AwaitLease(gone, holder.Address(), page) {
		t.Error("a caller who has gone was told that the work has ended")
	}
	<-cache.gone // nothing waits any more
	cache.ended <- true
	if !waiter.AwaitLease(t.Context(), holder.Address(), page) {
		t.Error("a peer is avoided because a caller has gone")
	}
}

func TestTell(t *testing.T) {
	t.Parallel()
	cache := newListening()
	at, from := node(t, fleetSecret, cache, nil), node(t, fleetSecret, newListening(), nil)
	for _, seq := range []int64{1, 13, 14} { // 13 is refused
		from.Tell([]netip.AddrPort{at.Address()}, seq)
		if got := <-cache.heard; got != seq {
			t.Errorf("heard %d, want %d", got, seq)
		}
	}
	from.Close()
	from.Tell([]netip.AddrPort{at.Address()}, 15) // it sends nothing any more
}

// A process that does not know the secret is told nothing, and believed nothing.
func TestSecrets(t *testing.T) {
	t.Parallel()
	cache, other := newListening(), newListening()
	holder, stranger := node(t, fleetSecret, cache, nil), node(t, strings.ToUpper(fleetSecret), other, nil)
	if stranger.AwaitLease(t.Context(), holder.Address(), page) || holder.AwaitLease(t.Context(), stranger.Address(), page) {
		t.Error("peers with different secrets understand each other")
	}
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Isr-Peer-Mac", r.Header.Get("Isr-Peer-Mac"))
		_, _ = io.WriteString(w, `{"ended":true}`)
	}))
	defer liar.Close()
	if holder.AwaitLease(t.Context(), netip.MustParseAddrPort(liar.Listener.Addr().String()), page) {
		t.Error("a process without the secret is believed")
	}
	if len(cache.asked)+len(cache.from)+len(other.asked)+len(other.from) != 0 {
		t.Error("the caches were told of unauthenticated requests")
	}
	for _, short := range []string{"", "secret", fleetSecret[1:], strings.Repeat("x", peer.MaxSecret+1)} {
		if _, err := peer.New(peer.Config{Address: holder.Address(), Secret: []byte(short)}); err == nil || !strings.Contains(err.Error(), "openssl") {
			t.Errorf("a secret of %d bytes: %v", len(short), err)
		}
	}
}

// captured is a request as it was sent.
type captured struct {
	header http.Header
	path   string
	body   []byte
}

// capture returns a request that a node sends to another one, which does not get it.
func capture(t *testing.T, from *peer.Node) (captured, netip.AddrPort) {
	t.Helper()
	var c captured
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			body, _ := io.ReadAll(r.Body)
			c = captured{r.Header.Clone(), r.URL.Path, body}
		})
	}))
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	from.AwaitLease(t.Context(), at, page)
	server.Close()
	return c, at
}

// send sends a request to a node, and returns the status of the response.
func (c captured) send(t *testing.T, to netip.AddrPort) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+to.String()+c.path, bytes.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header.Clone()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// A request that is sent on to another process, repeated, changed, or late, is refused.
func TestReplay(t *testing.T) {
	t.Parallel()
	cache := newListening()
	var mu sync.Mutex
	var late time.Duration
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(late)
	}
	from := node(t, fleetSecret, newListening(), nil)
	sent, at := capture(t, from)
	other := node(t, fleetSecret, cache, nil)
	if got := sent.send(t, other.Address()); got != http.StatusForbidden {
		t.Errorf("sent on to another process: %d", got)
	}
	// The process at the address of the captured request.
	n, err := peer.New(peer.Config{Address: at, Secret: []byte(fleetSecret), Now: now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	server := httptest.NewServer(n.Server(cache).Handler)
	defer server.Close()
	to := netip.MustParseAddrPort(server.Listener.Addr().String())
	set := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		late = d
	}
	for _, d := range []time.Duration{-time.Hour, -31 * time.Second, 31 * time.Second, time.Hour} {
		set(d)
		if got := sent.send(t, to); got != http.StatusForbidden {
			t.Errorf("with a clock that differs by %v: %d", d, got)
		}
	}
	set(0)
	changed := sent
	changed.body = bytes.Replace(sent.body, []byte("example"), []byte("another"), 1)
	if got := changed.send(t, to); got != http.StatusForbidden {
		t.Errorf("with another body: %d", got)
	}
	changed = sent
	changed.path = "/v1/log"
	if got := changed.send(t, to); got != http.StatusForbidden {
		t.Errorf("with another path: %d", got)
	}
	cache.ended <- true
	if got := sent.send(t, to); got != http.StatusOK {
		t.Errorf("as it was sent: %d", got)
	}
	for _, d := range []time.Duration{0, 29 * time.Second} {
		set(d)
		if got := sent.send(t, to); got != http.StatusForbidden {
			t.Errorf("repeated after %v: %d", d, got)
		}
	}
	if n := len(cache.from); n != 1 {
		t.Errorf("the cache has heard %d requests, want 1", n)
	}
}

// Requests of strangers cost little, and tell them nothing.
func TestStrangers(t *testing.T) {
	t.Parallel()
	cache := newListening()
	n := node(t, fleetSecret, cache, nil)
	for _, c := range []captured{
		{path: "/v1/lease"},
		{path: "/v1/lease", body: bytes.Repeat([]byte("x"), 1<<20)},
		{path: "/metrics"},
		{path: "/v1/log?seq=1"},
	} {
		if got := c.send(t, n.Address()); got != http.StatusForbidden && got != http.StatusBadRequest {
			t.Errorf("%s: %d", c.path, got)
		}
	}
	if len(cache.asked)+len(cache.from) != 0 {
		t.Error("the cache was told of them")
	}
}

// A process that does not answer is avoided for a while.
func TestDeadPeersAreAvoided(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	cache := newListening()
	from := node(t, fleetSecret, newListening(), clock)
	closed := httptest.NewServer(http.NotFoundHandler())
	at := netip.MustParseAddrPort(closed.Listener.Addr().String())
	closed.Close()
	if from.AwaitLease(t.Context(), at, page) {
		t.Error("a dead peer has answered")
	}
	n, err := peer.New(peer.Config{Address: at, Secret: []byte(fleetSecret), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", n.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	server := n.Server(cache)
	go func() { _ = server.Serve(n.Limit(l)) }()
	defer func() { _ = server.Close() }()
	cache.ended <- true
	if from.AwaitLease(t.Context(), at, page) {
		t.Error("it was asked again at once")
	}
	mu.Lock()
	now = now.Add(6 * time.Second)
	mu.Unlock()
	if !from.AwaitLease(t.Context(), at, page) {
		t.Error("it is not asked again")
	}
}
