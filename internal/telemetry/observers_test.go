package telemetry_test

import (
	"context"
	"slices"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
)

type placeKey struct{}

// A place is an observer that writes what it is told to a list that several share.
type place struct {
	name string
	told *[]string
}

func (p place) Begin(ctx context.Context, op isr.Operation) (context.Context, func(isr.Result)) {
	before, _ := ctx.Value(placeKey{}).(string)
	*p.told = append(*p.told, p.name+" begins "+op.Name+" after "+before)
	return context.WithValue(ctx, placeKey{}, p.name), func(r isr.Result) { *p.told = append(*p.told, p.name+" ends "+r.Outcome) }
}
func (p place) Join(_, _ context.Context) { *p.told = append(*p.told, p.name+" joins") }
func (p place) Note(e isr.Event)          { *p.told = append(*p.told, p.name+" notes "+string(e.Kind)) }

func TestObservers(t *testing.T) {
	var told []string
	o := telemetry.Observers(place{"a", &told}, place{"b", &told})
	_, end := o.Begin(t.Context(), isr.Operation{Name: "read"})
	o.Join(t.Context(), t.Context())
	o.Note(isr.Event{Kind: isr.EventPoll})
	end(isr.Result{Outcome: "ok"})
	want := []string{"a begins read after ", "b begins read after a", "a joins", "b joins", "a notes poll", "b notes poll", "b ends ok", "a ends ok"}
	if !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	if telemetry.Observers() != nil || telemetry.Observers(place{"a", &told}) != isr.Observer(place{"a", &told}) {
		t.Error("one observer is that observer, and none is none")
	}
}
