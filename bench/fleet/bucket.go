package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// reads are the objects of a bucket that were read.
type reads struct{ bodies, codings int }

// A distantBucket is a proxy in front of the buckets, which delays requests as a network would and
// counts the objects that are read.
type distantBucket struct {
	*httptest.Server
	mu   sync.Mutex
	gets map[string]reads // guarded by mu: by bucket
}

func newDistantBucket(to string, latency time.Duration) (*distantBucket, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	b := &distantBucket{gets: make(map[string]reads)}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a process gives up reads that it does not need any more
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); r.Method == http.MethodGet && key != "" {
			b.mu.Lock()
			got := b.gets[bucket]
			if _, coding := store.CodedBody(key); coding {
				got.codings++
			} else {
				got.bodies++
			}
			b.gets[bucket] = got
			b.mu.Unlock()
		}
		pause(r.Context(), latency)
		proxy.ServeHTTP(w, r)
	}))
	return b, nil
}

// read returns how many objects of a bucket were read so far.
func (b *distantBucket) read(bucket string) reads {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gets[bucket]
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
