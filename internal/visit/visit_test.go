package visit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/visit"
)

// A client reads so much of a body, follows no redirect, and sends no more requests than it may, also by its transport.
func TestClientIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Location", "/next")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, strings.Repeat(`<a href="/x">x</a>`, 200_000))
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := visit.New(visit.Config{Agent: "test", Rate: 1000, Timeout: time.Minute, Requests: 2})
	a, err := c.Get(t.Context(), at, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != http.StatusFound || len(a.Body) != visit.MaxBody || len(a.Links()) != 1000 {
		t.Errorf("status %d, %d bytes, %d links", a.Status, len(a.Body), len(a.Links()))
	}
	res, err := (&http.Client{Transport: c.Transport()}).Head(server.URL)
	if err == nil {
		_ = res.Body.Close()
	}
	if !errors.Is(err, visit.ErrSpent) || c.Requests() != 2 {
		t.Errorf("after 2 requests: %v; %d requests", err, c.Requests())
	}
}

func TestMayChange(t *testing.T) {
	for text, want := range map[string]bool{
		"/": false, "/shop?page=2": false, "/users/Logout": true, "/?add-to-cart=7": true, "/item/3/delete": true, "/a?action=sign_out": true,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if visit.MayChange(u) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
