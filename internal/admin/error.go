package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// An Error is an error response. On the wire it is the only field, "error", of an object.
type Error struct {
	// Status is the HTTP status; 0 for an error that ends a list.
	Status int `json:"-"`
	// RetryAfter is how long to wait before a retry; 0 if unknown.
	RetryAfter time.Duration `json:"-"`

	Code    string `json:"code" doc:"Error code for programs, such as held or invalid_request."`
	Message string `json:"message" doc:"Human-readable error message."`
	Hint    string `json:"hint,omitempty" doc:"How to resolve the error."`

	allow []string // supported methods, for 405
}

// Error returns the message and the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// failure is the wire format of an error.
type failure struct {
	Error *Error `json:"error"`
}

// refuse responds with an error.
func (a *API) refuse(w http.ResponseWriter, err error) {
	e := describe(err)
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if len(e.allow) > 0 {
		h.Set("Allow", strings.Join(slices.Sorted(slices.Values(e.allow)), ", "))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", e.challenge())
	}
	if err := reply(w, e.Status, failure{e}); err != nil {
		a.log.Error("failed to write error response", "error", err)
	}
}

// describe maps an error to the response: the codes of the errors of package isr; others
// are errors of the store.
func describe(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	status, code, hint := http.StatusBadGateway, "store_failed", ""
	switch {
	case errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidInput):
		status, code, hint = http.StatusBadRequest, "invalid_request", ""
	case errors.Is(err, isr.ErrClosed):
		status, code, hint = http.StatusServiceUnavailable, "closing", "the server is shutting down; use another server"
	case errors.Is(err, context.DeadlineExceeded):
		status, code, hint = http.StatusGatewayTimeout, "timeout", "the operation may still complete; check its result, or retry"
	case errors.Is(err, context.Canceled):
		status, code, hint = http.StatusServiceUnavailable, "cancelled", ""
	}
	return &Error{Status: status, Code: code, Message: err.Error(), Hint: hint}
}

func invalid(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: fmt.Sprintf(format, args...)}
}

// conflict is the response to an error that the state of the page or the table causes.
func conflict(err error, code, hint string) *Error {
	return &Error{Status: http.StatusConflict, Code: code, Message: err.Error(), Hint: hint}
}

// noServer is the response of an API without the part of a server that the operation needs.
func noServer(code, message string) *Error {
	return &Error{Status: http.StatusConflict, Code: code, Message: message, Hint: "start isr serve, or give the URL of a running server with --server"}
}

// until returns the time until t, at least a second, for RetryAfter.
func (a *API) until(t time.Time) time.Duration {
	return max(t.Sub(a.cfg.Now()), time.Second)
}
