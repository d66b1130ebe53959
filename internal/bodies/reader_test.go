package bodies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/store"
)

var errDisk = errors.New("I/O error")

// A shelf has one body, whose reads may fail, and which may be slow.
type shelf struct {
	store.BodyStore
	content []byte
	slow    time.Duration
	fails   error // of Open
	down    error // of Stat
	opens   int
}

func (s *shelf) Open(context.Context, string) (io.ReadCloser, int64, error) {
	s.opens++
	time.Sleep(s.slow)
	if s.fails != nil {
		return nil, 0, s.fails
	}
	return io.NopCloser(bytes.NewReader(s.content)), int64(len(s.content)), nil
}

func (s *shelf) OpenRange(_ context.Context, _ string, offset, n int64) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(s.content[offset : offset+n])), int64(len(s.content)), s.fails
}

func (s *shelf) Stat(context.Context, string) (store.BodyInfo, error) {
	return store.BodyInfo{}, s.down
}

// Neighbours are peers that all may be asked.
type neighbours struct {
	all   []netip.AddrPort
	wrong int // how often one has sent what is wrong
}

func (n *neighbours) Holders(store.Key, netip.AddrPort) []netip.AddrPort { return n.all }
func (n *neighbours) Begin(netip.AddrPort) bool                          { return true }
func (n *neighbours) Answered(netip.AddrPort)                            {}
func (n *neighbours) Failed(_ netip.AddrPort, wrong bool) {
	if wrong {
		n.wrong++
	}
}

// entryOf returns the entry of a published body.
func entryOf(body []byte) *store.Entry {
	sum := sha256.Sum256(body)
	return &store.Entry{BodyKey: "b/1", SHA256: hex.EncodeToString(sum[:]), Length: int64(len(body)), Header: http.Header{"Content-Type": {"text/html"}}}
}

// newReader returns a reader of a shelf, whose peers answer by ask.
func newReader(t *testing.T, s *shelf, n *neighbours, ask func() ([]byte, error)) *Reader {
	return New(t.Context(), Options{
		Store: s, Peers: n, MaxBody: 1 << 20, Reads: 2, Memory: buffers.New(1 << 20),
		Ask:    func(context.Context, netip.AddrPort, store.PeerBody) ([]byte, error) { return ask() },
		Asked:  func(string, int64) {},
		Reuse:  func(store.Key, *store.Entry) ([]byte, bool) { return nil, false },
		Jitter: func(d time.Duration) time.Duration { return d },
	})
}

// Read tells a body that is missing or damaged from one that cannot be read, one that is too large, and
// a store that does not answer.
func TestErrorsOfRead(t *testing.T) {
	body := []byte("published")
	for name, test := range map[string]struct {
		shelf shelf
		want  error
		opens int
	}{
		"as published":              {shelf{content: body}, nil, 1},
		"another length":            {shelf{content: body[1:]}, ErrMissing, 1},
		"another content":           {shelf{content: []byte("Published")}, ErrMissing, 1},
		"gone":                      {shelf{fails: store.ErrNotFound}, ErrMissing, 1},
		"each read fails":           {shelf{fails: errDisk}, ErrUnreadable, maxReads},
		"the store does not answer": {shelf{fails: errDisk, down: errDisk}, errDisk, 1},
		"denied":                    {shelf{fails: store.ErrDenied}, store.ErrDenied, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(t, &test.shelf, new(neighbours), nil)
			got, err := r.Read(t.Context(), store.Key{}, entryOf(body))
			if !errors.Is(err, test.want) || test.shelf.opens != test.opens || err == nil && !bytes.Equal(got, body) {
				t.Errorf("%s: %q, %v after %d reads, want %v after %d", name, got, err, test.shelf.opens, test.want, test.opens)
			}
			if unreadable := errors.Is(err, ErrUnreadable); unreadable != (test.want == ErrUnreadable) { //nolint:errorlint // it is the error of the table
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	large := make([]byte, 1<<20+1)
	r := newReader(t, &shelf{content: large}, new(neighbours), nil)
	if _, err := r.ReadStored(t.Context(), entryOf(large)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond MaxBody: %v", err)
	}
}

// A peer that has the body spares the store, one that lies or has nothing does not delay it, and one that
// hangs delays it by peerPatience.
func TestPeersAreAskedFirst(t *testing.T) {
	body := []byte("published")
	for name, test := range map[string]struct {
		ask   func() ([]byte, error)
		opens int
		took  time.Duration
		wrong int
	}{
		"has it":  {func() ([]byte, error) { return body, nil }, 0, 0, 0},
		"absent":  {func() ([]byte, error) { return nil, store.ErrNotFound }, 1, 0, 0},
		"lies":    {func() ([]byte, error) { return []byte("Published"), nil }, 1, 0, 1},
		"is slow": {func() ([]byte, error) { time.Sleep(time.Second); return nil, errDisk }, 1, peerPatience, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, n := &shelf{content: body}, &neighbours{all: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1")}}
			r := newReader(t, s, n, test.ask)
			began := time.Now()
			got, err := r.Read(t.Context(), store.Key{}, entryOf(body))
			if took := time.Since(began); err != nil || !bytes.Equal(got, body) || s.opens != test.opens || took != test.took || n.wrong != test.wrong {
				t.Errorf("%s: %q, %v after %v, %d reads of the store, %d lies", name, got, err, took, s.opens, n.wrong)
			}
			time.Sleep(time.Second) // a slow peer ends
		})
	}
}

// The end of a body that is damaged is not sent; Check finds it before, and a suspect is not sent at all until
// Read has verified it.
func TestBodiesAreVerifiedWhileTheyAreSent(t *testing.T) {
	body := []byte(strings.Repeat("published ", 20_000))
	damaged := bytes.Clone(body)
	damaged[7] ^= 1
	s := &shelf{content: damaged}
	r, e := newReader(t, s, new(neighbours), nil), entryOf(body)
	send := func() (string, error) {
		b, sent := r.Open(t.Context(), e, ""), new(strings.Builder)
		defer b.Close()
		b.Send(sent)
		err, _ := b.Err()
		return sent.String(), err
	}
	if sent, err := send(); len(sent) >= len(body) || !errors.Is(err, ErrMissing) {
		t.Errorf("%d of %d bytes were sent, %v", len(sent), len(body), err)
	}
	if err := r.Check(t.Context(), e); !errors.Is(err, ErrMissing) {
		t.Errorf("Check: %v", err)
	}
	r.Suspect(e.BodyKey)
	s.content = body
	if r.Sendable(e) {
		t.Error("a suspect may be sent")
	}
	if _, err := r.Read(t.Context(), store.Key{}, e); err != nil || !r.Sendable(e) {
		t.Errorf("after Read: %v, sendable %v", err, r.Sendable(e))
	}
	if sent, err := send(); sent != string(body) || err != nil {
		t.Errorf("%d of %d bytes were sent, %v", len(sent), len(body), err)
	}
}
