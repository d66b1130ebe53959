package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/facetheory/isr/gateway"
)

// Renders and requests that pass through are shared, and what is open is counted until the response has ended.
func TestSharedLoad(t *testing.T) {
	var hold atomic.Pointer[chan struct{}]
	begun := make(chan string)
	server := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ch := hold.Load(); ch != nil {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				begun <- name
				<-*ch
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	s := behind(t, gateway.Origin{Balance: gateway.BalanceRoundRobin}, server("a"), server("b"))
	for _, path := range []string{"/page/1", "/page/2", "/a", "/b"} {
		visit(s, http.MethodGet, "http://example.com"+path)
	}
	addresses := func() []gateway.AddressState { return s.Origins()[0].Addresses }
	for _, a := range addresses() {
		if a.Requests != 2 || a.Open != 0 || !a.Up {
			t.Errorf("after four requests %+v", a)
		}
	}
	release := make(chan struct{})
	hold.Store(&release)
	done := make(chan struct{})
	for range 2 {
		go func() {
			visit(s, http.MethodPost, "http://example.com/a")
			done <- struct{}{}
		}()
		<-begun
	}
	for _, a := range addresses() {
		if a.Open != 1 {
			t.Errorf("while two responses come, %+v", a)
		}
	}
	close(release)
	<-done
	<-done
	for _, a := range addresses() {
		if a.Open != 0 {
			t.Errorf("after all, %+v", a)
		}
	}
}

// An address that answers with errors is ejected while another answers well.
func TestEjectedAddress(t *testing.T) {
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer bad.Close()
	good := newEcho(t, "good")
	s := behind(t, gateway.Origin{Balance: gateway.BalanceRoundRobin}, bad.URL, good.URL)
	failed := 0
	for range 50 {
		if visit(s, http.MethodPost, "http://example.com/a").Code != http.StatusOK {
			failed++
		}
	}
	if a := s.Origins()[0].Addresses[0]; failed != gateway.DefaultEjectionFailures || a.Ejections != 1 || a.Up {
		t.Errorf("%d requests failed; %+v", failed, a)
	}
}
