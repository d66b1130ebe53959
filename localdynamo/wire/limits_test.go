package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/facetheory/isr/localdynamo/wire"
)

const limit = 16 << 20

func body(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

// signedRequest returns a DescribeTable request signed with AK and secret.
func signedRequest(t testing.TB, text string) *http.Request {
	t.Helper()
	r := request("DescribeTable", strings.NewReader(text))
	r.Header.Del("Authorization")
	hash := sha256.Sum256([]byte(text))
	credentials := aws.Credentials{AccessKeyID: "AK", SecretAccessKey: "secret"}
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(hash[:]), "dynamodb", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

const tooLarge = `{"__type":"com.amazon.coral.service#RequestEntityTooLargeException","message":"`

func TestBodySizeLimit(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	const frame = `{"TableName":"things","Unknown":"%s"}`
	fill := strings.Repeat("x", limit-len(frame)+len("%s"))
	if status, got := ask(t, h, "DescribeTable", fmt.Sprintf(frame, fill)); status != http.StatusOK {
		t.Errorf("16 MiB: got %d %.200s", status, got)
	}
	large := fmt.Sprintf(frame, fill+"x")
	if status, got := ask(t, h, "DescribeTable", large); status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(got, tooLarge) {
		t.Errorf("one byte more: got %d %.200s", status, got)
	}
	unannounced := request("DescribeTable", iotest.OneByteReader(strings.NewReader("")))
	unannounced.Body, unannounced.ContentLength = body(large), -1
	if status, _, got := send(t, h, unannounced); status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(got, tooLarge) {
		t.Errorf("one byte more, in chunks: got %d %.200s", status, got)
	}
}

func TestGzipBomb(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	bomb := compress(t, `{"TableName":"`+strings.Repeat("x", 2*limit)+`"}`)
	if bomb.Len() > limit/10 {
		t.Fatalf("the bomb has %d bytes", bomb.Len())
	}
	r := request("DescribeTable", bomb)
	r.Header.Set("Content-Encoding", "gzip")
	if status, _, got := send(t, h, r); status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(got, tooLarge) {
		t.Errorf("got %d %.200s", status, got)
	}
}

// TestClaimedLength: memory is not allocated for a Content-Length whose body is not sent.
// It does not run in parallel, because it counts the allocations of the process.
func TestClaimedLength(t *testing.T) {
	h := newHandler(t, wire.Config{})
	const requests = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range requests {
		r := request("DescribeTable", nil)
		r.Body, r.ContentLength = body("{"), limit
		send(t, h, r)
	}
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) / requests; allocated > limit/10 {
		t.Errorf("a request of one byte with a Content-Length of %d allocates %d bytes", limit, allocated)
	}
}

func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	whole := compress(t, `{"TableName":"things"}`).Bytes()
	cut := request("DescribeTable", bytes.NewReader(whole[:len(whole)-4]))
	cut.Header.Set("Content-Encoding", "gzip")
	short := request("DescribeTable", nil)
	short.Body, short.ContentLength = body(`{"TableName":"things"}`), 100
	failing := request("DescribeTable", iotest.ErrReader(io.ErrClosedPipe))
	for name, r := range map[string]*http.Request{"gzip": cut, "short": short, "failing": failing} {
		if status, _, got := send(t, h, r); status != http.StatusBadRequest || !strings.HasPrefix(got, serialization) {
			t.Errorf("%s: got %d %s", name, status, got)
		}
	}
}

// TestDisconnect: a client that disconnects while sending or waiting does not affect
// later requests.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	waiting, gone := make(chan struct{}), make(chan struct{})
	var wait atomic.Bool
	h := newHandler(t, wire.Config{Intercept: func(ctx context.Context, _ wire.Call, _ func()) error {
		if wait.Load() {
			close(waiting)
			<-ctx.Done()
			close(gone)
		}
		return nil
	}})
	address := strings.TrimPrefix(serve(t, h), "http://")
	const text = `{"TableName":"things","Item":{"pk":{"S":"a"}}}`
	dial(t, address, text[:20], len(text)).Close()

	wait.Store(true)
	conn := dial(t, address, text, len(text))
	<-waiting
	conn.Close()
	<-gone

	wait.Store(false)
	conn = dial(t, address, text, len(text))
	defer conn.Close()
	if status, _ := answered(t, bufio.NewReader(conn)); status != http.StatusOK {
		t.Errorf("got %d for a request after two disconnects", status)
	}
}

// dial sends a PutItem with text, of length bytes in full, over a new connection.
func dial(t *testing.T, address, text string, length int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	write(t, conn, text, length)
	return conn
}

func write(t *testing.T, conn net.Conn, text string, length int) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\n"+
		"X-Amz-Date: 20260102T030405Z\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s", unsignedHeader, length, text); err != nil {
		t.Fatal(err)
	}
}

func answered(t *testing.T, from *bufio.Reader) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestKeepAlive: a connection serves several requests, also after rejected ones.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(serve(t, newHandler(t, wire.Config{})), "http://")
	const good, bad = `{"TableName":"things","Item":{"pk":{"S":"a"}}}`, `{"TableName":`
	conn := dial(t, address, good, len(good))
	defer conn.Close()
	from := bufio.NewReader(conn)
	for i := range 6 {
		if status, text := answered(t, from); status != http.StatusOK && i%2 == 0 || status != http.StatusBadRequest && i%2 == 1 {
			t.Fatalf("request %d: got %d %s", i, status, text)
		}
		next := []string{bad, good}[i%2]
		write(t, conn, next, len(next))
	}
}
