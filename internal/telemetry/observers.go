package telemetry

import (
	"context"

	"github.com/facetheory/isr"
)

// Observers returns an observer that calls several, in order; nil if there are none. The
// context of an operation passes through the Begin of each.
func Observers(all ...isr.Observer) isr.Observer {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return observers(all)
}

type observers []isr.Observer

// Begin implements [isr.Observer]. The operation ends in the reverse order.
func (all observers) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	ends := make([]func(isr.Result), len(all))
	for i, o := range all {
		ctx, ends[i] = o.Begin(ctx, op)
	}
	return ctx, func(result isr.Result) {
		for i := range ends {
			ends[len(ends)-1-i](result)
		}
	}
}

// Join implements [isr.Observer].
func (all observers) Join(work, request context.Context) {
	for _, o := range all {
		o.Join(work, request)
	}
}

// Note implements [isr.Observer].
func (all observers) Note(e isr.Event) {
	for _, o := range all {
		o.Note(e)
	}
}
