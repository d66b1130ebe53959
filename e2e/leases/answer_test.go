//go:build linux || darwin

package leases

import (
	"errors"

	"github.com/facetheory/isr/store"
)

// judged is what an error says. One that is none of package isr's says nothing.
func judged(err error) answer {
	if err == nil {
		return answer{Said: saidOK}
	}
	if earlier, ok := errors.AsType[*store.RequestError](err); ok {
		return answer{Said: saidOf(earlier.Err), Request: requestOf(earlier.Record)}
	}
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		return answer{Said: saidHeld, Lock: lockOf(store.Record{Lock: &held.Lock})}
	}
	return answer{Said: saidOf(err), Text: err.Error()}
}

// settled is judged for calls that find out what became of them: unless they say
// that they do not know, they did not happen.
func settled(err error) answer {
	got := judged(err)
	if got.Said == saidNothing && !errors.Is(err, store.ErrUnknownOutcome) {
		got.Said = saidNot
	}
	return got
}

func saidOf(err error) said {
	lost, moved := errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved)
	switch {
	case lost && moved:
		return saidBoth
	case lost:
		return saidLost
	case moved:
		return saidMoved
	case errors.Is(err, store.ErrRequestCompleted):
		return saidCompleted
	case errors.Is(err, store.ErrRequestInProgress):
		return saidInProgress
	case errors.Is(err, store.ErrRequestMismatch):
		return saidMismatch
	}
	return saidNothing
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
