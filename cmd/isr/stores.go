package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gateway/admin"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/pace"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// storeFlags configure the stores: embedded in a folder, or DynamoDB and S3.
type storeFlags struct {
	Data             string `default:"./isr-data" type:"path" placeholder:"DIR" help:"Folder of the embedded store, and of the socket that commands use to reach a running server (${default})."`
	Table            string `placeholder:"NAME" help:"DynamoDB table for the metadata, instead of the embedded store; needs --bucket."`
	Region           string `placeholder:"NAME" help:"AWS region of table and bucket (from the AWS configuration)."`
	DynamodbEndpoint string `name:"dynamodb-endpoint" placeholder:"URL" help:"URL of a DynamoDB endpoint other than that of AWS."`
	Bucket           string `placeholder:"NAME" help:"S3 bucket for the stored bodies; needs --table."`
	S3Endpoint       string `name:"s3-endpoint" env:"ISR_S3_ENDPOINT" placeholder:"URL" help:"URL of an S3 endpoint other than that of AWS."`
	downstreamFlags  `embed:""`
	owner            string                  // in leases; empty: host and process id
	requests         func() int64            // how many requests the server has begun to serve; nil: it serves none
	throttled        func(isr.OperationKind) // is called for each attempt that AWS throttles; nil: none is counted
	Guard            []guard                 `sep:"," placeholder:"NAME" help:"Additional condition of writes, for tables that other services write to: monotonic (generated_at grows) or version (the attribute version counts writes); repeatable."`
}

// startTime bounds opening and checking the stores.
const startTime = 20 * time.Second

// tableTime bounds the creation of a table, which takes AWS up to minutes.
const tableTime = 3 * time.Minute

func (f *storeFlags) validate() error {
	switch {
	case f.Table != "" && f.Bucket == "":
		return usagef("--table needs --bucket NAME for the stored bodies, which all servers read")
	case f.Bucket != "" && f.Table == "":
		return usagef("--bucket needs --table NAME for the metadata, which all servers read")
	case f.Table == "" && (f.DynamodbEndpoint != "" || f.S3Endpoint != "" || f.Region != ""):
		return usagef("--region, --dynamodb-endpoint and --s3-endpoint need --table and --bucket")
	case f.Data == "":
		return usagef("--data is empty; expected a folder, as in --data ./isr-data")
	}
	_, err := f.specs()
	return err
}

// stores are the open stores of a command. The command must call close.
type stores struct {
	meta   *dynamostore.Store
	bodies store.BodyStore
	meter  *admin.Meter    // of meta
	engine *localdynamo.DB // nil on AWS
	reach  *reach          // nil if the stores are embedded
	disk   *embedded.Disk  // the bodies of an embedded store; nil on AWS
	where  string          // shown to operators
	close  func() error
}

// open opens the stores. The flags must be validated. With create it also creates the
// table, on DynamoDB or in the data folder, which must exist. Requests to AWS fail until
// the reach of the stores has opened.
func (f *storeFlags) open(ctx context.Context, create bool, log *slog.Logger) (*stores, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if f.Table != "" {
		return f.openAWS(ctx, create, log)
	}
	return f.openEmbedded(ctx, create, log)
}

func (f *storeFlags) openEmbedded(ctx context.Context, create bool, log *slog.Logger) (*stores, error) {
	if _, err := os.Stat(embedded.EngineFile(f.Data)); !create && errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no store in %s; give the data folder of a server with --data, or start a server: isr serve --demo", f.Data)
	}
	db, err := openEngine(f.Data)
	if err != nil {
		return nil, err
	}
	st, err := newEmbedded(ctx, f, db, log)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return st, nil
}

// pacer returns what paces scans of the stores; nil for commands, which serve no requests.
func (f *storeFlags) pacer() *pace.Pacer {
	if f.requests == nil {
		return nil
	}
	return pace.New(f.requests)
}

