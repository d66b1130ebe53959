//go:build linux || darwin

package leases

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A page is the specification: all rows of a page, served by one call at a time. It
// is never altered, but replaced.
type page struct {
	lock     lock
	meta     meta
	requests map[string]record // shared with earlier pages
}

// A lock is a lease, or the pause after a failure, which has no owner.
type lock struct {
	Owner    string `json:"owner,omitempty"`
	Ends     int64  `json:"ends,omitempty"` // epoch seconds; 0: there is none
	Failures int    `json:"failures,omitempty"`
}

// same says whether another sight of a row is of the same lease. Pauses of the same
// look may be two.
func (l lock) same(other lock) bool {
	return l == other || l.Owner != "" && l.Owner == other.Owner
}

// A meta is what is current. Publishes number it.
type meta struct {
	Generation string `json:"generation,omitempty"` // empty: there is none
	Version    int64  `json:"version,omitempty"`    // 0: not known, of a first publish that was not answered
}

func (m meta) is(other meta) bool {
	return m == other || m.Version == 0 && m.Generation != "" && m.Generation == other.Generation
}

// A request is the record of a request as it is shown.
type request struct {
	Hash       string `json:"hash,omitempty"`
	State      string `json:"state,omitempty"` // empty: there is none
	Until      int64  `json:"until,omitempty"` // of a started one, in epoch seconds
	Generation string `json:"generation,omitempty"`
	Body       string `json:"body,omitempty"`
}

// The states of a request, in the table's words.
const (
	started   = "STARTED"
	completed = "COMPLETED"
	failed    = "FAILED"
)

// A record is a request, and the lease that it is carried out under.
type record struct {
	request

	lease string
}

// bodyOf is the key of a generation's body.
func bodyOf(generation string) string { return "bodies/" + generation }

// model judges histories, those of every page by themselves.
func model() porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{page{}} },
		Step:  step,
		Equal: func(a, b any) bool { return a.(page).equal(b.(page)) },
		Hash:  func(p any) uint64 { return p.(page).hash(seed) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v -> %+v", input.(asked).call, output)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			pages := make(map[int][]porcupine.Operation)
			for _, o := range history {
				at := o.Input.(asked).Page
				pages[at] = append(pages[at], o)
			}
			return slices.Collect(maps.Values(pages))
		},
	}
	return m.ToModel()
}

// step is what a page may be after a call that was answered so: nothing, if that
// answer is wrong.
func step(state, input, output any) []any {
	p, a, got := state.(page), input.(asked), output.(answer)
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

// after is step at one moment.
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
		return p.certainOr(got, p.without(c.Lease))
	case verbBackOff:
		return p.certainOr(got, p.paused(c, at))
	case verbEnd:
		return p.certainOr(got, p.ended(c))
	case verbBreak:
		return p.breakLease(c, got)
	case verbPublish:
		return p.publish(c, at, got)
	case verbRollback:
		return p.rollback(c, got)
	}
	panic(fmt.Sprintf("nobody can ask to %q", c.Verb))
}

// unchanged is the page as it is, if the answer was right.
func (p page) unchanged(right bool) []page {
	if right {
		return []page{p}
	}
	return nil
}

// certainOr is what a call that always succeeds makes of the page, or may.
func (p page) certainOr(got answer, next page) []page {
	switch got.Said {
	case saidOK:
		return []page{next}
	case saidNothing:
		return []page{p, next}
	}
	return nil
}

// --- Leases -----------------------------------------------------------------

func (p page) acquire(c call, at moment, got answer) []page {
	free := p.lock.Ends <= at.down
	standing := p.requests[c.Request].standing(c, at)
	next := p.taken(c, at)
	switch got.Said {
	case saidOK:
		failures := got.Failures == p.lock.Failures || got.Writes > 1 && got.Failures == 0
		if free && failures && standing == saidOK {
			return []page{next}
		}
	case saidHeld:
		return p.unchanged(!free && p.lock == got.Lock)
	case saidCompleted, saidInProgress, saidMismatch:
		return p.unchanged(standing == got.Said && p.requests[c.Request].request == got.Request)
	case saidNothing:
		if free && standing == saidOK {
			return []page{p, next}
		}
		return []page{p}
	}
	return nil
}

