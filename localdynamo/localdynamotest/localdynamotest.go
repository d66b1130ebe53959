// Package localdynamotest gives a test a DynamoDB of its own: a real SDK
// client in front of a localdynamo engine in memory.
//
//	code under test ─► *dynamodb.Client ─► retries, serialization, signing
//	                                          │  each attempt
//	                   Interceptor ◄── wire.Handler, called as a function
//	                                          │
//	                                   *localdynamo.DB in memory
//
// Everything but the socket is what runs in production: the client encodes
// and signs requests, and decodes answers and errors, which are those that
// AWS would send. The handler runs in the goroutine of the caller, and the
// engine's own goroutines begin with New and end with the test, so that all
// of it works inside a testing/synctest bubble: time there, and with it the
// SDK's pauses between attempts, the life of request tokens and the expiry of
// items, passes as fast as the test likes.
//
// What a single writer never has, Intercept makes happen: conflicts of
// transactions, throttling, a connection that breaks before the request
// arrived, or after it was applied.
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

// Option changes what New and Open make.
type Option func(*settings)

type settings struct {
	engine    localdynamo.Options
	intercept wire.Interceptor
}

// WithClock sets the clock that decides when items and request tokens have
// expired, and that dates tables; the default is time.Now. It must be safe
// for concurrent use. It is not needed inside a synctest bubble, where
// time.Now is the bubble's.
func WithClock(now func() time.Time) Option {
	return func(s *settings) { s.engine.Now = now }
}

// Intercept has fn called for every attempt of every call, beneath the SDK's
// retries: a call that the SDK repeats is seen several times. What fn may do
// is described at wire.Interceptor; in short, with err an error of fn's:
//
//	return nil          the call is applied, and answered
//	return err          it is not applied
//	apply(); return err it is applied, and the reply is lost
//
// If err is one of the API's errors the client gets it as AWS would send it,
// and retries it or not as it would in production; any other err is to the
// client a connection that broke, which it retries. Of several Intercepts the
// last one holds.
func Intercept(fn wire.Interceptor) Option {
	return func(s *settings) { s.intercept = fn }
}

// New returns a client of an empty engine in memory. The client retries as
// the SDK does by default, is safe for concurrent use, and works until the
// end of the test, which fails if Check then finds the engine's data damaged.
func New(t testing.TB, opts ...Option) *dynamodb.Client {
	t.Helper()
	client, _ := Open(t, opts...)
	return client
}

// Open is New for tests that also have business with the engine itself, such
// as a Sweep after the clock of WithClock was put forward. The engine is
// closed at the end of the test.
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
			EnableEndpointDiscovery: aws.EndpointDiscoveryDisabled, // it would look into the environment
		},
	}), db
}

func finish(t testing.TB, db *localdynamo.DB) {
	if err := db.Check(context.Background()); err != nil { // the test's own context has ended
		t.Errorf("localdynamotest: the engine's data is damaged: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("localdynamotest: close: %v", err)
	}
}

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", Source: "localdynamotest"}, nil
}
