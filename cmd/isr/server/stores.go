package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/disktier"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/pace"
	"github.com/facetheory/isr/internal/telemetry/metrics"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// SourceOf returns the folder of an embedded store.
func SourceOf(st *Stores) backup.Source {
	return backup.Source{DB: st.engine, Disk: st.disk, Pages: st.Meta, Folder: true}
}

// StoreFlags configure the stores: embedded in a folder, or DynamoDB and S3.
type StoreFlags struct {
	Data             string `default:"./isr-data" type:"path" placeholder:"DIR" help:"Folder of the embedded store, and of the socket that commands use to reach a running server (${default})."`
	Table            string `placeholder:"NAME" help:"DynamoDB table for the metadata, instead of the embedded store; needs --bucket."`
	Region           string `placeholder:"NAME" help:"AWS region of table and bucket (from the AWS configuration)."`
	DynamodbEndpoint string `name:"dynamodb-endpoint" placeholder:"URL" help:"URL of a DynamoDB endpoint other than AWS's."`
	Bucket           string `placeholder:"NAME" help:"S3 bucket for the stored bodies; needs --table."`
	S3Endpoint       string `name:"s3-endpoint" env:"ISR_S3_ENDPOINT" placeholder:"URL" help:"URL of an S3 endpoint other than AWS's."`
	downstreamFlags  `embed:""`
	owner            string                  // in leases; empty: host and process id
	requests         func() int64            // how many requests the server has begun to serve; nil: it serves none
	throttled        func(isr.OperationKind) // is called for each attempt that AWS throttles; nil: none is counted
	Guard            []guard                 `sep:"," placeholder:"NAME" help:"Additional condition of writes, for tables that other services write to: monotonic (generated_at grows) or version (the attribute version counts writes); repeatable."`
}

// startTime bounds opening and checking the stores.
const startTime = 20 * time.Second

// TableTime bounds the creation of a table, which takes AWS up to minutes.
const TableTime = 3 * time.Minute

// Check returns a [cli.UsageError] if the flags do not select one store. It is not called Validate: kong would call
// that one itself, before the configuration file is read.
func (f *StoreFlags) Check() error {
	switch {
	case f.Table != "" && f.Bucket == "":
		return cli.Usagef("--table needs --bucket NAME for the stored bodies, which all servers read")
	case f.Bucket != "" && f.Table == "":
		return cli.Usagef("--bucket needs --table NAME for the metadata, which all servers read")
	case f.Table == "" && (f.DynamodbEndpoint != "" || f.S3Endpoint != "" || f.Region != ""):
		return cli.Usagef("--region, --dynamodb-endpoint and --s3-endpoint need --table and --bucket")
	case f.Data == "":
		return cli.Usagef("--data is empty; expected a folder, like --data ./isr-data")
	}
	_, err := f.specs()
	return err
}

// Stores are the open stores of a command. The command must call close.
type Stores struct {
	Meta   *dynamostore.Store
	Bodies store.BodyStore
	meter  *admin.Meter    // of meta
	engine *localdynamo.DB // nil on AWS
	Reach  *reach          // nil if the stores are embedded
	tier   *disktier.Tier  // the disk cache of a bucket; nil if there is none
	disk   *embedded.Disk  // the bodies of an embedded store; nil on AWS
	Where  string          // shown to operators
	Close  func() error
}

// Open opens the stores. The flags must be validated. With create it also creates the
// table, on DynamoDB or in the data folder, which must exist. Requests to AWS fail until
// the reach of the stores has opened.
func (f *StoreFlags) Open(ctx context.Context, create bool, log *slog.Logger) (*Stores, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if f.Table != "" {
		return f.openAWS(ctx, create, log)
	}
	return f.openEmbedded(ctx, create, log)
}

func (f *StoreFlags) openEmbedded(ctx context.Context, create bool, log *slog.Logger) (*Stores, error) {
	if _, err := os.Stat(embedded.EngineFile(f.Data)); !create && errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no store in %s; give the data folder of a server with --data, or start a server: isr serve --demo", f.Data)
	}
	db, err := OpenEngine(f.Data)
	if err != nil {
		return nil, err
	}
	st, err := NewEmbedded(ctx, f, db, log)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return st, nil
}

