package function

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// maxStreamed is the size of the largest response that can be streamed, in bytes (AWS, "Lambda
// quotas": 200 MB).
const maxStreamed = 200 << 20

// errTooLarge: a response is larger than AWS passes on.
var errTooLarge = errors.New("the response is too large for AWS Lambda")

func newBody(content []byte) io.Reader {
	if len(content) == 0 {
		return http.NoBody
	}
	return bytes.NewReader(content)
}

// A writer is the ResponseWriter of an invocation. It is used by one goroutine.
type writer struct {
	header  http.Header // the handler's own, until the header is written
	sent    http.Header
	status  int
	written int64
	limit   int64
	refused bool // the response is errTooLarge
	// begin is called with the header of the response; nil: it is buffered.
	begin func()
	body  io.Writer
}

var _ http.Flusher = (*writer)(nil)

func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. A response that states that it is too large is
// replaced by an error.
func (w *writer) WriteHeader(status int) {
	if w.status != 0 || status < 200 { // informational responses cannot be sent
		return
	}
	w.sent = w.header.Clone()
	w.status = status
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer"} {
		w.sent.Del(name)
	}
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil && n > w.limit {
		w.refuse()
	}
	if w.begin != nil {
		w.begin()
	}
	if w.refused {
		_, _ = io.WriteString(w.body, tooLargeText)
	}
}

const tooLargeText = "This page is too large to be served by this function.\n"

// refuse replaces the response by an error.
func (w *writer) refuse() {
	w.refused, w.status = true, http.StatusBadGateway
	w.sent = http.Header{
		"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}, "Content-Length": {strconv.Itoa(len(tooLargeText))},
	}
	if status := w.header["Cache-Status"]; len(status) > 0 {
		w.sent["Cache-Status"] = status
	}
}

func (w *writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.refused {
		return 0, errTooLarge
	}
	if w.written += int64(len(b)); w.written > w.limit {
		return 0, errTooLarge
	}
	return w.body.Write(b)
}

// Flush implements [http.Flusher]. What is streamed is sent at once.
func (w *writer) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// finish ends a response without a body.
func (w *writer) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// buffered returns the response as JSON, or an error in its place if it is too large.
func (w *writer) buffered(e event, body *bytes.Buffer) (json.RawMessage, error) {
	if w.written > w.limit {
		w.tooLarge(body)
	}
	out, err := json.Marshal(w.response(e, body.Bytes()))
	if err == nil && len(out) > e.kind.limit() {
		w.tooLarge(body)
		out, err = json.Marshal(w.response(e, body.Bytes()))
	}
	if err != nil {
		return nil, fmt.Errorf("writing the response: %w", err)
	}
	return out, nil
}

func (w *writer) tooLarge(body *bytes.Buffer) {
	w.refuse()
	body.Reset()
	body.WriteString(tooLargeText)
}

// response returns the response for what the request came through.
func (w *writer) response(e event, body []byte) any {
	text, encoded := string(body), false
	if w.sent.Get("Content-Encoding") != "" || !utf8.Valid(body) {
		text, encoded = base64.StdEncoding.EncodeToString(body), true
	}
	switch e.kind {
	case functionURL, httpAPI:
		headers, cookies := single(w.sent, true)
		return events.LambdaFunctionURLResponse{StatusCode: w.status, Headers: headers, Cookies: cookies, Body: text, IsBase64Encoded: encoded}
	case restAPI:
		return events.APIGatewayProxyResponse{StatusCode: w.status, MultiValueHeaders: w.sent, Body: text, IsBase64Encoded: encoded}
	case balancer:
	}
	r := events.ALBTargetGroupResponse{
		StatusCode: w.status, StatusDescription: strings.TrimSpace(fmt.Sprint(w.status, " ", http.StatusText(w.status))), Body: text, IsBase64Encoded: encoded,
	}
	if e.multi {
		r.MultiValueHeaders = w.sent
	} else {
		r.Headers, _ = single(w.sent, false)
	}
	return r
}

// single joins the values of each field. Cookies cannot be joined (RFC 9110, section 5.3): they are
// returned apart, or without room for that, the first of them is sent.
func single(h http.Header, apart bool) (headers map[string]string, cookies []string) {
	headers = make(map[string]string, len(h))
	for name, values := range h {
		switch {
		case name == "Set-Cookie" && apart:
			cookies = values
		case name == "Set-Cookie" && len(values) > 0:
			headers[name] = values[0]
		default:
			headers[name] = strings.Join(values, ", ")
		}
	}
	return headers, cookies
}

// A stream is a body that is read while it is written.
type stream struct {
	*io.PipeReader
	closed func()
	once   sync.Once
}

// Close implements [io.Closer]. The reader, such as AWS, has gone away, or read it to its end.
func (s *stream) Close() error {
	s.once.Do(s.closed)
	return s.PipeReader.Close()
}
