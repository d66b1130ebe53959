// Package conformance tests how an HTTP cache behaves from outside: a scripted origin behind
// it, a client in front of it, and a table of cases from RFC 9110, 9111, 9213 and 5861.
//
//	client ──► cache under test ──► origin
//	   └── both are here, and know the step of each case ──┘
//
// Each case has a path of its own, so that cases run concurrently and in any cache that is
// empty at these paths. "go run -C bench ./conformance" compares caches by it; the tests of
// package gateway hold this project to it.
package conformance

import (
	"net/http"
	"time"
)

// A Level is the meaning of a failed case.
type Level int

const (
	// Required: the specification demands it (MUST), or a visitor gets a wrong response.
	Required Level = iota
	// Optimal: the specification allows it, and a good cache does it.
	Optimal
)

// A Case is a sequence of requests for one path.
type Case struct {
	Name    string // unique; its part before the first "/" is its group
	Section string // of the specification
	Level   Level
	Steps   []Step
}

// A source is where the response of a step may come from.
type source int

const (
	anywhere  source = iota
	origin           // the origin has sent it in this step
	cached           // the cache has it from an earlier step, and did not wait for the origin
	validated        // from an earlier step, after a conditional request to the origin
	notFresh         // of this step, or of an earlier one that the origin has confirmed
)

// A Step is a request, what the origin answers if it is asked, and what the client must get.
type Step struct {
	After time.Duration // pause before the request

	// The request. Method is GET if empty.
	Method, Query, Request string // Request has lines of header fields

	// The origin's response: 200 if Status is 0, with the lines of Response. A date is written
	// as {now}, {now+60} or {now-60}, in seconds. Body is one that names case and step if empty.
	Status   int
	Response string
	Body     string
	Interim  string // lines of a 103 before it
	Break    string // "before" or "within": where the connection breaks, instead of an end
	NotDate  bool   // without the field Date

	// Expectations. A failing Setup step means that the case proves nothing about the cache.
	Setup      bool
	From       source
	WantStatus int     // 0: any
	WantBody   *string // nil: the body of the step that From means
	Want       string  // lines of header fields of the response
	Without    string  // names of fields that the response must not have, separated by spaces
	MinAge     int     // seconds; not checked if 0
	AtOrigin   string  // lines of fields that the origin must get, if it is asked; a name alone: with any value
	NotOrigin  string  // names of fields that the origin must not get
	Check      func(*http.Response, []byte) string
}

// An Outcome is the result of one case.
type Outcome int

const (
	Passed Outcome = iota
	Failed
	// Inapplicable: a step that prepares the case failed, such as one that stores a response
	// of a kind that the cache does not store.
	Inapplicable
)

// A Result is what one case showed.
type Result struct {
	Case    Case
	Outcome Outcome
	Reason  string // empty if it passed
}

func (l Level) String() string {
	if l == Required {
		return "required"
	}
	return "optimal"
}

func (o Outcome) String() string { return [...]string{"passed", "failed", "not applicable"}[o] }