// openEngine opens the engine in an existing data folder, and creates its file if needed.
func openEngine(dir string) (*localdynamo.DB, error) {
	db, err := embedded.OpenEngine(dir)
	switch {
	case errors.Is(err, localdynamo.ErrLocked):
		return nil, fmt.Errorf("data folder %s is used by another isr process; stop it, or give another folder with --data", dir)
	case err != nil:
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return db, nil
}

func newEmbedded(ctx context.Context, f *storeFlags, db *localdynamo.DB, log *slog.Logger) (*stores, error) {
	meter := new(admin.Meter)
	meta, bodies, err := embedded.Open(ctx, f.Data, db, dynamostore.Config{Guards: guardsOf(f.Guard), Meter: meter.Count}, f.pacer(), log)
	if err != nil {
		return nil, err
	}
	closeAll := func() error { return errors.Join(bodies.Close(), db.Close()) }
	return &stores{meta: meta, bodies: bodies, disk: bodies, meter: meter, engine: db, where: "embedded, in " + f.Data, close: closeAll}, nil
}

// openAWS sends no request except for credentials.
func (f *storeFlags) openAWS(ctx context.Context, create bool, log *slog.Logger) (*stores, error) {
	cfg, err := f.awsConfig(ctx, log)
	if err != nil {
		return nil, err
	}
	r := &reach{time: startTime, log: log}
	checked, err := f.s3Bodies(cfg)
	if err != nil {
		return nil, err
	}
	r.bucket = func(ctx context.Context) error { return unanswered(checked.CheckBucket(ctx), "S3", "--s3-endpoint") }
	r.table = f.tableCheck(cfg, create, log)
	gated := r.gated(cfg)
	bodies, err := f.s3Bodies(gated)
	if err != nil {
		return nil, err
	}
	meter := new(admin.Meter)
	meta, err := dynamostore.New(f.dynamoDB(gated), f.Table, dynamostore.Config{Owner: f.owner, Guards: guardsOf(f.Guard), Meter: meter.Count, Pace: f.pacer().Step, Logger: log})
	if err != nil {
		return nil, err
	}
	where := fmt.Sprintf("table %s, bucket %s", f.Table, f.Bucket)
	return &stores{meta: meta, bodies: bodies, meter: meter, reach: r, where: where, close: func() error { return nil }}, nil
}

// tableCheck returns a function that checks the table, and with create creates it.
func (f *storeFlags) tableCheck(cfg aws.Config, create bool, log *slog.Logger) func(context.Context) error {
	ddb := f.dynamoDB(cfg)
	return func(ctx context.Context) (err error) {
		if create {
			err = dynamostore.CreateTable(ctx, ddb, f.Table)
		} else {
			err = dynamostore.CheckTable(ctx, ddb, f.Table, log)
		}
		return unanswered(err, "DynamoDB", "--dynamodb-endpoint")
	}
}

func (f *storeFlags) s3Bodies(cfg aws.Config) (*s3body.Store, error) {
	return s3body.New(f.s3Client(cfg), f.Bucket, s3body.Config{})
}

func (f *storeFlags) s3Client(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		if f.S3Endpoint != "" {
			o.BaseEndpoint = &f.S3Endpoint
			o.UsePathStyle = true // other servers have no host name per bucket
		}
	})
}

// awsConfig loads the default configuration of the AWS SDK, with its credentials chain.
func (f *storeFlags) awsConfig(ctx context.Context, log *slog.Logger) (aws.Config, error) {
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
		return aws.Config{}, usagef("no AWS region configured; give --region, or set AWS_REGION")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return aws.Config{}, fmt.Errorf("no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role: %w", err)
	}
	return cfg, nil
}

func (f *storeFlags) dynamoDB(cfg aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if f.DynamodbEndpoint != "" {
			o.BaseEndpoint = &f.DynamodbEndpoint
		}
	})
}
