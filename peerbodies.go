package isr

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/facetheory/isr/store"
)

// A body that this process needs may be in the memory of a peer, which answers within a
// millisecond, where a bucket takes tens of them and charges for it:
//
//	local disk ──► the peer that rendered the page ──► another peer ──► the bucket
//	                └── no answer after peerPatience ─────────────────► as well
//
// The entry in the table names the process that rendered it (Entry.Peer): it has the body in
// memory unless it evicted it or was restarted, and nodes that read a page that was just published
// spread over the publishers as the renders do. If it is gone, or has not the body, one other
// process is asked, chosen by rendezvous hashing: the same one for each read of the page, so that
// requests spread without any of them being coordinated. More are not asked: in a fleet whose
// visitors are spread evenly, a page that two processes do not have is one that few have.
//
// A peer reads nothing for others but its memory and its local disk, so that requests cause no
// others. What it sends is verified by the digest and the length of the entry, which the reader
// has from the table: a peer that lies costs the time of its answer, and is left alone for a while.

const (
	// peerPatience is how long peers may take, with peerPatienceEach for each 64 KiB, before the
	// bucket is asked as well.
	peerPatience     = 10 * time.Millisecond
	peerPatienceEach = time.Millisecond
	// peerTime bounds a read of peers.
	peerTime = 500 * time.Millisecond
)

// LocalBody returns a stored body for a peer: that of a page which this process has in memory, or
// whose outline is there and whose body is on the local disk. Nothing is read from elsewhere. Keys
// are only compared with those of these pages, and name no file. nil: there is no such body, or this process
// knows that the page was purged hard. The body must not be changed. It is safe for concurrent use.
func (c *Cache) LocalBody(ctx context.Context, b store.PeerBody) []byte {
	body := c.localBody(ctx, b)
	if body == nil {
		c.note(Event{Kind: EventPeerServed, Reason: "absent"})
		return nil
	}
	c.note(Event{Kind: EventPeerServed, Reason: "sent", Bytes: int64(len(body))})
	return body
}

func (c *Cache) localBody(ctx context.Context, b store.PeerBody) []byte {
	p := c.memory.known(b.Key)
	if p == nil {
		return nil
	}
	e := &p.entry
	if e.Foreign || e.Withdrawn || e.BodyKey != b.BodyKey || e.SHA256 != b.SHA256 || e.Length != b.Length || e.Length > store.MaxPeerBody || c.state(nil, p, c.now()) == store.Purged {
		return nil
	}
	if p.plain.body != nil {
		return p.plain.body
	}
	if c.local == nil {
		return nil
	}
	body, err := c.readLocal(ctx, e)
	if err != nil || verify(e, body) != nil {
		return nil
	}
	return body
}

