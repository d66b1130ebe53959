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

// An Error is an answer that is not a success. On the wire it is the one field
// "error" of an object.
type Error struct {
	// Status is the HTTP status, 0 where the error came as the end of a list.
	Status int `json:"-"`
	// RetryAfter is when another attempt may fare better, 0 for unknown.
	RetryAfter time.Duration `json:"-"`

	Code    string `json:"code" doc:"What programs branch on, such as held or invalid_request."`
	Message string `json:"message" doc:"What happened, for people."`
	Hint    string `json:"hint,omitempty" doc:"What to do about it."`

	allow []string // the methods that a path has
}

// Error is the message, with the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// failure is how an error is sent.
type failure struct {
	Error *Error `json:"error"`
}

// refuse answers with an error.
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
		a.log.Error("an error could not be answered", "error", err)
	}
}

// describe makes of any error what the client is told: of those that package isr
// names, its code; others are the store's.
func describe(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	status, code, hint := http.StatusBadGateway, "store_failed", ""
	switch {
	case errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidInput):
		status, code, hint = http.StatusBadRequest, "invalid_request", ""
	case errors.Is(err, isr.ErrClosed):
		status, code, hint = http.StatusServiceUnavailable, "closing", "the server is stopping; ask another"
	case errors.Is(err, context.DeadlineExceeded):
		status, code, hint = http.StatusGatewayTimeout, "timeout", "what was begun may still be done; look, or try again"
	case errors.Is(err, context.Canceled):
		status, code, hint = http.StatusServiceUnavailable, "cancelled", ""
	}
	return &Error{Status: status, Code: code, Message: err.Error(), Hint: hint}
}

func invalid(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: fmt.Sprintf(format, args...)}
}

// until is the time that is left to a moment, at least a second, for RetryAfter.
func (a *API) until(t time.Time) time.Duration {
	return max(t.Sub(a.cfg.Now()), time.Second)
}
