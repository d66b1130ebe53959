package isr

import (
	"cmp"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/frequency"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/storable"
	"github.com/facetheory/isr/store"
)

// Config has the settings of a [Cache]. The zero value is useful.
type Config struct {
	// Memory bounds the memory of cached data in this process, in bytes: pages, and in
	// a sixteenth of it, or else 1 MiB, the negative cache. While a store is down,
	// unpublished pages take up to an eighth in addition. Zero means DefaultMemory. A
	// negative value means that no pages are kept.
	Memory int64
	// MinUses is how often a page must be requested, within half an hour to an hour, to
	// be stored. Until then this process renders it for the requests that arrive, and
	// serves it for five seconds, so that pages that are not requested again, such as
	// pages of invented URLs, use no storage. Stored pages are served at once. Uses are
	// counted per process, in 4 MiB. At most 100; zero means 1: every page is stored.
	MinUses int
	// Full reports whether the stores have no room: missing pages are then not stored,
	// and served as under MinUses. Stored pages are regenerated as usual. Full is called
	// for every page that is about to be rendered for the first time. It must not block,
	// and must be safe for concurrent use. Nil means that there is always room.
	Full func() bool
	// Lease is the duration of leases, which a heartbeat extends: how long a page waits
	// after its renderer's process has crashed. Between 1s and 24h; zero means
	// [store.DefaultLease].
	Lease time.Duration
	// Retention is how long, at least, a page that is not regenerated stays in the
	// table. At most ten years; zero means DefaultRetention.
	Retention time.Duration
	// RenderTimeout bounds one call of a renderer, at most 24h. Zero means
	// DefaultRenderTimeout.
	RenderTimeout time.Duration
	// Wait bounds how long a visitor waits for a page that another process renders, or
	// that waits for its turn at the origin (see [budget.Budget]); and, under the policy
	// [Wait], for a new page while there is a stale one. Zero means the render timeout
	// and twice the lease.
	Wait time.Duration
	// MaxBody is the size of the largest body that is cached, in bytes. Larger responses
	// pass through, and so do requests for pages that a process with a larger MaxBody
	// has stored: use the same value everywhere. At most 1 GiB; zero means
	// DefaultMaxBody.
	MaxBody int64
	// Buffers is the budget of the bytes that are buffered for requests and responses, which others may
	// share: responses that are being rendered, beyond their first 256 KiB, take bytes of it, and wait for
	// them; a quarter of it is for bodies in memory that are being sent. Beyond it, stored bodies are sent from
	// the store in pieces, and what is rendered passes through without being stored, with
	// detail=no-memory. Nil means a budget of a quarter of Memory, and of 32 MiB at least, of
	// this cache alone.
	Buffers *buffers.Budget
	// MaxHeader is the size of the largest response header that is stored, in bytes, where each
	// field counts for its name, its value and 32 bytes. Responses with larger ones pass through.
	// The tags of a page have at most as many bytes in addition. Both are parts of the row of a
	// page, which DynamoDB bounds to 400 KB, and count in Memory while the page is there. From
	// 1 KiB to 128 KiB; zero means DefaultMaxHeader.
	MaxHeader int64
	// MaxTags is how many purge tags a page may have, its route's included. Pages with more
	// pass through. Each tag is looked up among the purge marks when these change, and is read by
	// a process that cannot follow the log, for a read unit each. From 1 to 2,048; zero means
	// DefaultMaxTags.
	MaxTags int
	// Fills is how many bodies this process reads from the store at once, to put pages into
	// memory; further searches queue, the newest first. At most 4,096; zero means
	// DefaultFills.
	Fills int
	// Poll is the longest interval at which this node reads the log of rollbacks, pins
	// and purges by other nodes. For that long, plus the duration of a poll, it may
	// serve the previous page from memory.
	//
	// A node that has not read the log for max(4*Poll, 2s), because it was frozen or
	// disconnected, polls before it serves a page from memory; if the poll fails, or
	// takes StoreTimeout, it serves the page with detail=cut-off.
	//
	// A poll that finds nothing is a strongly consistent read of one small row: one read
	// unit. One that finds changes costs half a unit more for each 4 KB of them. Polls are
	// nine tenths of Poll apart on average, because of jitter, and every minute a second
	// unit checks that the log is whole. At 250ms that is 385,000 units per day and node.
	//
	// Between 10ms and 5m; zero means DefaultPoll. A negative value means never, which is
	// for a process that uses its stores alone, or that keeps no pages in memory.
	Poll time.Duration
	// MaxBlind is how long a node that cannot read the log serves pages before Blind
	// applies; at least the bound of Poll after which they have detail=cut-off. Between
	// 1s and 24h; zero means DefaultMaxBlind.
	MaxBlind time.Duration
	// Blind decides what visitors get from then on. The zero value is [BlindServe].
	Blind BlindPolicy
	// StoreTimeout bounds how long a visitor waits for the stores in all, before the page
	// is rendered without being stored. The store calls go on in the background. Between
	// 1ms and 24h; zero means DefaultStoreTimeout.
	StoreTimeout time.Duration
	// Node is the name of this process, for people, such as its host and process id; at
	// most 256 bytes. With a name, the process announces itself in the table, so that
	// [Cache.AwaitPurge] waits for it, and in a fleet of more than Poll times 2,160 a
	// second (540 nodes at 250ms) all read the log less often, so that they do not exceed
	// what DynamoDB serves from one partition. Announcements cost a write unit every 20s.
	// Empty means that it does not; so does a negative Poll.
	Node string
	// Peers reaches the other processes directly, so that pages that they render and purges that
	// they make are seen within milliseconds. It needs Node. Nil means that this process learns all
	// from the table.
	Peers Peers
	// Release is the version of the program that announces itself, and Configuration returns a
	// digest of its configuration, for people who look for nodes that differ: each at most
	// [store.MaxNodeLabel] characters of printable ASCII. Configuration is called at each
	// announcement, concurrently with requests; nil means that there is none.
	Release       string
	Configuration func() string
	// Build identifies the build of the site that the renderers of this process are made
	// from, by 1 to 256 bytes of printable ASCII. Pages of older builds are then stale: they
	// are served, within their stale windows, while they are regenerated. A process of an
	// older build, as during a deployment, serves the pages of newer ones. Empty means that
	// pages of all builds are alike.
	Build string
	// LogLife is how long, at least, the writers of the table keep the rows of the log. A
	// node that has not read the log for half of it drops all pages from memory. It must
	// not exceed the LogLife of any store that writes to the table. At least a minute;
	// zero means [store.LogLife].
	LogLife time.Duration
	// Partition derives partition keys. Nil means [store.HashedPartition].
	Partition store.Partition
	// RequestLife is how long a request record is kept after it was made; after that, its
	// idempotency key counts as new. Between 1h and ten years; zero means
	// DefaultRequestLife.
	RequestLife time.Duration
	// Collect is the interval of garbage collection (see [gc.Collect], [gc.CompactMarks] and
	// [gc.RenewPins]); the first one runs after a tenth of it. It is for a process that uses
	// its stores alone: a fleet needs only one that runs now and then. At least 1h; zero
	// means never.
	Collect time.Duration
	// Downstream delivers purges, rollbacks, pins and withdrawals to the caches in front of
	// this one, such as a CDN. Nil means that there are none.
	Downstream Downstream
	// Queue takes over the regeneration of stale pages for which no request waits. If it fails, or
	// takes two seconds, this process regenerates the page, unless it Freezes; after three failures
	// in a row it is not asked for five seconds. Nil means that this process regenerates all pages.
	Queue Queue
	// Freezes means that the process may be frozen or killed whenever no request is in progress, like
	// AWS Lambda does. Callers then await [Cache.Settle] before each response ends. The context of a
	// request must end when the process may: renders and leases that it starts do not outlive it.
	// A stale page that Queue does not take stays stale.
	Freezes bool
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Logger receives all errors, at level debug each page that is stored, and at level info
	// a line a minute that sums up these pages. Nil means slog.Default().
	Logger *slog.Logger
	// Observer is told of renders, waits, store calls and events, for metrics and traces.
	// What it does delays the work that it is told of. Nil means none.
	Observer Observer
	// Random returns 64 random bits, from which all jitter is drawn. It must be safe for
	// concurrent use. Nil means [rand.Uint64].
	Random func() uint64
	// NewToken returns letters and digits that it has never returned before, on any
	// node. Generation ids are made from it. It must be safe for concurrent use. Nil
	// means [crypto/rand.Text].
	NewToken func() string
}

