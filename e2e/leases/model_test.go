//go:build linux || darwin

package leases

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A page is the specification: all rows of one page, with calls applied one at a time. It is
// immutable; step returns a new one.
type page struct {
	lock     lock
	meta     meta
	requests map[string]record // shared with earlier pages
}

// A lock is a lease, or the back-off after a failure, which has no owner.
type lock struct {
	Owner    string `json:"owner,omitempty"`
	Ends     int64  `json:"ends,omitempty"` // epoch seconds; 0: no lock
	Failures int    `json:"failures,omitempty"`
}

// same reports whether two reads of a lock row saw the same lease. Two back-offs that look the
// same may be different ones.
func (l lock) same(other lock) bool {
	return l == other || l.Owner != "" && l.Owner == other.Owner
}

// A meta is the current generation and its version, which publishes increment.
type meta struct {
	Generation string `json:"generation,omitempty"` // empty: nothing published
	Version    int64  `json:"version,omitempty"`    // 0: unknown, after an unanswered first publish
}

func (m meta) is(other meta) bool {
	return m == other || m.Version == 0 && m.Generation != "" && m.Generation == other.Generation
}

// A request is a request record as the store returns it.
type request struct {
	Hash       string `json:"hash,omitempty"`
	State      string `json:"state,omitempty"` // empty: no record
	Until      int64  `json:"until,omitempty"` // epoch seconds; only if started
	Generation string `json:"generation,omitempty"`
	Body       string `json:"body,omitempty"`
}

// The states of a request record, as stored in the table.
const (
	started   = "STARTED"
	completed = "COMPLETED"
	failed    = "FAILED"
)

// A record is a request record and the lease that its holder executes it under.
type record struct {
	request

	lease string
}

// bodyOf returns the body key of a generation.
func bodyOf(generation string) string { return "bodies/" + generation }

// model checks histories, partitioned by page.
func model() porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{page{}} },
		Step:  step,
		Equal: func(a, b any) bool { return a.(page).equal(b.(page)) },
		Hash:  func(p any) uint64 { return p.(page).hash(seed) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v -> %+v", input.(modelInput).call, output)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			pages := make(map[int][]porcupine.Operation)
			for _, o := range history {
				at := o.Input.(modelInput).Page
				pages[at] = append(pages[at], o)
			}
			return slices.Collect(maps.Values(pages))
		},
	}
	return m.ToModel()
}

// step returns the possible pages after a call with this answer: none if the answer is wrong.
func step(state, input, output any) []any {
	p, a, got := state.(page), input.(modelInput), output.(answer)
	var all []any
	for _, at := range a.moments {
		for _, next := range p.after(a.call, at, got) {
			if !slices.ContainsFunc(all, func(known any) bool { return known.(page).equal(next) }) {
				all = append(all, next)
			}
		}
	}
	return all
}

// after is step for one clock reading.
func (p page) after(c call, at moment, got answer) []page {
	switch c.Verb {
	case verbRead:
		return p.unchanged(p.lock == got.Lock && p.meta.is(got.Meta))
	case verbLookUp:
		return p.unchanged(p.requests[c.Request].request == got.Request)
	case verbAcquire:
		return p.acquire(c, at, got)
	case verbRefresh:
		return p.refresh(c, at, got)
	case verbRelease:
		return p.certainly(got, p.without(c.Lease))
	case verbBackOff:
		return p.certainly(got, p.paused(c, at))
	case verbEnd:
		return p.certainly(got, p.ended(c))
	case verbBreak:
		return p.breakLease(c, got)
	case verbPublish:
		return p.publish(c, at, got)
	case verbRollback:
		return p.rollback(c, got)
	}
	panic(fmt.Sprintf("unknown verb %q", c.Verb))
}

// unchanged returns the same page if the answer was right, and none otherwise.
func (p page) unchanged(right bool) []page {
	if right {
		return []page{p}
	}
	return nil
}

// certainly returns next if the call was answered, and both p and next if its outcome is
// unknown. It is for calls that always succeed.
func (p page) certainly(got answer, next page) []page {
	switch got.Outcome {
	case outcomeOK:
		return []page{next}
	case outcomeUnknown:
		return []page{p, next}
	}
	return nil
}

// --- Leases -----------------------------------------------------------------

func (p page) acquire(c call, at moment, got answer) []page {
	free := p.lock.Ends <= at.down
	claim := p.requests[c.Request].claimOutcome(c, at)
	next := p.taken(c, at)
	switch got.Outcome {
	case outcomeOK:
		failures := got.Failures == p.lock.Failures || got.Writes > 1 && got.Failures == 0
		if free && failures && claim == outcomeOK {
			return []page{next}
		}
	case outcomeHeld:
		return p.unchanged(!free && p.lock == got.Lock)
	case outcomeCompleted, outcomeInProgress, outcomeMismatch:
		return p.unchanged(claim == got.Outcome && p.requests[c.Request].request == got.Request)
	case outcomeUnknown:
		if free && claim == outcomeOK {
			return []page{p, next}
		}
		return []page{p}
	}
	return nil
}

// taken returns the page with the lease acquired and the request started.
func (p page) taken(c call, at moment) page {
	p.lock = lock{Owner: c.Lease, Ends: at.up + c.Seconds}
	if c.Request != "" {
		p = p.with(c.Request, record{request{Hash: c.Hash, State: started, Until: p.lock.Ends}, c.Lease})
	}
	return p
}

