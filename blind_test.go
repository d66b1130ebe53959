package isr_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// cutOff makes a node that has the page / in memory unable to read the log, until restored.
func cutOff(t *testing.T, tb *table, policy isr.BlindPolicy) (p *peer, renders *site, restore func()) {
	t.Helper()
	site := newSite()
	site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
		if r.URL.Path == "/down" {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
		_, _ = w.Write([]byte(r.URL.Path))
	})
	p = tb.peer("a", isr.Route{}, site, func(cfg *isr.Config) { cfg.Blind = policy })
	for _, path := range []string{"/", "/stored"} {
		expect(t, get(p, path), path, "isr; fwd=miss")
	}
	p.store.changes.Store(new(errors.New("the log is throttled")))
	return p, site, func() { p.store.changes.Store(nil) }
}

// Until MaxBlind, all policies serve what there is.
func TestBlindPolicyWaitsForMaxBlind(t *testing.T) {
	for _, policy := range []isr.BlindPolicy{isr.BlindServe, isr.BlindRefuse} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, _ := cutOff(t, newTable(t), policy)
				time.Sleep(9500 * time.Millisecond)
				a := get(p, "/")
				expect(t, a, "/", "isr; hit")
				if !strings.HasSuffix(a.status(), "; detail=cut-off") {
					t.Errorf("status %q", a.status())
				}
			})
		})
	}
}

func TestBlindServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, site, _ := cutOff(t, newTable(t), isr.BlindServe)
		time.Sleep(time.Hour)
		expect(t, get(p, "/"), "/", "isr; hit")
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want those of the start", n)
		}
	})
}

func TestBlindRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p, site, restore := cutOff(t, tb, isr.BlindRefuse)
		time.Sleep(11 * time.Second)
		for _, path := range []string{"/", "/stored", "/new"} {
			a := get(p, path)
			if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") != "1" || !strings.HasSuffix(a.status(), "; detail=cut-off") {
				t.Errorf("%s: %d, Retry-After %q, %q", path, a.Code, a.Header().Get("Retry-After"), a.status())
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want those of the start", n)
		}
		expect(t, get(p, "/", "Authorization: me"), "/", "isr; fwd=bypass")

		if n := strings.Count(tb.log.String(), "requests are refused until it is"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}

		restore()
		time.Sleep(isr.DefaultPoll)
		expect(t, get(p, "/"), "/", "isr; hit")
		expect(t, get(p, "/new"), "/new", "isr; fwd=miss")
	})
}

// A node that was frozen for longer than MaxBlind polls before it refuses anything.
func TestThawedNodeIsNotBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		ahead := new(atomic.Int64)
		h := tb.node(tb.store("a"), func(cfg *isr.Config) {
			cfg.Blind = isr.BlindRefuse
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}).Handler(isr.Route{}, newSite())
		get(h, "/")
		ahead.Store(int64(30 * time.Second)) // of the wall clock alone: the machine slept
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			expect(t, a, "/ rendered 1", "isr; hit")
		}
	})
}

func TestBlindPolicyText(t *testing.T) {
	for _, policy := range []isr.BlindPolicy{isr.BlindServe, isr.BlindRefuse} {
		text, err := policy.MarshalText()
		var parsed isr.BlindPolicy
		if err != nil || parsed.UnmarshalText(text) != nil || parsed != policy {
			t.Errorf("%v: %q, %v, parsed as %v", policy, text, err, parsed)
		}
	}
	if _, err := isr.BlindPolicy(7).MarshalText(); err == nil {
		t.Error("an invalid policy has a text")
	}
	for text, want := range map[string]string{"hope": "expected serve or refuse", "revalidate": "was removed; use refuse"} {
		if err := new(isr.BlindPolicy).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parsing %q: %v", text, err)
		}
	}
	for _, cfg := range []isr.Config{{Blind: 2}, {MaxBlind: time.Millisecond}, {MaxBlind: 25 * time.Hour}} {
		var invalid *isr.ConfigError
		if _, err := isr.New(nil, nil, cfg); !errors.As(err, &invalid) {
			t.Errorf("New accepts %+v: %v", cfg, err)
		}
	}
}
