package store

import (
	"net/http"
	"net/netip"
	"time"
)

// An Entry is the current state of one cached page: the META row, which names the stored
// body.
type Entry struct {
	// BodyKey to Expires are the attributes that every writer of the table sets.

	// BodyKey is the key of the body in the BodyStore.
	BodyKey string
	// GeneratedAt is when rendering began, in whole milliseconds. Rows of other services, and
	// of versions of this package that did not store milliseconds, have whole seconds.
	GeneratedAt time.Time
	// Revalidate is the freshness window, counted from GeneratedAt, in whole seconds.
	Revalidate time.Duration
	// ETag is the entity tag with its quotes, or empty.
	ETag string
	// Expires is when the store may delete the entry; zero means never. It serves
	// garbage collection only and does not affect freshness.
	Expires time.Time

	// Foreign is true if another service wrote the row, with the attributes above only. Status
	// is then 200 and the fields after it are zero, except that a page that was made of the
	// entry has the status and header of the [Presentation] beside its body.
	Foreign bool

	// Version is the fence: every publish increments it.
	Version int64
	// GenerationID names the generation, uniquely in the table.
	GenerationID string
	// Key is the canonical text of the cache key, for people and tools.
	Key string
	// Route is the name of the route that rendered the page, or empty.
	Route string
	// Status is the HTTP status of the page.
	Status int
	// Header holds the header fields of the response that are replayed.
	Header http.Header
	// SHA256 is the hex digest of the body, Length its size in bytes.
	SHA256 string
	Length int64
	// Tags are the purge tags of the response.
	Tags []string
	// Stale is the stale window: how long after the freshness window the page may be
	// served while it is regenerated, in whole seconds.
	Stale time.Duration
	// PurgeSeq is the purge sequence when rendering began.
	PurgeSeq int64
	// Build is the sequence at which the build of the site was deployed that rendered the
	// page (see [PurgeStore].Build), or 0 if unknown.
	Build int64
	// PinnedUntil suspends expiry by time until then. A time in the past means that the
	// pin has ended; zero, that the entry was never pinned.
	PinnedUntil time.Time
	// RenderTime is how long rendering took, in whole milliseconds, at least one; zero if
	// unknown. Early refreshes are scheduled by it.
	RenderTime time.Duration
	// InitialAge is the age that the response already had at GeneratedAt, because a cache
	// between the origin and the renderer had stored it (Age, RFC 9111, section 5.1), in
	// whole seconds. The freshness window does not include it.
	InitialAge time.Duration
	// Withdrawn is true if the origin reported that the page is gone, or must no longer
	// be shared. The entry counts as missing, whatever its windows and pin are; BodyKey
	// is the body of the withdrawn generation.
	Withdrawn bool
	// AssertedAt is when a rollback last made this generation current; zero if it was
	// published by a regeneration.
	AssertedAt time.Time
	// Peer is where its peers reach the process that rendered the page (see [ParsePeerAddress]), and
	// which is likely to have the body in memory; invalid if it has no peers. Any writer of the
	// table can have written it.
	Peer netip.AddrPort
}
