package dynamostore

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Numbers of rows, and how they are read. They are written as integers; those of
// other writers may be fractions, which are rounded down, and of any size. NULL
// is 0, as no attribute is.
type (
	// count is a sequence, a version or a length: 0 to maxCount.
	count int64
	// statusCode is an HTTP status: 100 to 999.
	statusCode int64
	// instant is a time in epoch seconds, up to the year 9999.
	instant int64
	// horizon is a time in epoch seconds, clamped to what a time can be: for
	// attributes that say "at least until".
	horizon int64
	// period is a duration in seconds, clamped to [0, ten years].
	period int64
	// flag is a boolean.
	flag bool
)

// expectation is the error of a value that is not what it should be, and says
// what that is.
type expectation string

func (e expectation) Error() string { return "expected " + string(e) }

const (
	expectedInstant = expectation("a number of epoch seconds up to the year 9999")
	expectedHorizon = expectation("a number of epoch seconds")
	expectedPeriod  = expectation("a number of seconds")
	expectedFlag    = expectation("a boolean")
	expectedText    = expectation("a string that is not empty")
)

func expectedNumber(lowest, highest int64) expectation {
	return expectation(fmt.Sprintf("a number from %d to %d", lowest, highest))
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (c *count) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	n, ok := floorOf(av)
	if !ok || n < 0 || n > maxCount {
		return expectedNumber(0, maxCount)
	}
	*c = count(n)
	return nil
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (c *statusCode) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	n, ok := floorOf(av)
	if !ok || n < minStatus || n > maxStatus {
		return expectedNumber(minStatus, maxStatus)
	}
	*c = statusCode(n)
	return nil
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (f *flag) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	b, ok := av.(*types.AttributeValueMemberBOOL)
	if !ok && !isNull(av) {
		return expectedFlag
	}
	*f = flag(ok && b.Value)
	return nil
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (i *instant) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	n, ok := floorOf(av)
	if !ok || n < 0 || n > maxMoment {
		return expectedInstant
	}
	*i = instant(n)
	return nil
}

// time is the time, zero if there is none.
func (i *instant) time() time.Time {
	if i == nil {
		return time.Time{}
	}
	return moment(int64(*i))
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (h *horizon) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	n, ok := floorOf(av)
	if !ok {
		return expectedHorizon
	}
	*h = horizon(min(max(n, 0), maxMoment))
	return nil
}

// time is the time, zero if there is none.
func (h *horizon) time() time.Time {
	if h == nil {
		return time.Time{}
	}
	return moment(int64(*h))
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (p *period) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	n, ok := floorOf(av)
	if !ok {
		return expectedPeriod
	}
	*p = period(min(max(n, 0), maxInterval))
	return nil
}

func (p period) duration() time.Duration { return time.Duration(p) * time.Second }
