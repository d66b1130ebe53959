// Package localdynamotest provides each test with its own DynamoDB: a real SDK client of
// an in-memory localdynamo engine.
//
//	code under test ─► *dynamodb.Client ─► retries, serialization, signing
//	                                          │  each attempt
//	                   Interceptor ◄── wire.Handler, called as a function
//	                                          │
//	                                   *localdynamo.DB in memory
//
// Everything except the socket is as in production: the client encodes and signs
// requests, and decodes responses and errors as AWS would send them. The handler runs in
// the goroutine of the caller, and the engine's goroutines start with New and stop with
// the test, so all of it works inside a testing/synctest bubble. There the SDK's retry
// delays, the lifetime of request tokens and the expiry of items take no real time.
//
// Intercept injects what does not happen with a single writer: transaction conflicts,
// throttling, and connections that break before or after the request is applied.
package localdynamotest

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

// Option configures New and Open.
type Option func(*settings)

type settings struct {
	engine    localdynamo.Options
	intercept wire.Interceptor
}

// WithClock sets the clock for the expiry of items and request tokens and for the
// creation times of tables; the default is time.Now. It must be safe for concurrent use.
// A synctest bubble does not need it, because time.Now is the bubble's clock there.
func WithClock(now func() time.Time) Option {
	return func(s *settings) { s.engine.Now = now }
}

// Intercept calls fn for every attempt of every call, below the SDK's retries: a retried
// call is seen several times. See wire.Interceptor for what fn may do; in short:
//
//	return nil          the call is applied and its result returned
//	return err          the call is not applied
//	apply(); return err the call is applied and the reply is lost
//
// If err is an API error, the client receives it as AWS would send it, and retries it or
// not as in production. Any other err is a broken connection for the client, which it
// retries. If there are several Intercept options, the last one wins.
func Intercept(fn wire.Interceptor) Option {
	return func(s *settings) { s.intercept = fn }
}

// New returns a client of an empty in-memory engine. The client has the SDK's default
// retries, is safe for concurrent use, and works until the end of the test. The test
// fails if DB.Check then finds damaged data.
func New(t testing.TB, opts ...Option) *dynamodb.Client {
	t.Helper()
	client, _ := Open(t, opts...)
	return client
}

// Open is like New, and also returns the engine, for example to call Sweep after
// advancing the clock of WithClock. The engine is closed at the end of the test.
func Open(t testing.TB, opts ...Option) (*dynamodb.Client, *localdynamo.DB) {
	t.Helper()
	var s settings
	for _, opt := range opts {
		opt(&s)
	}
	db := localdynamo.OpenMemory(s.engine)
	t.Cleanup(func() { finish(t, db) })
	handler, err := wire.New(db, wire.Config{Intercept: recordCause(s.intercept)})
	if err != nil {
		t.Fatal(err)
	}
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://localdynamo.test"),
		Credentials:  aws.CredentialsProviderFunc(credentials),
		HTTPClient:   &transport{handler: handler},
		EndpointDiscovery: dynamodb.EndpointDiscoveryOptions{
			EnableEndpointDiscovery: aws.EndpointDiscoveryDisabled, // otherwise the SDK reads the environment
		},
	}), db
}

func finish(t testing.TB, db *localdynamo.DB) {
	if err := db.Check(context.Background()); err != nil { // t.Context() is canceled by now
		t.Errorf("localdynamotest: check: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("localdynamotest: close: %v", err)
	}
}

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", Source: "localdynamotest"}, nil
}