// Defaults of [Config].
const (
	DefaultMemory        = 256 << 20
	DefaultRetention     = 30 * 24 * time.Hour
	DefaultRenderTimeout = 30 * time.Second
	DefaultMaxBody       = 16 << 20
	DefaultMaxHeader     = httpcache.DefaultMaxHeader
	DefaultMaxTags       = 512
	DefaultFills         = 32
	DefaultPoll          = 250 * time.Millisecond
	DefaultMaxBlind      = 10 * time.Second
	DefaultStoreTimeout  = 300 * time.Millisecond
	DefaultRequestLife   = 24 * time.Hour
)

func (cfg Config) withDefaults() Config {
	setDefault(&cfg.Memory, DefaultMemory)
	if cfg.Buffers == nil {
		cfg.Buffers = buffers.New(max(cfg.Memory/4, leastBuffers))
	}
	setDefault(&cfg.Lease, store.DefaultLease)
	setDefault(&cfg.Retention, DefaultRetention)
	setDefault(&cfg.RenderTimeout, DefaultRenderTimeout)
	setDefault(&cfg.Wait, cfg.RenderTimeout+2*cfg.Lease)
	setDefault(&cfg.MaxBody, DefaultMaxBody)
	setDefault(&cfg.MaxHeader, DefaultMaxHeader)
	cfg.MaxTags = cmp.Or(cfg.MaxTags, DefaultMaxTags)
	if cfg.Fills == 0 {
		cfg.Fills = DefaultFills
	}
	setDefault(&cfg.Poll, DefaultPoll)
	setDefault(&cfg.MaxBlind, DefaultMaxBlind)
	setDefault(&cfg.StoreTimeout, DefaultStoreTimeout)
	setDefault(&cfg.LogLife, store.LogLife)
	setDefault(&cfg.RequestLife, DefaultRequestLife)
	if cfg.Partition == nil {
		cfg.Partition = store.HashedPartition
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Random == nil {
		cfg.Random = rand.Uint64
	}
	if cfg.NewToken == nil {
		cfg.NewToken = cryptorand.Text
	}
	return cfg
}

// maxFills is the largest Config.Fills.
const maxFills = 4096

// maxNodeName is the length of the longest Config.Node, in bytes.
const maxNodeName = 256

func setDefault[T ~int64](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func (cfg Config) validate() error {
	var errs []error
	between(&errs, "Lease", cfg.Lease, time.Second, 24*time.Hour, "1s and 24h")
	between(&errs, "Retention", cfg.Retention, 0, store.MaxInterval, "0 and ten years")
	between(&errs, "RenderTimeout", cfg.RenderTimeout, 0, 24*time.Hour, "0 and 24h")
	between(&errs, "MinUses", cfg.MinUses, 0, frequency.Max, "")
	if cfg.Wait < 0 {
		errs = append(errs, configErrorf("Wait", "must not be negative (got %s)", cfg.Wait))
	}
	if cfg.MaxBody < 0 || cfg.MaxBody > storable.MaxMaxBody {
		errs = append(errs, configErrorf("MaxBody", "must be between 0 and 1GiB (got %d bytes)", cfg.MaxBody))
	}
	if cfg.MaxHeader < storable.MinMaxHeader || cfg.MaxHeader > storable.MaxMaxHeader {
		errs = append(errs, configErrorf("MaxHeader", "must be between 1KiB and 128KiB (got %d bytes)", cfg.MaxHeader))
	}
	between(&errs, "MaxTags", cfg.MaxTags, 1, storable.MaxMaxTags, "")
	between(&errs, "Fills", cfg.Fills, 0, maxFills, "")
	if cfg.Poll >= 0 && (cfg.Poll < 10*time.Millisecond || cfg.Poll > 5*time.Minute) {
		errs = append(errs, configErrorf("Poll", "must be between 10ms and 5m (got %s)", cfg.Poll))
	}
	between(&errs, "MaxBlind", cfg.MaxBlind, time.Second, 24*time.Hour, "1s and 24h")
	if !cfg.Blind.valid() {
		errs = append(errs, configErrorf("Blind", "must be BlindServe or BlindRefuse (got %d)", int(cfg.Blind)))
	}
	between(&errs, "StoreTimeout", cfg.StoreTimeout, time.Millisecond, 24*time.Hour, "1ms and 24h")
	if len(cfg.Node) > maxNodeName || !utf8.ValidString(cfg.Node) {
		errs = append(errs, configErrorf("Node", "must be UTF-8 of at most %d bytes (got %.300q)", maxNodeName, cfg.Node))
	}
	if cfg.Peers != nil && (cfg.Node == "" || cfg.Poll < 0) {
		errs = append(errs, configErrorf("Peers", "needs Node, and a Poll that is not negative: peers know each other by their announcements"))
	}
	if len(cfg.Release) > store.MaxNodeLabel {
		errs = append(errs, configErrorf("Release", "must have at most %d characters (got %.100q)", store.MaxNodeLabel, cfg.Release))
	}
	if cfg.Build != "" && store.ValidBuild(cfg.Build) != nil {
		errs = append(errs, configErrorf("Build", "must be at most 256 bytes of printable ASCII (got %.300q)", cfg.Build))
	}
	if cfg.LogLife < time.Minute {
		errs = append(errs, configErrorf("LogLife", "must be at least 1m (got %s)", cfg.LogLife))
	}
	between(&errs, "RequestLife", cfg.RequestLife, time.Hour, store.MaxInterval, "1h and ten years")
	if cfg.Collect != 0 && cfg.Collect < time.Hour {
		errs = append(errs, configErrorf("Collect", "must be at least 1h (got %s)", cfg.Collect))
	}
	return errors.Join(errs...)
}

// between adds an error if a field is not between two bounds, which the text says. An empty text means that the
// bounds are said as they are. NaN is never between them.
func between[T cmp.Ordered](errs *[]error, field string, got, least, most T, bounds string) {
	if got >= least && got <= most {
		return
	}
	if bounds == "" {
		bounds = fmt.Sprintf("%v and %v", least, most)
	}
	*errs = append(*errs, configErrorf(field, "must be between %s (got %v)", bounds, got))
}

// A ConfigError reports an invalid field of a [Config] or a [Route].
type ConfigError struct {
	Field   string // its name, such as "Jitter"
	Problem string // such as "must be between 0 and 0.5 (got 2)"
}

func (e *ConfigError) Error() string { return "isr: " + e.Field + " " + e.Problem }

func configErrorf(field, format string, args ...any) error {
	return &ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// leastBuffers is the least default budget of Config.Buffers, in bytes.
const leastBuffers = 32 << 20

// renderShare is the part of the budget that renders, and reads of bodies, have together, as a divisor:
// a quarter is for what is being sent (see responseShare), and a quarter is left to requests. A body that is larger than
// the part, which Config.MaxBody allows, takes all of it, and exceeds the budget.
const renderShare = 2
