package isr_test

import (
	"net/http/httptest"
	"testing"

	"github.com/facetheory/isr"
)

func TestExplain(t *testing.T) {
	rt := isr.Route{Query: []string{"page"}, Vary: []string{"X-Device"}}
	r := httptest.NewRequest("GET", "http://Example.com/a?utm_source=x&page=2", nil)
	r.Header.Set("X-Device", "phone")
	r.Header.Set("User-Agent", "a browser")
	got, err := rt.Explain(r)
	if err != nil || got.Bypass != "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if want := "example.com/a?page=2#x-device=phone"; got.Key.String() != want {
		t.Errorf("the key is %s, want %s", got.Key, want)
	}
	if got.Render.RequestURI != "/a?page=2" || got.Render.Header.Get("X-Device") != "phone" || got.Render.Header.Get("User-Agent") != "isr" {
		t.Errorf("the renderer gets %+v", got.Render)
	}

	r.Header.Set("Cookie", "session=1")
	if got, err := rt.Explain(r); err != nil || got.Bypass != "cookie" || got.Render != nil {
		t.Errorf("got %+v, %v for a cookie", got, err)
	}
	r.Host = "not a host"
	if _, err := rt.Explain(r); err == nil {
		t.Error("a request that is refused was explained")
	}
	rt.Jitter = 2
	if _, err := rt.Explain(r); err == nil {
		t.Error("an invalid route was explained")
	}
}
