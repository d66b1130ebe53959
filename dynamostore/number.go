package dynamostore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bounds of what the table's numbers may say.
const (
	// maxMoment is the last second of the year 9999, in epoch seconds: the
	// moment that stands for "never" in pinned_until.
	maxMoment = 253402300799
	// maxInterval bounds every stored interval: ten years, in seconds.
	maxInterval = 10 * 365 * 24 * 3600
	// saturation is what numbers beyond it are read as, in both directions. It
	// leaves room to add to.
	saturation = int64(1) << 62
	// maxCount bounds sequences, versions and lengths.
	maxCount = saturation - 1
)

// floorNumber returns the integral part, towards minus infinity, of a number as
// DynamoDB writes it, saturated to ±saturation. DynamoDB's numbers have 38 digits
// and may be fractions, and other writers' clocks give fractions.
func floorNumber(digits string) (int64, error) {
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

// ceilNumber is floorNumber towards plus infinity.
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

// number is the attribute of an integer.
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// text is the attribute of a string.
func text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

// moment is the time of so many epoch seconds.
func moment(seconds int64) time.Time {
	return time.Unix(seconds, 0).UTC()
}

// floorSeconds is the second that t lies in.
func floorSeconds(t time.Time) int64 { return t.Unix() }

// ceilSeconds is the first whole second that is not before t.
func ceilSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// interval is d in whole seconds, rounded up so that a window that was asked for
// is never empty, and clamped to [0, ten years].
func interval(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return min(max(seconds, 0), maxInterval)
}
