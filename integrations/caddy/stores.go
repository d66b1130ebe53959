package caddy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/caddyserver/caddy/v2"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/pace"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// Stores name where pages are: a folder of this server, or a table of DynamoDB and a bucket of S3 that
// any number of servers share.
type Stores struct {
	// Data is the folder of the embedded store, which no other process may use. Empty, if there is no
	// table: the folder isr in Caddy's data directory.
	Data string `json:"data,omitempty"`
	// Table and Bucket must exist; isr table create makes a table. The configuration of AWS comes from
	// its variables and files; Region and the endpoints, if they are set, replace it.
	Table            string `json:"table,omitempty"`
	Bucket           string `json:"bucket,omitempty"`
	Region           string `json:"region,omitempty"`
	DynamoDBEndpoint string `json:"dynamodb_endpoint,omitempty"`
	S3Endpoint       string `json:"s3_endpoint,omitempty"`
}

const (
	// openTime bounds the opening of stores.
	openTime = 20 * time.Second
	// collectEvery is the interval of garbage collection of an embedded store. On a table, isr gc does it.
	collectEvery = 24 * time.Hour
)

// pool has the open stores by what names them. A new configuration is provisioned before the previous
// one ends, so that both use the same.
var pool = caddy.NewUsagePool() //nolint:gochecknoglobals // outlives configurations, as Caddy's own pools do

// A shared is a pair of stores that Handlers have open.
type shared struct {
	key     string
	where   string // for people
	meta    store.MetaStore
	bodies  store.BodyStore
	collect time.Duration
	closers []func() error

	disk     *embedded.Disk // the bodies of an embedded store; nil on AWS
	requests atomic.Int64   // that the Handlers have begun to serve

	mu     sync.Mutex
	caches map[*isr.Cache]int64 // guarded by mu: with the bounds of the disk of their Handlers
}

func (s Stores) validate() error {
	switch {
	case s.Data != "" && s.Table != "":
		return errors.New("isr: data names an embedded store, and table a shared one; give one of them")
	case (s.Table == "") != (s.Bucket == ""):
		return errors.New("isr: table and bucket belong together; give both, or neither for an embedded store")
	case s.Table == "" && (s.Region != "" || s.DynamoDBEndpoint != "" || s.S3Endpoint != ""):
		return errors.New("isr: region, dynamodb_endpoint and s3_endpoint need table and bucket")
	}
	return nil
}

// use returns the stores, open. Callers must release them.
func (s Stores) use(ctx context.Context, log *slog.Logger) (*shared, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if s.Table == "" {
		// A folder has one spelling, by which Handlers find what others have opened.
		folder, err := filepath.Abs(cmp.Or(s.Data, filepath.Join(caddy.AppDataDir(), "isr")))
		if err != nil {
			return nil, fmt.Errorf("isr: data %s: %w", s.Data, err)
		}
		s.Data = folder
	}
	key := fmt.Sprintf("%q", s)
	value, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		ctx, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		opened := &shared{key: key, caches: make(map[*isr.Cache]int64)}
		open := s.openShared
		if s.Table == "" {
			open = s.openEmbedded
		}
		if err := open(ctx, opened, log); err != nil {
			return nil, errors.Join(fmt.Errorf("isr: %w", err), opened.Destruct())
		}
		return opened, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*shared), nil
}

func (s Stores) openEmbedded(ctx context.Context, to *shared, log *slog.Logger) error {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return err
	}
	db, err := embedded.OpenEngine(s.Data)
	if errors.Is(err, localdynamo.ErrLocked) {
		return fmt.Errorf("the folder %s is used by another process; stop it, or give another folder: data DIR", s.Data)
	}
	if err != nil {
		return err
	}
	to.closers = append(to.closers, db.Close)
	meta, bodies, err := embedded.Open(ctx, s.Data, db, dynamostore.Config{}, pace.New(to.requests.Load), log)
	if err != nil {
		return err
	}
	to.meta, to.bodies, to.disk, to.closers = meta, bodies, bodies, append(to.closers, bodies.Close)
	to.where, to.collect = "folder "+s.Data, collectEvery
	to.keepDisk()
	return nil
}

// keepDisk keeps the embedded store within its bound until the stores are closed.
func (s *shared) keepDisk() {
	ctx, cancel := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() { s.disk.Keep(ctx, embedded.KeepOptions{LastUses: s.lastUses}) })
	s.closers = append(s.closers, func() error {
		cancel()
		keeping.Wait()
		return nil
	})
}

// full is the Full of a cache on the stores.
func (s *shared) full() bool { return s.disk != nil && s.disk.Full() }

// lastUses returns when pages were last served by one of the caches, by partition key.
func (s *shared) lastUses() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := make(map[string]time.Time)
	for c := range s.caches {
		for pk, at := range c.LastUses() {
			if at.After(uses[pk]) {
				uses[pk] = at
			}
		}
	}
	return uses
}

func (s Stores) openShared(ctx context.Context, to *shared, log *slog.Logger) error {
	cfg, err := config.LoadDefaultConfig(ctx, func(o *config.LoadOptions) error {
		if s.Region != "" {
			o.Region = s.Region
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the configuration of AWS: %w", err)
	}
	ddb := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.BaseEndpoint = endpoint(s.DynamoDBEndpoint) })
	if err := dynamostore.CheckTable(ctx, ddb, s.Table, log); err != nil {
		return err
	}
	if to.meta, err = dynamostore.New(ddb, s.Table, dynamostore.Config{Logger: log}); err != nil {
		return err
	}
	bodies, err := s3body.New(s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = endpoint(s.S3Endpoint), s.S3Endpoint != ""
	}), s.Bucket, s3body.Config{})
	if err != nil {
		return err
	}
	if err := bodies.CheckBucket(ctx); err != nil {
		return err
	}
	to.bodies, to.where = bodies, fmt.Sprintf("table %s, bucket %s", s.Table, s.Bucket)
	return nil
}

func endpoint(url string) *string {
	if url == "" {
		return nil
	}
	return aws.String(url)
}

// release gives stores back, which are closed when no Handler uses them.
func (s *shared) release() error {
	_, err := pool.Delete(s.key)
	return err
}

// Destruct implements [caddy.Destructor].
func (s *shared) Destruct() (err error) {
	for i := len(s.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, s.closers[i]())
	}
	return err
}

// add adds a cache on the stores, with the bound of the disk that its Handler has; 0: none.
func (s *shared) add(c *isr.Cache, disk int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches[c] = disk
	s.boundLocked()
}

func (s *shared) remove(c *isr.Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.caches, c)
	s.boundLocked()
}

// boundLocked sets the bound of the disk: the smallest that a Handler has. The last cache leaves it as
// it is, as the stores are about to be closed. Callers must hold mu.
func (s *shared) boundLocked() {
	if s.disk == nil || len(s.caches) == 0 {
		return
	}
	bound := int64(0)
	for _, b := range s.caches {
		if b > 0 && (bound == 0 || b < bound) {
			bound = b
		}
	}
	s.disk.SetBound(bound)
}

// any returns one of the caches on the stores, nil if there is none.
func (s *shared) any() *isr.Cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.caches {
		return c
	}
	return nil
}
