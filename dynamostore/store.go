package dynamostore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// API is what a [Store] needs of DynamoDB. *dynamodb.Client satisfies it, and so
// does the embedded engine. Implementations must be safe for concurrent use.
type API = tabletheory.API

// Config adjusts a [Store]. Its zero value is useful.
type Config struct {
	// Owner names this process to people and to other holders, in lease_owner.
	// It decides nothing. Default: host name and process id.
	Owner string

	// Now is the wall clock. Default: [time.Now].
	Now func() time.Time

	// NewToken returns a text that nobody can guess and that never returns, of
	// at least 128 random bits: it proves who holds a lease. It must be safe for
	// concurrent use. Default: [rand.Text].
	NewToken func() string

	// CallTimeout bounds one call of the API, with the retries that the SDK
	// makes in it. A method whose calls are not answered gives up after at most
	// twice that, but for what Acquire and Publish do to settle their outcome.
	// Default: 5 seconds.
	CallTimeout time.Duration

	// SettleTimeout bounds the work, after a caller is gone or a lease has
	// expired, that finds out what became of a publish whose reply was lost. For
	// rollbacks and pins it bounds the wait for their turn, then the attempts to
	// get an answer, and then that work. Default: 15 seconds.
	SettleTimeout time.Duration

	// RetryDelay is the mean pause before a call is repeated for the first time;
	// it doubles with each further one, up to 32 times of it, with jitter.
	// Default: 25 milliseconds.
	RetryDelay time.Duration

	// Random returns 64 random bits, of which the jitter is made. It must be safe
	// for concurrent use. Default: [mathrand.Uint64].
	Random func() uint64

	// LogLife is how long the store keeps the rows that it writes to the purge
	// log, at least. All writers of a table must keep them for as long as its
	// readers believe (LogLife of [isr.Config]). Default: [store.LogLife].
	LogLife time.Duration

	// Guards are further checks of writes to META. Default: none.
	Guards Guards

	// Meter is told what each answer of the database has consumed, in read and
	// write units, as they are billed, and for which operation: acquire, refresh
	// and publish, each perhaps "with request", publish perhaps "with history" or
	// "with history and request"; read, request, end request, release, back off,
	// break lease, rollback, pin, group commit (rollbacks and pins that share a
	// transaction), prune, versions, sequence, changes, list, partitions and body
	// keys. An answer that is an error does not tell, though
	// a write that was refused is billed too. It must be safe for concurrent use.
	// Default: nobody asks.
	Meter func(operation string, read, write float64)

	// Logger hears of lost replies and what became of them. Default: nobody.
	Logger *slog.Logger
}

// A Store is the [store.MetaStore] on one DynamoDB table. It is safe for
// concurrent use, holds no resources and need not be closed: its one goroutine
// runs only while changes of the log are being committed.
type Store struct {
	api    API // for reads, whose rows are of several models
	db     *tabletheory.DB
	table  string
	config Config
	log    *groupCommit
}

var _ store.MetaStore = (*Store)(nil)

// New returns the store on a table, which must have the shape that
// [CreateTable] gives it; New does not look, [CheckTable] does.
func New(api API, table string, config Config) (*Store, error) {
	if api == nil {
		return nil, errors.New("dynamostore: no DynamoDB client was given")
	}
	if table == "" {
		return nil, errors.New("dynamostore: no table name was given")
	}
	if config.Meter != nil {
		api = meteredAPI{API: api, count: config.Meter}
	}
	// What is repeated, and for how long, is decided here: see retry.go.
	db := tabletheory.New(tokenAPI{api}, tabletheory.WithRetries(0))
	s := &Store{api: api, db: db, table: table, config: config.withDefaults()}
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
	if c.Random == nil {
		c.Random = mathrand.Uint64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
