package store

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/canonical"
)

// Bounds of a purge.
const (
	// MaxPurgeTargets is how many targets one purge has at most: as many as fit into one
	// transaction of DynamoDB, of 100 rows, beside the sequence, the log and the jobs of
	// MaxDestinations.
	MaxPurgeTargets = 90
	// MaxPurgeSize bounds the texts of all targets of one purge together, in bytes: they
	// share one row of the log, and DynamoDB bounds an item to 400 KB.
	MaxPurgeSize = 256 << 10
	// MaxTagLength is the length of the longest tag, in bytes.
	MaxTagLength = 1024
	// MinMarkLifetime is how long purge marks are kept at least. All writers of a table
	// keep them for as long as the longest-lived of them demands (SEQ's mark_lifetime).
	MinMarkLifetime = 90 * 24 * time.Hour
)

// A PurgeKind is what a [PurgeTarget] selects pages by.
type PurgeKind string

// The kinds of purge targets. All of one host are the prefix "host/".
const (
	PurgeKey    PurgeKind = "key"    // one page, by the text of its cache key
	PurgeTag    PurgeKind = "tag"    // the pages with a tag
	PurgePrefix PurgeKind = "prefix" // the pages whose cache keys begin with a text
	PurgeTenant PurgeKind = "tenant" // all pages of a tenant
	PurgeSite   PurgeKind = "site"   // all pages, of all tenants
)

// A PurgeTarget selects the pages of a purge. Tags and prefixes belong to one tenant.
type PurgeTarget struct {
	Kind PurgeKind
	// Tenant is the tenant of the pages. It is required for PurgeTenant, and must be
	// empty for PurgeSite.
	Tenant string
	// Value is the text of the cache key, the tag or the prefix. It must be empty for
	// PurgeTenant and PurgeSite.
	Value string
	// PK is the partition key of the page of a PurgeKey, and empty otherwise.
	PK string
}

// Validate returns an error wrapping [ErrInvalidInput] or [ErrInvalidKey] unless a store
// accepts the target. PK is not checked.
func (t PurgeTarget) Validate() error {
	if t.Tenant != "" {
		if err := ValidTenant(t.Tenant); err != nil {
			return err
		}
	}
	switch t.Kind {
	case PurgeKey, PurgePrefix:
		return ValidKey(Key{Tenant: t.Tenant, Text: t.Value})
	case PurgeTag:
		return ValidTag(t.Value)
	case PurgeTenant:
		if t.Tenant == "" || t.Value != "" {
			return fmt.Errorf("%w: a purge of a tenant needs the tenant, and nothing else", ErrInvalidInput)
		}
	case PurgeSite:
		if t.Tenant != "" || t.Value != "" {
			return fmt.Errorf("%w: a purge of everything has no tenant and no value", ErrInvalidInput)
		}
	default:
		return fmt.Errorf("%w: unknown kind of purge target %.40q", ErrInvalidInput, t.Kind)
	}
	return nil
}

