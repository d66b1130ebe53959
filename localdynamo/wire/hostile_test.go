package wire_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/wire"
)

// stalled sends the headers of a request and a part of its body, and returns the
// connection.
func stalled(t *testing.T, url, authorization string, claimed, sent int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\n"+
		"X-Amz-Date: %s\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n", time.Now().UTC().Format("20060102T150405Z"), authorization, claimed)
	_, _ = io.WriteString(conn, strings.Repeat(" ", sent)) // the request may already be rejected
	return conn
}

// TestStalledBodies: stalled bodies exhaust the budget, small requests still succeed, and
// the budget is free again after the connections close.
func TestStalledBodies(t *testing.T) {
	t.Parallel()
	url := serve(t, newHandler(t, wire.Config{MaxBodyMemory: 2 << 20}))
	client := newClient(url, "any", "any")
	var conns []net.Conn
	throttled := false
	for i := range 20 {
		conn := stalled(t, url, unsignedHeader, 1<<20, 600<<10)
		conns = append(conns, conn)
		wait := time.Second
		if i == 19 {
			wait = 5 * time.Minute
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue // the server waits for the rest
		}
		text, _ := io.ReadAll(res.Body)
		if !strings.Contains(string(text), "ThrottlingException") {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
		throttled = true
		break
	}
	if !throttled || len(conns) < 3 {
		t.Errorf("%d bodies of 1 MiB within a budget of 2 MiB", len(conns))
	}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: everyType()}); err != nil {
		t.Errorf("a small request: %v", err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	large := item{"pk": str("large"), "text": str(strings.Repeat("x", 390<<10))}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: large}); err != nil { // the SDK retries
		t.Errorf("a large request afterwards: %v", err)
	}
}

// TestInvalidCredentialsRejectedBeforeBody: with keys set, a request with invalid
// credentials is rejected before its body arrives.
func TestInvalidCredentialsRejectedBeforeBody(t *testing.T) {
	t.Parallel()
	url := serve(t, newHandler(t, wire.Config{AccessKey: "AK", SecretKey: "secret"}))
	day := time.Now().UTC().Format("20060102")
	for want, authorization := range map[string]string{
		"UnrecognizedClientException": "Credential=other/" + day + "/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target",
		"Date in Credential scope":    "Credential=AK/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target",
		"correct service":             "Credential=AK/" + day + "/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target",
		"X-Amz-Target":                "Credential=AK/" + day + "/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date",
	} {
		conn := stalled(t, url, "AWS4-HMAC-SHA256 "+authorization+", Signature=00", 16<<20, 0)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		text := make([]byte, 1000)
		n, _ := io.ReadFull(res.Body, text)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text[:n]), want) {
			t.Errorf("%s: %d %s", want, res.StatusCode, text[:n])
		}
	}
}
