package main

import (
	"bytes"
	"encoding/json"
	"log"
	"log/slog"
	"testing"
	"time"
)

func TestJSONLog(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var out bytes.Buffer
	logger := logFlag{Log: "json"}.logger(&streams{err: &out})
	logger.Debug("too quiet")
	logger.Info("rendered", "took", 1500*time.Microsecond)
	log.Print("a line of net/http's own") //nolint:depguard // what is tested
	var lines []map[string]any
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatalf("a line that is no JSON: %v", err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 2 || lines[0]["took_ms"] != 1.5 || lines[1]["msg"] != "a line of net/http's own" {
		t.Errorf("%v", lines)
	}
}
