package gateway

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Balance is how the requests of an origin are shared by its addresses.
type Balance string

// The balances. The first is the default.
const (
	// BalanceLeast takes two addresses at random, by their weights, and sends the request to the one that has fewer
	// open requests for its weight: the power of two choices. A slow address gets fewer requests, and servers that do
	// not know of each other's requests do not all choose the same address.
	BalanceLeast Balance = "least"
	// BalanceRoundRobin takes one address after another, by their weights.
	BalanceRoundRobin Balance = "round_robin"
	// BalanceFirst takes the first address that is up: the others are there for its failure.
	BalanceFirst Balance = "first"
)

// An Ejection is how an address that fails, while others do not, is taken out of use for a time. It is asked last in
// that time: if no other address can be connected to, it still gets requests.
type Ejection struct {
	// Failures are consecutive responses with a status from 500 on (501 and 505 are about the request), or without any
	// in time, that eject an address. An address whose connections fail is ejected at once. Negative: only those are.
	// Zero means DefaultEjectionFailures.
	Failures int
	// Time is how long the first ejection lasts. An address that fails again, before it was in use for as long as it
	// was ejected, is ejected for twice the time, and at most for MaxTime. Zero means DefaultEjectionTime and
	// DefaultEjectionMaxTime.
	Time, MaxTime time.Duration
}

// Defaults of [Ejection].
const (
	DefaultEjectionFailures = 5
	DefaultEjectionTime     = 10 * time.Second
	DefaultEjectionMaxTime  = time.Minute
)

// firstShare is the part of the requests that an address is a choice for when its slow start begins.
const firstShare = 0.1

// An address is one server of an origin, and what is known of it.
type address struct {
	url *url.URL
	id  string // in the cookie of a Sticky; empty if there is none
	balanceState
	down      atomic.Bool  // by health checks
	failures  atomic.Int64 // consecutive
	open      atomic.Int64 // requests whose response has not ended
	requests  atomic.Int64
	ejections atomic.Int64
	// ejectedAt and ejectedUntil are when the last ejection began and ends, and backAt when health checks found the
	// address up again, in Unix nanoseconds; zero if never.
	ejectedAt, ejectedUntil, backAt atomic.Int64
}

// isUp reports whether requests prefer an address.
func (a *address) isUp(now time.Time) bool { return a.rank(now) == 0 }

// rank is 0 for an address that is up, 1 if it is ejected, and 2 if health checks fail.
func (a *address) rank(now time.Time) int {
	switch {
	case a.down.Load():
		return 2
	case a.ejectedUntil.Load() > now.UnixNano():
		return 1
	}
	return 0
}

// A balancer chooses between the addresses of an origin, and ejects those that fail. It is safe for concurrent use.
type balancer struct {
	balance   Balance
	slowStart time.Duration
	ejection  Ejection
	addresses []*address

	mu sync.Mutex // guards balanceState of the addresses
}

// balanceState is guarded by balancer.mu, but for weight, which does not change.
type balanceState struct {
	weight     int
	ahead      int           // of round robin: what the address is owed, in weights
	ejectedFor time.Duration // the last time
}

// choose returns the index of an address in left, which is not empty: one of those that are up; if there are none, one that is
// ejected.
func (b *balancer) choose(left []*address, now time.Time) int {
	if len(left) == 1 {
		return 0
	}
	var space [32]int
	choices, best, warm := space[:0], 3, 0
	for i, a := range left {
		switch rank := a.rank(now); { // which may be another one at a second look
		case rank < best:
			choices, best = append(choices[:0], i), rank
		case rank == best:
			choices = append(choices, i)
		}
	}
	for _, i := range choices { // those in their slow start are passed over now and then
		if best > 0 || rand.Float64() < b.share(left[i], now) {
			choices[warm] = i
			warm++
		}
	}
	if warm > 0 {
		choices = choices[:warm]
	}
	switch b.balance {
	case BalanceFirst:
		return choices[0]
	case BalanceRoundRobin:
		return b.rotate(left, choices)
	}
	return least(left, choices)
}

