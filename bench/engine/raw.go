package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
)

// rawRequests is how many requests are recorded for each operation, on as many items.
const rawRequests = 1000

// record returns the requests of an operation as bytes: the SDK's, with only the
// headers that DynamoDB requires, and without a client request token, which would turn
// a transaction that is sent again into a replay without effect.
func record(ctx context.Context, address string, op operation) ([][]byte, error) {
	recorder := &recorder{host: address}
	client := dynamodb.New(clientOptions(address), func(o *dynamodb.Options) {
		o.HTTPClient = recorder
		o.APIOptions = append(o.APIOptions, withoutToken)
	})
	for i := range rawRequests {
		// The operation fails on the recorder's empty response.
		if err := op.call(ctx, client, i*(pages/rawRequests)); err != nil && recorder.failure != nil {
			return nil, recorder.failure
		}
	}
	return recorder.requests, nil
}

func withoutToken(stack *middleware.Stack) error {
	const step = "OperationIdempotencyTokenAutoFill"
	if _, has := stack.Initialize.Get(step); !has {
		return nil
	}
	_, err := stack.Initialize.Remove(step)
	return err
}

// recorder is an HTTP client for the SDK that records requests and sends none.
type recorder struct {
	host     string
	requests [][]byte
	failure  error
}

// Do records a request and returns an empty object.
func (r *recorder) Do(sent *http.Request) (*http.Response, error) {
	bare, err := r.bare(sent)
	if err != nil {
		r.failure = fmt.Errorf("record request: %w", err)
		return nil, r.failure
	}
	r.requests = append(r.requests, bare)
	return &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader([]byte("{}"))), Request: sent}, nil
}

// bare returns the bytes of a request with the same body, signed again.
func (r *recorder) bare(sent *http.Request) ([]byte, error) {
	body, err := io.ReadAll(sent.Body)
	if err != nil {
		return nil, err
	}
	bare, err := http.NewRequestWithContext(sent.Context(), http.MethodPost, "http://"+r.host+"/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Content-Type", "X-Amz-Target"} {
		bare.Header.Set(name, sent.Header.Get(name))
	}
	credentials, err := anyCredentials.Retrieve(sent.Context())
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(sent.Context(), credentials, bare, hex.EncodeToString(hash[:]), "dynamodb", region, time.Now()); err != nil {
		return nil, err
	}
	bare.Header.Set("User-Agent", "") // sends none
	var written bytes.Buffer
	err = bare.Write(&written)
	return written.Bytes(), err
}

// rawConnection sends recorded requests, one after the other.
type rawConnection struct {
	net.Conn
	requests [][]byte
	least    int // minimum length of the body of a successful response
	buffer   []byte
}

// dialRaw returns the connect of recorded requests.
func dialRaw(ctx context.Context, address string, op operation) (connect, error) {
	requests, err := record(ctx, address, op)
	if err != nil {
		return nil, err
	}
	return func() (func(int) error, func() error, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, nil, err
		}
		if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
		raw := &rawConnection{Conn: conn, requests: requests, least: op.minResponse, buffer: make([]byte, 64<<10)}
		return raw.call, conn.Close, nil
	}, nil
}

// call sends one request and reads the response. It parses only what it needs to find
// the end and the status.
func (c *rawConnection) call(i int) error {
	if _, err := c.Write(c.requests[i%len(c.requests)]); err != nil {
		return err
	}
	read, head, end := 0, 0, 0 // lengths of what was read, of the headers, and of the response
	for end == 0 || read < end {
		n, err := c.Read(c.buffer[read:])
		if err != nil {
			return fmt.Errorf("response ended after %d bytes: %w", read, err)
		}
		read += n
		if end > 0 {
			continue
		}
		if head, end, err = c.extent(c.buffer[:read]); err != nil {
			return err
		}
	}
	if !bytes.HasPrefix(c.buffer, []byte("HTTP/1.1 200 ")) || read != end || end-head < c.least {
		return fmt.Errorf("response without success:\n%s", c.buffer[:read])
	}
	return nil
}

var (
	headersEnd    = []byte("\r\n\r\n")
	contentLength = []byte("\r\ncontent-length: ")
)

// extent returns the length of a response's headers and of the whole response; 0 until
// the headers are complete.
func (c *rawConnection) extent(response []byte) (head, end int, err error) {
	at := bytes.Index(response, headersEnd)
	if at < 0 {
		return 0, 0, nil
	}
	head = at + len(headersEnd)
	headers := response[:at+2]
	for line := 0; line+len(contentLength) < len(headers); {
		if candidate := headers[line : line+len(contentLength)]; bytes.EqualFold(candidate, contentLength) {
			digits := headers[line+len(contentLength):]
			body, err := strconv.Atoi(string(digits[:bytes.IndexByte(digits, '\r')]))
			if err == nil && head+body > len(c.buffer) {
				err = fmt.Errorf("response body of %d bytes is longer than the buffer", body)
			}
			return head, head + body, err
		}
		next := bytes.Index(headers[line+1:], headersEnd[:2])
		if next < 0 {
			break
		}
		line += 1 + next
	}
	return 0, 0, fmt.Errorf("response without Content-Length:\n%s", response)
}
