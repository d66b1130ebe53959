package dynamostore_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
)

// TestExponentialBackoff: the mean pause doubles with each attempt, and only
// Config.Random determines the jitter.
func TestExponentialBackoff(t *testing.T) {
	t.Parallel()
	const mean = 100 * time.Millisecond // of the first; the others are 200 and 400 ms
	for name, test := range map[string]struct {
		bits uint64
		want time.Duration
	}{
		"least": {0, 350 * time.Millisecond},
		"mean":  {1 << 63, 700 * time.Millisecond},
		"most":  {math.MaxUint64, 1050*time.Millisecond - 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			// The calls fail before they reach an engine, so there is none.
			api := &faultyAPI{plan: []fault{throttled, throttled, throttled, throttled}, down: true}
			store := newStore(t, api, "pages", dynamostore.Config{RetryDelay: mean, Random: func() uint64 { return test.bits }})
			started := time.Now()
			_, err := store.Sequence(t.Context())
			if _, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); !ok || api.made() != 4 {
				t.Errorf("%s: %d attempts, the last: %v", name, api.made(), err)
			}
			if took := time.Since(started); took != test.want {
				t.Errorf("%s: paused for %v in all, want %v", name, took, test.want)
			}
		})
	}
}
