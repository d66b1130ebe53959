package breaker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/breaker"
)

var errDown = errors.New("down")

// Only failures of several subjects, with no answer in between, open a breaker.
func TestOpens(t *testing.T) {
	b := breaker.New("table", slog.New(slog.DiscardHandler))
	for range 10 {
		b.NoteFailure("a", errDown)
	}
	b.NoteFailure("b", errDown)
	b.NoteAnswer()
	b.NoteFailure("c", errDown)
	b.NoteFailure("d", errDown)
	if b.IsOpen() {
		t.Fatal("open after failures of two subjects")
	}
	if !b.NoteFailure("e", errDown) || !b.IsOpen() {
		t.Error("closed after failures of three subjects")
	}
	if b.NoteFailure("f", errDown) {
		t.Error("opened twice")
	}
}

// Probes follow each other with exponential backoff, until one is answered.
func TestProbeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New("table", slog.New(slog.DiscardHandler))
		for _, subject := range []string{"a", "b", "c"} {
			b.NoteFailure(subject, errDown)
		}
		began, probes := time.Now(), 0
		b.Probe(t.Context(), time.Second, func(ctx context.Context) bool {
			probes++
			if probes == 1 {
				<-ctx.Done() // the store hangs
			}
			return probes == 4
		}, func(d time.Duration) time.Duration { return d })
		if took := time.Since(began); probes != 4 || b.IsOpen() || took < 6*time.Second || took > 10*time.Second {
			t.Errorf("%d probes in %v, open: %t", probes, took, b.IsOpen())
		}
		if b.NoteFailure("a", errDown) {
			t.Error("the closed breaker remembers failures")
		}
	})
}

// A probe ends with its context, and the breaker stays open.
func TestProbeEnds(t *testing.T) {
	b := breaker.New("table", slog.New(slog.DiscardHandler))
	for _, subject := range []string{"a", "b", "c"} {
		b.NoteFailure(subject, errDown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.Probe(ctx, 0, func(context.Context) bool { cancel(); return true }, nil)
	if !b.IsOpen() {
		t.Error("a probe that was cancelled closed the breaker")
	}
}