// share is the part of the requests that an address is a choice for: less than 1 in its slow start.
func (b *balancer) share(a *address, now time.Time) float64 {
	back := max(a.backAt.Load(), a.ejectedUntil.Load())
	if back == 0 || b.slowStart == 0 {
		return 1
	}
	return max(firstShare, float64(now.UnixNano()-back)/float64(b.slowStart))
}

// least draws two of the choices, and returns the one with fewer open requests for its weight.
func least(left []*address, choices []int) int {
	one := draw(left, choices)
	if len(choices) == 1 {
		return choices[one]
	}
	first := choices[one]
	choices = slices.Delete(choices, one, one+1)
	second := choices[draw(left, choices)]
	a, b := left[first], left[second]
	if b.open.Load()*int64(a.weight) < a.open.Load()*int64(b.weight) {
		return second
	}
	return first
}

// draw returns a random index of choices, by the weights of the addresses.
func draw(left []*address, choices []int) int {
	total := 0
	for _, i := range choices {
		total += left[i].weight
	}
	n := rand.IntN(total)
	for at, i := range choices {
		if n -= left[i].weight; n < 0 {
			return at
		}
	}
	panic("unreachable: n was less than the sum of the weights")
}

// rotate returns the choice that is owed most: smooth weighted round robin, so that an address with a high weight
// does not get all of its turns one after another.
func (b *balancer) rotate(left []*address, choices []int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	total, best := 0, choices[0]
	for _, i := range choices {
		total += left[i].weight
		if left[i].ahead += left[i].weight; left[i].ahead > left[best].ahead {
			best = i
		}
	}
	left[best].ahead -= total
	return best
}

// worked notes that an address has answered well a request that began at a time. An address that is ejected, and was
// asked since because no other one answers, is up again.
func (b *balancer) worked(a *address, began time.Time) {
	if a.failures.Load() != 0 {
		a.failures.Store(0)
	}
	now := time.Now().UnixNano()
	if a.ejectedUntil.Load() <= now || a.ejectedAt.Load() > began.UnixNano() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.ejectedUntil.Store(min(a.ejectedUntil.Load(), now))
}

// failed notes that an address has failed a request. It returns how long the address is now ejected; 0 if it is not,
// or was before. broken: its connection failed.
func (b *balancer) failed(a *address, broken bool) time.Duration {
	failures := a.failures.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	until := a.ejectedUntil.Load()
	if until > now.UnixNano() {
		return 0 // by another request
	}
	if !broken && (b.ejection.Failures < 0 || failures < int64(b.ejection.Failures) || !b.isOutlier(a, now)) {
		return 0
	}
	next := b.ejection.Time
	if now.UnixNano()-until <= int64(a.ejectedFor) {
		next = min(2*a.ejectedFor, b.ejection.MaxTime)
	}
	a.ejectedFor = next
	a.ejectedAt.Store(now.UnixNano())
	a.ejectedUntil.Store(now.Add(next).UnixNano())
	a.failures.Store(0)
	a.ejections.Add(1)
	return next
}

// isOutlier reports whether an address that answers with errors is worse than the others: another one that is up has
// answered its last request well, and at least half of the addresses stay in use. So a page that fails on all of them,
// which a visitor may ask for as often as he likes, does not take the origin out of use.
func (b *balancer) isOutlier(a *address, now time.Time) bool {
	out, well := 1, false
	for _, other := range b.addresses {
		switch {
		case other == a:
		case !other.isUp(now):
			out++
		case other.failures.Load() == 0:
			well = true
		}
	}
	return well && 2*out <= len(b.addresses)
}

// back notes that health checks have found an address up again. They know better than an ejection.
func (b *balancer) back(a *address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UnixNano()
	a.backAt.Store(now)
	a.failures.Store(0)
	a.ejectedUntil.Store(min(a.ejectedUntil.Load(), now))
}
