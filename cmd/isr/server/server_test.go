package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Handshakes that the client ends are no warnings, and all other errors of a server are.
func TestHandshakesThatEndAreNoWarnings(t *testing.T) {
	for line, level := range map[string]string{
		"http: TLS handshake error from 192.0.2.1:1: EOF":                                               "DEBUG",
		"http: TLS handshake error from 192.0.2.1:1: read tcp 1:1->2:2: read: connection reset by peer": "DEBUG",
		"http: TLS handshake error from 192.0.2.1:1: remote error: tls: bad certificate":                "WARN",
		"http: TLS handshake error from 192.0.2.1:1: no certificate available for 'localhost'":          "WARN",
		"http: Accept error: accept tcp 127.0.0.1:1: too many open files; retrying in 5ms":              "WARN",
	} {
		var b bytes.Buffer
		errorLog(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))).Print(line)
		if !strings.Contains(b.String(), "level="+level) {
			t.Errorf("%s: %s", line, b.String())
		}
	}
}
