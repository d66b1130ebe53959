//go:build linux || darwin

package leases

import (
	"errors"

	"github.com/facetheory/isr/store"
)

// answerOf maps an error of package store to the answer that it carries. Any other error is
// outcomeUnknown: the outcome is unknown.
func answerOf(err error) answer {
	if err == nil {
		return answer{Outcome: outcomeOK}
	}
	if earlier, ok := errors.AsType[*store.RequestError](err); ok {
		return answer{Outcome: outcomeOf(earlier.Err), Request: requestOf(earlier.Record)}
	}
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		return answer{Outcome: outcomeHeld, Lock: lockOf(store.Record{Lock: &held.Lock})}
	}
	return answer{Outcome: outcomeOf(err), Text: err.Error()}
}

// settledAnswer is answerOf for calls that resolve an unknown outcome themselves: an error other than
// ErrUnknownOutcome means that nothing was committed.
func settledAnswer(err error) answer {
	got := answerOf(err)
	if got.Outcome == outcomeUnknown && !errors.Is(err, store.ErrUnknownOutcome) {
		got.Outcome = outcomeNotCommitted
	}
	return got
}

func outcomeOf(err error) outcome {
	lost, moved := errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved)
	switch {
	case lost && moved:
		return outcomeLostAndMoved
	case lost:
		return outcomeLost
	case moved:
		return outcomeMoved
	case errors.Is(err, store.ErrRequestCompleted):
		return outcomeCompleted
	case errors.Is(err, store.ErrRequestInProgress):
		return outcomeInProgress
	case errors.Is(err, store.ErrRequestMismatch):
		return outcomeMismatch
	}
	return outcomeUnknown
}

func lockOf(r store.Record) lock {
	if r.Lock == nil {
		return lock{}
	}
	return lock{Owner: r.Lock.Owner, Ends: r.Lock.ExpiresAt.Unix(), Failures: r.Lock.Failures}
}

func metaOf(e *store.Entry) meta {
	if e == nil {
		return meta{}
	}
	return meta{Generation: e.GenerationID, Version: e.Version}
}

func requestOf(r store.RequestRecord) request {
	shown := request{Hash: r.Hash, State: r.State.String(), Generation: r.GenerationID, Body: r.BodyKey}
	if !r.InProgressUntil.IsZero() {
		shown.Until = r.InProgressUntil.Unix()
	}
	return shown
}
