package dynamostore

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// A fence is what Read keeps of the rows of a page, so that Publish replaces
// exactly that META row, and BreakLease deletes exactly that LOCK row. It has the
// attributes as they are stored, including malformed ones, which can be compared
// although they cannot be decoded.
type fence struct {
	pk   string
	meta row // what condition compares of META; nil if there was no row
	lock row // what sameLock compares of LOCK; nil if there was no row
}

func newFence(pk string, meta, lock row) fence {
	f := fence{
		pk:   pk,
		meta: meta.pick(attrBodyKey, attrGeneratedAt, attrCurrent, attrISR, attrCount),
		lock: lock.pick(attrToken, attrExpiresAt),
	}
	// Records may stay in memory for long: the map is reduced to its version.
	if v, ok := f.meta.child(attrISR)[attrVersion]; ok {
		f.meta[attrISR] = &types.AttributeValueMemberM{Value: row{attrVersion: v}}
	}
	return f
}

// pick copies the named attributes, as far as the row has them; nil if there is no row.
func (r row) pick(names ...string) row {
	if r == nil {
		return nil
	}
	picked := make(row, len(names))
	for _, name := range names {
		if value, ok := r[name]; ok {
			picked[name] = value
		}
	}
	return picked
}

// sameLock requires that LOCK is still the lease that the fence was made of. A refresh
// does not change that, except for a lease without a token, which is compared by its
// expiry.
func (f fence) sameLock() tabletheory.Precondition {
	var same sameness
	token := f.lock[attrToken]
	same.require("lease_token", ":old_token", token)
	if token == nil {
		same.require("lease_expires_at", ":old_expires_at", f.lock[attrExpiresAt])
	}
	return same.condition()
}

// condition requires that META is still what the fence was made of.
//
// isr.v is incremented by every write of this package. The other attributes are
// compared because services that know only the reference schema do not increment it:
// one that writes content changes s3_key or generated_at, one that swaps pointers
// changes current_sk.
func (f fence) condition() tabletheory.Precondition {
	if f.meta == nil {
		return tabletheory.IfNotExists()
	}
	var same sameness
	same.require("s3_key", ":old_s3_key", f.meta[attrBodyKey])
	same.require("generated_at", ":old_generated_at", f.meta[attrGeneratedAt])
	same.require("current_sk", ":old_current_sk", f.meta[attrCurrent])
	if v, ok := f.meta.child(attrISR)[attrVersion]; ok {
		same.require("isr.v", ":old_v", v)
	} else {
		// Missing, or not written by this package: compared as a whole.
		same.require("isr", ":old_isr", f.meta[attrISR])
	}
	return same.condition()
}

// A sameness requires that attributes of a row are as they were read.
type sameness struct {
	terms  []string
	values map[string]any
}

// require adds an attribute by its path in an expression. A nil value: there was none.
func (s *sameness) require(path, placeholder string, value types.AttributeValue) {
	if value == nil {
		s.terms = append(s.terms, "attribute_not_exists("+path+")")
		return
	}
	if s.values == nil {
		s.values = make(map[string]any)
	}
	s.values[placeholder] = value
	s.terms = append(s.terms, path+" = "+placeholder)
}

func (s *sameness) condition() tabletheory.Precondition {
	// Without attribute_exists(pk), a deleted row would fulfil attribute_not_exists.
	return tabletheory.ConditionExpression("attribute_exists(pk) AND "+strings.Join(s.terms, " AND "), s.values)
}

// next returns the version to publish: one more than the fence's, or, if it has none,
// the epoch milliseconds of now, which no row of this page can have had before, so that
// no value is used twice even after the row was deleted.
func (f fence) next(now time.Time) int64 {
	if v, ok := f.meta.version(); ok {
		return v + 1
	}
	return max(now.UnixMilli(), 1)
}

// version returns the version of a META row; ok is false if it has none.
func (r row) version() (v int64, ok bool) {
	n, isNumber := r.child(attrISR)[attrVersion].(*types.AttributeValueMemberN)
	if !isNumber {
		return 0, false
	}
	v, err := floorNumber(n.Value)
	return v, err == nil && v >= 0 && v < maxCount
}
