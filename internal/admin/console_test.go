package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/store"
)

// get returns the decoded response of an operation.
func get[Out any](f *fixture, path string) (out Out) {
	f.t.Helper()
	a := f.ask("GET", path, "")
	if err := json.Unmarshal([]byte(a.text), &out); err != nil || a.status != 200 {
		f.t.Fatalf("%s: %d %s: %v", path, a.status, a.text, err)
	}
	return out
}

func TestOverview(t *testing.T) {
	f := newFixture(t)
	var meter admin.Meter
	problems := []string{}
	f.serve(admin.Config{
		Cache: f.cache, Live: f.live, Node: "web-1:7", Version: "v1.2.3", Place: "in a test", Embedded: true, Demo: true, Meter: &meter,
		Problems: func() []string { return problems },
	})
	f.make("/a")
	meter.Count("publish", 1.5, 4)
	for range 3 {
		f.live.Done(&telemetry.Exchange{
			Report: isr.Report{Route: "site", Key: store.Key{Text: "example.com/a"}, Hit: true},
			Start:  time.Now(), Duration: time.Millisecond, Status: 200, Bytes: 10,
		})
	}
	o := get[admin.Overview](f, "/-/overview")
	if o.Node != "web-1:7" || o.Version != "v1.2.3" || o.Store != "in a test" || !o.Demo || o.Status != "ok" || o.Problems == nil || o.Started.IsZero() {
		t.Errorf("server: %+v", o)
	}
	if o.Hour.Hit != 3 || o.Minute.Requests != 3 || o.Hour.Renders != 1 || o.Hour.StoreCalls == 0 || len(o.Minutes) == 0 || len(o.MostRequested) != 1 || len(o.Slowest) != 1 {
		t.Errorf("counts: %+v", o.Snapshot)
	}
	if o.Cost.ReadUnits != 1.5 || o.Cost.WriteUnits != 4 || o.Cost.WriteUnitsHour != 4 || !o.Cost.Embedded || o.Cost.RenderSecondsSave != 3*o.Hour.RenderSeconds {
		t.Errorf("cost: %+v", o.Cost)
	}
	if o.Now.MemoryLimit == 0 || o.Now.StoresDown == nil {
		t.Errorf("now: %+v", o.Now)
	}
	for _, detail := range []string{"set-cookie", "no-such-detail"} {
		f.live.Done(&telemetry.Exchange{Report: isr.Report{Route: "site", Forward: "miss", Detail: detail}, Start: time.Now(), Status: 200})
	}
	f.live.Done(&telemetry.Exchange{Start: time.Now(), Status: 421})
	o = get[admin.Overview](f, "/-/overview")
	if d := o.Details["set-cookie"]; d.Meaning != "the response sets a cookie" || d.Advice == "" || d.RFC == "" || o.Details["unrouted"].Meaning == "" || len(o.Details) != len(o.Hour.Reasons) {
		t.Errorf("details of %v: %+v", o.Hour.Reasons, o.Details)
	}
	problems = []string{"the store does not answer"}
	if o, err := f.client().Overview(t.Context()); err != nil || o.Status != "degraded" || o.Problems[0] != problems[0] {
		t.Errorf("%+v, %v", o.Problems, err)
	}
	f.serve(admin.Config{})
	if a := f.ask("GET", "/-/overview", ""); a.status != 409 || a.code != "not_counted" {
		t.Errorf("without a server: %d %s", a.status, a.text)
	}
}

const hostile = `<!doctype html><title>x</title><script>fetch("/-/purge")</script><img src=x onerror="alert(1)">`

