package bodies

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"time"

	"github.com/facetheory/isr/store"
)

// A body that this process needs may be in the memory of a peer, which answers within a
// millisecond, where a bucket takes tens of them and charges for it.
//
// The entry in the table names the process that rendered it (Entry.Peer): it has the body in
// memory unless it evicted it or was restarted, and nodes that read a page that was just published
// spread over the publishers as the renders do. If it is gone, or has not the body, one other
// process is asked, chosen by rendezvous hashing: the same one for each read of the page, so that
// requests spread without any of them being coordinated. More are not asked: in a fleet whose
// visitors are spread evenly, a page that two processes do not have is one that few have.
//
// What a peer sends is verified by the digest and the length of the entry, which the reader has from the
// table: a peer that lies costs the time of its answer, and its circuit breaker opens.

const (
	// peerPatience is how long peers may take, with peerPatienceEach for each 64 KiB, before the
	// store is asked as well.
	peerPatience     = 10 * time.Millisecond
	peerPatienceEach = time.Millisecond
	// peerTime bounds a read of peers.
	peerTime = 500 * time.Millisecond
)

// Results of asking a peer that depend on the body, and not on the peer's health alone.
const peerWrong, peerAbsent, peerBusy = "wrong", "absent", "busy"

// fetch reads and verifies the body of an entry, from the local disk, a peer or the store. Errors are
// the store's own.
func (r *Reader) fetch(ctx context.Context, k store.Key, e *store.Entry) ([]byte, error) {
	holders := r.holders(k, e)
	if len(holders) == 0 {
		return r.fromStore(ctx, e)
	}
	if r.HasLocal() {
		if body, err := r.Local(ctx, e); err == nil && Verify(e, body) == nil {
			return body, nil
		}
	}
	got := r.race(ctx, k, e, holders)
	if got.ofPeer && got.err == nil && r.o.Keeper != nil {
		r.o.Keeper.KeepLocal(e.BodyKey, got.body)
	}
	return got.body, got.err
}

// holders returns the peers that are asked for the body of an entry, at most two. Entries without a
// digest, of other services, cannot be verified, and no peer is asked for them.
func (r *Reader) holders(k store.Key, e *store.Entry) []netip.AddrPort {
	if e.Foreign || len(e.SHA256) != 2*sha256.Size || e.Length > min(store.MaxPeerBody, r.o.MaxBody) {
		return nil
	}
	return r.o.Peers.Holders(k, e.Peer)
}

// An answer is a body that was asked for, or why there is none.
type answer struct {
	body   []byte
	err    error
	ofPeer bool
}

// race asks peers for a body, and the store once they do not have it or are slow. The first to have it
// wins. The error is the store's own.
func (r *Reader) race(ctx context.Context, k store.Key, e *store.Entry, holders []netip.AddrPort) answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the one that lost
	answers, late, lost := make(chan answer, 2), make(chan struct{}), error(nil)
	go func() { answers <- r.askPeers(ctx, late, k, e, holders) }()
	timer := time.NewTimer(peerPatience + time.Duration(e.Length>>16)*peerPatienceEach)
	defer timer.Stop()
	asked, waiting := false, 1
	askStore := func() {
		if asked {
			return
		}
		asked = true
		waiting++
		if body, ok := r.o.Reuse(k, e); ok {
			answers <- answer{body: body} // another read was sooner
			return
		}
		go func() {
			body, err := r.fromStore(ctx, e)
			answers <- answer{body: body, err: err}
		}()
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
	return answer{err: lost}
}

// askPeers asks peers for a body, one after the other, and returns it if it is what was published. late
// is closed when peers have taken too long.
func (r *Reader) askPeers(ctx context.Context, late <-chan struct{}, k store.Key, e *store.Entry, holders []netip.AddrPort) answer {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	for _, at := range holders {
		if !r.o.Peers.Begin(at) {
			continue
		}
		body, err := r.o.Ask(ctx, at, store.PeerBody{Key: k, BodyKey: e.BodyKey, SHA256: e.SHA256, Length: e.Length})
		if err == nil {
			err = Verify(e, body)
		}
		slow := isClosed(late)
		if err != nil && !slow && errors.Is(ctx.Err(), context.Canceled) {
			break // the read was
		}
		result := peerResult(err, slow)
		if err == nil || result == peerAbsent || result == peerBusy {
			r.o.Peers.Answered(at)
		} else {
			r.o.Peers.Failed(at, result == peerWrong)
		}
		r.o.Asked(result, int64(len(body)))
		if err == nil {
			return answer{body: body, ofPeer: true}
		}
		if slow {
			break // the store answers sooner than another peer
		}
	}
	return answer{err: store.ErrNotFound, ofPeer: true}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// peerResult is the result that Options.Asked is called with.
func peerResult(err error, slow bool) string {
	switch {
	case errors.Is(err, ErrMissing):
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