// pacer returns what paces scans of the stores; nil for commands, which serve no requests.
func (f *StoreFlags) pacer() *pace.Pacer {
	if f.requests == nil {
		return nil
	}
	return pace.New(f.requests)
}

// OpenEngine opens the engine in an existing data folder, and creates its file if needed.
func OpenEngine(dir string) (*localdynamo.DB, error) {
	db, err := embedded.OpenEngine(dir)
	switch {
	case errors.Is(err, localdynamo.ErrLocked):
		return nil, fmt.Errorf("data folder %s is used by another isr process; stop it, or give another folder with --data", dir)
	case err != nil:
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return db, nil
}

// NewEmbedded returns the embedded store of a data folder whose engine is open.
func NewEmbedded(ctx context.Context, f *StoreFlags, db *localdynamo.DB, log *slog.Logger) (*Stores, error) {
	meter := new(admin.Meter)
	meta, bodies, err := embedded.Open(ctx, f.Data, db, dynamostore.Config{Guards: guardsOf(f.Guard), Meter: meter.Count}, f.pacer(), log)
	if err != nil {
		return nil, err
	}
	closeAll := func() error { return errors.Join(bodies.Close(), db.Close()) }
	return &Stores{Meta: meta, Bodies: bodies, disk: bodies, meter: meter, engine: db, Where: "embedded, in " + f.Data, Close: closeAll}, nil
}

// openAWS sends no request except for credentials.
func (f *StoreFlags) openAWS(ctx context.Context, create bool, log *slog.Logger) (*Stores, error) {
	cfg, err := f.AWSConfig(ctx, log)
	if err != nil {
		return nil, err
	}
	r := &reach{time: startTime, log: log}
	checked, err := f.s3Bodies(cfg)
	if err != nil {
		return nil, err
	}
	r.bucket = func(ctx context.Context) error { return Unanswered(checked.CheckBucket(ctx), "S3", "--s3-endpoint") }
	r.table = f.tableCheck(cfg, create, log)
	gated := r.gated(cfg)
	bodies, err := f.s3Bodies(gated)
	if err != nil {
		return nil, err
	}
	meter := new(admin.Meter)
	meta, err := dynamostore.New(f.DynamoDB(gated), f.Table, dynamostore.Config{Owner: f.owner, Guards: guardsOf(f.Guard), Meter: meter.Count, Pace: f.pacer().Step, Logger: log})
	if err != nil {
		return nil, err
	}
	where := fmt.Sprintf("table %s, bucket %s", f.Table, f.Bucket)
	return &Stores{Meta: meta, Bodies: bodies, meter: meter, Reach: r, Where: where, Close: func() error { return nil }}, nil
}

// tableCheck returns a function that checks the table, and with create creates it.
func (f *StoreFlags) tableCheck(cfg aws.Config, create bool, log *slog.Logger) func(context.Context) error {
	ddb := f.DynamoDB(cfg)
	return func(ctx context.Context) (err error) {
		if create {
			err = dynamostore.CreateTable(ctx, ddb, f.Table)
		} else {
			err = dynamostore.CheckTable(ctx, ddb, f.Table, log)
		}
		return Unanswered(err, "DynamoDB", "--dynamodb-endpoint")
	}
}

func (f *StoreFlags) s3Bodies(cfg aws.Config) (*s3body.Store, error) {
	return s3body.New(f.S3Client(cfg), f.Bucket, s3body.Config{})
}

// S3Client returns the client of the bucket, or of the S3-compatible server of --s3-endpoint.
func (f *StoreFlags) S3Client(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		if f.S3Endpoint != "" {
			o.BaseEndpoint = &f.S3Endpoint
			o.UsePathStyle = true // other servers have no host name per bucket
		}
	})
}

