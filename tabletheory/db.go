package tabletheory

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/tabletheory/envelope"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// DB maps models to the tables of one DynamoDB client. It is safe for concurrent
// use, holds no connections and need not be closed. Create one per process: it
// caches the compiled models.
type DB struct {
	*mapper
	ctx context.Context
}

// mapper is the part of a DB that WithContext shares.
type mapper struct {
	api     API
	models  *model.Registry
	keys    envelope.KeyProvider // nil: encrypted fields are refused
	now     func() time.Time
	retries int // of transactions, on top of the SDK's retries
}

// Option configures a [DB].
type Option func(*settings)

type settings struct {
	keys       envelope.KeyProvider
	now        func() time.Time
	converters []model.Converter
	retries    int
}

// WithKeyProvider encrypts fields with the tag "encrypted", with keys of this
// provider; see packages envelope and kmskeys. Without it, models with such
// fields are refused.
func WithKeyProvider(p envelope.KeyProvider) Option { return func(s *settings) { s.keys = p } }

// WithClock sets the wall clock for created_at and updated_at. The default is
// [time.Now].
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// WithRetries sets how often TransactWrite and TransactGet retry a transaction
// that was cancelled for transient reasons, such as a conflict with another one,
// on top of the SDK's retries. The default is 3; 0 disables retries.
func WithRetries(n int) Option { return func(s *settings) { s.retries = n } }

// New returns a DB on a client.
func New(api API, options ...Option) *DB {
	s := settings{now: time.Now, retries: 3}
	for _, option := range options {
		option(&s)
	}
	return &DB{
		ctx:    context.Background(),
		mapper: &mapper{api: api, models: model.NewRegistry(s.converters...), keys: s.keys, now: s.now, retries: s.retries},
	}
}

// Config locates DynamoDB. The zero Config uses the environment and the shared
// configuration files of the AWS SDK.
type Config struct {
	Region   string // overrides the environment
	Endpoint string // URL of another server, such as `isr dynamodb`; empty: AWS

	Load    []func(*config.LoadOptions) error // for config.LoadDefaultConfig
	Client  []func(*dynamodb.Options)         // for the client, after Endpoint
	Options []Option                          // for New
}

// Open returns a DB on a client made from the SDK's configuration. ctx bounds
// the loading of the configuration; nothing is sent to DynamoDB.
func Open(ctx context.Context, c Config) (*DB, error) {
	load := c.Load
	if c.Region != "" {
		load = append([]func(*config.LoadOptions) error{config.WithRegion(c.Region)}, load...)
	}
	loaded, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("tabletheory: load the AWS SDK's configuration: %w", err)
	}
	client := dynamodb.NewFromConfig(loaded, append([]func(*dynamodb.Options){func(o *dynamodb.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
	}}, c.Client...)...)
	return New(client, c.Options...), nil
}

// WithContext returns a DB whose chains, which begin with Model, use ctx.
// Without it they use [context.Background].
func (db *DB) WithContext(ctx context.Context) *DB {
	return &DB{mapper: db.mapper, ctx: ctx}
}

// target is a struct of a model, with the table it belongs to.
type target struct {
	*mapper
	model *model.Model
	table string
	value reflect.Value // the struct; settable if a pointer was given
}

// target returns the target of a caller's value: a struct of a model or a
// non-nil pointer to one.
func (m *mapper) target(v any) (*target, error) {
	t, err := m.targetWithoutTable(v)
	if err == nil && t.table == "" {
		err = t.nameTable()
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// targetWithoutTable is target without the table name, unless the model has
// encrypted fields, which are bound to it.
func (m *mapper) targetWithoutTable(v any) (target, error) {
	value := reflect.ValueOf(v)
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct {
		return target{}, fmt.Errorf("tabletheory: %w: a model must be a struct or a pointer to one, not %s", ErrInvalidModel, describe(v))
	}
	md, err := m.models.Model(value.Type())
	if err != nil {
		return target{}, fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
	}
	t := target{mapper: m, model: md, value: value}
	if len(md.Encrypted) == 0 {
		return t, nil
	}
	if m.keys == nil {
		return t, fmt.Errorf("tabletheory: %w: field %s of %v is encrypted, but there are no keys: pass WithKeyProvider to New", ErrInvalidModel, md.Encrypted[0].Name, md.Type)
	}
	err = t.nameTable()
	return t, err
}

// nameTable sets the table by the model's TableName.
func (t *target) nameTable() error {
	table, err := t.model.TableName(t.value)
	if err != nil {
		return fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
	}
	t.table = table
	return nil
}

// describe names an unsuitable value in errors.
func describe(v any) string {
	if v == nil {
		return "nil"
	}
	if value := reflect.ValueOf(v); value.Kind() == reflect.Pointer && value.IsNil() {
		return fmt.Sprintf("a nil %T", v)
	}
	return fmt.Sprintf("a %T", v)
}
