//go:build linux || darwin

package leases

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// A verb names a store operation.
type verb string

const (
	verbRead     verb = "read"
	verbAcquire  verb = "acquire"
	verbRefresh  verb = "refresh"
	verbRelease  verb = "release"
	verbBackOff  verb = "back off"
	verbBreak    verb = "break"
	verbPublish  verb = "publish"
	verbRollback verb = "roll back"
	verbLookUp   verb = "look up"
	verbEnd      verb = "end"
)

// A call is one store operation and its arguments.
type call struct {
	Verb verb `json:"verb"`
	Page int  `json:"page"`
	// Lease names the lease that the call uses or requests: the owner in the lock row. Every
	// acquisition has a unique name.
	Lease string `json:"lease,omitempty"`
	// Seconds is the lease duration, or the back-off after a failure.
	Seconds int64 `json:"seconds,omitempty"`
	// Failures is the failure count that a back-off writes to the row.
	Failures int `json:"failures,omitempty"`
	// Request is the idempotency key of the acquisition.
	Request string `json:"request,omitempty"`
	Hash    string `json:"hash,omitempty"`
	// Meta and Lock are the values of an earlier read that the call is conditional on.
	Meta meta `json:"meta,omitzero"`
	Lock lock `json:"lock,omitzero"`
	// Generation is the generation to make current, or the result of a completed request.
	Generation string `json:"generation,omitempty"`
}

// outcome is the result of a call.
type outcome string

const (
	outcomeOK           outcome = "ok"
	outcomeHeld         outcome = "held"
	outcomeLost         outcome = "lost"
	outcomeMoved        outcome = "moved"
	outcomeLostAndMoved outcome = "lost and moved"
	outcomeCompleted    outcome = "completed"
	outcomeInProgress   outcome = "in progress"
	outcomeMismatch     outcome = "mismatch"
	outcomeNotCommitted outcome = "did not happen"
	outcomeUnknown      outcome = "no answer"
)

// An answer is the outcome of a call and the rows that it returned.
type answer struct {
	Outcome  outcome `json:"said"`
	Failures int     `json:"failures,omitempty"`
	Lock     lock    `json:"lock,omitzero"`
	Meta     meta    `json:"meta,omitzero"`
	Request  request `json:"request,omitzero"`
	// Writes counts the write requests sent. With more than one, an earlier one may have been
	// committed although its reply was lost.
	Writes int `json:"writes,omitempty"`
	// Text is the error message, for failure output only.
	Text string `json:"text,omitempty"`
}

// An event is one line of a process's output: a call before it is made, or its answer.
type event struct {
	Number int     `json:"number"` // of the call, in its process
	At     instant `json:"at"`
	Call   *call   `json:"call,omitempty"`
	Answer *answer `json:"answer,omitempty"`
}

// A modelInput is the input of the model: a call and the clock readings that it may have used.
type modelInput struct {
	call
	moments []moment
}

// forever is the return time of a call that may take effect at any later time.
const forever = math.MaxInt64

// operations builds the history of one process from its events. A call without an answer may
// take effect until the end of the history; its clock readings lie before died.
func operations(client int, events []event, died instant) ([]porcupine.Operation, error) {
	answers := make(map[int]event)
	for _, e := range events {
		if e.Answer != nil {
			answers[e.Number] = e
		}
	}
	var history []porcupine.Operation
	for _, e := range events {
		if e.Call == nil {
			continue
		}
		reply, ok := answers[e.Number]
		if !ok {
			reply = event{At: died, Answer: &answer{Outcome: outcomeUnknown, Writes: 1}} // perhaps
		}
		delete(answers, e.Number)
		if isGlimpse(*e.Call, *reply.Answer) && reply.At.Mono-e.At.Mono > longestGlimpse.Nanoseconds() {
			continue
		}
		for _, c := range parts(*e.Call, *reply.Answer) {
			o := porcupine.Operation{
				ClientId: client, Input: modelInput{c, moments(e.At, reply.At)}, Output: *reply.Answer,
				Call: e.At.Mono, Return: reply.At.Mono,
			}
			if reply.Answer.Outcome == outcomeUnknown {
				o.Return = forever
			}
			history = append(history, o)
		}
	}
	if len(answers) > 0 {
		return nil, fmt.Errorf("%d answers of process %d have no call", len(answers), client)
	}
	return history, nil
}

// longestGlimpse is the longest duration of a counted glimpse. A process that was frozen during
// a read may have read at any time in between: that proves little, and makes the search of the
// checker too large.
const longestGlimpse = time.Second

// isGlimpse reports whether a call only observed state and changed nothing.
func isGlimpse(c call, got answer) bool {
	return c.Verb == verbRead || c.Verb == verbLookUp || got.Outcome == outcomeHeld || got.Outcome == outcomeInProgress
}

// parts splits a call into the steps that may take effect separately. An unanswered call that
// sent no write has no steps. An unanswered acquisition may be followed by the release of its
// lease and the end of its request, which the store attempts.
func parts(c call, got answer) []call {
	switch {
	case got.Outcome != outcomeUnknown:
		return []call{c}
	case got.Writes == 0, c.Verb == verbRead, c.Verb == verbLookUp:
		return nil
	case c.Verb != verbAcquire:
		return []call{c}
	}
	back, end := c, c
	back.Verb, end.Verb = verbRelease, verbEnd
	if c.Request == "" {
		return []call{c, back}
	}
	return []call{c, back, end}
}
