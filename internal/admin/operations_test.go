package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

func target(k string) admin.Target { return admin.Target{Key: k} }

func regenerate(k string) admin.Regenerate { return admin.Regenerate{Target: target(k)} }

func TestPages(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	for p, err := range c.Pages(t.Context()) {
		t.Errorf("an empty store lists %v, %v", p, err)
	}
	want := make(map[string]bool)
	for i := range 30 {
		key := fmt.Sprintf("example.com/%d", i)
		if _, err := c.Regenerate(t.Context(), regenerate(key)); err != nil {
			t.Fatal(err)
		}
		want[key] = true
	}
	for p, err := range c.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !want[p.Key] || p.State != "fresh" || p.Status != 200 || p.Header != nil {
			t.Errorf("listed: %+v", p)
		}
		delete(want, p.Key)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	f.ask(http.MethodGet, "/-/pages", "") // checked against the document
}

// A list that fails ends with an error, wherever it fails.
func TestListFails(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		if _, err := f.client().Regenerate(t.Context(), regenerate(fmt.Sprintf("example.com/%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	f.store.failAfter = 3
	var failed *admin.Error
	pages := 0
	for _, err := range f.client().Pages(t.Context()) {
		if err == nil {
			pages++
			continue
		}
		if !errors.As(err, &failed) {
			t.Fatalf("the list ends with %v", err)
		}
	}
	if pages != 3 || failed == nil || failed.Code != "store_failed" || !strings.Contains(failed.Message, "on fire") {
		t.Errorf("%d pages, then %+v; want 3, then that the store failed", pages, failed)
	}
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range f.client().Pages(stop) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled list yields %v", err)
		}
	}
}

func TestPage(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	missing, err := c.Page(t.Context(), admin.Target{URL: "https://Example.com:443/a", Tenant: "acme"})
	if err != nil || missing.State != "missing" || missing.Key != "acme:example.com/a" {
		t.Errorf("a page that is not stored: %+v, %v", missing, err)
	}
	made, err := c.Regenerate(t.Context(), admin.Regenerate{Target: admin.Target{URL: "http://example.com/a"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Page(t.Context(), target("example.com/a"))
	if err != nil || got.Generation != made.Generation || got.BodyProblem != "" || got.Header.Get("Content-Type") == "" || got.Route != "site" {
		t.Errorf("stored: %+v, %v; made: %+v", got, err, made)
	}
	if err := f.bodies.Delete(t.Context(), got.Body); err != nil {
		t.Fatal(err)
	}
	if got, err = c.Page(t.Context(), target("example.com/a")); err != nil || got.BodyProblem == "" {
		t.Errorf("without its body: %+v, %v", got, err)
	}
	purge := store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgePrefix, Value: "example.com/"}}}
	for _, state := range []string{"stale", "purged"} {
		if _, err := f.store.Purge(t.Context(), purge); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Page(t.Context(), target("example.com/a")); err != nil || got.State != state {
			t.Errorf("after a purge of its prefix it is %s, want %s; %v", got.State, state, err)
		}
		purge.Hard = true
	}
}

func TestInvalidInputs(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/-/page", "", 400, "invalid_request"},
		{"GET", "/-/page?url=https://a.example/&key=a.example/", "", 400, "invalid_request"},
		{"GET", "/-/page?key=/no-host", "", 400, "invalid_request"},
		{"GET", "/-/page?key=a.example/&tenant=a%23b", "", 400, "invalid_request"},
		{"GET", "/-/page?key=a.example/&key=b.example/", "", 400, "invalid_request"},
		{"GET", "/-/page?key=a.example/&tennant=x", "", 400, "invalid_request"},
		{"GET", "/-/page?key=%zz", "", 400, "invalid_request"},
		{"GET", "/-/pages?limit=1", "", 400, "invalid_request"},
		{"POST", "/-/regenerate", "", 415, "not_json"},
		{"POST", "/-/regenerate", "{", 400, "invalid_request"},
		{"POST", "/-/regenerate", "[]", 400, "invalid_request"},
		{"POST", "/-/regenerate", `{"key":1}`, 400, "invalid_request"},
		{"POST", "/-/regenerate", `{"key":"a.example/","tennant":"x"}`, 400, "invalid_request"},
		{"POST", "/-/regenerate", `{"key":"a.example/"}{}`, 400, "invalid_request"},
		{"POST", "/-/regenerate", `{"key":"` + strings.Repeat("a", 70<<10) + `"}`, 413, "too_large"},
		{"POST", "/-/regenerate", `{"key":"a.example/","tenant":"acme"}`, 400, "invalid_request"}, // the site has none
		{"POST", "/-/lease/release", `{}`, 400, "invalid_request"},
		{"POST", "/-/page", "{}", 405, "method_not_allowed"},
		{"DELETE", "/-/lease", "", 405, "method_not_allowed"},
		{"GET", "/-/pages/", "", 404, "not_found"},
		{"GET", "/", "", 404, "not_found"},
	} {
		a := f.ask(c.method, c.path, c.body)
		if a.status != c.status || a.code != c.code {
			t.Errorf("%s %s: %d %s; want %d %s", c.method, c.path, a.status, a.text, c.status, c.code)
		}
	}
	if allow := f.ask("PUT", "/-/page", "{}").header.Get("Allow"); allow != "GET" {
		t.Errorf("Allow: %s", allow)
	}
	if a := f.ask("HEAD", "/-/health", ""); a.status != 200 || a.text != "" {
		t.Errorf("HEAD: %+v", a)
	}
}

