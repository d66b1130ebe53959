package main

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/localdynamo"
)

const (
	// committers is the number of goroutines that sync files of the embedded store most of the
	// time while it commits: one for the table, one for the journal of bodies.
	committers = 2
	// commitsLast is how long they get processors of their own after a commit.
	commitsLast = 5 * time.Second
)

// keepProcessors adds processors while the store commits, until stop is called. A goroutine that waits
// for a sync keeps its processor until Go's monitor takes it back, which lasts up to 10 ms, so that on
// two processors two such goroutines leave none to requests. Processors that nothing uses
// cost time at full load, and are therefore removed. GOMAXPROCS takes precedence.
func keepProcessors(ctx context.Context, db *localdynamo.DB) (stop func()) {
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
			addProcessors()
			for backoff.Wait(ctx, commitsLast) == nil && committed(db) {
				addProcessors()
			}
			runtime.SetDefaultGOMAXPROCS()
		}
	})
}

// addProcessors sets the default number of processors, which depends on the limit of the container, and adds
// to it. It is repeated because Go does not follow that limit while a number is set.
func addProcessors() {
	runtime.SetDefaultGOMAXPROCS()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + committers)
}

// committed reports whether a commit has begun since the last receive from Committing.
func committed(db *localdynamo.DB) bool {
	select {
	case <-db.Committing():
		return true
	default:
		return false
	}
}