// ValidTag returns an error wrapping [ErrInvalidInput] unless tag is 1 to [MaxTagLength]
// bytes of UTF-8 without control characters.
func ValidTag(tag string) error {
	switch {
	case tag == "":
		return fmt.Errorf("%w: a tag must not be empty", ErrInvalidInput)
	case len(tag) > MaxTagLength:
		return fmt.Errorf("%w: the tag %.40q... has %d bytes, at most %d are allowed", ErrInvalidInput, tag, len(tag), MaxTagLength)
	case !utf8.ValidString(tag), strings.ContainsFunc(tag, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%w: the tag %.100q must be UTF-8 without control characters", ErrInvalidInput, tag)
	}
	return nil
}

// Covers reports whether the target selects a page with these tags.
func (t PurgeTarget) Covers(k Key, tags []string) bool {
	if t.Kind == PurgeSite && t.Tenant == "" {
		return true
	}
	if t.Tenant != k.Tenant {
		return false
	}
	switch t.Kind {
	case PurgeKey:
		return k.Text == t.Value
	case PurgeTag:
		return slices.Contains(tags, t.Value)
	case PurgePrefix:
		return strings.HasPrefix(k.Text, t.Value)
	}
	return true // of a tenant; a kind of a newer version may cover anything
}

func (t PurgeTarget) String() string {
	text := string(t.Kind)
	if t.Value != "" {
		text += " " + t.Value
	}
	if t.Tenant != "" {
		text += " of tenant " + t.Tenant
	}
	return text
}

// A Purge ends the freshness of all generations that its targets cover and whose rendering
// began before it.
type Purge struct {
	// Targets are 1 to [MaxPurgeTargets] targets, which are purged together or not.
	Targets []PurgeTarget
	// Hard: the generations are never served again. Otherwise they are stale: served
	// within their stale windows while they are regenerated.
	Hard bool
	// Confirm asks every process to report when it has applied the purge (see
	// [PresenceStore]).
	Confirm bool
	// Destinations are the downstream caches that the purge is delivered to: at most
	// [MaxDestinations] names. See [OutboxStore].
	Destinations []string
}

// Validate returns an error wrapping [ErrInvalidInput] or [ErrInvalidKey] unless a store
// accepts the purge: it has 1 to [MaxPurgeTargets] valid targets with texts of at most
// [MaxPurgeSize] bytes.
func (p Purge) Validate() error {
	if n := len(p.Targets); n == 0 || n > MaxPurgeTargets {
		return fmt.Errorf("%w: a purge has 1 to %d targets (got %d); split it into several", ErrInvalidInput, MaxPurgeTargets, n)
	}
	if err := ValidDestinations(p.Destinations); err != nil {
		return err
	}
	size := 0
	for i, t := range p.Targets {
		if err := t.Validate(); err != nil {
			return fmt.Errorf("target %d of the purge: %w", i+1, err)
		}
		size += len(t.Value) + len(t.Tenant)
	}
	if size > MaxPurgeSize {
		return fmt.Errorf("%w: the targets of the purge have %d bytes together, at most %d are allowed; split it into several", ErrInvalidInput, size, MaxPurgeSize)
	}
	return nil
}

// A Receipt is the proof of a committed purge.
type Receipt struct {
	// Seq is the sequence of the purge. A generation with at least this PurgeSeq was
	// rendered after it.
	Seq int64
	// WriteUnits are the write units that the purge consumed: its share, if it was
	// committed together with other changes. 0: unknown, because the first reply was lost.
	WriteUnits float64
}

// A Mark is the newest purge of a tag, a prefix, a tenant or the site: it covers all
// generations that its target selects and whose PurgeSeq is lower than Seq.
type Mark struct {
	Target PurgeTarget
	// Seq and HardSeq are the sequences of the newest purge and of the newest hard purge;
	// HardSeq is 0 if there was no hard purge.
	Seq, HardSeq int64
	// At is when the newest purge was made.
	At time.Time
	// From ExpireAt on, ExpireSeq counts as a HardSeq. Both are zero if no hard purge is to come.
	ExpireSeq int64
	ExpireAt  time.Time
}

// State returns the purge state of the entries that the mark covers, at a time.
func (m Mark) State(now time.Time) PurgeState {
	p := PurgeState{Seq: m.Seq, HardSeq: m.HardSeq, At: m.At}
	if m.ExpireSeq > 0 && !m.ExpireAt.After(now) {
		p.HardSeq = max(p.HardSeq, m.ExpireSeq)
	}
	return p
}

// Includes reports whether every page that o covers is covered by m, at least as
// strictly, so that o may be dropped. It is so for marks of the site and of tenants, and
// for an older mark of the same target. A mark of an unknown kind includes nothing, and
// nothing includes it.
//
// A prefix mark does not include marks of longer prefixes: [PurgeStore.Covering] and
// [PurgeStore.Marks] read marks in the order of their kinds (tag, prefix, site; a tenant's
// before the marks of the site), so that a mark is read before one that may replace it.
func (m Mark) Includes(o Mark) bool {
	expires := m.HardSeq >= o.ExpireSeq ||
		m.ExpireSeq >= o.ExpireSeq && !m.ExpireAt.After(o.ExpireAt)
	return m.Target.includes(o.Target) && m.Seq >= o.Seq && m.HardSeq >= o.HardSeq && !m.At.Before(o.At) && expires
}

func (t PurgeTarget) includes(o PurgeTarget) bool {
	if t == o {
		return true
	}
	switch o.Kind {
	case PurgeTag, PurgePrefix:
		return t.Kind == PurgeSite && t.Tenant == "" || t.Kind == PurgeTenant && t.Tenant == o.Tenant
	case PurgeTenant:
		return t.Kind == PurgeSite && t.Tenant == ""
	}
	return false
}

// A PurgeStore purges pages, and lists the purges of more than one page. The purge of a
// single page is part of its [Record]. It keeps the contract of [MetaStore].
type PurgeStore interface {
	// Purge purges all targets in one atomic step, whatever the number of pages that they
	// cover, and appends to the log. Once it has returned nil, no process that has
	// applied the log up to Receipt.Seq serves an older generation as fresh. A generation
	// whose rendering began before the purge is born purged. Concurrent purges share
	// transactions. ctx and errors are as for Rollback.
	Purge(ctx context.Context, p Purge) (Receipt, error)

	// Marks yields all marks, by strongly consistent reads of some hundred rows, in no
	// particular order, and ends after the first error. A mark that is written during the listing
	// may be missing or newer: a caller that reads Sequence first, and then applies
	// Changes, misses none. A row that cannot be read is an error.
	Marks(ctx context.Context) iter.Seq2[Mark, error]

	// Covering returns the merged state of all marks that cover a page with these tags,
	// by strongly consistent reads, with the MarkLifetime of the sequence. It does not
	// include the purge of the page itself, which is in its Record.
	Covering(ctx context.Context, k Key, tags []string) (PurgeState, error)

	// DeleteMark deletes a mark if it is still what Marks returned: one that a newer mark
	// includes. A mark that was changed or is missing is left, without an error.
	DeleteMark(ctx context.Context, m Mark) error

	// Build returns the sequence at which a build of the site was deployed: the sequence of the
	// stored build, if it has this id, otherwise the sequence of a change of the log which
	// records id as the current build. id is 1 to 256 bytes of printable ASCII.
	Build(ctx context.Context, id string) (seq int64, err error)
}

// A PresenceStore lists the live processes of a fleet, and how much of the log each has
// applied. It keeps the contract of [MetaStore].
type PresenceStore interface {
	// Announce writes the state of a process, until n.Until.
	Announce(ctx context.Context, n Node) error
	// Withdraw removes a process that stops.
	Withdraw(ctx context.Context, id string) error
	// Nodes returns the processes whose Until has not passed, in the order of their ids,
	// by a strongly consistent read.
	Nodes(ctx context.Context) ([]Node, error)
}

// A Node is a live process of a fleet.
type Node struct {
	// ID identifies the process: 1 to 128 letters, digits, '.', '_' and '-'.
	ID string
	// Name is for people, such as host and process id; at most 256 bytes.
	Name string
	// Release is the version of the program, and Config a digest of its configuration: nodes
	// of a fleet that differ in one of them were deployed differently. Each has at most 64
	// characters of printable ASCII, and is empty if it is not known.
	Release, Config string
	// Peer is where the others reach the process (see [Lock.Peer]); invalid if they do not.
	Peer netip.AddrPort
	// Applied is the sequence up to which the process has applied the log.
	Applied int64
	// Since is when the process started, SeenAt when it announced itself last, and Until
	// when it counts as gone unless it announces itself again.
	Since, SeenAt, Until time.Time
}

// ValidNodeID returns an error wrapping [ErrInvalidInput] unless id is 1 to 128 letters,
// digits, '.', '_' and '-'.
func ValidNodeID(id string) error {
	const longest = 128
	invalid := func(r rune) bool {
		return r > unicode.MaxASCII || !canonical.IsAlphanumeric(byte(r)) && r != '.' && r != '_' && r != '-'
	}
	if id == "" || len(id) > longest || strings.ContainsFunc(id, invalid) {
		return fmt.Errorf("%w: the id of a process must have 1 to %d letters, digits, '.', '_' and '-' (got %.140q)", ErrInvalidInput, longest, id)
	}
	return nil
}

// Validate returns an error wrapping [ErrInvalidInput] unless a store accepts the node.
func (n Node) Validate() error {
	const longestName = 256
	if err := ValidNodeID(n.ID); err != nil {
		return err
	}
	switch {
	case len(n.Name) > longestName || !utf8.ValidString(n.Name):
		return fmt.Errorf("%w: the name of process %s must be UTF-8 of at most %d bytes (got %d)", ErrInvalidInput, n.ID, longestName, len(n.Name))
	case !validLabel(n.Release) || !validLabel(n.Config):
		return fmt.Errorf("%w: release and configuration of process %s must have at most %d printable ASCII characters (got %.80q and %.80q)", ErrInvalidInput, n.ID, MaxNodeLabel, n.Release, n.Config)
	case n.Applied < 0:
		return fmt.Errorf("%w: process %s has applied the negative sequence %d", ErrInvalidInput, n.ID, n.Applied)
	}
	for _, at := range []time.Time{n.Since, n.SeenAt, n.Until} {
		if at.Unix() < 0 || at.After(Forever()) {
			return fmt.Errorf("%w: process %s: %v is not a time from 1970 to 9999", ErrInvalidInput, n.ID, at)
		}
	}
	return nil
}

// MaxNodeLabel bounds Release and Config of a [Node], in bytes.
const MaxNodeLabel = 64

func validLabel(text string) bool {
	return len(text) <= MaxNodeLabel && !strings.ContainsFunc(text, notPrintable)
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// ValidBuild returns an error wrapping [ErrInvalidInput] unless id is 1 to 256 bytes of
// printable ASCII.
func ValidBuild(id string) error {
	const longest = 256
	if id == "" || len(id) > longest || strings.ContainsFunc(id, notPrintable) {
		return fmt.Errorf("%w: a build id must have 1 to %d printable ASCII characters (got %.260q)", ErrInvalidInput, longest, id)
	}
	return nil
}
