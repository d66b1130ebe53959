package main

import (
	"net"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestNotify runs a server as systemd does with Type=notify-reload.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	expect := func(pattern string) {
		t.Helper()
		_ = socket.SetReadDeadline(time.Now().Add(5 * time.Minute))
		message := make([]byte, 1<<10)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatalf("waiting for %s: %v", pattern, err)
		}
		if !regexp.MustCompile(`^` + pattern + `\n?$`).Match(message[:n]) {
			t.Fatalf("notified %q, want %s", message[:n], pattern)
		}
	}
	t.Setenv("NOTIFY_SOCKET", path)
	s := startFields(t, "listen: [{address: FREE}]\nhealth: {drain: 0s, grace: 20s}", nil, nil)
	expect("READY=1")
	s.reload(s.file)
	expect(`RELOADING=1\nMONOTONIC_USEC=\d+`)
	expect("READY=1")
	s.write("isr.yaml", "listen: nothing")
	s.isrFails("reload")
	expect(`RELOADING=1\nMONOTONIC_USEC=\d+`)
	expect("READY=1")
	s.stop()
	expect(`STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000`)
}
