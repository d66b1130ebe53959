package peer_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/internal/peer"
	"github.com/facetheory/isr/store"
)

// bodyOf returns a body of n bytes, and what names it.
func bodyOf(n int) ([]byte, store.PeerBody) {
	return bytes.Repeat([]byte("b"), n), store.PeerBody{Key: page, BodyKey: "bodies/ab/1", SHA256: strings.Repeat("0a", 32), Length: int64(n)}
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	cache := newListening()
	cache.from = make(chan netip.AddrPort, 100)
	holder, reader := node(t, fleetSecret, cache, nil), node(t, fleetSecret, newListening(), nil)
	for _, n := range []int{0, 1, 10 << 10, store.MaxPeerBody} {
		body, asked := bodyOf(n)
		cache.local = func(b store.PeerBody) []byte {
			if b != asked {
				t.Errorf("asked for %+v, want %+v", b, asked)
			}
			return body
		}
		got, err := reader.ReadBody(t.Context(), holder.Address(), asked)
		if err != nil || got == nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes: got %d: %v", n, len(got), err)
		}
		// What it names is not what was asked for.
		cache.local = func(store.PeerBody) []byte { return append([]byte("x"), body...) }
		if _, err := reader.ReadBody(t.Context(), holder.Address(), asked); err == nil {
			t.Errorf("%d bytes: a body of another length was accepted", n)
		}
	}
	cache.local = nil
	_, asked := bodyOf(1)
	if _, err := reader.ReadBody(t.Context(), holder.Address(), asked); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a body that the peer does not have: %v", err)
	}
	stranger := node(t, strings.ToUpper(fleetSecret), newListening(), nil)
	cache.local = func(store.PeerBody) []byte { t.Error("a stranger was answered"); return nil }
	if _, err := stranger.ReadBody(t.Context(), holder.Address(), asked); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a stranger: %v", err)
	}
}

// A process sends so many bodies at once, and refuses more; it still answers what is not about bodies.
func TestBusyPeers(t *testing.T) {
	t.Parallel()
	const most = 32
	cache := newListening()
	cache.from = make(chan netip.AddrPort, 100)
	body, asked := bodyOf(10)
	begun, goOn := make(chan bool, most), make(chan bool)
	cache.local = func(store.PeerBody) []byte {
		begun <- true
		<-goOn
		return body
	}
	holder, other := node(t, fleetSecret, cache, nil), node(t, fleetSecret, newListening(), nil)
	reader := node(t, fleetSecret, newListening(), nil)
	var readers sync.WaitGroup
	for range most {
		readers.Go(func() {
			if got, err := reader.ReadBody(t.Context(), holder.Address(), asked); err != nil || !bytes.Equal(got, body) {
				t.Errorf("got %d bytes: %v", len(got), err)
			}
		})
	}
	for range most {
		<-begun
	}
	if _, err := other.ReadBody(t.Context(), holder.Address(), asked); !errors.Is(err, store.ErrPeerBusy) {
		t.Errorf("with %d bodies in progress: %v", most, err)
	}
	cache.ended <- true
	if !reader.AwaitLease(t.Context(), holder.Address(), page) {
		t.Error("a lease is not answered for while bodies are sent")
	}
	close(goOn)
	readers.Wait()
}

// A process without the secret is not believed, whatever it sends, and however much.
func TestStrangersSendNoBodies(t *testing.T) {
	t.Parallel()
	reader := node(t, fleetSecret, newListening(), nil)
	_, asked := bodyOf(10)
	for name, answer := range map[string]http.HandlerFunc{
		"a body":         func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bbbbbbbbbb") },
		"no such body":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"busy":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"a redirect":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"a large header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", strings.Repeat("x", 1<<20)) },
		"a long body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<40))
			_, _ = w.Write(make([]byte, 1<<10))
		},
	} {
		stranger := httptest.NewServer(answer)
		_, err := reader.ReadBody(t.Context(), netip.MustParseAddrPort(stranger.Listener.Addr().String()), asked)
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrPeerBusy) {
			t.Errorf("%s: %v", name, err)
		}
		stranger.Close()
	}
}

// A peer that has the secret and ends a reply early, or says that it is of another length, sends no body.
func TestShortBodies(t *testing.T) {
	t.Parallel()
	cache := newListening()
	body, asked := bodyOf(1000)
	cache.local = func(store.PeerBody) []byte { return body }
	// It answers by the handler of a node, and cuts what that writes.
	relay, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(relay.Addr().String())
	holder, err := peer.New(peer.Config{Address: at, Secret: []byte(fleetSecret), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	honest := holder.Server(cache).Handler
	cut := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		honest.ServeHTTP(rec, r)
		for name, lines := range rec.Header() {
			w.Header()[name] = lines
		}
		_, _ = w.Write(rec.Body.Bytes()[:500])
		panic(http.ErrAbortHandler)
	}), ReadHeaderTimeout: 1e10}
	go func() { _ = cut.Serve(relay) }()
	defer func() { _ = cut.Close() }()
	if got, err := node(t, fleetSecret, newListening(), nil).ReadBody(t.Context(), at, asked); err == nil {
		t.Errorf("%d bytes were accepted", len(got))
	}
}
