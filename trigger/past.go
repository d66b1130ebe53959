package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// past remembers the messages that were executed: as completed request records, in the
// partition TRIGGER#<name>.
//
// A claim before the purge would exclude concurrent deliveries of one message too, but
// after a crash it would refuse further deliveries until its lease had expired, and a sender
// that does not repeat deliveries would lose the message. A purge that is executed twice does
// no harm, so messages are recorded after it.
type past struct {
	records Records
	keep    time.Duration
}

const (
	recordPrefix = "TRIGGER#"
	recordKey    = "message"
	recordLease  = 10 * time.Second
)

// contains reports whether the message of a name was executed.
func (p past) contains(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	r, found, err := p.records.RequestRecord(ctx, recordPrefix+name, recordKey)
	return err == nil && found && r.State == store.RequestCompleted, err
}

// add records that the message of a name was executed.
func (p past) add(ctx context.Context, name string) error {
	l, err := p.records.Acquire(ctx, recordPrefix+name, recordLease, &store.Claim{Key: recordKey, Hash: name, Keep: p.keep})
	if errors.Is(err, store.ErrRequestCompleted) {
		return nil // by a concurrent delivery
	}
	if err != nil {
		return fmt.Errorf("record message %s: %w", name, err)
	}
	err = errors.Join(p.records.EndRequest(ctx, l, store.RequestEnd{Result: &store.Entry{}}), p.records.Release(ctx, l))
	if err != nil {
		return fmt.Errorf("record message %s: %w", name, err)
	}
	return nil
}
