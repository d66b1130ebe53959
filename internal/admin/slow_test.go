package admin_test

import (
	"bufio"
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// dial serves an API on one connection.
func dial(t *testing.T, api http.Handler) (client net.Conn) {
	t.Helper()
	client, served := net.Pipe()
	l := &single{conn: make(chan net.Conn, 1)}
	l.conn <- served
	server := &http.Server{Handler: api}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = client.Close()
	})
	return client
}

// A single is a listener of one connection.
type single struct{ conn chan net.Conn }

func (s *single) Accept() (net.Conn, error) {
	conn, ok := <-s.conn
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (s *single) Close() error   { close(s.conn); return nil }
func (s *single) Addr() net.Addr { return &net.UnixAddr{Name: "single", Net: "pipe"} }

// A slow store delays each read.
type slow struct {
	store.MetaStore
	takes time.Duration
	pages int
	ended chan struct{} // closed when a list has ended, if not nil
}

func (s slow) Read(ctx context.Context, _ string) (store.Record, error) {
	select {
	case <-time.After(s.takes):
		return store.Record{}, nil
	case <-ctx.Done():
		return store.Record{}, ctx.Err()
	}
}

func (s slow) Sequence(context.Context) (store.Sequence, error) { return store.Sequence{}, nil }

func (s slow) Marks(context.Context) iter.Seq2[store.Mark, error] {
	return func(func(store.Mark, error) bool) {}
}

func (s slow) List(ctx context.Context) iter.Seq2[store.ListedPage, error] {
	return func(yield func(store.ListedPage, error) bool) {
		if s.ended != nil {
			defer close(s.ended)
		}
		for range s.pages {
			if _, err := s.Read(ctx, ""); err != nil {
				yield(store.ListedPage{}, err)
				return
			}
			if !yield(store.ListedPage{PK: "CACHE#1"}, nil) {
				return
			}
		}
	}
}

type noBodies struct{ store.BodyStore }

func slowAPI(t *testing.T, s slow) *admin.API {
	t.Helper()
	api, err := admin.New(s, noBodies{}, admin.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func status(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// The read timeout of a request does not limit its execution.
func TestSlowStore(t *testing.T) {
	for takes, want := range map[time.Duration]int{20 * time.Second: 200, time.Minute: 504} {
		synctest.Test(t, func(t *testing.T) {
			conn := dial(t, slowAPI(t, slow{takes: takes}).Handler())
			if _, err := io.WriteString(conn, "GET /-/lease?key=a.example/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if got, text := status(t, conn); got != want {
				t.Errorf("after %s: %d %s; want %d", takes, got, text, want)
			}
		})
	}
}

// A list may take long while the client reads it.
func TestSlowList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, slowAPI(t, slow{takes: 15 * time.Second, pages: 20}).Handler())
		if _, err := io.WriteString(conn, "GET /-/pages HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, text := status(t, conn)
		if got != 200 || time.Since(began) != 5*time.Minute {
			t.Errorf("after %s: %d %s", time.Since(began), got, text)
		}
	})
}

// A list ends if the client does not read it.
func TestUnreadListEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{pages: 1000, ended: make(chan struct{})}
		conn := dial(t, slowAPI(t, s).Handler())
		if _, err := io.WriteString(conn, "GET /-/pages HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-s.ended
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("the list ended after %s", took)
		}
	})
}

// A client that sends half a request times out, with and without a token.
func TestSlowClient(t *testing.T) {
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	for want, door := range map[int]func(*admin.API) http.Handler{
		400: (*admin.API).Handler,
		401: func(api *admin.API) http.Handler { return api.Guarded(admin.Guard{Token: token}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := dial(t, door(slowAPI(t, slow{})))
			if _, err := io.WriteString(conn, "POST /-/regenerate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got, text := status(t, conn)
			if got != want || time.Since(began) != 10*time.Second {
				t.Errorf("after %s: %d %s; want %d", time.Since(began), got, text, want)
			}
		})
	}
}
