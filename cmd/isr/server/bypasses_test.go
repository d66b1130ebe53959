package server

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/live"
)

// The log tells once why many requests were answered without the cache, and what to do.
func TestReportBypasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		monitor := live.New()
		done := func(n int, r isr.Report) {
			for range n {
				monitor.Done(&telemetry.Exchange{Start: time.Now(), Status: 200, Report: r})
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			reportBypasses(ctx, monitor, "http://127.0.0.1:8080", nil, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		done(50, isr.Report{Forward: "bypass", Detail: "cookie"})
		done(500, isr.Report{Hit: true, Detail: "stale"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("after 50 requests: %s", &log)
		}
		done(149, isr.Report{Forward: "miss", Detail: "no-freshness"})
		done(1, isr.Report{Forward: "method"})
		time.Sleep(time.Minute)
		<-ended
		for _, want := range []string{"requests=200", `reasons="no-freshness 74%, cookie 25%, method 0%"`, "revalidate: 60s", `more="isr doctor --url http://127.0.0.1:8080/"`} {
			if !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("the log lacks %s: %s", want, &log)
			}
		}
	})
}
