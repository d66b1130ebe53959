package site

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const clients = 32

// GetAll requests the pages from PREFIXfirst to PREFIXlast once each, by 32 clients at a time. It stops at the first
// that does not come as a whole.
func GetAll(ctx context.Context, prefix string, first, last int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				i := first - 1 + int(next.Add(1))
				if i > last {
					return
				}
				if err := Get(ctx, client, prefix+strconv.Itoa(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// Get requests a page, with headers like "Accept: text/html". It fails unless all of the page comes, or
// some of it in a content coding if the headers accept one.
func Get(ctx context.Context, client *http.Client, url string, headers ...string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept-Encoding", "identity") // or the client chooses
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	size, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return err
	}
	whole := size == Size || (size > 0 && res.Header.Get("Content-Encoding") != "")
	if res.StatusCode != http.StatusOK || !whole {
		return fmt.Errorf("%s: %s with %d bytes", url, res.Status, size)
	}
	return nil
}
