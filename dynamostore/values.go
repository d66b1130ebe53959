package dynamostore

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// A number is a number attribute, written as an integer. K decides how it is read.
// Other writers may store fractions, and numbers of any size. NULL is 0, like a missing
// attribute.
type number[K numberKind] int64

// A numberKind has the rule by which a number is read.
type numberKind interface{ rule() numberRule }

// A numberRule is how a number is read.
type numberRule struct {
	lowest, highest int64
	clamp           bool // a number out of bounds is the nearest bound; otherwise it is malformed
	lax             bool // a value that is not a number is 0; otherwise it is malformed
	ceil            bool // fractions are rounded up; otherwise down
	expected        expectation
}

type (
	// count is a sequence, a version or a length: 0 to maxCount.
	count = number[countKind]
	// statusCode is an HTTP status: 100 to 999.
	statusCode = number[statusKind]
	// instant is a time in epoch seconds, up to the year 9999.
	instant = number[instantKind]
	// horizon is a time in epoch seconds, clamped to what a time can be: for
	// attributes that mean "at least until".
	horizon = number[horizonKind]
	// period is a duration in seconds, clamped to [0, ten years].
	period = number[periodKind]
	// laxNumber is an integer, rounded down, and 0 if there is no number.
	laxNumber = number[laxKind]
	// leaseEnd is a time in epoch seconds, and 0, which is long ago, if there is no
	// number. It is rounded up, because `lease_expires_at <= :now` compares with a :now
	// in whole seconds.
	leaseEnd = number[leaseEndKind]

	countKind    struct{}
	statusKind   struct{}
	instantKind  struct{}
	horizonKind  struct{}
	periodKind   struct{}
	laxKind      struct{}
	leaseEndKind struct{}
)

func (countKind) rule() numberRule {
	return numberRule{highest: maxCount, expected: expectedCount}
}

func (statusKind) rule() numberRule {
	return numberRule{lowest: minStatus, highest: maxStatus, expected: expectedStatusCode}
}

func (instantKind) rule() numberRule {
	return numberRule{highest: maxMoment, expected: expectedInstant}
}

func (horizonKind) rule() numberRule {
	return numberRule{highest: maxMoment, clamp: true, expected: expectedHorizon}
}

func (periodKind) rule() numberRule {
	return numberRule{highest: maxInterval, clamp: true, expected: expectedPeriod}
}

func (laxKind) rule() numberRule {
	return numberRule{lowest: -saturation, highest: saturation, lax: true}
}

func (leaseEndKind) rule() numberRule {
	return numberRule{highest: maxMoment, clamp: true, lax: true, ceil: true}
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (n *number[K]) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	var kind K
	r := kind.rule()
	read := floorOf
	if r.ceil {
		read = ceilOf
	}
	v, ok := read(av)
	switch {
	case !ok && r.lax:
		return nil
	case !ok, !r.clamp && (v < r.lowest || v > r.highest):
		return r.expected
	}
	*n = number[K](min(max(v, r.lowest), r.highest))
	return nil
}

// time returns a number of epoch seconds as a time; the zero time for nil.
func (n *number[K]) time() time.Time {
	if n == nil {
		return time.Time{}
	}
	return moment(int64(*n))
}

// duration returns a number of seconds as a duration.
func (n number[K]) duration() time.Duration { return time.Duration(n) * time.Second }

// laxText is a string, empty if the attribute is not a string.
type laxText string

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (t *laxText) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	if s, ok := av.(*types.AttributeValueMemberS); ok {
		*t = laxText(s.Value)
	}
	return nil
}

// address returns the text as the address of a peer; invalid if it is none, or one that must not
// be used.
func (t laxText) address() netip.AddrPort {
	at, err := store.ParsePeerAddress(string(t))
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}

// flag is a boolean.
type flag bool

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (f *flag) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	b, ok := av.(*types.AttributeValueMemberBOOL)
	if !ok && !isNull(av) {
		return expectedFlag
	}
	*f = flag(ok && b.Value)
	return nil
}

// An expectation is the error of a malformed value: it describes a valid one.
type expectation string

func (e expectation) Error() string { return "expected " + string(e) }

const (
	expectedInstant = expectation("a number of epoch seconds up to the year 9999")
	expectedHorizon = expectation("a number of epoch seconds")
	expectedPeriod  = expectation("a number of seconds")
	expectedFlag    = expectation("a boolean")
	expectedText    = expectation("a string that is not empty")
)

var (
	expectedCount      = expectedNumber(0, maxCount)
	expectedStatusCode = expectedNumber(minStatus, maxStatus)
)

func expectedNumber(lowest, highest int64) expectation {
	return expectation(fmt.Sprintf("a number from %d to %d", lowest, highest))
}
