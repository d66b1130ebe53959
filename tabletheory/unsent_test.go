package tabletheory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/facetheory/isr/tabletheory"
)

// writesOfAccounts are all kinds of writes.
var writesOfAccounts = map[string]func(context.Context, *tabletheory.DB) error{
	"Create": func(ctx context.Context, db *tabletheory.DB) error {
		return db.WithContext(ctx).Model(&Account{ID: "a"}).Create()
	},
	"CreateOrUpdate": func(ctx context.Context, db *tabletheory.DB) error {
		return db.WithContext(ctx).Model(&Account{ID: "a"}).CreateOrUpdate()
	},
	"Update": func(ctx context.Context, db *tabletheory.DB) error {
		return db.WithContext(ctx).Model(&Account{ID: "a"}).Update("Balance")
	},
	"Add": func(ctx context.Context, db *tabletheory.DB) error { // a transaction of one action
		return db.WithContext(ctx).Model(&Account{ID: "a"}).UpdateBuilder().Add("Balance", 1).Execute()
	},
	"Add with result": func(ctx context.Context, db *tabletheory.DB) error {
		var got Account
		return db.WithContext(ctx).Model(&Account{ID: "a"}).UpdateBuilder().Add("Balance", 1).ExecuteWithResult(&got)
	},
	"Delete": func(ctx context.Context, db *tabletheory.DB) error {
		return db.WithContext(ctx).Model(&Account{ID: "a"}).Delete()
	},
	"BatchCreate": func(ctx context.Context, db *tabletheory.DB) error {
		return db.WithContext(ctx).Model(Account{}).BatchCreate([]Account{{ID: "a"}, {ID: "b"}})
	},
	"BatchDelete": func(ctx context.Context, db *tabletheory.DB) error {
		return db.WithContext(ctx).Model(Account{}).BatchDelete([]any{"a", "b"})
	},
	"TransactWrite": func(ctx context.Context, db *tabletheory.DB) error {
		return db.TransactWrite(ctx, func(tx *tabletheory.TransactionBuilder) error {
			tx.Put(&Account{ID: "a"})
			return nil
		})
	},
}

// TestUnsentWrites: a write whose context is done before it is sent is refused: nothing is
// left to find out.
func TestUnsentWrites(t *testing.T) {
	t.Parallel()
	s := newLossyServer(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	overdue, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for name, write := range writesOfAccounts {
		for _, ctx := range []context.Context{cancelled, overdue} {
			for engine, api := range map[string]tabletheory.API{"over HTTP": s.api, "in process": s.engine} {
				err := write(ctx, tabletheory.New(api))
				if got := tabletheory.OutcomeOf(err); got != tabletheory.Refused || !errors.Is(err, ctx.Err()) {
					t.Errorf("%s %s: %v is %v, want Refused and %v", name, engine, err, got, ctx.Err())
				}
			}
		}
	}
	if len(s.operations) > 0 {
		t.Errorf("sent %q", s.operations)
	}
}

// TestCancelledWhileItIsMade: a context that ends within the SDK, before the first attempt,
// is the same; one that ends while the server works leaves the outcome open, also if the SDK
// makes no further attempt.
func TestCancelledWhileItIsMade(t *testing.T) {
	t.Parallel()
	for name, write := range writesOfAccounts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLossyServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			early := dynamodb.New(s.api.Options(), func(o *dynamodb.Options) {
				o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
					return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("cancel", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
						cancel()
						return next.HandleInitialize(ctx, in)
					}), middleware.After)
				})
			})
			err := write(ctx, tabletheory.New(early))
			want := tabletheory.Refused
			if name == "BatchCreate" || name == "BatchDelete" {
				want = tabletheory.Unknown // it is not observed within the SDK
			}
			if got := tabletheory.OutcomeOf(err); got != want || !errors.Is(err, context.Canceled) || len(s.operations) > 0 {
				t.Errorf("before the first attempt: %v is %v, want %v; sent %q", err, got, want, s.operations)
			}

			for how, reply := range map[string]attempt{"applied": replyLost, "lost": requestLost} {
				ctx, cancel := context.WithCancel(t.Context())
				s.script = []attempt{func(apply func()) error { defer cancel(); return reply(apply) }}
				err := write(ctx, s.db)
				if got := tabletheory.OutcomeOf(err); got != tabletheory.Unknown {
					t.Errorf("during an attempt, %s: %v is %v, want Unknown", how, err, got)
				}
				cancel()
			}
		})
	}
}
