package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/site"
)

// firstByte is a scenario of one visitor, and pages of which the origin sends the second half later.
func firstByte(run *compare.Run, peers []peer.Peer) compare.Scenario {
	return compare.Scenario{
		Name: "first-byte", Baseline: "nginx", Peers: peers,
		About: fmt.Sprintf("one visitor; the origin sends half of a page of 10 KiB after %v, and the rest %v later; less is better.", site.FirstHalf, site.SecondHalf),
		Columns: []compare.Column{
			{Key: "first_p50_ms", Title: "first byte p50, ms", Digits: 2},
			{Key: "first_p90_ms", Title: "p90, ms", Digits: 2},
			{Key: "last_p50_ms", Title: "last byte p50, ms", Digits: 2},
		},
		Measure: func(ctx context.Context, server *peer.Server, round int) (compare.Sample, error) {
			var firsts, lasts []float64
			for end := time.Now().Add(time.Duration(run.Seconds) * time.Second); time.Now().Before(end); {
				first, last, err := get(ctx, fmt.Sprintf("%s%s%d-%d", server.URL, site.Slow, round, len(firsts)))
				if err != nil {
					return nil, err
				}
				firsts, lasts = append(firsts, milliseconds(first)), append(lasts, milliseconds(last))
			}
			return compare.Sample{
				"first_p50_ms": percentile(firsts, 50), "first_p90_ms": percentile(firsts, 90), "last_p50_ms": percentile(lasts, 50),
			}, nil
		},
	}
}

// get requests a page, and returns when the first byte of the response came, and the last.
func get(ctx context.Context, url string) (first, last time.Duration, err error) {
	began := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Since(began) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0, 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("%s: %s", url, res.Status)
	}
	return first, time.Since(began), nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func percentile(values []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}
