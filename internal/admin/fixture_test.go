package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

const (
	secret     = "correct-horse-battery"
	readSecret = "battery-horse-correct"
)

// site stands for the files of the console.
func site(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "console "+r.URL.Path) }

// A fixture is an API on real stores, called over real connections.
type fixture struct {
	t      *testing.T
	store  *faultyStore
	bodies *dirbody.Store
	log    *testbed.Log
	render http.HandlerFunc // what the site does; set before it is asked

	cache *isr.Cache
	live  *live.Monitor
	api   *admin.API
	open  *httptest.Server // no token
	shut  *httptest.Server // guarded
	doc   map[string]any
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, log: new(testbed.Log)}
	f.store, f.bodies = newStores(t)
	f.render = func(w http.ResponseWriter, r *http.Request) { page(w, "hello from "+r.URL.Path) }
	f.live = live.New()
	f.cache = f.node()
	f.cache.Handler(isr.Route{Name: "site", Revalidate: time.Minute, Stale: time.Hour, History: 3}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.render(w, r) }))
	f.serve(admin.Config{Cache: f.cache, Version: "v1.2.3", Place: "in a test", Live: f.live})
	return f
}

// node adds another process on the same stores.
func (f *fixture) node() *isr.Cache {
	f.t.Helper()
	cache, err := isr.New(f.store, f.bodies, isr.Config{StoreTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler), Observer: f.live})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := cache.Close(context.Background()); err != nil {
			f.t.Error(err)
		}
	})
	return cache
}

// serve replaces the API.
func (f *fixture) serve(cfg admin.Config) {
	f.t.Helper()
	cfg.Logger = slog.New(slog.NewJSONHandler(f.log, nil))
	api, err := admin.New(f.store, f.bodies, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	token, err := admin.NewToken(secret)
	if err != nil {
		f.t.Fatal(err)
	}
	read, err := admin.NewToken(readSecret)
	if err != nil {
		f.t.Fatal(err)
	}
	f.api, f.open, f.shut = api, httptest.NewServer(api.Handler()), httptest.NewServer(api.Guarded(admin.Guard{Token: token, ReadToken: &read, Loopback: true, Console: http.HandlerFunc(site)}))
	f.t.Cleanup(api.Close)
	f.t.Cleanup(f.open.Close)
	f.t.Cleanup(f.shut.Close)
	if err := json.Unmarshal([]byte(f.ask(http.MethodGet, "/-/openapi.json", "").text), &f.doc); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) client() *admin.Client {
	f.t.Helper()
	c, err := admin.NewClient(f.shut.URL, secret, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// An answer is the response to a request.
type answer struct {
	status int
	header http.Header
	text   string
	code   string // of an error
}

// ask sends a request to the API without authentication.
func (f *fixture) ask(method, path, body string) answer {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.open.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return f.send(req)
}

// send sends a request and checks the response against the OpenAPI document.
func (f *fixture) send(req *http.Request) answer {
	f.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		f.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(text)}
	var failed struct{ Error admin.Error }
	if res.StatusCode != http.StatusOK {
		if err := json.Unmarshal(text, &failed); err != nil {
			f.t.Errorf("%s %s answers %s with no JSON: %s", req.Method, req.URL.Path, res.Status, text)
		}
		a.code = failed.Error.Code
	}
	if f.doc != nil {
		f.check(req, a)
	}
	return a
}

// check validates a response against the document.
func (f *fixture) check(req *http.Request, a answer) {
	f.t.Helper()
	op, ok := at(f.doc, "paths", req.URL.Path, strings.ToLower(req.Method)).(map[string]any)
	if !ok {
		return // there is no such operation, and the API says so
	}
	content, ok := at(op, "responses", strconv.Itoa(a.status), "content").(map[string]any)
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	schema, described := at(content, kind, "schema").(map[string]any)
	if !ok || !described {
		f.t.Errorf("%s %s answers %d %s, which the document does not say", req.Method, req.URL.Path, a.status, kind)
		return
	}
	if strings.HasPrefix(kind, "text/") {
		return
	}
	for line := range strings.Lines(a.text) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			f.t.Errorf("%s %s answers what is no JSON: %v: %s", req.Method, req.URL.Path, err, line)
		} else if bad := f.differs(schema, v); bad != "" {
			f.t.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, bad, line)
		}
	}
}

