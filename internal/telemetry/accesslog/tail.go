package accesslog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/telemetry"
)

// maxFollowed bounds the lines that wait for a follower, in bytes. As many again may be about to be sent.
const maxFollowed = 1 << 20

// A Tail shows requests to those who follow them at the time. Without followers it costs nothing. Its zero value has no
// followers. It is safe for concurrent use.
type Tail struct {
	address   atomic.Pointer[Address]
	mu        sync.Mutex                  // of changes
	followers atomic.Pointer[[]*follower] // the slice does not change
	drafts    sync.Pool                   // of *draft
}

var _ telemetry.Sink = (*Tail)(nil)

type follower struct {
	where  *Filter
	fields []field
	buffer buffer
}

// ShowClients selects which part of a client's address lines have from now on, as [Config.ClientAddress].
func (t *Tail) ShowClients(a Address) { t.address.Store(&a) }

// Done implements [telemetry.Sink].
func (t *Tail) Done(x *telemetry.Exchange) {
	followers := t.followers.Load()
	if followers == nil || len(*followers) == 0 {
		return
	}
	d, _ := t.drafts.Get().(*draft)
	if d == nil {
		d = new(draft)
	}
	address := AddressFull
	if a := t.address.Load(); a != nil {
		address = *a
	}
	d.line = newLine(x, 1, address)
	d.text = d.text[:0]
	for _, f := range *followers {
		if !f.where.selects(&d.line) {
			continue
		}
		if len(d.text) == 0 {
			d.text = append(appendJSON(d.text, &d.line, f.fields), '\n')
		}
		f.buffer.add(d.text)
	}
	d.line = line{}
	t.drafts.Put(d)
}

// Follow sends the requests that a filter selects, as lines of JSON, and how many of them were dropped since it was
// called last because they came faster than they were taken. It calls began once no later request is missed. It returns nil
// once ctx is done, or the error of send.
func (t *Tail) Follow(ctx context.Context, where *Filter, began func(), send func(lines []byte, dropped int64) error) error {
	f := &follower{where: where, fields: standardFields(), buffer: buffer{limit: maxFollowed, dropped: new(atomic.Int64)}}
	f.buffer.init()
	t.change(func(all []*follower) []*follower { return append(all, f) })
	defer t.change(func(all []*follower) []*follower {
		return slices.DeleteFunc(all, func(other *follower) bool { return other == f })
	})
	began()
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	var spare []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.buffer.full:
		case <-ticker.C:
		}
		lines, dropped := f.buffer.swap(spare), f.buffer.dropped.Swap(0)
		if len(lines) > 0 || dropped > 0 {
			if err := send(lines, dropped); err != nil {
				return fmt.Errorf("send lines: %w", err)
			}
		}
		spare = lines
	}
}

// change replaces the followers by what by makes of a copy of them.
func (t *Tail) change(by func([]*follower) []*follower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*follower
	if old := t.followers.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = by(all)
	t.followers.Store(&all)
}
