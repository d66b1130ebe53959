package downstream

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// due returns the jobs of at least the age delay whose next delivery is due, those with fewer
// failed attempts first: jobs that fail again and again must not delay the others. all: their
// next delivery is due at once.
func due(jobs []store.Job, now time.Time, delay time.Duration, all bool) []store.Job {
	var ready []store.Job
	for _, j := range jobs {
		// CreatedAt is rounded down to seconds. The time of a malformed job may be unknown.
		old := delay == 0 || j.Malformed != nil || !j.CreatedAt.Add(delay+time.Second).After(now)
		if old && (all || !j.NextAt.After(now)) {
			ready = append(ready, j)
		}
	}
	slices.SortStableFunc(ready, func(a, b store.Job) int { return cmp.Compare(a.Attempts, b.Attempts) })
	return ready
}

// take returns the jobs of the next delivery: the first ones that have together at most
// limit different targets, but at least one. Jobs that have failed before are not merged
// with others, and, unless the destination works, not with each other: one of them may be
// the reason.
func take(jobs []store.Job, limit int, works bool) []store.Job {
	targets := make(map[store.PurgeTarget]bool)
	for i, j := range jobs {
		if i > 0 && jobs[0].Attempts > 0 && !works {
			return jobs[:i]
		}
		if i > 0 && (j.Attempts > 0) != (jobs[0].Attempts > 0) {
			return jobs[:i]
		}
		for _, t := range j.Targets {
			targets[t.PurgeTarget] = true
		}
		if i > 0 && len(targets) > limit {
			return jobs[:i]
		}
	}
	return jobs
}

// merge returns the batches that deliver jobs: the hard targets and then the others,
// without duplicates. A purge of everything includes all others.
func merge(jobs []store.Job) []Batch {
	hard := make(map[store.PurgeTarget]bool)
	var order []store.PurgeTarget
	for _, j := range jobs {
		for _, t := range j.Targets {
			if _, known := hard[t.PurgeTarget]; !known {
				order = append(order, t.PurgeTarget)
			}
			hard[t.PurgeTarget] = hard[t.PurgeTarget] || t.Hard
		}
	}
	site := store.PurgeTarget{Kind: store.PurgeSite}
	siteHard, siteToo := hard[site]
	id := jobsID(jobs)
	var batches []Batch
	for _, h := range []bool{true, false} {
		b := Batch{ID: id, Hard: h}
		for _, t := range order {
			included := siteToo && t != site && (siteHard || !hard[t])
			if hard[t] == h && !included {
				b.Targets = append(b.Targets, t)
			}
		}
		if len(b.Targets) > 0 {
			batches = append(batches, b)
		}
	}
	return batches
}

// jobsID returns an id of the jobs together. Their tokens and times distinguish them from
// the jobs of another table, which begins with the same sequences: one of an earlier data
// folder, or one that was restored.
func jobsID(jobs []store.Job) string {
	h := sha256.New()
	for _, j := range jobs {
		_, _ = fmt.Fprintln(h, j.ID(), j.Token, j.CreatedAt.Unix()) // a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil))
}