// differs returns where a value violates a schema. It supports the part of JSON Schema that
// the document uses.
func (f *fixture) differs(schema map[string]any, v any) string {
	if ref, ok := schema["$ref"].(string); ok {
		schema, ok = at(f.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(map[string]any)
		if !ok {
			return ref + " leads nowhere"
		}
	}
	kinds := map[string]string{"string": "string", "integer": "float64", "number": "float64", "boolean": "bool", "array": "[]interface {}", "object": "map[string]interface {}"}
	want, _ := schema["type"].(string)
	if got := fmt.Sprintf("%T", v); got != kinds[want] {
		return fmt.Sprintf("%v is no %s", v, want)
	}
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			if bad := f.differs(schema["items"].(map[string]any), element); bad != "" {
				return bad
			}
		}
	case map[string]any:
		return f.objectDiffers(schema, v)
	}
	return ""
}

func (f *fixture) objectDiffers(schema, v map[string]any) string {
	properties, _ := schema["properties"].(map[string]any)
	others, _ := schema["additionalProperties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Sprintf("%v is missing", name)
		}
	}
	for name, value := range v {
		property, ok := properties[name].(map[string]any)
		if !ok {
			property = others
		}
		if property == nil && len(properties) > 0 {
			return fmt.Sprintf("%s is not in the document", name)
		}
		if property != nil {
			if bad := f.differs(property, value); bad != "" {
				return name + ": " + bad
			}
		}
	}
	return ""
}

// at walks into a JSON value.
func at(v any, names ...string) any {
	for _, name := range names {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

// page is a site whose responses are cacheable.
func page(w http.ResponseWriter, text string) {
	w.Header().Set("Cache-Control", "s-maxage=60")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

// A faultyStore is a store on the embedded engine that can fail or block.
type faultyStore struct {
	*dynamostore.Store
	failAfter int           // List ends with an error after so many pages, if positive
	entered   chan struct{} // gets a value for each Read, if not nil, which then waits for gate
	gate      chan struct{}
	meanwhile func() // happens once, before a lease is broken

	stuck atomic.Pointer[chan struct{}] // List waits until it is closed, and fails, if not nil
}

var errFault = errors.New("the store is on fire")

const tableName = "pages"

func newStores(t testing.TB) (*faultyStore, *dirbody.Store) {
	t.Helper()
	dir := t.TempDir()
	db, err := localdynamo.Open(filepath.Join(dir, "table.db"), localdynamo.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := dynamostore.CreateTable(t.Context(), db, tableName); err != nil {
		t.Fatal(err)
	}
	meta, err := dynamostore.New(db, tableName, dynamostore.Config{Owner: "node-a"})
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := dirbody.Open(filepath.Join(dir, "bodies"), dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(bodies.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &faultyStore{Store: meta}, bodies
}

func (s *faultyStore) Read(ctx context.Context, pk string) (store.Record, error) {
	if s.entered != nil {
		s.entered <- struct{}{}
		<-s.gate
	}
	return s.Store.Read(ctx, pk)
}

func (s *faultyStore) List(ctx context.Context) iter.Seq2[store.ListedPage, error] {
	return func(yield func(store.ListedPage, error) bool) {
		if stuck := s.stuck.Load(); stuck != nil {
			<-*stuck
			yield(store.ListedPage{}, errFault)
			return
		}
		pages := 0
		for listed, err := range s.Store.List(ctx) {
			if pages++; s.failAfter > 0 && pages > s.failAfter {
				yield(store.ListedPage{}, errFault)
				return
			}
			if !yield(listed, err) {
				return
			}
		}
	}
}

// BreakLease calls the function meanwhile between the read of a lease and its release.
func (s *faultyStore) BreakLease(ctx context.Context, read store.Record) error {
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	return s.Store.BreakLease(ctx, read)
}