func TestStoredBody(t *testing.T) {
	f := newFixture(t)
	kinds := map[string]string{"/page": "text/html; charset=utf-8", "/xhtml": "application/xhtml+xml", "/binary": "image/png"}
	f.render = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "s-maxage=60")
		w.Header().Set("Content-Type", kinds[r.URL.Path])
		switch r.URL.Path {
		case "/binary":
			_, _ = w.Write([]byte{0, 0xff})
		case "/large":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, strings.Repeat("ä", 1<<20))
		case "/huge":
			_, _ = io.WriteString(w, strings.Repeat("x", 4<<20+1))
		default:
			_, _ = io.WriteString(w, hostile)
		}
	}
	f.make("/page", "/xhtml", "/binary", "/large", "/huge")
	b := get[admin.Body](f, "/-/body?key=example.com/page")
	if b.Text != hostile || b.Binary || b.Truncated || b.Shown != b.Bytes || b.ContentType != kinds["/page"] || b.Generation == "" {
		t.Errorf("%+v", b)
	}
	if again := get[admin.Body](f, "/-/body?key=example.com/page&generation="+b.Generation); again.Text != hostile {
		t.Errorf("by its generation: %+v", again)
	}
	if b := get[admin.Body](f, "/-/body?key=example.com/binary"); !b.Binary || b.Text != "" || b.Bytes != 2 {
		t.Errorf("binary: %+v", b)
	}
	if b := get[admin.Body](f, "/-/body?key=example.com/large"); !b.Truncated || b.Shown != 1<<20 || b.Bytes != 2<<20 {
		t.Errorf("large: %d of %d bytes, truncated %t", b.Shown, b.Bytes, b.Truncated)
	}
	for _, path := range []string{"/page", "/xhtml"} {
		a := f.ask("GET", "/-/document?key=example.com"+path, "")
		policy := a.header.Get("Content-Security-Policy")
		if a.status != 200 || !strings.HasPrefix(policy, "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; ") || strings.Contains(policy, "allow-") {
			t.Errorf("%s: %d, policy %s", path, a.status, policy)
		}
		if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Cache-Control") != "no-store" || a.text != hostile {
			t.Errorf("%s: %v %s", path, a.header, a.text)
		}
	}
	for query, want := range map[string]string{
		"/-/document?key=example.com/binary":                     "415 not_html",
		"/-/document?key=example.com/huge":                       "404 no_body",
		"/-/body?key=example.com/huge":                           "404 no_body",
		"/-/body?key=example.com/missing":                        "404 no_version",
		"/-/document?key=example.com/page&generation=nowhere":    "404 no_version",
		"/-/body?key=example.com/page&generation=quarantined":    "404 not_quarantined",
		"/-/document?key=example.com/page&url=http://other.com/": "400 invalid_request",
	} {
		if a := f.ask("GET", query, ""); fmt.Sprint(a.status, " ", a.code) != want {
			t.Errorf("%s: %d %s; want %s", query, a.status, a.text, want)
		}
	}
}

