package dynamostore

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// Guards are checks against stale writers that the reference documents offer
// beside those that this package never goes without: the lease's token and its
// expiry, and the fence, by which a publish names what it replaces. Whoever these
// refuse gets [store.ErrMoved].
//
// They make this package's writes agree with those of services that rely on
// them; all writers of a table should use the same ones.
type Guards struct {
	// Monotonic refuses to publish a generation whose rendering began in the
	// same second as that of the current one, or before. What was rolled back can
	// still be followed by any newer one; and rollbacks are not refused. Two
	// regenerations within a second, as after a purge, are: the second one fails.
	Monotonic bool
	// Version demands that META's number `version` is what was read, and makes it
	// one more with every publish, rollback and pin. It is another service's
	// writes of that number alone which the fence does not notice.
	Version bool
}

// isNewer demands that the current generation is older than one generated at a
// time; what says no time is older.
func isNewer(generatedAt time.Time) tabletheory.Precondition {
	return tabletheory.ConditionExpression("NOT attribute_type(generated_at, :number) OR generated_at < :new_generated_at",
		map[string]any{":number": "N", ":new_generated_at": generatedAt.Unix()})
}

// countedMetaRow is META with the version of the reference, which counts writes.
type countedMetaRow struct {
	metaRow

	Count count `theorydb:"attr:version"`
}

// counted is META with the count after the one that was read. What is no number
// counts as none.
func (f fence) counted(r *metaRow) *countedMetaRow {
	n, ok := floorOf(f.meta[attrCount])
	if !ok {
		n = 0
	}
	return &countedMetaRow{metaRow: *r, Count: count(min(max(n, 0)+1, maxCount))}
}

// sameCount demands that META's count is as it was read.
func (f fence) sameCount() tabletheory.Precondition {
	var same sameness
	same.demand("version", ":old_version", f.meta[attrCount])
	return same.condition()
}

// notNewer tells people what Monotonic has found, if it is that.
func notNewer(found map[string]types.AttributeValue, generatedAt time.Time) string {
	current, ok := found[attrGeneratedAt].(*types.AttributeValueMemberN)
	if !ok {
		return ""
	}
	if n, err := ceilNumber(current.Value); err != nil || n < generatedAt.Unix() {
		return ""
	}
	return fmt.Sprintf(" (the current generation began to render at %s, this one at %d)", current.Value, generatedAt.Unix())
}
