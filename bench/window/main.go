// Command window compares freshness windows that follow the content ([isr.AutoWindow]) with
// fixed ones, by simulating 30 days of pages that change in different ways:
//
//	go run -C bench ./window
//
// For each pattern it prints the renders a day, and the part of the visits that got content
// that had changed since then. Pages are served stale while they are regenerated, as
// [isr.ServeStale] does. Each seed gives the same figures.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr"
)

const (
	day  = 24 * time.Hour
	span = 30 * day
)

// A pattern is a page: the times at which its content changes, from the start, sorted.
type pattern struct {
	name    string
	changes func(*rand.Rand) []time.Duration
}

func patterns() []pattern {
	return []pattern{
		{"never changes", func(*rand.Rand) []time.Duration { return nil }},
		{"every 2 days on average", func(r *rand.Rand) []time.Duration { return poisson(r, 2*day, 0, span) }},
		{"every 2 hours on average", func(r *rand.Rand) []time.Duration { return poisson(r, 2*time.Hour, 0, span) }},
		{"every minute", func(r *rand.Rand) []time.Duration { return every(time.Minute, 0) }},
		{"each night at 03:00", func(r *rand.Rand) []time.Duration { return every(day, 3*time.Hour) }},
		{"hourly on workdays, 9 to 17", workdays},
		{"an article: 6 hours of edits, then none", func(r *rand.Rand) []time.Duration { return poisson(r, 20*time.Minute, 0, 6*time.Hour) }},
		{"differs at every render", func(*rand.Rand) []time.Duration { return every(time.Second, 0) }},
	}
}

// poisson returns changes at random times between two others, a mean interval apart.
func poisson(r *rand.Rand, mean, from, to time.Duration) (changes []time.Duration) {
	for t := from; ; {
		if t += time.Duration(r.ExpFloat64() * float64(mean)); t >= to {
			return changes
		}
		changes = append(changes, t)
	}
}

func every(interval, first time.Duration) (changes []time.Duration) {
	for t := first; t < span; t += interval {
		changes = append(changes, t)
	}
	return changes
}

func workdays(r *rand.Rand) (changes []time.Duration) {
	for d := range 30 {
		if d%7 < 5 {
			start := time.Duration(d) * day
			changes = append(changes, poisson(r, time.Hour, start+9*time.Hour, start+17*time.Hour)...)
		}
	}
	return changes
}

// A result is what one page costs with one kind of window.
type result struct {
	renders  float64       // a day
	outdated float64       // the part of the visits
	behind   time.Duration // for how long the content of those had been outdated, on average
}

// simulate visits a page at random times, a mean interval apart. next returns the window of
// a generation.
func simulate(r *rand.Rand, changes []time.Duration, visits time.Duration, first time.Duration, next func(window, since time.Duration, changed bool) time.Duration) result {
	var renders, outdated, n int
	var behind time.Duration
	window, rendered := first, time.Duration(0)
	for _, now := range poisson(r, visits, 0, span) {
		n++
		change, changed := firstChange(changes, rendered, now)
		if changed {
			outdated++
			behind += now - change
		}
		if now >= rendered+window {
			renders++
			window, rendered = next(window, now-rendered, changed), now
		}
	}
	days := float64(span) / float64(day)
	return result{float64(renders) / days, float64(outdated) / float64(n), behind / time.Duration(max(outdated, 1))}
}

// firstChange returns the first change after one time and until another.
func firstChange(changes []time.Duration, after, until time.Duration) (time.Duration, bool) {
	i, _ := slices.BinarySearch(changes, after+1)
	if i == len(changes) || changes[i] > until {
		return 0, false
	}
	return changes[i], true
}

func fixed(window, _ time.Duration, _ bool) time.Duration { return window }

func main() {
	least := flag.Duration("min", 30*time.Second, "the least window")
	most := flag.Duration("max", time.Hour, "the largest window")
	visits := flag.Duration("visits", 5*time.Second, "the mean time between visits")
	seed := flag.Uint64("seed", 1, "the seed")
	flag.Parse()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "renders a day, outdated visits, for how long\tfixed %s\t\t\tauto\t\t\tfixed 5m\t\t\tfixed %s\t\t\t\n", *least, *most)
	for _, p := range patterns() {
		fmt.Fprint(w, p.name, "\t")
		for _, kind := range []struct {
			first time.Duration
			next  func(window, since time.Duration, changed bool) time.Duration
		}{{*least, fixed}, {*least, isr.AutoWindow{Min: *least, Max: *most}.Next}, {5 * time.Minute, fixed}, {*most, fixed}} {
			r := rand.New(rand.NewPCG(*seed, 0))
			got := simulate(r, p.changes(r), *visits, kind.first, kind.next)
			fmt.Fprintf(w, "%.0f\t%.2f %%\t%s\t", got.renders, 100*got.outdated, got.behind.Round(time.Second))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
