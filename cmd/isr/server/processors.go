package server

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/facetheory/isr/localdynamo"
)

const (
	// committers is the number of goroutines that sync files of the embedded store most of the
	// time while it commits: one for the table, one for the journal of bodies.
	committers = 2
	// manyCommits within commitPeriod are what processors are added for. They cost the requests that come
	// in that time more than a few commits do.
	manyCommits  = 10
	commitPeriod = 100 * time.Millisecond
	// limitChecked is how often the limit of the container is read while there are more processors.
	limitChecked = 5 * time.Second
)

// KeepProcessors adds processors while the store makes many commits, until stop is called. A goroutine that
// waits for a sync keeps its processor until Go's monitor takes it back, which lasts up to 10 ms, so that on
// two processors two such goroutines leave none to requests. With more processors than the machine has,
// Go's threads wait for each other instead: at full load the p99 of hits is then 12 ms instead of 5.
// Processors are therefore removed when fewer commits come. GOMAXPROCS takes precedence.
func KeepProcessors(ctx context.Context, db *localdynamo.DB) (stop func()) {
	if db == nil || os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	return inBackground(ctx, func(ctx context.Context) {
		for {
			select {
			case <-db.Committing():
			case <-ctx.Done():
				return
			}
			var added time.Time // zero: none are
			for manyCommitted(ctx, db) {
				if now := time.Now(); now.Sub(added) >= limitChecked {
					addProcessors()
					added = now
				}
			}
			if !added.IsZero() {
				runtime.SetDefaultGOMAXPROCS()
			}
		}
	})
}

// manyCommitted counts commits for a period. It returns false at once when ctx is done.
func manyCommitted(ctx context.Context, db *localdynamo.DB) bool {
	end := time.NewTimer(commitPeriod)
	defer end.Stop()
	for n := 0; ; n++ {
		select {
		case <-db.Committing():
		case <-end.C:
			return n >= manyCommits
		case <-ctx.Done():
			return false
		}
	}
}

// addProcessors sets the default number of processors, which depends on the limit of the container, and adds
// to it. It is repeated because Go does not follow that limit while a number is set.
func addProcessors() {
	runtime.SetDefaultGOMAXPROCS()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + committers)
}
