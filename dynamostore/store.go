package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// API is the part of DynamoDB that a [Store] uses. *dynamodb.Client implements it, and
// so does the embedded engine. Implementations must be safe for concurrent use.
type API = tabletheory.API

// Config adjusts a [Store]. Its zero value is useful.
type Config struct {
	// Owner names this process in lease_owner, for people. It has no effect.
	// Default: host name and process id.
	Owner string

	// Now is the wall clock. Default: [time.Now].
	Now func() time.Time

	// NewToken returns a unique, unguessable text of at least 128 random bits, which
	// proves which process holds a lease. It must be safe for concurrent use. Default:
	// [rand.Text].
	NewToken func() string

	// CallTimeout bounds one call of the API, including the retries of the SDK. A
	// method whose calls get no reply gives up after at most twice that, except that
	// Acquire, Publish, Rollback and Pin settle their outcome. Default: 5 seconds.
	CallTimeout time.Duration

	// SettleTimeout bounds the settlement of a publish whose reply was lost, after
	// its caller has left or its lease has expired. For rollbacks and pins it bounds
	// the wait in the queue, then the attempts, and then the settlement; purges wait in
	// the queue for up to four times as long. Default: 15 seconds.
	SettleTimeout time.Duration

	// RetryDelay is the mean pause before the first retry of a call: exponential
	// backoff with jitter, up to 32 times RetryDelay. Default: 25 milliseconds.
	RetryDelay time.Duration

	// Random returns 64 random bits for the jitter. It must be safe for concurrent
	// use. Default: [mathrand.Uint64].
	Random func() uint64

	// LogLife is the minimum lifetime of rows that the store writes to the purge
	// log. All writers of a table must use at least the LogLife that its readers
	// assume ([isr.Config]). Default: [store.LogLife].
	LogLife time.Duration

	// MarkLifetime is how long purge marks are kept at least. It must be longer than any
	// entry is kept. The largest MarkLifetime of a table's writers holds for all of them,
	// from its first purge on: marks that exist by then keep their lifetime, so purge the
	// whole site once after raising it: hard, or softly if nothing was purged hard.
	// Default, and minimum: [store.MinMarkLifetime]; maximum: [store.MaxInterval].
	MarkLifetime time.Duration

	// Leases, on the same table as the API of [New], gets the writes that take, extend and end
	// leases without a request record. They may be lost when this process ends in a crash, in
	// which its leases end, too; but not after a later write of the API to the same row was
	// acknowledged. The API of the embedded engine for this is its Volatile. Default: the API of New.
	Leases API

	// Replace makes replacement the row with this key, or deletes the row if replacement is nil,
	// provided that the stored row is damaged, and reports whether it was. The function of the embedded
	// engine is its Replace. If a call meets a damaged row of a page, the page then counts as missing.
	// It must be safe for concurrent use. Default: such a call fails.
	Replace func(ctx context.Context, table string, key, replacement map[string]types.AttributeValue) (replaced bool, err error)

	// Guards are additional checks of writes to META. Default: none.
	Guards Guards

	// Meter is called after each successful call with its operation and the read and
	// write units that are billed. The operations are acquire, refresh and publish,
	// each also "with request", publish also "with history" and "with history and
	// request"; read, request, end request, release, back off, break lease, forget,
	// rollback, pin, renew pin, purge, list variant, variants, build, group commit (different ones of these that share a
	// transaction), prune, versions, read serializable, sequence, changes, recent, marks, covering, delete mark,
	// announce, withdraw, nodes, list, pinned forever, named bodies, body keys and outbox. Failed
	// calls are not reported, though refused writes are billed. It must be safe for
	// concurrent use. Default: not metered.
	Meter func(operation string, read, write float64)

	// Local: the API is an engine in this process. Scans are then made of requests for some
	// rows at a time, so that none holds a snapshot, or a processor, for long; and of one
	// segment, because each segment of an engine reads the whole table. Default: a service,
	// of which several large requests are made at once.
	Local bool

	// Pace is called after each request and each row of a scan, and may pause it. It must be safe for
	// concurrent use. Default: no pauses.
	Pace func()

	// Logger gets a warning for each lost reply that was settled. Default: discarded.
	Logger *slog.Logger
}

// A Store is the [store.MetaStore] on one DynamoDB table. It is safe for
// concurrent use, holds no resources and need not be closed: its only goroutine
// runs while changes of the log are being committed.
type Store struct {
	api    API // for reads, whose rows are of several models
	db     *tabletheory.DB
	leases *tabletheory.DB // for LOCK rows alone
	table  string
	config Config
	log    *groupCommit
	strays strays
}

var _ store.MetaStore = (*Store)(nil)

// New returns the store on a table that [CreateTable] has created. It makes no call;
// [CheckTable] checks the table.
func New(api API, table string, config Config) (*Store, error) {
	if api == nil {
		return nil, errors.New("dynamostore: the DynamoDB client must not be nil")
	}
	if table == "" {
		return nil, errors.New("dynamostore: the table name must not be empty")
	}
	leases := api
	if config.Leases != nil {
		leases = config.Leases
	}
	if config.Meter != nil {
		api, leases = meteredAPI{API: api, count: config.Meter}, meteredAPI{API: leases, count: config.Meter}
	}
	s := &Store{table: table, config: config.withDefaults()}
	if config.Replace != nil {
		api, leases = repairingAPI{API: api, store: s}, repairingAPI{API: leases, store: s}
	}
	// Store.execute retries.
	db, locks := tabletheory.New(tokenAPI{api}, tabletheory.WithRetries(0)), tabletheory.New(leases, tabletheory.WithRetries(0))
	s.api, s.db, s.leases = api, db, locks
	s.log = newGroupCommit(s)
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		c.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewToken == nil {
		c.NewToken = rand.Text
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = 5 * time.Second
	}
	if c.SettleTimeout <= 0 {
		c.SettleTimeout = 15 * time.Second
	}
	if c.RetryDelay <= 0 {
		c.RetryDelay = 25 * time.Millisecond
	}
	if c.LogLife <= 0 {
		c.LogLife = store.LogLife
	}
	c.MarkLifetime = min(max(c.MarkLifetime, store.MinMarkLifetime), store.MaxInterval)
	if c.Pace == nil {
		c.Pace = func() {}
	}
	if c.Random == nil {
		c.Random = mathrand.Uint64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
