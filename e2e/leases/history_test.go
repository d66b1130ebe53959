//go:build linux || darwin

package leases

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// A verb is what is asked of a store.
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

// A call is what somebody asked.
type call struct {
	Verb verb `json:"verb"`
	Page int  `json:"page"`
	// Lease is the name of the lease that it is about, or asks for: the owner that
	// the row shows. No two acquisitions have one name.
	Lease string `json:"lease,omitempty"`
	// Seconds is how long the lease is to last, or the pause after a failure.
	Seconds int64 `json:"seconds,omitempty"`
	// Failures is what a failure is to leave on the row.
	Failures int `json:"failures,omitempty"`
	// Request is the request that the lease is acquired for, or was.
	Request string `json:"request,omitempty"`
	Hash    string `json:"hash,omitempty"`
	// Meta and Lock are what an earlier read saw, and the call insists on.
	Meta meta `json:"meta,omitzero"`
	Lock lock `json:"lock,omitzero"`
	// Generation is what is to be current, or the result of a request that has
	// succeeded.
	Generation string `json:"generation,omitempty"`
}

// said is what an answer comes down to.
type said string

const (
	saidOK         said = "ok"
	saidHeld       said = "held"
	saidLost       said = "lost"
	saidMoved      said = "moved"
	saidBoth       said = "lost and moved"
	saidCompleted  said = "completed"
	saidInProgress said = "in progress"
	saidMismatch   said = "mismatch"
	saidNot        said = "did not happen"
	saidNothing    said = "no answer"
)

// An answer is what was said to a call, and what was seen.
type answer struct {
	Said     said    `json:"said"`
	Failures int     `json:"failures,omitempty"`
	Lock     lock    `json:"lock,omitzero"`
	Meta     meta    `json:"meta,omitzero"`
	Request  request `json:"request,omitzero"`
	// Writes is how many requests to write were sent. If several were, an earlier
	// one may have been carried out, and its reply lost.
	Writes int `json:"writes,omitempty"`
	// Text is the error, for people.
	Text string `json:"text,omitempty"`
}

// An event is a line that a process writes: a call before it is made, or its answer.
type event struct {
	Number int     `json:"number"` // of the call, in its process
	At     instant `json:"at"`
	Call   *call   `json:"call,omitempty"`
	Answer *answer `json:"answer,omitempty"`
}

// An asked is a call as the judge wants it: with the times that it may have been
// judged by.
type asked struct {
	call
	moments []moment
}

// forever is when a call ends that may take effect at any time.
const forever = math.MaxInt64

// operations makes a history of the events of one process. What it was not answered
// may happen until the end; it was asked by a clock that had not passed died.
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
			reply = event{At: died, Answer: &answer{Said: saidNothing, Writes: 1}} // perhaps
		}
		delete(answers, e.Number)
		if isGlimpse(*e.Call, *reply.Answer) && reply.At.Mono-e.At.Mono > longestGlimpse.Nanoseconds() {
			continue
		}
		for _, c := range parts(*e.Call, *reply.Answer) {
			o := porcupine.Operation{
				ClientId: client, Input: asked{c, moments(e.At, reply.At)}, Output: *reply.Answer,
				Call: e.At.Mono, Return: reply.At.Mono,
			}
			if reply.Answer.Said == saidNothing {
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

// longestGlimpse is how long a glimpse may have taken to count. That of a process
// that was frozen meanwhile proves little, as it may belong to any time between; and
// the judge, who tries them all, would not come to an end.
const longestGlimpse = time.Second

// isGlimpse says whether an answer is of how things were for a moment, and nothing
// was changed.
func isGlimpse(c call, got answer) bool {
	return c.Verb == verbRead || c.Verb == verbLookUp || got.Said == saidHeld || got.Said == saidInProgress
}

// parts are the steps of a call that may take effect one by one: none, if it was not
// answered and has sent nothing that could. An acquisition that was not answered is
// given back, as far as that succeeds, and its request ended.
func parts(c call, got answer) []call {
	switch {
	case got.Said != saidNothing:
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