// AWSConfig loads the default configuration of the AWS SDK, with its credentials chain.
func (f *StoreFlags) AWSConfig(ctx context.Context, log *slog.Logger) (aws.Config, error) {
	// By default the SDK logs to standard error, even for a failed condition.
	sdkLog := logging.LoggerFunc(func(_ logging.Classification, format string, v ...any) {
		log.Debug("AWS SDK", "text", fmt.Sprintf(format, v...))
	})
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithLogger(sdkLog)}
	if f.Region != "" {
		options = append(options, awsconfig.WithRegion(f.Region))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
	}
	if f.throttled != nil {
		countThrottles(&cfg, f.throttled)
	}
	if cfg.Region == "" {
		return aws.Config{}, cli.Usagef("no AWS region configured; give --region, or set AWS_REGION")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return aws.Config{}, fmt.Errorf("no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role: %w", err)
	}
	return cfg, nil
}

// DynamoDB returns the client of the table, or of the server of --dynamodb-endpoint.
func (f *StoreFlags) DynamoDB(cfg aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if f.DynamodbEndpoint != "" {
			o.BaseEndpoint = &f.DynamodbEndpoint
		}
	})
}

// keepDisk keeps the embedded store within its bound until stop is called.
func (c *ServeCommand) keepDisk(ctx context.Context, st *Stores, cache *isr.Cache, m *metrics.Metrics) (stop func()) {
	if st.disk == nil {
		return func() {}
	}
	st.disk.SetBound(c.diskBound())
	return inBackground(ctx, func(ctx context.Context) {
		st.disk.Keep(ctx, embedded.KeepOptions{
			LastUses:  cache.LastUses,
			Evicted:   m.EvictedFromDisk,
			Collected: func(bytes int64) { m.Note(isr.Event{Kind: isr.EventCollected, Bytes: bytes}) },
		})
	})
}

// diskBound is the bound of the embedded store; 0 for the default.
func (c *ServeCommand) diskBound() int64 {
	if c.Disk == nil {
		return 0
	}
	return int64(*c.Disk)
}

// prepareDisk prepares other sizes of what is on the disk: of the embedded store, and of the disk cache.
func (st *Stores) prepareDisk(_ context.Context, _, next *setup) (replacement, error) {
	return replacement{use: func() {
		if st.disk != nil {
			st.disk.SetBound(next.diskBound())
		}
		if st.tier != nil {
			st.tier.SetLimit(next.cacheLimit())
		}
	}}, nil
}

// cacheLimit is the size of the disk cache, in bytes.
func (c *ServeCommand) cacheLimit() int64 {
	if c.CacheSize != nil {
		return int64(*c.CacheSize)
	}
	return defaultCacheSize
}

// defaultCacheSize is the size of the disk cache without --cache-size, in bytes.
const defaultCacheSize = 10 << 30

// cacheOnDisk puts the disk cache of --cache-dir in front of the bodies of stores that are open,
// which close it. A folder that cannot be used is a warning: the bucket has all bodies.
func (c *ServeCommand) cacheOnDisk(st *Stores, m *metrics.Metrics, log *slog.Logger) error {
	if c.CacheDir == "" {
		return nil
	}
	tier, err := disktier.Open(c.CacheDir, c.cacheLimit(), st.Bodies, m, log)
	switch {
	case errors.Is(err, disktier.ErrLocked):
		return fmt.Errorf("--cache-dir %s is used by another isr process; give each server a folder of its own", c.CacheDir)
	case err != nil:
		log.Warn("the disk cache cannot be used: bodies are read from the bucket", "error", err)
		return nil
	}
	st.Bodies, st.tier = tier, tier
	closeStores := st.Close
	st.Close = func() error { return errors.Join(tier.Close(), closeStores()) }
	return nil
}

// A guard names an additional condition of writes to the table.
type guard string

const (
	guardMonotonic guard = "monotonic"
	guardVersion   guard = "version"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *guard) UnmarshalText(text []byte) error {
	*g = guard(text)
	if *g != guardMonotonic && *g != guardVersion {
		return fmt.Errorf("%q is not a guard; expected %s or %s", text, guardMonotonic, guardVersion)
	}
	return nil
}

// guardsOf returns the guards of the store.
func guardsOf(named []guard) dynamostore.Guards {
	return dynamostore.Guards{Monotonic: slices.Contains(named, guardMonotonic), Version: slices.Contains(named, guardVersion)}
}
