package main

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A failed or truncated response fails the measurement.
func TestRawCall(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string // of the response, as they arrive
		fails  string   // part of the error; "" for a success
	}{
		"success":           {pieces: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{12}"}},
		"lower-case header": {pieces: []string{"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 4\r\n\r\n{12}"}},
		"in pieces":         {pieces: []string{"HTTP/1.1 200 OK\r\nContent-Le", "ngth: 4\r", "\n\r\n{", "12}"}},
		"error":             {pieces: []string{"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\n{12}"}, fails: "without success"},
		"body too short":    {pieces: []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}, fails: "without success"},
		"trailing bytes":    {pieces: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{12}{"}, fails: "without success"},
		"truncated":         {pieces: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{1"}, fails: "ended after"},
		"too long":          {pieces: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"}, fails: "longer than the buffer"},
		"no length":         {pieces: []string{"HTTP/1.1 200 OK\r\nX-Content-Length: 4\r\n\r\n{12}"}, fails: "without Content-Length"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			go respond(server, c.pieces)
			raw := &rawConnection{Conn: client, requests: [][]byte{[]byte("?")}, least: 4, buffer: make([]byte, 256)}
			switch err := raw.call(0); {
			case c.fails == "" && err != nil:
				t.Error(err)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("got %v, want an error with %q", err, c.fails)
			}
		})
	}
}

// respond reads a request of one byte, sends the response and closes the connection.
func respond(conn net.Conn, pieces []string) {
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return
	}
	for _, piece := range pieces {
		if _, err := conn.Write([]byte(piece)); err != nil {
			return // the client closed first
		}
	}
}

// Recorded requests are the SDK's, one per item, and without client request
// tokens: a transaction sent again must execute again.
func TestRecord(t *testing.T) {
	for _, op := range operations() {
		if op.minResponse == 0 {
			continue // never recorded
		}
		requests, err := record(t.Context(), "127.0.0.1:1", op)
		if err != nil {
			t.Fatal(err)
		}
		distinct := make(map[string]bool)
		for _, text := range requests {
			body := checkRequest(t, string(text))
			distinct[body] = true
			if strings.Contains(body, "ClientRequestToken") {
				t.Fatalf("%s has a token: %s", op.name, body)
			}
		}
		if len(distinct) != rawRequests {
			t.Errorf("%s: %d distinct requests, want %d", op.name, len(distinct), rawRequests)
		}
	}
}

func checkRequest(t *testing.T, text string) (body string) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") || !strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.") {
		t.Fatalf("not a signed DynamoDB request:\n%s", text)
	}
	var read strings.Builder
	if n, err := bufio.NewReader(r.Body).WriteTo(&read); err != nil || n != r.ContentLength {
		t.Fatalf("read a body of %d bytes, want %d: %v", n, r.ContentLength, err)
	}
	return read.String()
}
