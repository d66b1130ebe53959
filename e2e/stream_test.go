package e2e

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A cold page reaches visitors while the origin renders it: the origin goes on only after they
// have received what came before. It is stored at its end.
func TestColdPageIsStreamed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	seen := make(chan struct{})
	parts := []string{strings.Repeat("one ", 1000), "two ", strings.Repeat("three ", 50_000)}
	o.set("/", inParts(parts, seen))
	g := serve(t, embedded(t).raced(), o)
	const visitors = 4
	var responses []*http.Response
	var readers []*bufio.Reader
	for range visitors {
		res := open(t, g)
		responses, readers = append(responses, res), append(readers, bufio.NewReader(res.Body))
	}
	for _, part := range parts {
		for _, in := range readers {
			got := make([]byte, len(part))
			if _, err := io.ReadFull(in, got); err != nil || string(got) != part {
				t.Fatalf("got %.20q, %v; expected %.20q", got, err, part)
			}
		}
		seen <- struct{}{}
	}
	for i, in := range readers {
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("after the last part: %v, expected the end", err)
		}
		want := "isr; fwd=miss; fwd-status=200; stored"
		if i > 0 {
			want += "; collapsed"
		}
		if got := responses[i].Header.Get("Cache-Status"); got != want {
			t.Errorf("Cache-Status %q, expected %q", got, want)
		}
	}
	if r := get(t, g.url+"/"); !r.hit() || r.body != strings.Join(parts, "") {
		t.Errorf("afterwards: got %s, expected a hit", r)
	}
}

// open requests the front page, and returns when the header has come.
func open(t *testing.T, g *gateway) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := browsers(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// inParts is a page whose parts the origin sends one by one, each after a receipt of the
// previous one. Without receipts it breaks the connection after the first.
func inParts(parts []string, seen <-chan struct{}) behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "s-maxage=3600")
		for _, part := range parts {
			_, _ = io.WriteString(w, part) // the visitor notices
			_ = http.NewResponseController(w).Flush()
			select {
			case _, open := <-seen:
				if !open {
					panic(http.ErrAbortHandler)
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// An origin that breaks in the middle of a cold page breaks the connection to the visitor, who
// can tell that the page is incomplete. It is not stored.
func TestBrokenColdPage(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	seen := make(chan struct{})
	o.set("/", inParts([]string{"one ", "two"}, seen))
	g := serve(t, embedded(t).raced(), o)
	res := open(t, g)
	close(seen)
	if body, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "one " {
		t.Errorf("got %q, %v; expected an unexpected end after the first part", body, err)
	}
	expectNothingStored(t, g)
	o.set("/", page(3600, 0))
	await(t, "the end of the back-off", patience, func() bool { return get(t, g.url+"/").status == http.StatusOK })
	if r := get(t, g.url+"/"); !r.hit() || renderingOf("/", r.body) == 0 {
		t.Errorf("afterwards: got %s, expected a hit", r)
	}
}
