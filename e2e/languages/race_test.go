package languages

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// countSK is the sort key of the counter in the page's partition; it is not part of the
	// schema.
	countSK = "TALLY"
	// eachLanguage is the number of workers of each language in a race.
	eachLanguage = 2
)

// Contenders in three languages compete for one lease, a thousand times, and the holder
// publishes. The holder increments a counter without a condition: if two held the lease at
// once, an increment would be lost.
func TestRace(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		publishes := int64(1000)
		if e.name == "dynamodb-local" {
			publishes = 250 // this engine is slow; the clients behave the same on both
		}
		c := newCrew(t, e, eachLanguage)
		const key = "site.test/race"
		c.put(t, pk(key), countSK, row{"count": number("0")})
		// No lease expires and none is broken, so a delayed increment cannot occur.
		errs := c.race(t, key, publishes, race{Counted: true}, 5*time.Minute)
		if count, ok := c.get(t, pk(key), countSK)["count"].(*types.AttributeValueMemberN); !ok || count.Value != strconv.FormatInt(publishes, 10) {
			t.Errorf("the counter is %v after %d publishes: increments were lost", count, publishes)
		}
		for name := range errs {
			if name != "LeaseHeld" {
				t.Errorf("%d errors %s, although no lease can be lost", errs[name], name)
			}
		}
		if errs["LeaseHeld"] == 0 {
			t.Error("no acquisition was refused: the workers did not contend")
		}
	})
}

// As TestRace, while losers break the lease that blocks them. Holders lose it while they work,
// and none publishes after that.
func TestRaceWithBreaks(t *testing.T) {
	const publishes = 150
	onEngines(t, func(t *testing.T, e engine) {
		c := newCrew(t, e, 1)
		errs := c.race(t, "site.test/breaks", publishes, race{Breaks: 50}, 5*time.Minute)
		for name := range errs {
			if !slices.Contains([]string{"LeaseHeld", "LeaseLost", "Moved"}, name) {
				t.Errorf("%d errors %s; want only LeaseHeld, LeaseLost or Moved", errs[name], name)
			}
		}
		if errs["LeaseLost"] == 0 {
			t.Error("no holder lost its lease to a break")
		}
	})
}

// race has all workers compete until a page has been published this often after its first
// generation. It returns the errors by name, and expects the acknowledged publishes to be
// exactly those that were committed.
func (c *crew) race(t *testing.T, key string, publishes int64, r race, lease time.Duration) (errs map[string]int) {
	t.Helper()
	const bound = 10 * time.Minute // for a race that hangs
	first := c.workers[0].regenerate(t, key, generation("first", 600))
	r.UntilVersion, r.Deadline = first.Version+publishes, time.Now().Add(bound).Unix()
	answers := make([]<-chan reply, len(c.workers))
	order := command{Do: "race", Key: key, LeaseMS: lease.Milliseconds(), Race: &r}
	order.Entry = generation("racing", 600)
	began := time.Now()
	for i, w := range c.workers {
		answers[i] = w.send(t, order)
	}
	var published []publication
	errs, share := make(map[string]int), make(map[string]int)
	for i, w := range c.workers {
		select {
		case <-w.ended:
			t.Fatalf("the worker in %s exited during the race:\n%s", w.language, &w.stderr)
		case answer := <-answers[i]:
			ran := answered[run](t, w, order, answer)
			published = append(published, ran.Published...)
			share[w.language] += len(ran.Published)
			for name, n := range ran.Errors {
				errs[name] += n
			}
		}
	}
	t.Logf("%s: %d publishes in %s, by language %v; errors %v", c.name, len(published), time.Since(began).Round(time.Millisecond), share, errs)
	for _, w := range c.workers {
		if share[w.language] == 0 {
			t.Errorf("no worker in %s ever published", w.language)
		}
	}
	c.expectConsecutive(t, key, first.Version, publishes, published)
	return errs
}

// expectConsecutive expects each acknowledged publish to have a version of its own, consecutive, and the
// last one to be current.
func (c *crew) expectConsecutive(t *testing.T, key string, first, publishes int64, published []publication) {
	t.Helper()
	slices.SortFunc(published, func(a, b publication) int { return int(a.Version - b.Version) })
	for i, p := range published {
		if want := first + int64(i) + 1; p.Version != want {
			t.Fatalf("publish %d has version %d, want %d: a publish was lost, or two share a version", i+1, p.Version, want)
		}
	}
	if n := int64(len(published)); n != publishes {
		t.Fatalf("%d publishes were acknowledged, %d were committed", n, publishes)
	}
	last := published[len(published)-1]
	for _, w := range c.workers {
		p := ask[page](t, w, command{Do: "read", Key: key})
		if p.Entry == nil || p.Entry.Version != last.Version || p.Entry.GenerationID != last.GenerationID || p.Lock != nil {
			t.Errorf("%s reads %+v, lock %+v; want version %d, generation %s and no lock", w.language, p.Entry, p.Lock, last.Version, last.GenerationID)
		}
	}
}
