package assess

import (
	"hash/fnv"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/store"
)

// maxKeyings is how many keyings the forecasts have: of the configuration, and of the settings that change what of a
// query is in a key.
const maxKeyings = 3

// A request is an entry of the log, and what each keying makes of it.
type request struct {
	logreader.Entry
	found [maxKeyings]found
}

// found is what the routes make of a request. Requests have neither cookies nor other headers.
type found struct {
	is   kind
	hash uint64 // of the key of its page
	why  string // it bypasses the cache
}

// A kind is a kind of request.
type kind uint8

const (
	unclear kind = iota // what it is, the cache tells
	ofPage
	bypasses
)

// recentRequests is how many different requests a keying remembers.
const recentRequests = 1 << 16

// A keying finds the keys of requests. Forecasts whose routes have the same keys share it, so that a request that all
// leave out costs little.
type keying struct {
	table  *routing.Table
	routes []gateway.SiteRoute
	recent []recent // by the last bits of the id
}

// recent is a request that was found lately. Requests with the same method, host and target have the same id.
type recent struct {
	id uint64
	found
}

func newKeying(routes []gateway.SiteRoute) (*keying, error) {
	patterns := make([]string, len(routes))
	for i, r := range routes {
		patterns[i] = r.Pattern
	}
	table, err := routing.New(patterns)
	return &keying{table: table, routes: routes, recent: make([]recent, recentRequests)}, err
}

// isOf reports whether routes, which differ in settings only, have these keys.
func (k *keying) isOf(routes []gateway.SiteRoute) bool {
	return slices.EqualFunc(k.routes, routes, func(a, b gateway.SiteRoute) bool {
		return slices.Equal(a.Route.Query, b.Route.Query) && slices.Equal(a.Route.IgnoreQuery, b.Route.IgnoreQuery)
	})
}

// find returns what a request is.
func (k *keying) find(e *logreader.Entry, id uint64) found {
	slot := &k.recent[id%recentRequests]
	if slot.id != id {
		*slot = recent{id, k.explain(e)}
	}
	return slot.found
}

func (k *keying) explain(e *logreader.Entry) found {
	r, err := newRequest(e)
	if err != nil {
		return found{}
	}
	at, err := k.table.FindRequest(r)
	if err != nil {
		return found{}
	}
	explained, err := k.routes[at].Route.Explain(r)
	switch {
	case err != nil:
		return found{}
	case explained.Bypass != "":
		return found{is: bypasses, why: explained.Bypass}
	}
	return found{is: ofPage, hash: hash(explained.Key)}
}

// newRequest returns the request of an entry.
func newRequest(e *logreader.Entry) (*http.Request, error) {
	u, err := url.ParseRequestURI(e.URI)
	if err != nil {
		return nil, err
	}
	return &http.Request{
		Method: e.Method, URL: u, Host: e.Host, RequestURI: e.URI, Header: make(http.Header), Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "192.0.2.1:1024",
	}, nil
}

// hash returns the hash of a key, by which pages are left out. All its bits depend on all of the key.
func hash(k store.Key) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.Text)) // never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // the finalizer of MurmurHash3
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// An identifier gives requests their ids, which are not 0.
type identifier struct{ hash maphash.Hash }

func (i *identifier) of(e *logreader.Entry) uint64 {
	i.hash.Reset()
	for _, text := range [...]string{e.Method, e.Host, e.URI} {
		_, _ = i.hash.WriteString(text) // never fails
		_ = i.hash.WriteByte(0)
	}
	return max(i.hash.Sum64(), 1)
}
