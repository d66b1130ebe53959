package admin

import (
	"bytes"
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

// An operation is one route of the API: what it does, and what the document says
// of it.
type operation struct {
	method, path string
	name         string // unique: operationId, and the action of an audit line
	summary      string // one line
	details      string // may be empty
	// limit bounds the work.
	limit time.Duration
	// problems are the statuses of the errors that are this operation's own.
	problems []int
	// headers are the request headers that it heeds, and what they are for.
	headers map[string]string
	// public: anybody may ask, though what is answered may differ.
	public bool

	input, output reflect.Type
	lines         bool // the answer is a line for each output
	serve         func(*exchange) error
}

// changes says that an operation does more than look.
func (op operation) changes() bool { return op.method != http.MethodGet }

// An exchange is one request and its answer.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
	// target names what the operation is about, for the audit line.
	target string
}

// replying completes an operation that has one answer. do is given the request,
// whose context ends with the operation's time, and its input: the parameters of a
// GET, the JSON body of a POST.
func replying[In, Out any](op operation, do func(*http.Request, In) (Out, error)) operation {
	op.input, op.output = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	op.serve = func(x *exchange) error {
		in, err := decode[In](x)
		if err != nil {
			return err
		}
		out, err := do(x.r, in)
		if err != nil {
			return err
		}
		return reply(x.w, http.StatusOK, out)
	}
	return op
}

// streaming completes an operation that answers with a line of JSON (NDJSON) for
// each thing there is. An error after the first line is the last line: that of an
// [Error], which no other line looks like.
func streaming[In, Out any](op operation, do func(*http.Request, In) iter.Seq2[Out, error]) operation {
	op.input, op.output, op.lines = reflect.TypeFor[In](), reflect.TypeFor[Out](), true
	op.serve = func(x *exchange) error {
		in, err := decode[In](x)
		if err != nil {
			return err
		}
		return stream(x.w, do(x.r, in))
	}
	return op
}

func stream[Out any](w http.ResponseWriter, things iter.Seq2[Out, error]) error {
	c, lines := http.NewResponseController(w), json.NewEncoder(w)
	began := false
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
		// The list may be long; a client that no longer reads it ends it.
		if err := errors.Join(c.SetWriteDeadline(time.Now().Add(writeTime)), lines.Encode(thing)); err != nil {
			return nil //nolint:nilerr // the client is gone, nobody is left to be told
		}
	}
	if !began {
		writeHeader(w, "application/x-ndjson", http.StatusOK)
	}
	return nil
}

// maxInput bounds the body of a request, in bytes.
const maxInput = 64 << 10

// decode reads the input of a request, and takes nothing that it does not know:
// a parameter that is misspelt must not be one that is left out.
func decode[In any](x *exchange) (in In, err error) {
	text, err := x.input()
	if err != nil {
		return in, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return in, invalid("the input cannot be used: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return in, invalid("the input goes on after its end")
	}
	if named, ok := any(in).(interface{ target() string }); ok {
		x.target = named.target()
	}
	// The request is here. From now on only a client that leaves is of interest.
	return in, http.NewResponseController(x.w).SetReadDeadline(time.Time{})
}

// input is the input of a request, as JSON.
func (x *exchange) input() ([]byte, error) {
	if x.r.Method == http.MethodGet || x.r.Method == http.MethodHead {
		return parameters(x.r.URL.RawQuery)
	}
	// A form in a browser cannot send this type to another site unasked.
	if kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, &Error{
			Status: http.StatusUnsupportedMediaType, Code: "not_json", Message: "the request is not JSON",
			Hint: "send the header Content-Type: application/json",
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxInput))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &Error{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Message: fmt.Sprintf("the request has more than %d bytes", maxInput),
		}
	}
	if err != nil {
		return nil, invalid("the request did not arrive: %v", err)
	}
	return text, nil
}

// parameters are those of a URL, as a JSON object of texts.
func parameters(query string) ([]byte, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalid("the parameters cannot be read: %v", err)
	}
	single := make(map[string]string, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, invalid("the parameter %q is there more than once", name)
		}
		single[name] = all[0]
	}
	return json.Marshal(single)
}

// reply writes an answer. It is made as a whole before any of it is sent.
func reply(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("answering: %w", err)
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
