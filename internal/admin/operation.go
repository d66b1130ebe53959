package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// An operation is one route of the API, with its documentation.
type operation struct {
	method, path string
	name         string // unique: operationId, and the action of an audit line
	summary      string // one line
	details      string // may be empty
	// limit bounds its execution.
	limit time.Duration
	// problems are the error statuses specific to this operation.
	problems []int
	// maxInput bounds the body of a request, in bytes. Zero means maxInput.
	maxInput int64
	// headers are the request headers that it reads, with their descriptions.
	headers map[string]string
	// public operations need no token, but may return less without one.
	public bool
	// reads: a POST that changes nothing. Its input has no place in a URL, which proxies log.
	reads bool
	// adminOnly operations are refused to RoleRead, although they change nothing.
	adminOnly bool
	// watches: the operation lasts as long as the client watches, and has a bound of its own.
	watches bool

	input, output reflect.Type
	lines         bool   // the response is NDJSON, a line for each output
	kind          string // the content type of a response that is not JSON
	serve         func(*exchange) error
}

// hasBody reports whether the input of an operation is the body of its request.
func (op operation) hasBody() bool { return op.method != http.MethodGet }

// changes reports whether an operation may change the store.
func (op operation) changes() bool { return op.hasBody() && !op.reads }

// An exchange is one request and its response.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
	// visitor is the caller, target the page of the operation, and run the run over many pages that it belongs
	// to, if there is one, for the audit log.
	visitor     visitor
	target, run string
}

// replying completes an operation with one JSON response. do receives the request, whose
// context has the operation's deadline, and its input: the query parameters of a GET, or
// the JSON body of a POST.
func replying[In, Out any](op operation, do func(*http.Request, In) (Out, error)) operation {
	return exchanging(op, func(x *exchange, in In) (Out, error) { return do(x.r, in) })
}

// exchanging is replying with a do that may set headers of the response.
func exchanging[In, Out any](op operation, do func(*exchange, In) (Out, error)) operation {
	op.input, op.output = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	op.serve = func(x *exchange) error {
		in, err := decode[In](x, op)
		if err != nil {
			return err
		}
		out, err := do(x, in)
		if err != nil {
			return err
		}
		return reply(x.w, http.StatusOK, out)
	}
	return op
}

// streaming completes an operation that responds with lines of JSON (NDJSON). An error after
// the first line becomes the last line, an [Error]; no other line has its field.
func streaming[In, Out any](op operation, do func(*http.Request, In) iter.Seq2[Out, error]) operation {
	op.input, op.output, op.lines = reflect.TypeFor[In](), reflect.TypeFor[Out](), true
	op.serve = func(x *exchange) error {
		in, err := decode[In](x, op)
		if err != nil {
			return err
		}
		return stream(x.w, do(x.r, in))
	}
	return op
}

// flushEvery is how long lines of a list may wait for others to be sent with.
const flushEvery = 200 * time.Millisecond

func stream[Out any](w http.ResponseWriter, things iter.Seq2[Out, error]) error {
	c, lines := http.NewResponseController(w), json.NewEncoder(w)
	began, flushed := false, time.Now()
	for thing, err := range things {
		switch {
		case err != nil && !began:
			return err
		case err != nil:
			return lines.Encode(failure{describe(err)})
		case !began:
			began = true
			writeHeader(w, "application/x-ndjson", http.StatusOK)
		}
		// Each line has its own deadline: the list may be long, and a client that does not
		// read it ends it.
		if err := errors.Join(c.SetWriteDeadline(time.Now().Add(writeTime)), lines.Encode(thing)); err != nil {
			return nil //nolint:nilerr // the client has disconnected
		}
		if now := time.Now(); now.Sub(flushed) > flushEvery { // a slow list shows its progress
			flushed = now
			_ = c.Flush() // fails if the client is gone, which the next write finds
		}
	}
	if !began {
		writeHeader(w, "application/x-ndjson", http.StatusOK)
	}
	return nil
}

// maxInput bounds the body of most requests, in bytes.
const maxInput = 64 << 10

// decode reads the input of a request, which headers may describe instead of the body.
func decode[In any](x *exchange, op operation) (in In, err error) {
	found := false
	if named, ok := any(in).(interface {
		fromHeader(http.Header) (In, bool, error)
	}); ok {
		in, found, err = named.fromHeader(x.r.Header)
	}
	switch {
	case err != nil:
	case !found:
		in, err = decodeInput[In](x, op)
	case x.r.ContentLength != 0:
		err = invalid("the request has a body and headers that stand for one; send one of them")
	}
	if err != nil {
		return in, err
	}
	if named, ok := any(in).(interface{ target() string }); ok {
		x.target = named.target()
	}
	if part, ok := any(in).(interface{ run() string }); ok {
		x.run = part.run()
	}
	// The request has been read: remove the deadline. The server keeps reading only to
	// notice a disconnect.
	return in, http.NewResponseController(x.w).SetReadDeadline(time.Time{})
}

// decodeInput reads the input of a request. It refuses unknown fields, so that a misspelled
// parameter is not ignored.
func decodeInput[In any](x *exchange, op operation) (in In, err error) {
	text, err := x.input(cmp.Or(op.maxInput, maxInput))
	if err != nil {
		return in, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return in, invalid("invalid input: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return in, invalid("invalid input: data after the JSON value")
	}
	return in, nil
}

// input returns the input of a request as JSON of at most longest bytes.
func (x *exchange) input(longest int64) ([]byte, error) {
	if x.r.Method == http.MethodGet || x.r.Method == http.MethodHead {
		return parameters(x.r.URL.RawQuery)
	}
	// HTML forms cannot send this content type to another site without a CORS preflight.
	if kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, &Error{
			Status: http.StatusUnsupportedMediaType, Code: "not_json", Message: "the Content-Type of the request is not application/json",
			Hint: "send the header Content-Type: application/json",
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, longest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &Error{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Message: fmt.Sprintf("the request body is larger than %d bytes", longest),
		}
	}
	if err != nil {
		return nil, invalid("read request body: %v", err)
	}
	return text, nil
}

// parameters returns the query parameters of a URL as a JSON object of strings.
func parameters(query string) ([]byte, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalid("invalid query parameters: %v", err)
	}
	single := make(map[string]string, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, invalid("query parameter %q is repeated", name)
		}
		single[name] = all[0]
	}
	return json.Marshal(single)
}

// reply encodes v completely before it writes the response.
func reply(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	writeHeader(w, "application/json", status)
	_, _ = w.Write(append(text, '\n')) // fails if the client is gone
	return nil
}

func writeHeader(w http.ResponseWriter, kind string, status int) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
}
