package gateway_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// The site reports which servers are up, what waits, and when a circuit breaker is open; and it
// reports each request to a server, also a request that another server then answers.
func TestOrigins(t *testing.T) {
	var mu sync.Mutex
	var told []string
	up, down := newEcho(t, "up"), closed(t)
	failing := newEcho(t, "failing")
	failing.Close()
	s := newSite(t, newCache(t), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{
			"site":  {URLs: []*url.URL{parse(t, down), parse(t, up.URL)}, Balance: gateway.BalanceFirst},
			"other": {URLs: []*url.URL{parse(t, failing.URL)}, Failures: 1},
		},
		Routes: []gateway.SiteRoute{
			{Pattern: "/", Route: isr.Route{Revalidate: time.Minute}, Origin: "site"},
			{Pattern: "/other/", Route: isr.Route{Revalidate: time.Minute}, Origin: "other"},
		},
		Answered: func(origin, method string, status int, err error, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(origin, " ", method, " ", status, " ", err != nil, " ", took > 0))
		},
	})
	state := func() (all []string) {
		for _, o := range s.Origins() {
			text := fmt.Sprint(o.Name, " open=", o.Open, " waiting=", o.Waiting, " rendering=", o.Rendering)
			for _, a := range o.Addresses {
				text += fmt.Sprint(" ", a.Up)
			}
			all = append(all, text)
		}
		return all
	}
	if got, want := state(), []string{"other open=false waiting=0 rendering=0 true", "site open=false waiting=0 rendering=0 true true"}; !slices.Equal(got, want) {
		t.Errorf("at first %q, expected %q", got, want)
	}
	visit(s, http.MethodGet, "http://example.com/page")
	visit(s, http.MethodGet, "http://example.com/other/page")
	if got, want := state(), []string{"other open=true waiting=0 rendering=0 false", "site open=false waiting=0 rendering=0 false true"}; !slices.Equal(got, want) {
		t.Errorf("then %q, expected %q", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"site GET 0 true true", "site GET 200 false true", "other GET 0 true true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, expected %q", told, want)
	}
}

// Each attempt at a server is sent by Send, which may replace the request.
func TestSend(t *testing.T) {
	var hosts []string
	down, up := closed(t), newEcho(t, "up")
	s := newSite(t, newCache(t), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, down), parse(t, up.URL)}, Balance: gateway.BalanceFirst}},
		Routes:  []gateway.SiteRoute{{Pattern: "/", Route: isr.Route{Revalidate: time.Minute}, Origin: "site"}},
		Send: func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host)
			return send(r.Clone(r.Context()))
		},
	})
	if v := visit(s, http.MethodGet, "http://example.com/page"); v.Code != http.StatusOK {
		t.Errorf("got %d", v.Code)
	}
	if want := []string{strings.TrimPrefix(down, "http://"), strings.TrimPrefix(up.URL, "http://")}; !slices.Equal(hosts, want) {
		t.Errorf("sent to %q, expected %q", hosts, want)
	}
}
