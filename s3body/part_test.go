package s3body_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A part that is cut off or stalls is continued with a request for the rest, and never with the rest of
// another object. A visitor who is slow costs requests only if the connection is lost.
func TestPartResumes(t *testing.T) {
	t.Parallel()
	const offset, length = 1000, 50_000
	body := bytes.Repeat([]byte("0123456789"), 10_000)
	for name, test := range map[string]struct {
		cuts    []int // bytes per response; later responses are complete
		hangs   bool
		changed bool
		whole   bool
	}{
		"not cut":                    {whole: true},
		"cut at each hundred bytes":  {cuts: []int{100, 100, 100, 100, 100, 100}, whole: true},
		"cut at the beginning":       {cuts: []int{0, 0}, whole: true},
		"stalls":                     {cuts: []int{20_000, 10_000, 100}, hangs: true, whole: true},
		"nothing comes, three times": {cuts: []int{10, 0, 0, 0}},
		"another object":             {cuts: []int{20_000}, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers atomic.Int32
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					var first, last int
					if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil || last != offset+length-1 {
						t.Errorf("Range: %q", r.Header.Get("Range"))
					}
					i := int(answers.Add(1)) - 1
					etag := `"1"`
					if i > 0 && test.changed {
						etag = `"2"`
					}
					if match := r.Header.Get("If-Match"); i > 0 && match != `"1"` {
						t.Errorf("If-Match: %q", match)
					}
					part := body[first : last+1]
					response := &http.Response{StatusCode: http.StatusPartialContent, Header: http.Header{}, Request: r, ContentLength: int64(len(part))}
					response.Header.Set("Content-Length", strconv.Itoa(len(part)))
					response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(body)))
					response.Header.Set("ETag", etag)
					response.Body = io.NopCloser(bytes.NewReader(part))
					if i < len(test.cuts) {
						response.Body = &cutBody{Reader: bytes.NewReader(part[:test.cuts[i]]), ctx: r.Context(), hangs: test.hangs}
					}
					return response, nil
				})
				store := newStore(t, newClient("http://s3.test", "access", "secret", transport), "bucket")
				rd, size, err := store.OpenRange(t.Context(), "bodies/1", offset, length)
				if err != nil || size != int64(len(body)) {
					t.Fatal(size, err)
				}
				defer rd.Close()
				time.Sleep(time.Hour)
				got, err := io.ReadAll(rd)
				if !bytes.HasPrefix(body[offset:], got) {
					t.Error("the delivered bytes are not the body's")
				}
				if whole := err == nil && len(got) == length; whole != test.whole || err == nil && !whole {
					t.Errorf("%d of %d bytes, %v", len(got), length, err)
				}
				if want := len(test.cuts) + 1; test.whole && int(answers.Load()) != want {
					t.Errorf("%d requests, want %d", answers.Load(), want)
				}
			})
		})
	}
}
