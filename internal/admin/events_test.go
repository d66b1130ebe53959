package admin_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/telemetry/live"
)

// An event is one of a stream.
type event struct{ name, id, data string }

// watchable returns an API that has events, on a store that is never asked.
func watchable(t *testing.T) (*admin.API, *live.Monitor) {
	t.Helper()
	cache, err := isr.New(slow{}, noBodies{}, isr.Config{Memory: -1, Poll: -1})
	if err != nil {
		t.Fatal(err)
	}
	monitor := live.New()
	api, err := admin.New(slow{}, noBodies{}, admin.Config{Cache: cache, Live: monitor, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api, monitor
}

// watch begins to read the events of an API.
func watch(t *testing.T, conn net.Conn, header string) *bufio.Scanner {
	t.Helper()
	if _, err := io.WriteString(conn, "GET /-/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"+header+"\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%+v, %v", res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// next returns the next event; its name is empty at the end.
func next(lines *bufio.Scanner) (e event) {
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e
			}
		}
	}
	return event{}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, monitor := watchable(t)
		monitor.Happen(live.Happening{Kind: "reload", Text: "before"})
		events := watch(t, dial(t, api.Handler()), "")
		var o admin.Overview
		if e := next(events); e.name != "overview" || json.Unmarshal([]byte(e.data), &o) != nil || o.Status != "ok" {
			t.Fatalf("first: %+v", e)
		}
		monitor.Happen(live.Happening{Kind: "reload", Text: "the configuration was reloaded"})
		began := time.Now()
		if e := next(events); e.name != "happening" || e.id != "2" || !strings.Contains(e.data, "reloaded") || time.Since(began) != time.Second {
			t.Errorf("after %s: %+v", time.Since(began), e)
		}
		if e := next(events); e.name != "overview" || time.Since(began) != 2*time.Second {
			t.Errorf("after %s: %+v", time.Since(began), e)
		}
		api.Close()
		if e := next(events); e.name != "end" || e.data != `{"reason":"shutdown"}` {
			t.Errorf("at shutdown: %+v", e)
		}
	})
}

// A client that connects again gets what happened in between; one of an earlier process does not
// wait for numbers that are far away.
func TestEventsResume(t *testing.T) {
	for header, want := range map[string]string{"Last-Event-ID: 1\r\n": "2", "Last-Event-ID: 99\r\n": "4"} {
		synctest.Test(t, func(t *testing.T) {
			api, monitor := watchable(t)
			for range 3 {
				monitor.Happen(live.Happening{Kind: "reload"})
			}
			events := watch(t, dial(t, api.Handler()), header)
			next(events)
			monitor.Happen(live.Happening{Kind: "reload"})
			if e := next(events); e.id != want {
				t.Errorf("%s: %+v", header, e)
			}
			api.Close()
		})
	}
}

func TestEventsEnd(t *testing.T) {
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	read, err := admin.NewToken(readSecret)
	if err != nil {
		t.Fatal(err)
	}
	guarded := func(api *admin.API) http.Handler {
		return api.Guarded(admin.Guard{Token: token, ReadToken: &read, Loopback: true})
	}
	t.Run("time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api, _ := watchable(t)
			events := watch(t, dial(t, api.Handler()), "")
			began := time.Now()
			last := event{}
			for e := next(events); e.name != ""; e = next(events) {
				last = e
			}
			if last.data != `{"reason":"time"}` || time.Since(began) != time.Hour {
				t.Errorf("after %s: %+v", time.Since(began), last)
			}
		})
	})
	t.Run("session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api, monitor := watchable(t)
			handler := guarded(api)
			b := piped(t, handler)
			b.signIn(readSecret)
			events := watch(t, dial(t, handler), "Sec-Fetch-Site: same-origin\r\nCookie: "+b.cookie.String()+"\r\n")
			next(events)
			monitor.Happen(live.Happening{Kind: "change", Text: "of an operator"})
			if e := next(events); e.name != "overview" {
				t.Errorf("the read role is told of %+v", e)
			}
			b.do("POST", "/-/session/end", "{}", nil)
			if e := next(events); e.name != "end" || e.data != `{"reason":"session"}` {
				t.Errorf("after sign-out: %+v", e)
			}
		})
	})
	t.Run("unread", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api, _ := watchable(t)
			ended := make(chan struct{})
			conn := dial(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				api.Handler().ServeHTTP(w, r)
			}))
			watch(t, conn, "")
			began := time.Now()
			<-ended
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("a stream that is not read ended after %s", took)
			}
		})
	})
}

// Streams have a bound of their own, and leave the operations to others.
func TestManyStreams(t *testing.T) {
	f := newFixture(t)
	open := func(at, token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/-/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	for i := range 9 {
		if res, want := open(f.shut.URL, readSecret), 200+i/8*229; res.StatusCode != want {
			t.Fatalf("stream %d of the read token: %s, want %d", i, res.Status, want)
		}
	}
	for i := range 9 {
		if res, want := open(f.shut.URL, secret), 200+i/8*229; res.StatusCode != want {
			t.Fatalf("stream %d of the admin token: %s, want %d", i, res.Status, want)
		}
	}
	if res := open(f.open.URL, ""); res.StatusCode != 429 {
		t.Errorf("one more on the socket: %s", res.Status)
	}
	if a := f.ask("GET", "/-/overview", ""); a.status != 200 || !strings.Contains(a.text, `"streams":16`) {
		t.Errorf("overview: %d %s", a.status, a.text)
	}
	f.api.Close()
}
