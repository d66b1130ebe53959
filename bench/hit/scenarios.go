package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/site"
	"github.com/facetheory/isr/bench/internal/wrk"
)

// browser has the request headers of a browser, except Accept-Encoding, which the scenario gzip has.
var browser = []string{
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
	"Accept-Language: en-US,en;q=0.9,de;q=0.8",
	"Accept-Encoding: identity",
	`Sec-Ch-Ua: "Chromium";v="131", "Not_A Brand";v="24"`,
	"Sec-Ch-Ua-Mobile: ?0",
	`Sec-Ch-Ua-Platform: "Linux"`,
	"Sec-Fetch-Dest: document",
	"Sec-Fetch-Mode: navigate",
	"Sec-Fetch-Site: none",
	"Sec-Fetch-User: ?1",
	"Upgrade-Insecure-Requests: 1",
	"Priority: u=0, i",
}

func scenarios(run *compare.Run) []compare.Scenario {
	caches := peer.Tuned(peer.Settings{Memory: 256})
	all := append(caches[:len(caches):len(caches)], peer.Bare("bare net/http", bare))
	load := wrk.Load{Threads: 1, Connections: 64, Seconds: run.Seconds}
	two, many, headers, zipped := load, load, load, load
	two.Threads = 2
	many.Threads, many.Connections = 2, 1000
	headers.Headers = browser
	zipped.Headers = []string{"Accept-Encoding: gzip"}
	return []compare.Scenario{
		hits(run, "1-thread", "1 thread of wrk, 64 connections.", site.Page, load, all),
		hits(run, "2-threads", "2 threads of wrk, 64 connections.", site.Page, two, all),
		hits(run, "1000-connections", "2 threads of wrk, 1,000 connections.", site.Page, many, all),
		mixed(run, "1 thread of wrk, 64 connections; one request in ten, on the same connections, passes through to the origin.", load, caches),
		hits(run, "browser", "1 thread of wrk, 64 connections, with the request headers of a browser.", site.Page, headers, all),
		hits(run, "gzip", "1 thread of wrk, 64 connections, for a page in gzip.", site.Zipped, zipped, caches),
		observed(run, "1 thread of wrk, 64 connections; what request ids and the access log cost.", load),
	}
}

// hits is a scenario in which no request but the first reaches the origin.
func hits(run *compare.Run, name, about, path string, load wrk.Load, peers []peer.Peer) compare.Scenario {
	return compare.Scenario{
		Name: name, About: about, Baseline: "nginx", Columns: wrk.Columns(), Peers: peers,
		Prepare: func(ctx context.Context, server *peer.Server) error {
			return checkHit(ctx, run.Site, server.URL+path, load.Headers)
		},
		Measure: func(ctx context.Context, server *peer.Server, _ int) (compare.Sample, error) {
			before := run.Site.Served()
			result, err := load.On(ctx, server, path)
			if fetched := run.Site.Served() - before; err == nil && fetched > int64(result.Requests/1000) {
				err = fmt.Errorf("%d of %d requests reached the origin", fetched, result.Requests)
			}
			return result.Sample(), err
		},
	}
}

// mixed is a scenario in which one request in ten passes through.
func mixed(run *compare.Run, about string, load wrk.Load, peers []peer.Peer) compare.Scenario {
	s := hits(run, "mixed", about, site.Page, load, peers)
	load = load.Mixed(site.Page, site.Private, 10)
	s.Measure = func(ctx context.Context, server *peer.Server, _ int) (compare.Sample, error) {
		before := run.Site.Served()
		result, err := load.On(ctx, server, site.Page)
		share := float64(run.Site.Served()-before) / float64(max(result.Requests, 1))
		if err == nil && (share < 0.09 || share > 0.12) {
			err = fmt.Errorf("%.0f %% of the requests reached the origin, want 10 %%", 100*share)
		}
		return result.Sample(), err
	}
	return s
}

// observed compares isr with itself.
func observed(run *compare.Run, about string, load wrk.Load) compare.Scenario {
	s := hits(run, "observed", about, site.Page, load, []peer.Peer{
		peer.ISR("defaults"), peer.ISR("--request-id off", "--request-id", "off"),
		peer.ISR("--access-log /dev/null", "--access-log", "/dev/null"),
	})
	s.Baseline = "defaults"
	return s
}

const (
	attempts = 30
	interval = 100 * time.Millisecond
)

// checkHit waits until a server answers with a page without asking the origin, for up to three seconds,
// since caches store pages, and isr makes codings, in the background.
func checkHit(ctx context.Context, origin *site.Site, url string, headers []string) error {
	for range attempts {
		before := origin.Served()
		if err := site.Get(ctx, http.DefaultClient, url, headers...); err != nil {
			return err
		}
		if origin.Served() == before {
			return nil
		}
		time.Sleep(interval)
	}
	return errors.New("the server does not cache the page " + url)
}