func TestRegenerate(t *testing.T) {
	f := newFixture(t)
	renders := 0
	f.render = func(w http.ResponseWriter, _ *http.Request) {
		renders++
		page(w, fmt.Sprintf("render %d", renders))
	}
	first, err := f.client().Regenerate(t.Context(), regenerate("example.com/"))
	if err != nil || first.State != "fresh" || first.BodyBytes != int64(len("render 1")) {
		t.Fatalf("%+v, %v", first, err)
	}
	second := f.ask("POST", "/-/regenerate", `{"url":"http://example.com/"}`)
	var p admin.Page
	if err := json.Unmarshal([]byte(second.text), &p); err != nil || p.Generation == first.Generation || renders != 2 {
		t.Errorf("a fresh page was not rendered again: %+v, %v", second, err)
	}
}

// Each failure of a regeneration has its own status and code.
func TestRegenerateFails(t *testing.T) {
	f := newFixture(t)
	ask := func(want int, code string) answer {
		t.Helper()
		a := f.ask("POST", "/-/regenerate", `{"key":"example.com/"}`)
		if a.status != want || a.code != code {
			t.Errorf("%d %s; want %d %s", a.status, a.text, want, code)
		}
		return a
	}
	f.render = func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		page(w, "for you alone")
	}
	if a := ask(422, "uncacheable"); !strings.Contains(a.text, "cookie") {
		t.Errorf("no reason is given: %s", a.text)
	}
	f.render = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	ask(502, "regeneration_failed")
	if a := ask(409, "back_off"); a.header.Get("Retry-After") == "" {
		t.Error("a back-off without Retry-After")
	}
	if err := f.cache.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(503, "closing")
	f.serve(admin.Config{Cache: f.node()})
	ask(409, "no_renderer")
	f.serve(admin.Config{})
	if a := ask(409, "no_renderer"); !strings.Contains(a.text, "--server") {
		t.Errorf("nothing says what to do: %s", a.text)
	}
}

// Forced regenerations respect an open circuit breaker.
func TestRegenerateRespectsCircuitBreaker(t *testing.T) {
	f := newFixture(t)
	cache := f.node()
	origin := budget.New(budget.Config{Failures: 1, Logger: slog.New(slog.DiscardHandler)})
	cache.Handler(isr.Route{Name: "site", Revalidate: time.Minute, Budget: origin}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		isr.OriginUnreachable(w, errors.New("connection refused"))
		w.WriteHeader(http.StatusBadGateway)
	}))
	f.serve(admin.Config{Cache: cache})
	if a := f.ask("POST", "/-/regenerate", `{"key":"example.com/1"}`); a.code != "regeneration_failed" {
		t.Errorf("%d %s", a.status, a.text)
	}
	a := f.ask("POST", "/-/regenerate", `{"key":"example.com/2"}`)
	if a.status != 503 || a.code != "origin_spared" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// holding lets another process render a page, and hold its lease, until f returns. It
// returns the error of that render.
func (f *fixture) holding(key string, do func(), how ...isr.RegenerateOption) error {
	f.t.Helper()
	other := f.node()
	began, end := make(chan struct{}), make(chan struct{})
	other.Handler(isr.Route{Name: "site", Revalidate: time.Minute}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-end
		page(w, "by the other")
	}))
	outcome := make(chan error, 1)
	k, err := store.ParseKey("", key)
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		_, err := other.Regenerate(context.Background(), k, how...)
		outcome <- err
	}()
	select {
	case <-began:
	case err := <-outcome:
		f.t.Errorf("the other process has not begun to render: %v", err)
		return err
	}
	do()
	close(end)
	return <-outcome
}

func TestLease(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	free, err := c.Lease(t.Context(), target("example.com/"))
	if err != nil || free.State != admin.LeaseFree || !free.ExpiresAt.IsZero() {
		t.Errorf("a free lease: %+v, %v", free, err)
	}
	err = f.holding("example.com/", func() {
		held, err := c.Lease(t.Context(), target("example.com/"))
		if err != nil || held.State != admin.LeaseHeld || held.Owner != "node-a" || held.SecondsLeft < 1 || held.SecondsLeft > 31 {
			t.Errorf("a held lease: %+v, %v", held, err)
		}
		f.ask("GET", "/-/lease?key=example.com/", "")
		a := f.ask("POST", "/-/regenerate", `{"key":"example.com/"}`)
		if a.status != 409 || a.code != "held" || a.header.Get("Retry-After") == "" {
			t.Errorf("regenerating what another process does: %+v", a)
		}
		_, err = c.Regenerate(t.Context(), regenerate("example.com/"))
		var failed *admin.Error
		if !errors.As(err, &failed) || failed.Code != "held" || failed.RetryAfter < time.Second {
			t.Errorf("the client says %#v", err)
		}
	})
	if err != nil {
		t.Errorf("looking at a lease has broken it: %v", err)
	}
}

// Concurrent operations are bounded.
func TestConcurrentOperationsAreBounded(t *testing.T) {
	f := newFixture(t)
	const most = 32
	f.store.entered, f.store.gate = make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	for range most {
		wait.Go(func() {
			if a := f.ask("GET", "/-/lease?key=example.com/", ""); a.status != 200 {
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
	for range most {
		<-f.store.entered
	}
	if a := f.ask("GET", "/-/health", ""); a.status != 429 || a.code != "busy" || a.header.Get("Retry-After") != "1" {
		t.Errorf("one too many: %d %s", a.status, a.text)
	}
	close(f.store.gate)
	wait.Wait()
	if a := f.ask("GET", "/-/health", ""); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.text)
	}
}