// verify returns an error wrapping ErrNoBody unless a body is what was published.
func verify(e *store.Entry, body []byte) error {
	if e.Foreign {
		return nil // nothing is known of it
	}
	if int64(len(body)) != e.Length {
		return fmt.Errorf("%w: %s has %d bytes, %d were published", ErrNoBody, e.BodyKey, len(body), e.Length)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != e.SHA256 {
		return fmt.Errorf("%w: %s does not have the published content", ErrNoBody, e.BodyKey)
	}
	return nil
}

// readBodyOnce reads and verifies the body of an entry, from a peer or from the store. Errors are
// those of the store.
func (c *Cache) readBodyOnce(ctx context.Context, k store.Key, e *store.Entry) ([]byte, error) {
	holders := c.holders(k, e)
	if len(holders) == 0 {
		return c.openBody(ctx, e)
	}
	if c.local != nil {
		if body, err := c.readLocal(ctx, e); err == nil && verify(e, body) == nil {
			return body, nil
		}
	}
	got := c.race(ctx, k, e, holders)
	if got.ofPeer && got.err == nil && c.keeper != nil {
		c.keeper.KeepLocal(e.BodyKey, got.body)
	}
	return got.body, got.err
}

// A foundBody is a body that was looked for, or why it was not found.
type foundBody struct {
	body   []byte
	err    error
	ofPeer bool
}

// race asks peers for a body, and the store once they do not have it or are slow. The first to have it
// wins. The error is that of the store.
func (c *Cache) race(ctx context.Context, k store.Key, e *store.Entry, holders []netip.AddrPort) foundBody {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the one that lost
	answers, late, lost := make(chan foundBody, 2), make(chan struct{}), error(nil)
	go func() { answers <- c.askPeers(ctx, late, k, e, holders) }()
	timer := time.NewTimer(peerPatience + time.Duration(e.Length>>16)*peerPatienceEach)
	defer timer.Stop()
	asked, waiting := false, 1
	askStore := func() {
		if !asked {
			asked = true
			waiting++
			if last := c.memory.last(k); last != nil && sameBody(&last.entry, e) {
				answers <- foundBody{body: last.plain.body} // another flight was sooner
				return
			}
			go func() {
				body, err := c.openBody(ctx, e)
				answers <- foundBody{body: body, err: err}
			}()
		}
	}
	for waiting > 0 {
		select {
		case got := <-answers:
			waiting--
			switch {
			case got.err == nil:
				return got
			case got.ofPeer:
				askStore()
			default:
				lost = got.err // a peer that is slow may still have it
			}
		case <-timer.C:
			close(late)
			askStore()
		}
	}
	return foundBody{err: lost}
}

// openBody reads and verifies the body of an entry from the store. It completes the entry if that
// is of another service, by what stands beside the body.
func (c *Cache) openBody(ctx context.Context, e *store.Entry) ([]byte, error) {
	rd, length, err := c.bodies.Open(ctx, e.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey):
		return nil, fmt.Errorf("%w: %w", ErrNoBody, err)
	case err != nil:
		return nil, fmt.Errorf("opening the body %s: %w", e.BodyKey, err)
	}
	defer func() { _ = rd.Close() }() // read only
	if e.Foreign {
		err = present(e, store.PresentationOf(rd))
	} else if length != e.Length {
		err = fmt.Errorf("%w: %s has %d bytes, %d were published", ErrNoBody, e.BodyKey, length, e.Length)
	}
	if err != nil {
		return nil, err
	}
	if length > c.cfg.MaxBody {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are read (Config.MaxBody)", errBeyondLimit, e.BodyKey, length, c.cfg.MaxBody)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(rd, body); err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", e.BodyKey, err)
	}
	return body, verify(e, body)
}

// holders returns the peers that are asked for the body of an entry, at most two. Entries without a
// digest, of other services, cannot be verified, and no peer is asked for them.
func (c *Cache) holders(k store.Key, e *store.Entry) []netip.AddrPort {
	if e.Foreign || len(e.SHA256) != 2*sha256.Size || e.Length > min(store.MaxPeerBody, c.cfg.MaxBody) {
		return nil
	}
	return c.peers.Holders(k, e.Peer)
}

// askPeers asks peers for a body, one after the other, and returns it if it is what was published. late
// is closed when peers have taken too long.
func (c *Cache) askPeers(ctx context.Context, late <-chan struct{}, k store.Key, e *store.Entry, holders []netip.AddrPort) foundBody {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	for _, at := range holders {
		if !c.peers.Begin(at) {
			continue
		}
		body, err := c.cfg.Peers.ReadBody(ctx, at, store.PeerBody{Key: k, BodyKey: e.BodyKey, SHA256: e.SHA256, Length: e.Length})
		if err == nil {
			err = verify(e, body)
		}
		slow := isClosed(late)
		if err != nil && !slow && errors.Is(ctx.Err(), context.Canceled) {
			break // the search was
		}
		result := peerResult(err, slow)
		if err == nil || result == peerAbsent || result == peerBusy {
			c.peers.Answered(at)
		} else {
			c.peers.Failed(at, result == peerWrong)
		}
		c.note(Event{Kind: EventPeerBody, Reason: result, Bytes: int64(len(body))})
		if err == nil {
			return foundBody{body: body, ofPeer: true}
		}
		if slow {
			break // the store answers sooner than another peer
		}
	}
	return foundBody{err: store.ErrNotFound, ofPeer: true}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Reasons of EventPeerBody on which the circuit breaker of a peer depends.
const peerWrong, peerAbsent, peerBusy = "wrong", "absent", "busy"

// peerResult is the reason of EventPeerBody.
func peerResult(err error, slow bool) string {
	switch {
	case errors.Is(err, ErrNoBody):
		return peerWrong
	case slow:
		return "slow"
	case err == nil:
		return "hit"
	case errors.Is(err, store.ErrNotFound):
		return peerAbsent
	case errors.Is(err, store.ErrPeerBusy):
		return peerBusy
	}
	return "failed"
}
