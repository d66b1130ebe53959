package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/facetheory/isr/internal/backoff"
)

// A reach is the gate to the stores of a server on AWS. It opens once a check has passed.
// Until then each call fails at once, which the cache handles as an outage:
//
//	check ──► passed: the gate opens
//	      ──► unreachable: serve without the stores, and check again
//	      ──► misconfigured (no such table, access denied): fail at start
type reach struct {
	table, bucket func(context.Context) error // the checks
	time          time.Duration               // bounds one check of both
	log           *slog.Logger

	open atomic.Bool
	// failure is the error text of the last check, nil before the first.
	failure atomic.Pointer[string]
}

const (
	// startPatience bounds how long a start waits for stores that do not answer.
	startPatience = 5 * time.Second
	// Failed checks are repeated with exponential backoff.
	firstCheck = time.Second
	lastCheck  = 10 * time.Second
)

var errGateClosed = errors.New("the stores have not been checked yet")

// gated returns a configuration whose clients fail until the gate is open, without the
// retries of the SDK.
func (r *reach) gated(cfg aws.Config) aws.Config {
	gate := middleware.InitializeMiddlewareFunc("isr-gate", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		middleware.InitializeOutput, middleware.Metadata, error,
	) {
		if !r.open.Load() {
			return middleware.InitializeOutput{}, middleware.Metadata{}, errGateClosed
		}
		return next.HandleInitialize(ctx, in)
	})
	cfg = cfg.Copy()
	cfg.APIOptions = append(slices.Clone(cfg.APIOptions), func(stack *middleware.Stack) error {
		return stack.Initialize.Add(gate, middleware.Before)
	})
	return cfg
}

// MustRead checks the table once, for a command that writes no bodies, and opens the gate
// or fails. It does not check the bucket, which needs permission to write.
func (r *reach) MustRead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.time)
	defer cancel()
	err := r.table(ctx)
	r.open.Store(err == nil)
	return err
}

// must checks once, and opens the gate or fails.
func (r *reach) must(ctx context.Context) error {
	err := r.check(ctx)
	r.open.Store(err == nil)
	return err
}

func (r *reach) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.time)
	defer cancel()
	if err := r.table(ctx); err != nil {
		return err
	}
	return r.bucket(ctx)
}

// begin checks until the stores have passed or ctx is done. It returns after the first
// check, or after startPatience. An error means that the stores are misconfigured.
func (r *reach) begin(ctx context.Context) error {
	first := make(chan error, 1)
	go func() { first <- r.check(ctx) }()
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	select {
	case err := <-first:
		if err == nil || !unreached(err) {
			r.open.Store(err == nil)
			return err
		}
		r.log.Error("failed to reach stores: serving without them until they answer", "error", err)
		go r.settle(ctx, err)
	case <-timer.C:
		r.log.Error("stores do not answer yet: serving without them until they do", "waited", startPatience)
		go func() { r.settle(ctx, <-first) }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// settle repeats the check, which has failed with err, until the stores have passed or ctx
// is done.
func (r *reach) settle(ctx context.Context, err error) {
	mistake := ""
	for round := 0; err != nil; round++ {
		text := err.Error()
		r.failure.Store(&text)
		if !unreached(err) && text != mistake && ctx.Err() == nil {
			mistake = text
			r.log.Error("stores answer but fail the check: still serving without them", "error", err)
		}
		if backoff.Wait(ctx, backoff.Exponential(firstCheck, lastCheck, round)) != nil {
			return
		}
		err = r.check(ctx)
	}
	r.open.Store(true)
	r.log.Info("stores passed the check: using them from now on")
}

// problem returns why the gate is closed, "" if it is open. A nil reach, of embedded stores,
// is always open.
func (r *reach) problem() string {
	if r == nil || r.open.Load() {
		return ""
	}
	if text := r.failure.Load(); text != nil {
		return *text
	}
	return errGateClosed.Error()
}

// unreached reports whether an error means that a service is unavailable: no connection, a
// timeout, throttling or a 5xx status. Other errors mean that it is misconfigured.
func unreached(err error) bool {
	var send *url.Error
	var network net.Error
	if errors.As(err, &send) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= 500 {
		return true
	}
	var coded smithy.APIError
	return errors.As(err, &coded) && slices.Contains([]string{
		"ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "SlowDown", "ServiceUnavailable", "InternalServerError", "InternalError",
	}, coded.ErrorCode())
}

// Unanswered adds a hint to the error of a service that is unavailable.
func Unanswered(err error, service, flag string) error {
	if err != nil && unreached(err) {
		return fmt.Errorf("%s does not answer; check %s, --region and the network: %w", service, flag, err)
	}
	return err
}