func TestPurgeReach(t *testing.T) {
	f := newFixture(t)
	f.make("/a")
	now := time.Now()
	for id, applied := range map[string]int64{"one": 99, "two": 0} {
		n := store.Node{ID: id, Name: id + ":1", Applied: applied, Release: "v1", Config: "abc", Since: now, SeenAt: now, Until: now.Add(time.Minute)}
		if err := f.store.Announce(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	f.serve(admin.Config{Cache: f.cache, Live: f.live, Node: "two:1"})
	f.ask("POST", "/-/purge", `{"targets":[{"tag":"news"},{"prefix":"example.com/b/"}],"mode":"hard"}`)
	f.ask("POST", "/-/purge", `{"targets":[{"url":"http://example.com/a"}]}`)
	p := get[admin.Purges](f, "/-/purges")
	if p.Seq != 2 || len(p.Purges) != 2 || len(p.Nodes) != 2 || p.Deliveries == nil {
		t.Fatalf("%+v", p)
	}
	if of := p.Purges[0]; of.Kind != "pages" || strings.Join(of.Targets, " ") != "example.com/a" || !of.At.IsZero() {
		t.Errorf("of a page: %+v", of)
	}
	of := p.Purges[1]
	if of.Kind != "marks" || !of.Hard || of.TargetCount != 2 || of.At.IsZero() || of.Servers != 2 || of.Reached != 1 || strings.Join(of.Missing, " ") != "two:1" {
		t.Errorf("of marks: %+v", of)
	}
	n := get[admin.Nodes](f, "/-/nodes")
	if n.Alone || n.Nodes[0].This || !n.Nodes[1].This || n.Nodes[1].Behind != 2 || n.Nodes[1].Version != "v1" || n.Nodes[1].Config != "abc" {
		t.Errorf("nodes: %+v", n)
	}
}

func TestNodeAlone(t *testing.T) {
	f := newFixture(t)
	f.serve(admin.Config{Cache: f.cache, Version: "v1.2.3", Process: func() admin.Process { return admin.Process{Config: "abc"} }})
	if n := get[admin.Nodes](f, "/-/nodes"); !n.Alone || len(n.Nodes) != 1 || !n.Nodes[0].This || n.Nodes[0].Version != "v1.2.3" || n.Nodes[0].Config != "abc" {
		t.Errorf("%+v", n)
	}
}

func TestLeases(t *testing.T) {
	f := newFixture(t)
	lists := make(chan admin.Leases, 1)
	f.render = func(w http.ResponseWriter, _ *http.Request) {
		f.search("")
		lists <- get[admin.Leases](f, "/-/leases")
		page(w, "x")
	}
	f.make("/a")
	l := <-lists
	if len(l.Holding) != 1 || l.Holding[0].Key != "example.com/a" || l.Holding[0].Since.IsZero() {
		t.Errorf("holding: %+v", l.Holding)
	}
	if len(l.Known) != 1 || l.Known[0].Owner != "node-a" || l.Known[0].Until.IsZero() || l.AsOf.IsZero() {
		t.Errorf("known: %+v", l.Known)
	}
	if l := get[admin.Leases](f, "/-/leases"); len(l.Holding) != 0 {
		t.Errorf("after the render: %+v", l.Holding)
	}
}

func TestOrigins(t *testing.T) {
	f := newFixture(t)
	if a := f.ask("GET", "/-/origins", ""); a.status != 409 {
		t.Errorf("without: %d %s", a.status, a.text)
	}
	f.serve(admin.Config{Origins: func() []admin.Origin {
		return []admin.Origin{{Name: "site", Breaker: "open", Addresses: []admin.OriginAddress{{URL: "http://a"}}}}
	}})
	if o := get[admin.Origins](f, "/-/origins"); len(o.Origins) != 1 || o.Origins[0].Breaker != "open" {
		t.Errorf("%+v", o)
	}
}

func TestActivity(t *testing.T) {
	f := newFixture(t)
	f.make("/a")
	f.ask("POST", "/-/pin", `{"key":"example.com/a"}`)
	f.render = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", 500) }
	f.ask("POST", "/-/regenerate", `{"key":"example.com/a","unpin":true}`)
	shown := get[admin.Activity](f, "/-/page/activity?url=http://example.com/a")
	if shown.Renders != 2 || shown.Failing == nil || shown.Failing.Count != 1 || shown.Failing.Error == "" {
		t.Errorf("%+v, %+v", shown, shown.Failing)
	}
	if len(shown.Changes) != 3 || shown.Changes[0].Result != "regeneration_failed" || shown.Changes[1].Action != "pinPage" {
		t.Errorf("changes: %+v", shown.Changes)
	}
}

// The latest changes are remembered, and those that no token has admitted are not.
func TestRememberedChanges(t *testing.T) {
	f := newFixture(t)
	b := f.browser(secret)
	b.do("POST", "/-/purge", `{"targets":[{"tag":"a"}]}`, nil)
	f.bearer("POST", "/-/purge", `{"targets":[{"tag":"b"}]}`, secret)
	f.ask("POST", "/-/purge", `{"targets":[]}`)
	f.browser("").signIn("a-wrong-token-of-someone")
	all := get[admin.Audit](f, "/-/audit")
	var got []string
	for _, e := range all.Entries {
		got = append(got, e.Action+" "+e.Result+" "+e.Via+" "+string(e.Role))
		if e.At.IsZero() || e.Remote == "" {
			t.Errorf("%+v", e)
		}
	}
	want := "purgePages invalid_request socket admin; purgePages ok token admin; purgePages ok console admin; signIn ok console admin"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
	if some := get[admin.Audit](f, "/-/audit?limit=1&target=soft:%20tag%20a"); len(some.Entries) != 1 || some.Entries[0].Via != "console" {
		t.Errorf("of a target: %+v", some.Entries)
	}
	for range 1100 {
		f.ask("POST", "/-/purge", `{"targets":[]}`)
	}
	if all := get[admin.Audit](f, "/-/audit?limit=1000"); len(all.Entries) != 1000 || all.Entries[999].Via != "socket" {
		t.Errorf("%d changes are remembered", len(all.Entries))
	}
}
