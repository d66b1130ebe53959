package queue

import (
	"context"
	"log/slog"

	"github.com/facetheory/isr/trigger"
)

// Purges executes messages that are purge requests, or events of which templates make targets
// (see [trigger.ParseEvent]).
type Purges struct {
	// Debouncer executes them. Callers close it after the consumer.
	Debouncer *trigger.Debouncer
	// Queue names the queue: ids of messages of different queues are unrelated.
	Queue string
	// Templates make targets of events. None: the queue has purge requests.
	Templates []trigger.Template
	// Hard is the mode of purges by templates (see isr.Purge). Purge requests have their own.
	Hard bool
	// Logger receives one line for each purge.
	Logger *slog.Logger
}

var _ Handler = (*Purges)(nil)

// Execute implements [Handler].
func (p *Purges) Execute(ctx context.Context, received Message) error {
	m, err := trigger.ParseEvent([]byte(received.Body), p.Templates)
	if err != nil {
		return &Refused{err}
	}
	if len(m.Targets) == 0 {
		return nil
	}
	m.Source, m.Hard = "queue "+p.Queue, m.Hard || p.Hard
	if m.ID == "" {
		m.ID = received.ID
	}
	ctx, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	outcome, err := p.Debouncer.Submit(ctx, m)
	switch {
	case err == nil:
		p.Logger.Info("purged by message", "id", received.ID, "receipt", outcome.Receipt.Seq, "duplicate", outcome.Duplicate, "targets", len(m.Targets), "not_stored", outcome.NotStored)
		return nil
	case trigger.Permanent(err):
		return &Refused{err}
	}
	return err
}
