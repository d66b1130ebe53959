package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // RFC 6455 uses it
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Events reach each client while the response goes on: the origin sends each only after the
// client has received the previous one.
func TestClientsReceiveEvents(t *testing.T) {
	t.Parallel()
	s := newClientSite(t)
	for _, c := range clients() {
		var open func(*testing.T, *clientSite, client, string) io.Reader
		switch c.program.name {
		case "curl":
			open = streamByCurl
		case "go":
			open = streamByGo
		default:
			continue
		}
		path, seen := "/events/"+c.String(), [3]chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		s.origin.set(path, events(seen))
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			in := bufio.NewReader(open(t, s, c, path))
			for i := range 3 {
				want := fmt.Sprintf("data: %d\n", i)
				if line, err := in.ReadString('\n'); err != nil || line != want {
					t.Fatalf("got %q, %v; expected %q", line, err, want)
				}
				if line, err := in.ReadString('\n'); err != nil || line != "\n" {
					t.Fatalf("got %q, %v; expected an empty line", line, err)
				}
				close(seen[i])
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("after the last event: %v, expected the end", err)
			}
		})
	}
}

// events sends three events, each after a receipt of the previous one, which is for all requests: a
// request that is abandoned for another may not have ended yet.
func events(seen [3]chan struct{}) behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush() // the client notices
			select {
			case <-seen[i]:
			case <-r.Context().Done():
				return
			}
		}
	}
}

func streamByCurl(t *testing.T, s *clientSite, c client, path string) io.Reader {
	t.Helper()
	cmd := curl(t, s, c, path, "--no-buffer")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context has ended it; its output was judged
	return out
}

func streamByGo(t *testing.T, s *clientSite, c client, path string) io.Reader {
	t.Helper()
	visitor := &http.Client{Transport: s.transport(t, c.version), Timeout: patience}
	res, err := visitor.Get(s.base(c.encrypted) + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.Body
}

// RFC 6455: a WebSocket carries messages in both directions, without and with TLS. A visitor
// over HTTP/2 gets the origin's response to an ordinary request, and pages as before.
func TestClientsWebSocket(t *testing.T) {
	t.Parallel()
	s := newClientSite(t)
	s.origin.set("/socket", echoMessages)
	for _, encrypted := range []bool{false, true} {
		conn, in := s.openSocket(t, encrypted)
		for _, message := range []string{"first", "second", "third"} {
			if _, err := conn.Write(frameOf(message, true)); err != nil {
				t.Fatal(err)
			}
			if got, err := readFrame(in); err != nil || got != "echo "+message {
				t.Fatalf("TLS %t: got %q, %v; expected the echo of %q", encrypted, got, err, message)
			}
		}
	}
	for _, encrypted := range []bool{false, true} {
		visitor := &http.Client{Transport: s.transport(t, "2")}
		for path, want := range map[string]int{"/socket": http.StatusUpgradeRequired, "/page/beside": http.StatusOK} {
			if r := s.visit(t, visitor, s.base(encrypted)+path, "identity"); r.err != nil || r.status != want {
				t.Errorf("HTTP/2, TLS %t, %s: got %s, expected %d", encrypted, path, r, want)
			}
		}
	}
}

// openSocket connects to /socket.
func (s *clientSite) openSocket(t *testing.T, encrypted bool) (net.Conn, *bufio.Reader) {
	t.Helper()
	const key = "dGhlIHNhbXBsZSBub25jZQ==" // of RFC 6455, section 1.3
	address := addressOf(s.base(encrypted))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if encrypted {
		conn = tls.Client(conn, &tls.Config{RootCAs: s.roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}})
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", address, key)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-Websocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("got %s with %v; expected 101 and the accepted key", res.Status, res.Header)
	}
	return conn, in
}

// echoMessages is a WebSocket that sends each message back, after "echo ".
func echoMessages(w http.ResponseWriter, r *http.Request, _ int) {
	key := r.Header.Get("Sec-Websocket-Key")
	if r.Header.Get("Upgrade") != "websocket" || key == "" {
		http.Error(w, "this is a WebSocket", http.StatusUpgradeRequired)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see the import
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	for rw.Flush() == nil {
		message, err := readFrame(rw.Reader)
		if err != nil {
			return
		}
		_, _ = rw.Write(frameOf("echo "+message, false)) // Flush returns its error
	}
}

// mask is the key that masks what the client of these tests sends (RFC 6455, section 5.3).
var mask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

// frameOf returns a text message of at most 125 bytes as a frame (RFC 6455, section 5.2).
func frameOf(message string, masked bool) []byte {
	frame := []byte{0x81, byte(len(message))}
	if !masked {
		return append(frame, message...)
	}
	frame[1] |= 0x80
	frame = append(frame, mask[:]...)
	for i := range len(message) {
		frame = append(frame, message[i]^mask[i%4])
	}
	return frame
}

// readFrame reads a text message that frameOf has made.
func readFrame(in *bufio.Reader) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", err
	}
	size := int(head[1] & 0x7f)
	if head[0] != 0x81 || size > 125 {
		return "", errors.New("not a short text frame")
	}
	if head[1]&0x80 == 0 {
		message := make([]byte, size)
		_, err := io.ReadFull(in, message)
		return string(message), err
	}
	rest := make([]byte, 4+size)
	if _, err := io.ReadFull(in, rest); err != nil {
		return "", err
	}
	if !bytes.Equal(rest[:4], mask[:]) {
		return "", errors.New("another mask")
	}
	for i := range rest[4:] {
		rest[4+i] ^= mask[i%4]
	}
	return string(rest[4:]), nil
}
