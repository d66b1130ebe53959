// Hit measures cache hits on a 10 KiB page: requests per second and latency of isr, nginx, Varnish and
// Apache Traffic Server, and of a bare net/http handler that writes the same page.
//
//	go run -C bench ./hit
//	go run -C bench ./hit --only '1-thread/(isr|nginx)' --rounds 3
//
// It needs wrk, and nginx, Varnish and Traffic Server for their part (Debian: apt-get install wrk
// nginx-light varnish trafficserver). Compare ratios rather than absolute figures: machines differ, and
// a shared one differs from minute to minute.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/site"
)

const about = `
Hit measures cache hits on a page of 10 KiB under the load of wrk: isr, nginx, Varnish, Apache Traffic
Server, and a bare net/http handler that writes the same page.`

// bare as the only argument makes this program the bare handler; the address follows.
const bare = "bare"

func main() {
	if len(os.Args) == 3 && os.Args[1] == bare {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[2], bareHandler()))
		os.Exit(1)
	}
	compare.Bench{Name: "hit", About: about, Rounds: 5, Seconds: 2, Scenarios: scenarios}.Main()
}

// bareHandler writes the page of the site from memory.
func bareHandler() http.Handler {
	s := site.New()
	body, length := s.Body(site.Page), fmt.Sprint(site.Size)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != site.Page {
			s.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "public, s-maxage=3600")
		h.Set("Content-Length", length)
		_, _ = w.Write(body) // wrk closes its connections at the end
	})
}
