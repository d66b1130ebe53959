package server

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
)

func TestReadiness(t *testing.T) {
	h := newHealth()
	var problems []problem
	expect := func(code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		if w.Code != code || w.Body.String() != body+"\n" {
			t.Errorf("/readyz: %d %s, want %d %s", w.Code, w.Body, code, body)
		}
		public := httptest.NewRecorder()
		h.public(public, httptest.NewRequest(http.MethodGet, "/-/ready", http.NoBody))
		if public.Code != code || strings.Contains(public.Body.String(), "reasons") {
			t.Errorf("to strangers: %d %s, want %d and no reasons", public.Code, public.Body, code)
		}
		alive := httptest.NewRecorder()
		h.handler().ServeHTTP(alive, httptest.NewRequest(http.MethodHead, "/livez", http.NoBody))
		if alive.Code != http.StatusOK {
			t.Errorf("/livez: %d", alive.Code)
		}
	}
	expect(503, `{"status":"starting","reasons":["the server is starting"]}`)
	h.ready(func() []problem { return problems })
	expect(200, `{"status":"ready"}`)
	problems = []problem{{checkStores, "table", "the store of the table does not answer"}}
	expect(200, `{"status":"degraded","reasons":["the store of the table does not answer"]}`)
	checks := map[string]bool{checkServing: true, checkStores: false, checkDownstream: true, checkCertificates: true, checkQueue: true, checkScheme: true, checkMaintenance: true}
	if got := h.checks(); !maps.Equal(got, checks) {
		t.Errorf("the checks are %v", got)
	}
	h.drain()
	if h.checks()[checkServing] {
		t.Error("a server that drains is serving")
	}
	expect(503, `{"status":"draining","reasons":["the server is shutting down"]}`)
	w := httptest.NewRecorder()
	h.public(w, httptest.NewRequest(http.MethodPost, "/-/ready", http.NoBody))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestStopTimes(t *testing.T) {
	chosen := cli.Span(3 * time.Second)
	for address, want := range map[string]time.Duration{"127.0.0.1": 0, "::1": 0, "0.0.0.0": 5 * time.Second, "192.0.2.1": 5 * time.Second} {
		at := &net.TCPAddr{IP: net.ParseIP(address)}
		if got := new(healthFlags).drainTime(at); got != want {
			t.Errorf("draining on %s takes %s, want %s", address, got, want)
		}
		if got := (&healthFlags{Drain: &chosen}).drainTime(at); got != 3*time.Second {
			t.Errorf("--drain 3s is %s", got)
		}
	}
	if got := new(healthFlags).graceTime(30 * time.Second); got != 35*time.Second {
		t.Errorf("the grace is %s", got)
	}
	if got := (&healthFlags{Grace: &chosen}).graceTime(30 * time.Second); got != 3*time.Second {
		t.Errorf("--grace 3s is %s", got)
	}
}
