package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// host is the site's host in every request, whichever process answers.
const host = "site.test"

// A reply is the response that a visitor got.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error // the request or its body failed
}

// cache returns the Cache-Status of the reply.
func (r reply) cache() string { return r.header.Get("Cache-Status") }

// hit reports whether the reply came from the cache, fresh or stale.
func (r reply) hit() bool { return strings.HasPrefix(r.cache(), "isr; hit") }

func (r reply) String() string {
	if r.err != nil {
		return fmt.Sprintf("error %v after %s", r.err, r.took.Round(time.Millisecond))
	}
	return fmt.Sprintf("%d, %d bytes, %q, in %s", r.status, len(r.body), r.cache(), r.took.Round(time.Millisecond))
}

// browsers returns a client with the connections of many visitors. It neither decodes nor
// follows redirects.
func browsers(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// visit requests a page. Header fields are given as alternating names and values.
func visit(ctx context.Context, c *http.Client, method, url string, fields ...string) reply {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return reply{err: err}
	}
	req.Host = host
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	return do(c, req)
}

func do(c *http.Client, req *http.Request) reply {
	began := time.Now()
	res, err := c.Do(req)
	if err != nil {
		return reply{err: err, took: time.Since(began)}
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // read to its end, or broken
	return reply{status: res.StatusCode, header: res.Header, body: string(body), took: time.Since(began), err: err}
}

// get sends one GET, which must be answered.
func get(t testing.TB, url string, fields ...string) reply {
	t.Helper()
	r := visit(t.Context(), browsers(t), http.MethodGet, url, fields...)
	if r.err != nil {
		t.Fatalf("GET %s: %v", url, r.err)
	}
	return r
}

// storm sends n concurrent requests, spread over the URLs.
func storm(t *testing.T, n int, urls ...string) []reply {
	t.Helper()
	client, ctx := browsers(t), t.Context()
	replies := make([]reply, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() {
			<-gate
			replies[i] = visit(ctx, client, http.MethodGet, urls[i%len(urls)])
		})
	}
	close(gate)
	wg.Wait()
	return replies
}

// percentile returns the time within which p of 100 replies arrived.
func percentile(replies []reply, p int) time.Duration {
	times := make([]time.Duration, len(replies))
	for i, r := range replies {
		times[i] = r.took
	}
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*p/100)].Round(100 * time.Microsecond)
}

// expectAll fails the test for unexpected replies and shows the first few.
func expectAll(t *testing.T, what string, replies []reply, good func(reply) bool) {
	t.Helper()
	bad := 0
	for _, r := range replies {
		if r.err == nil && good(r) {
			continue
		}
		if bad++; bad <= 3 {
			t.Errorf("%s: got %s", what, r)
		}
	}
	if bad > 3 {
		t.Errorf("%s: %d of %d replies are not so", what, bad, len(replies))
	}
}
