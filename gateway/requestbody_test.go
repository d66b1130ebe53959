package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/gateway"
)

// uploadsTo returns a gateway, with a budget of buffers, to an origin that answers with the length of the
// body, and of what was announced.
func uploadsTo(t *testing.T, connections int, within *buffers.Budget) http.Handler {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && !bytes.Equal(body, pattern(len(body))) {
			err = errors.New("the body is another one")
		}
		fmt.Fprint(w, len(body), " of ", r.ContentLength, " ", err)
	}))
	t.Cleanup(server.Close)
	origin, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Renderer(gateway.Config{Origin: origin, MaxConnections: connections, Buffers: within, Logger: slog.New(slog.DiscardHandler)})
}

// pattern returns n bytes.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

// upload sends a body; length is that which is announced.
func upload(h http.Handler, client string, major int, body io.Reader, length int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://h/", io.NopCloser(body))
	r = r.WithContext(gateway.Listener{StreamWindow: 128 << 10}.Context(r.Context()))
	r.ProtoMajor, r.ContentLength, r.RemoteAddr = major, length, client
	if major == 2 {
		r.Proto, r.ProtoMinor = "HTTP/2.0", 0
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Bodies arrive as they were sent, whatever room there is for them, and leave nothing in the budget.
func TestBodiesWithinBudget(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]*buffers.Budget{"none": nil, "much": buffers.New(64 << 20), "for a part": buffers.New(4 * 20 << 10), "for nothing": buffers.New(4)} {
		h := uploadsTo(t, 16, within)
		for _, n := range []int{1, 4095, 4096, 4097, 16 << 10, 16<<10 + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000} {
			for _, length := range []int64{-1, int64(n)} {
				w := upload(h, "192.0.2.1:1", 1, bytes.NewReader(pattern(n)), length)
				if got, want := w.Body.String(), strconv.Itoa(n)+" of "; w.Code != http.StatusOK || got != want+fmt.Sprint(n, " <nil>") && got != want+"-1 <nil>" {
					t.Errorf("budget %s, %d bytes, announced as %d: %d %s", name, n, length, w.Code, got)
				}
			}
		}
		if used, _ := within.Usage(); used != 0 {
			t.Errorf("budget %s: %d bytes are left", name, used)
		}
	}
}

// A stalledBody is a body of which nothing comes after its beginning, until all are released.
type stalledBody struct {
	start   io.Reader
	stalled func() // called when more is asked for
	release <-chan struct{}
}

func (b *stalledBody) Read(p []byte) (int, error) {
	n, err := b.start.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	b.stalled()
	<-b.release
	return 0, io.ErrUnexpectedEOF
}

// Stalled uploads of one client have its part of the budget, and of the connections to the origin. Further ones
// are refused, and the requests of another client go on.
func TestStalledUploads(t *testing.T) {
	t.Parallel()
	for major, window := range map[int]int{1: 0, 2: 128 << 10} {
		const part = 512 << 10
		within := buffers.New(4 * part)
		h := uploadsTo(t, 8, within)
		release := make(chan struct{})
		var group sync.WaitGroup
		const uploads = 200
		refused, stalled := make(chan *httptest.ResponseRecorder, uploads), make(chan struct{}, 4*uploads)
		for range uploads {
			group.Go(func() {
				body := &stalledBody{bytes.NewReader(pattern(65000)), func() { stalled <- struct{}{} }, release}
				refused <- upload(h, "192.0.2.1:1", major, body, 1_000_000)
			})
		}
		// Each has a part of at least 4 KiB, is sent to the origin, or waits for that.
		for range uploads - part/(4<<10+window) - 2 - 8 {
			if w := <-refused; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
				t.Errorf("HTTP/%d: an upload too many is answered with %d, Retry-After %q", major, w.Code, w.Header().Get("Retry-After"))
			}
		}
		<-stalled
		if used, _ := within.Usage(); used == 0 || used > part {
			t.Errorf("HTTP/%d: %d bytes are buffered, expected at most %d", major, used, part)
		}
		if w := upload(h, "192.0.2.2:1", major, bytes.NewReader(pattern(300_000)), 300_000); w.Code != http.StatusOK {
			t.Errorf("HTTP/%d: another client gets %d %s", major, w.Code, w.Body)
		}
		close(release)
		group.Wait()
		if used, _ := within.Usage(); used != 0 {
			t.Errorf("HTTP/%d: %d bytes are left", major, used)
		}
		if !within.TryAcquire(netip.Prefix{}, 4*part) {
			t.Errorf("HTTP/%d: the budget is not free", major)
		}
	}
}

// The window of each HTTP/2 stream with a body is part of the budget, until the end of the request. A body that is shorter
// takes no more than it has.
func TestWindowsAreWithinBudget(t *testing.T) {
	t.Parallel()
	const window, part = 128 << 10, 300 << 10
	within := buffers.New(4 * part)
	h := uploadsTo(t, 64, within)
	release, stalled := make(chan struct{}), make(chan struct{}, 8)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			upload(h, "192.0.2.1:1", 2, &stalledBody{bytes.NewReader(pattern(1)), func() { stalled <- struct{}{} }, release}, 1_000_000)
		})
	}
	<-stalled
	<-stalled
	if used, _ := within.Usage(); used < 2*window || used > part {
		t.Errorf("%d bytes are buffered for two streams", used)
	}
	if w := upload(h, "192.0.2.1:1", 2, bytes.NewReader(pattern(100_000)), -1); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a third stream: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	for client, n := range map[string]int{"192.0.2.1:1": 1000, "192.0.2.2:1": 200_000} {
		if w := upload(h, client, 2, bytes.NewReader(pattern(n)), int64(n)); w.Code != http.StatusOK {
			t.Errorf("%d bytes of %s: %d %s", n, client, w.Code, w.Body)
		}
	}
	close(release)
	group.Wait()
	if used, _ := within.Usage(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// What the origin has read of a body is not buffered any more, however long the rest takes.
func TestReadPrefixIsReleased(t *testing.T) {
	t.Parallel()
	within := buffers.New(1 << 20)
	h := uploadsTo(t, 8, within)
	release, stalled, done := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		upload(h, "192.0.2.1:1", 1, &stalledBody{bytes.NewReader(pattern(100_000)), func() { stalled <- struct{}{} }, release}, 1_000_000)
	}()
	<-stalled // everything that was sent before has been read
	if used, _ := within.Usage(); used != 0 {
		t.Errorf("%d bytes are buffered of what the origin has read", used)
	}
	close(release)
	<-done
}
