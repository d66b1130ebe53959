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

// DB maps models to the tables of one DynamoDB client. It is safe for
// concurrent use, holds no connections of its own and need not be closed.
// Make one per process: it keeps what it has found out about each model.
type DB struct {
	*mapper
	ctx context.Context
}

// mapper is what a DB shares with those that WithContext makes of it.
type mapper struct {
	api     API
	models  *model.Registry
	keys    envelope.KeyProvider // nil: encrypted fields are refused
	now     func() time.Time
	retries int // how often a call of ours is repeated, on top of the SDK's own retries
}

// Option adjusts a [DB].
type Option func(*settings)

type settings struct {
	keys       envelope.KeyProvider
	now        func() time.Time
	converters []model.Converter
	retries    int
}

// WithKeyProvider encrypts fields with the tag "encrypted" with keys of this
// provider; see packages envelope and kmskeys. Without it, models with such fields are
// refused.
func WithKeyProvider(p envelope.KeyProvider) Option { return func(s *settings) { s.keys = p } }

// WithClock sets the wall clock, which created_at and updated_at are read from.
// The default is [time.Now].
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// WithRetries sets how often TransactWrite and TransactGet repeat a transaction
// that was cancelled for reasons that pass, such as a conflict with another one,
// on top of what the SDK repeats by itself. The default is 3; 0 is never.
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

// Config says where DynamoDB is. Its zero value is what the environment and the
// shared configuration files of the AWS SDK say.
type Config struct {
	Region   string // overrides the environment's
	Endpoint string // URL of another server, such as `isr dynamodb`; empty is AWS

	Load    []func(*config.LoadOptions) error // for config.LoadDefaultConfig
	Client  []func(*dynamodb.Options)         // for the client, after Endpoint
	Options []Option                          // for New
}

// Open returns a DB on a client that it makes from the SDK's ordinary
// configuration. ctx bounds the loading of it; nothing is asked of DynamoDB.
func Open(ctx context.Context, c Config) (*DB, error) {
	load := c.Load
	if c.Region != "" {
		load = append([]func(*config.LoadOptions) error{config.WithRegion(c.Region)}, load...)
	}
	loaded, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("tabletheory: load the configuration of the AWS SDK: %w", err)
	}
	client := dynamodb.NewFromConfig(loaded, append([]func(*dynamodb.Options){func(o *dynamodb.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
	}}, c.Client...)...)
	return New(client, c.Options...), nil
}

// WithContext returns a DB whose fluent calls, those that begin with Model, are
// bound to ctx; without it they are bound to [context.Background].
func (db *DB) WithContext(ctx context.Context) *DB {
	return &DB{mapper: db.mapper, ctx: ctx}
}

// target is a struct of a model, and the table that it belongs to.
type target struct {
	*mapper
	model *model.Model
	table string
	value reflect.Value // the struct; settable if a pointer was given
}

// target finds out what a caller's value is: a struct of a model, or a pointer
// to one that is not nil.
func (m *mapper) target(v any) (*target, error) {
	t, err := m.untabled(v)
	if err == nil && t.table == "" {
		err = t.nameTable()
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// untabled is target, but for the table, whose name is asked for only if fields
// are encrypted, which are bound to it.
func (m *mapper) untabled(v any) (target, error) {
	value := reflect.ValueOf(v)
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct {
		return target{}, fmt.Errorf("tabletheory: %w: a model is a struct or a pointer to one, not %s", ErrInvalidModel, describe(v))
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
		return t, fmt.Errorf("tabletheory: %w: field %s of %v is encrypted, and there are no keys: give WithKeyProvider to New", ErrInvalidModel, md.Encrypted[0].Name, md.Type)
	}
	err = t.nameTable()
	return t, err
}

// nameTable asks the model for its table.
func (t *target) nameTable() error {
	table, err := t.model.TableName(t.value)
	if err != nil {
		return fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
	}
	t.table = table
	return nil
}

// describe names a value that should have been something else.
func describe(v any) string {
	if v == nil {
		return "nil"
	}
	if value := reflect.ValueOf(v); value.Kind() == reflect.Pointer && value.IsNil() {
		return fmt.Sprintf("a nil %T", v)
	}
	return fmt.Sprintf("a %T", v)
}
