package accesslog_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
)

// Each request that was answered has a line or counts as dropped, also while the log is rotated.
func TestEveryRequestIsCounted(t *testing.T) {
	const connections, each = 8, 400
	folder := t.TempDir()
	path := filepath.Join(folder, "access.log")
	l, err := accesslog.New(accesslog.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(telemetry.NewRecorder(telemetry.RecorderConfig{Sinks: []telemetry.Sink{l}}).Handler(http.NotFoundHandler()))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			for range each {
				res, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err = io.Copy(io.Discard, res.Body); err != nil {
					t.Error(err)
				}
				_ = res.Body.Close()
				if answered.Add(1) == connections*each/2 {
					if err := os.Rename(path, path+".1"); err != nil {
						t.Error(err)
					}
					l.Reopen()
				}
			}
		})
	}
	clients.Wait()
	server.Close() // once all handlers have returned
	l.Close()
	lines := 0
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if got := int64(lines) + l.Dropped(); got != answered.Load() || got != connections*each {
		t.Errorf("%d lines and %d dropped, for %d answers to %d requests", lines, l.Dropped(), answered.Load(), connections*each)
	}
}
