package dynamostore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bounds of the numbers in the table.
const (
	// maxMoment is the last second of the year 9999, in epoch seconds. In
	// pinned_until it means "never ends".
	maxMoment = 253402300799
	// maxInterval bounds every stored interval: ten years, in seconds.
	maxInterval = 10 * 365 * 24 * 3600
	// saturation and -saturation are the bounds to which numbers are clamped. They
	// leave room for additions.
	saturation = int64(1) << 62
	// maxCount bounds sequences, versions and lengths.
	maxCount = saturation - 1
	// minStatus and maxStatus bound the status of a page.
	minStatus, maxStatus = 100, 999
)

// floorNumber parses a DynamoDB number and rounds it down, clamped to ±saturation.
// DynamoDB's numbers have 38 digits and may be fractions, such as times of other
// writers.
func floorNumber(digits string) (int64, error) {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return min(max(n, -saturation), saturation), nil // the usual case
	}
	f, err := strconv.ParseFloat(digits, 64)
	if math.IsNaN(f) || (err != nil && !math.IsInf(f, 0)) {
		return 0, fmt.Errorf("%q is not a number", digits)
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.ContainsAny(fraction, "eE") {
		// An exponent, or more than 19 digits: exact to 53 bits is enough.
		return saturate(math.Floor(f)), nil
	}
	n = min(max(n, -saturation), saturation)
	if strings.HasPrefix(whole, "-") && strings.Trim(fraction, "0") != "" {
		n--
	}
	return n, nil
}

// ceilNumber is floorNumber, but rounds up.
func ceilNumber(digits string) (int64, error) {
	if positive, ok := strings.CutPrefix(digits, "-"); ok {
		n, err := floorNumber(positive)
		return -n, err
	}
	n, err := floorNumber("-" + digits)
	return -n, err
}

func saturate(f float64) int64 {
	if f >= float64(saturation) {
		return saturation
	}
	if f <= -float64(saturation) {
		return -saturation
	}
	return int64(f)
}

// floorOf is floorNumber of an attribute; NULL is 0. ok is false if it is not a number.
func floorOf(av types.AttributeValue) (n int64, ok bool) {
	if number, is := av.(*types.AttributeValueMemberN); is {
		n, err := floorNumber(number.Value)
		return n, err == nil
	}
	return 0, isNull(av)
}

// ceilOf is ceilNumber of an attribute. ok is false if it is not a number.
func ceilOf(av types.AttributeValue) (n int64, ok bool) {
	number, ok := av.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	n, err := ceilNumber(number.Value)
	return n, err == nil
}

// isNull reports whether an attribute is NULL, which mappers of other languages write
// for a field without a value. It means the same as a missing attribute.
func isNull(av types.AttributeValue) bool {
	_, null := av.(*types.AttributeValueMemberNULL)
	return null
}

// moment returns the time of a number of epoch seconds.
func moment(seconds int64) time.Time {
	return time.Unix(seconds, 0).UTC()
}

// floorSeconds returns t in epoch seconds, rounded down.
func floorSeconds(t time.Time) int64 { return t.Unix() }

// ceilSeconds returns t in epoch seconds, rounded up.
func ceilSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// interval returns d in whole seconds, rounded up so that a positive window is never
// empty, and clamped to [0, ten years].
func interval(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return min(max(seconds, 0), maxInterval)
}
