package main

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

// A reach says whether the stores of a server may be asked: not before a check has
// found them to be the right ones. Until then each call fails at once, which the
// cache takes for an outage:
//
//	check ──► passed: the gate opens
//	      ──► the stores cannot be reached: serve without them, and check again
//	      ──► a mistake (no such table, access denied): refuse to start
type reach struct {
	table, bucket func(context.Context) error // check them
	time          time.Duration               // bounds one check of both
	log           *slog.Logger

	open atomic.Bool
	// failure is why the last check failed, "" before the first. It is for people.
	failure atomic.Pointer[string]
}

const (
	// startPatience is how long a start waits for stores that do not answer.
	startPatience = 5 * time.Second
	// Checks are a second apart, with exponential backoff.
	firstCheck = time.Second
	lastCheck  = 10 * time.Second
)

var errGateClosed = errors.New("the store was not checked yet")

// gated returns a configuration whose clients fail at once until the gate is open,
// before the SDK retries anything.
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

// mustRead checks the table once, for a command that writes no body, and opens the
// gate or fails. The check of the bucket writes to it, which a role that may only read
// is not allowed to.
func (r *reach) mustRead(ctx context.Context) error {
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

// begin checks until the stores have passed or ctx ends. It returns with the first
// answer, or after startPatience without one. The error is a mistake.
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
		r.log.Error("the stores cannot be reached: serving without them until they answer", "error", err)
		go r.settle(ctx, err)
	case <-timer.C:
		r.log.Error("the stores have not answered yet: serving without them until they do", "waited", startPatience)
		go func() { r.settle(ctx, <-first) }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// settle checks again, after a check that failed with err, until the stores have
// passed or ctx ends.
func (r *reach) settle(ctx context.Context, err error) {
	mistake := ""
	for round := 0; err != nil; round++ {
		text := err.Error()
		r.failure.Store(&text)
		if !unreached(err) && text != mistake && ctx.Err() == nil {
			mistake = text
			r.log.Error("the stores answer, and cannot be used: serving goes on without them", "error", err)
		}
		if backoff.Wait(ctx, backoff.Exponential(firstCheck, lastCheck, round)) != nil {
			return
		}
		err = r.check(ctx)
	}
	r.open.Store(true)
	r.log.Info("the stores answer, and are used from now on")
}

// problem is why the stores are not asked, "" if they are. A nil reach is of stores
// that are always there.
func (r *reach) problem() string {
	if r == nil || r.open.Load() {
		return ""
	}
	if text := r.failure.Load(); text != nil {
		return *text
	}
	return errGateClosed.Error()
}

// unreached says that an error of a service is no answer: it cannot be connected to,
// is late, or has trouble of its own. Any other error is a mistake of ours.
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

// unanswered adds to the error of a service that could not be reached what to
// do about it.
func unanswered(err error, service, flag string) error {
	if err != nil && unreached(err) {
		return fmt.Errorf("%s does not answer; correct %s or --region, or see to the network: %w", service, flag, err)
	}
	return err
}
