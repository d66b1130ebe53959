package dynamostore

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// A fence is what Read keeps of the rows of a page, so that Publish replaces
// exactly that META row and no other, and BreakLease that LOCK row. It holds the
// attributes as they were found, malformed ones too: what cannot be read can
// still be recognised.
type fence struct {
	pk   string
	meta row // of META, what condition compares; nil: there was no row
	lock row // of LOCK, what sameLock compares; nil: there was no row
}

func newFence(pk string, meta, lock row) fence {
	f := fence{
		pk:   pk,
		meta: meta.pick(attrBodyKey, attrGeneratedAt, attrCurrent, attrISR, attrCount),
		lock: lock.pick(attrToken, attrExpiresAt),
	}
	// Records may be kept in memory for long: the map is reduced to its version.
	if v, ok := f.meta.child(attrISR)[attrVersion]; ok {
		f.meta[attrISR] = &types.AttributeValueMemberM{Value: row{attrVersion: v}}
	}
	return f
}

// pick copies what a row has of these attributes; nil if there is no row.
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

// sameLock is true of a LOCK row that is still the lease which the fence was made
// of. Refreshing does not make it another one, except where there is no token to
// tell it by.
func (f fence) sameLock() tabletheory.Precondition {
	var same sameness
	token := f.lock[attrToken]
	same.demand("lease_token", ":old_token", token)
	if token == nil {
		same.demand("lease_expires_at", ":old_expires_at", f.lock[attrExpiresAt])
	}
	return same.condition()
}

// condition is true of a META row that is still what the fence was made of.
//
// isr.v grows with every write of ours. The other attributes are compared
// because services that know the reference schema alone do not raise it:
// one that writes content changes s3_key or generated_at, one that swaps
// pointers changes current_sk.
func (f fence) condition() tabletheory.Precondition {
	if f.meta == nil {
		return tabletheory.IfNotExists()
	}
	var same sameness
	same.demand("s3_key", ":old_s3_key", f.meta[attrBodyKey])
	same.demand("generated_at", ":old_generated_at", f.meta[attrGeneratedAt])
	same.demand("current_sk", ":old_current_sk", f.meta[attrCurrent])
	if v, ok := f.meta.child(attrISR)[attrVersion]; ok {
		same.demand("isr.v", ":old_v", v)
	} else {
		// None, or something that is none of ours: compared as a whole.
		same.demand("isr", ":old_isr", f.meta[attrISR])
	}
	return same.condition()
}

// A sameness demands that attributes of a row are as they were read, whatever
// they were.
type sameness struct {
	terms  []string
	values map[string]any
}

// demand adds an attribute, by its path in an expression; nil: there was none.
func (s *sameness) demand(path, placeholder string, value types.AttributeValue) {
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
	// If the row were deleted, attribute_not_exists would hold of every part.
	return tabletheory.ConditionExpression("attribute_exists(pk) AND "+strings.Join(s.terms, " AND "), s.values)
}

// next is the version to publish: one more than the fence's, or, where it has
// none, a number of milliseconds that no row of this page can have had before,
// so that no value ever returns, even after the row was collected.
func (f fence) next(now time.Time) int64 {
	if v, ok := f.meta.version(); ok {
		return v + 1
	}
	return max(now.UnixMilli(), 1)
}

// version reads the version of a META row: ok is false where the row has none.
func (r row) version() (v int64, ok bool) {
	n, isNumber := r.child(attrISR)[attrVersion].(*types.AttributeValueMemberN)
	if !isNumber {
		return 0, false
	}
	v, err := floorNumber(n.Value)
	return v, err == nil && v >= 0 && v < maxCount
}
