package budget

import (
	"errors"
	"net"
	"time"
)

const (
	// blamePause is the least time between failures of one client's unknown pages that
	// count against the origin.
	blamePause = time.Second
	// maxBlamed bounds how many such clients are remembered.
	maxBlamed = 1024
)

// weigh decides whether a verdict counts. A client can request any number of pages that
// hang: those that fail together count once. A failure to connect always counts, since
// no client can cause it.
func (b *Budget) weigh(t *Turn, verdict error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	client, now := t.payer, time.Now()
	switch {
	case verdict == nil:
		clear(b.blamed)
		return nil
	case errors.Is(verdict, ErrNoVerdict), t.page.Known, !client.IsValid(), isDialError(verdict):
		return verdict
	case now.Sub(b.blamed[client]) < blamePause:
		return ErrNoVerdict
	case len(b.blamed) >= maxBlamed:
		clear(b.blamed)
	}
	b.blamed[client] = now
	return verdict
}

func isDialError(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// giveWay ends an inconclusive probe: a page that has never rendered, and fails or hangs.
// The next probe is another client's, if there is one, so that a client that requests
// only such pages cannot keep the breaker open.
func (t *Turn) giveWay() {
	b := t.b
	b.mu.Lock()
	b.prober, b.yieldsTill = t.payer, time.Now().Add(BusyRetry)
	b.mu.Unlock()
	t.verdict(ErrNoVerdict)
}

// probedInVain reports whether the last inconclusive probe was this client's.
func (b *Budget) probedInVain(t *Turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.payer.IsValid() && t.payer == b.prober && time.Now().Before(b.yieldsTill)
}