// taken is the page once the lease is acquired, and the request begun.
func (p page) taken(c call, at moment) page {
	p.lock = lock{Owner: c.Lease, Ends: at.up + c.Seconds}
	if c.Request != "" {
		p = p.with(c.Request, record{request{Hash: c.Hash, State: started, Until: p.lock.Ends}, c.Lease})
	}
	return p
}

// holds says whether a lease, and the request it was acquired for, are still whose
// they were.
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
	if got.Said == saidLost {
		return p.unchanged(!held)
	}
	if got.Said == saidOK && !held {
		return nil
	}
	return p.certainOr(got, next)
}

// without is the page without a lease, if that is the present one.
func (p page) without(lease string) page {
	if p.lock.Owner == lease {
		p.lock = lock{}
	}
	return p
}

// paused is the page with a lease turned into a pause.
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
	case got.Said == saidNothing || got.Writes > 1:
		return []page{p, next}
	case got.Said == saidOK && same:
		return []page{next}
	case got.Said == saidMoved:
		return p.unchanged(!same || c.Lock.Owner == "") // another pause of the same look
	}
	return nil
}

// --- What is current --------------------------------------------------------

func (p page) publish(c call, at moment, got answer) []page {
	held, same := p.holds(c, at), p.meta.is(c.Meta)
	switch got.Said {
	case saidOK:
		if held && same && got.Meta.follows(c.Meta) {
			return []page{p.published(c, got.Meta.Version)}
		}
	case saidLost:
		return p.unchanged(!held)
	case saidMoved:
		return p.unchanged(held && !same)
	case saidBoth:
		return p.unchanged(!held && !same)
	case saidNot:
		return []page{p, p.without(c.Lease)}
	case saidNothing:
		all := []page{p, p.without(c.Lease)}
		if held && same {
			all = append(all, p.published(c, c.Meta.next()))
		}
		return all
	}
	return nil
}

// published is the page once the generation is current, the lease given up, and the
// request completed.
func (p page) published(c call, version int64) page {
	p.meta, p.lock = meta{c.Generation, version}, lock{}
	return p.ended(c)
}

func (p page) rollback(c call, got answer) []page {
	same, next := p.meta.is(c.Meta), p
	next.meta = meta{c.Generation, c.Meta.next()}
	switch {
	case got.Said == saidOK && same && got.Meta.follows(c.Meta):
		return []page{next}
	case got.Said == saidMoved:
		return p.unchanged(!same)
	case got.Said == saidNot:
		return []page{p}
	case got.Said == saidNothing && same:
		return []page{p, next}
	case got.Said == saidNothing:
		return []page{p}
	}
	return nil
}

// next is the version of whatever replaces m, 0 if that cannot be known.
func (m meta) next() int64 {
	if m.Version == 0 {
		return 0
	}
	return m.Version + 1
}

// follows says whether m may have replaced old: the first one begins anywhere.
func (m meta) follows(old meta) bool {
	return m.Version > 0 && (old.Version == 0 || m.Version == old.Version+1)
}

// --- Requests ---------------------------------------------------------------

// standing is what somebody is told who makes a claim while this is on record.
func (r record) standing(c call, at moment) said {
	switch {
	case c.Request == "" || r.State == "":
		return saidOK
	case r.Hash != c.Hash:
		return saidMismatch
	case r.State == completed:
		return saidCompleted
	case r.State == started && r.Until > at.down:
		return saidInProgress
	}
	return saidOK
}

// ended is the page with the request of a lease ended: completed if there is a
// result, and else failed. One that is another's, or was ended, stays.
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

// with is the page with another record.
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

// hash is that of the parts that change with almost every call.
func (p page) hash(seed maphash.Seed) uint64 {
	type part struct {
		lock lock
		meta meta
	}
	return maphash.Comparable(seed, part{p.lock, p.meta})
}