// holds reports whether the lease, and the request that it was acquired for, still belong to
// the caller.
func (p page) holds(c call, at moment) bool {
	r := p.requests[c.Request]
	return p.lock.Owner == c.Lease && p.lock.Ends > at.down &&
		(c.Request == "" || r.lease == c.Lease && r.State == started)
}

func (p page) refresh(c call, at moment, got answer) []page {
	held, next := p.holds(c, at), p
	if held {
		next.lock.Ends = at.up + c.Seconds
		if r := p.requests[c.Request]; c.Request != "" {
			r.Until = next.lock.Ends
			next = next.with(c.Request, r)
		}
	}
	if got.Outcome == outcomeLost {
		return p.unchanged(!held)
	}
	if got.Outcome == outcomeOK && !held {
		return nil
	}
	return p.certainly(got, next)
}

// without returns the page with the lock deleted, if it is the current one.
func (p page) without(lease string) page {
	if p.lock.Owner == lease {
		p.lock = lock{}
	}
	return p
}

// paused returns the page with the lease replaced by a back-off.
func (p page) paused(c call, at moment) page {
	if p.lock.Owner == c.Lease {
		p.lock = lock{Ends: at.up + c.Seconds, Failures: c.Failures}
	}
	return p
}

func (p page) breakLease(c call, got answer) []page {
	same, next := p.lock.same(c.Lock), p
	if same {
		next.lock = lock{}
	}
	switch {
	case got.Outcome == outcomeUnknown || got.Writes > 1:
		return []page{p, next}
	case got.Outcome == outcomeOK && same:
		return []page{next}
	case got.Outcome == outcomeMoved:
		return p.unchanged(!same || c.Lock.Owner == "") // another back-off may look the same
	}
	return nil
}

// --- Current generation -----------------------------------------------------

func (p page) publish(c call, at moment, got answer) []page {
	held, same := p.holds(c, at), p.meta.is(c.Meta)
	switch got.Outcome {
	case outcomeOK:
		if held && same && got.Meta.follows(c.Meta) {
			return []page{p.published(c, got.Meta.Version)}
		}
	case outcomeLost:
		return p.unchanged(!held)
	case outcomeMoved:
		return p.unchanged(held && !same)
	case outcomeLostAndMoved:
		return p.unchanged(!held && !same)
	case outcomeNotCommitted:
		return []page{p, p.without(c.Lease)}
	case outcomeUnknown:
		all := []page{p, p.without(c.Lease)}
		if held && same {
			all = append(all, p.published(c, c.Meta.next()))
		}
		return all
	}
	return nil
}

// published returns the page with the generation current, the lease released and the request
// completed.
func (p page) published(c call, version int64) page {
	p.meta, p.lock = meta{c.Generation, version}, lock{}
	return p.ended(c)
}

func (p page) rollback(c call, got answer) []page {
	same, next := p.meta.is(c.Meta), p
	next.meta = meta{c.Generation, c.Meta.next()}
	switch {
	case got.Outcome == outcomeOK && same && got.Meta.follows(c.Meta):
		return []page{next}
	case got.Outcome == outcomeMoved:
		return p.unchanged(!same)
	case got.Outcome == outcomeNotCommitted:
		return []page{p}
	case got.Outcome == outcomeUnknown && same:
		return []page{p, next}
	case got.Outcome == outcomeUnknown:
		return []page{p}
	}
	return nil
}

// next is the version of the generation that replaces m; 0 if it cannot be known.
func (m meta) next() int64 {
	if m.Version == 0 {
		return 0
	}
	return m.Version + 1
}

// follows reports whether m may have replaced old. The first version may be any number.
func (m meta) follows(old meta) bool {
	return m.Version > 0 && (old.Version == 0 || m.Version == old.Version+1)
}

// --- Requests ---------------------------------------------------------------

// claimOutcome is the outcome of a claim while this record exists.
func (r record) claimOutcome(c call, at moment) outcome {
	switch {
	case c.Request == "" || r.State == "":
		return outcomeOK
	case r.Hash != c.Hash:
		return outcomeMismatch
	case r.State == completed:
		return outcomeCompleted
	case r.State == started && r.Until > at.down:
		return outcomeInProgress
	}
	return outcomeOK
}

// ended returns the page with the request of a lease ended: completed if there is a result,
// failed otherwise. A request of another lease, or one that has ended, is unchanged.
func (p page) ended(c call) page {
	r := p.requests[c.Request]
	if c.Request == "" || r.lease != c.Lease || r.State != started {
		return p
	}
	r.State, r.Until = failed, 0
	if c.Generation != "" {
		r.State, r.Generation, r.Body = completed, c.Generation, bodyOf(c.Generation)
	}
	return p.with(c.Request, r)
}

// with returns the page with the record replaced.
func (p page) with(name string, r record) page {
	p.requests = maps.Clone(p.requests)
	if p.requests == nil {
		p.requests = make(map[string]record)
	}
	p.requests[name] = r
	return p
}

// --- Comparison -------------------------------------------------------------

func (p page) equal(other page) bool {
	return p.lock == other.lock && p.meta == other.meta && maps.Equal(p.requests, other.requests)
}

// hash covers the parts that change with almost every call.
func (p page) hash(seed maphash.Seed) uint64 {
	type part struct {
		lock lock
		meta meta
	}
	return maphash.Comparable(seed, part{p.lock, p.meta})
}
