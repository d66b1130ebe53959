package store

import (
	"net/http"
	"time"
)

// An Entry is the current state of one cached page: the META row, and the
// address of the body it points at.
type Entry struct {
	// The attributes that every writer of the table gives.

	// BodyKey is where the body is, in the BodyStore.
	BodyKey string
	// GeneratedAt is when rendering began, in whole seconds.
	GeneratedAt time.Time
	// Revalidate is the freshness window, from GeneratedAt, in whole seconds.
	Revalidate time.Duration
	// ETag is the entity tag with its quotes, or empty.
	ETag string
	// Expires is when the store may forget the entry, zero for never. It is
	// garbage collection and has no part in freshness.
	Expires time.Time

	// Foreign says that another service wrote this row, with the attributes
	// above alone; all that follows is then zero.
	Foreign bool

	// Version grows with every publish: the fence.
	Version int64
	// GenerationID names the generation, unique among all of the table.
	GenerationID string
	// Key is the canonical text of the cache key, for people and tools.
	Key string
	// Route is the name of the route that rendered the page, or empty.
	Route string
	// Status is the HTTP status of the page.
	Status int
	// Header are the response's header fields worth replaying.
	Header http.Header
	// SHA256 is the hex digest of the body, Length its size in bytes.
	SHA256 string
	Length int64
	// Tags are the purge tags that the origin gave.
	Tags []string
	// Stale is how long after the freshness window the page may still be
	// served, in whole seconds.
	Stale time.Duration
	// PurgeSeq is the purge sequence at which rendering began.
	PurgeSeq int64
	// PinnedUntil suspends expiry by time until then; in the past: the pin has
	// ended; zero: the entry never was pinned.
	PinnedUntil time.Time
	// RenderTime is how long the renderer took, in whole milliseconds and at least
	// one; zero if that is not known. Early refreshes are timed by it.
	RenderTime time.Duration
	// Withdrawn: the origin has said that the page is gone, or not to be shared any
	// more. The entry counts as missing, whatever its windows and pin say; BodyKey
	// is that of the generation that was withdrawn.
	Withdrawn bool
	// AssertedAt is when a rollback last declared this generation current; zero
	// for a generation that was published in the ordinary way.
	AssertedAt time.Time
}
