package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/store"
)

// The search of 100,000 pages on the embedded store: how long the store takes to be read in the
// background, and how long searches take during that and afterwards.
func BenchmarkSearch(b *testing.B) {
	const pages = 100_000
	meta, bodies := newStores(b)
	var filling sync.WaitGroup
	for part := range 8 {
		filling.Go(func() {
			for i := part; i < pages; i += 8 {
				publish(b, meta, fmt.Sprintf("www.example.com/section-%d/article-%d", i%100, i), fmt.Sprint("section-", i%100))
			}
		})
	}
	filling.Wait()
	api, err := admin.New(meta, bodies, admin.Config{Live: live.New()})
	if err != nil {
		b.Fatal(err)
	}
	handler := httptest.NewServer(api.Handler())
	defer handler.Close()
	ask := func(query string) (string, time.Duration) {
		began := time.Now()
		res, err := http.Get(handler.URL + "/-/pages/search?" + query) //nolint:noctx // a benchmark
		if err != nil {
			b.Fatal(err)
		}
		text := new(strings.Builder)
		if err := res.Write(text); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		return text.String(), time.Since(began)
	}
	began, slowest := time.Now(), time.Duration(0)
	for {
		text, took := ask("")
		slowest = max(slowest, took)
		if strings.Contains(text, `"complete":true`) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Logf("the store is read in %s; the slowest search during the read took %s", time.Since(began).Round(time.Millisecond), slowest.Round(time.Millisecond))
	for _, query := range []string{"", "q=article-9999", "q=ARTICLE&sort=-age&offset=99000", "tag=section-7", "sort=-size", "sort=-requests"} {
		b.Run(query, func(b *testing.B) {
			for b.Loop() {
				ask(query)
			}
		})
	}
}

// publish stores a page.
func publish(b *testing.B, s *faultyStore, text, tag string) {
	k := store.Key{Text: text}
	pk := store.HashedPartition(k)
	lease, err := s.Acquire(b.Context(), pk, time.Minute, nil)
	if err != nil {
		b.Error(err)
		return
	}
	read, err := s.Read(b.Context(), pk)
	if err != nil {
		b.Error(err)
		return
	}
	now := time.Now()
	e := store.Entry{
		Key: text, GenerationID: now.UTC().Format("20060102T150405.000000Z") + "-x", BodyKey: "bodies/" + pk, Status: 200, GeneratedAt: now,
		Revalidate: time.Hour, Stale: time.Hour, Length: int64(len(text)), SHA256: strings.Repeat("a", 64), ETag: `"x"`, Route: "site", Tags: []string{tag},
		Header: http.Header{"Content-Type": {"text/html"}},
	}
	if _, err := s.Publish(b.Context(), lease, read, e, store.PublishOptions{}); err != nil {
		b.Error(err)
	}
}
