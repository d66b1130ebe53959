package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/facetheory/isr/localdynamo/wire"
)

// faults are the shares of requests that isr dynamodb answers with errors, by kind.
type faults map[string]float64

// Kinds of faults.
const (
	faultThrottle    = "throttle"
	faultConflict    = "conflict"
	faultUnprocessed = "unprocessed"
)

// UnmarshalText adds the faults of a flag, like "throttle=0.05" or "throttle=5%,conflict=1%".
func (f *faults) UnmarshalText(text []byte) error {
	if *f == nil {
		*f = faults{}
	}
	for one := range strings.SplitSeq(string(text), ",") {
		kind, share, ok := strings.Cut(one, "=")
		switch {
		case kind != faultThrottle && kind != faultConflict && kind != faultUnprocessed:
			return fmt.Errorf("%q is no fault; expected throttle=SHARE, conflict=SHARE or unprocessed=SHARE", one)
		case !ok:
			return fmt.Errorf("%q lacks its share of the requests; expected one like %s=0.05 or %[1]s=5%%", one, kind)
		}
		value, err := parseShare(share)
		if err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
		if _, twice := (*f)[kind]; twice {
			return fmt.Errorf("%s is given twice", kind)
		}
		(*f)[kind] = value
	}
	return nil
}

// parseShare parses a share of the requests, like "0.05" or "5%".
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0 && share <= 1) {
		return 0, fmt.Errorf("%q is no share of the requests; expected more than 0 and at most 1, or a percentage, like 0.05 or 5%%", text)
	}
	return share, nil
}

// String returns the faults as they are given.
func (f faults) String() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(f)) {
		all = append(all, kind+"="+strconv.FormatFloat(f[kind], 'g', -1, 64))
	}
	return strings.Join(all, ",")
}

// interceptor returns nil if there are no faults.
func (f faults) interceptor() wire.Interceptor {
	if len(f) == 0 {
		return nil
	}
	return wire.Faults{Throttle: f[faultThrottle], Conflict: f[faultConflict], Unprocessed: f[faultUnprocessed]}.Interceptor(rand.Float64)
}
