package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
)

func TestJSONLog(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var out bytes.Buffer
	logger := LogFlag{Log: "json"}.Logger(&cli.Streams{Err: &out})
	logger.Debug("too quiet")
	logger.Info("rendered", "took", 1500*time.Microsecond)
	log.Print("a line of net/http's own") //nolint:depguard // what is tested
	var lines []map[string]any
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatalf("a line that is not JSON: %v", err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 2 || lines[0]["took_ms"] != 1.5 || lines[1]["msg"] != "a line of net/http's own" {
		t.Errorf("%v", lines)
	}
}

func TestRequestIDsAreLoggedAtDebugLevel(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	failure := errors.New("operation error S3: GetObject, https response error StatusCode: 403, RequestID: 4ZF0, HostID: k7/x==, api error AccessDenied: no")
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "operation error S3: GetObject, https response error StatusCode: 403, api error AccessDenied: no",
		slog.LevelDebug: failure.Error(),
	} {
		for _, format := range []string{"text", "json"} {
			var out bytes.Buffer
			LogFlag{Log: format, LogLevel: logLevel(level)}.Logger(&cli.Streams{Err: &out}).Error("failed", "error", failure)
			if !strings.Contains(out.String(), want) {
				t.Errorf("at %s in %s: %s", level, format, out.String())
			}
		}
	}
	if got := WithoutRequestIDs("a, RequestID: , request send failed"); got != "a, request send failed" {
		t.Errorf("%q", got)
	}
	if got := WithoutRequestIDs("a, RequestID: x"); got != "a" {
		t.Errorf("%q", got)
	}
}
