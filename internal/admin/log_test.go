package admin_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
)

// A client that does not read loses lines, and is told how many. Requests do not wait for it, and a stream ends with the API.
func TestWatchRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tail := new(accesslog.Tail)
		api, err := admin.New(slow{}, noBodies{}, admin.Config{Tail: tail, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		conn := dial(t, api.Handler())
		if _, err := io.WriteString(conn, "GET /-/log?where="+url.QueryEscape("status=200 path=/a")+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Fatalf("%+v, %v", res, err)
		}
		defer func() { _ = res.Body.Close() }()
		synctest.Wait()
		const requests = 20_000
		began := time.Now()
		for range requests {
			for _, path := range []string{"/a", "/b"} {
				tail.Done(&telemetry.Exchange{Request: httptest.NewRequest(http.MethodGet, path, http.NoBody), Start: time.Now(), Status: 200})
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("requests waited for %s", took)
		}
		lines, dropped := int64(0), int64(0)
		for all := bufio.NewScanner(res.Body); lines+dropped < requests && all.Scan(); {
			var l struct {
				Path    string `json:"url.path"`
				Dropped int64  `json:"isr.dropped"`
			}
			if err := json.Unmarshal(all.Bytes(), &l); err != nil || l.Dropped == 0 && l.Path != "/a" {
				t.Fatalf("%v: %s", err, all.Text())
			}
			if dropped += l.Dropped; l.Dropped == 0 {
				lines++
			}
		}
		if lines+dropped != requests || dropped == 0 {
			t.Errorf("%d lines, %d dropped", lines, dropped)
		}
		api.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("%v: %s", err, rest)
		}
	})
}

func TestWrongWatches(t *testing.T) {
	api, err := admin.New(slow{}, noBodies{}, admin.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	server := httptest.NewServer(api.Handler())
	defer server.Close()
	for query, want := range map[string]string{"": "no server is running here whose requests could be followed", "?where=no": "column 1 of the filter", "?were=no": "unknown field"} {
		res, err := http.Get(server.URL + "/-/log" + query)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode < 400 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s", query, res.StatusCode, text)
		}
	}
}
