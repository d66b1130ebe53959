package dynamostore

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// Guards are optional checks against stale writers, from the reference documents. They
// come in addition to the checks that this package always makes: the token and the
// expiry of the lease, and the fence. A refused write is [store.ErrMoved].
//
// They are for tables that other services write to and that rely on them; all writers
// of a table should use the same ones.
type Guards struct {
	// Monotonic refuses to publish a generation whose rendering began in the
	// same second as the rendering of the current one, or before. After a rollback any newer
	// generation can be published, and rollbacks are not refused. Of two regenerations
	// within a second, as after a purge, the second one fails.
	Monotonic bool
	// Version requires that META's number `version` is what was read, and increments
	// it with every publish, rollback and pin. It detects writes of other services
	// that change only that number, which the fence does not.
	Version bool
}

// isNewer requires that the current generation is older than generatedAt, or has no
// time.
func isNewer(generatedAt time.Time) tabletheory.Precondition {
	return tabletheory.ConditionExpression("NOT attribute_type(generated_at, :number) OR generated_at < :new_generated_at",
		map[string]any{":number": "N", ":new_generated_at": generatedAt.Unix()})
}

// countedMetaRow is META with the attribute `version` of the reference, which counts
// writes.
type countedMetaRow struct {
	metaRow

	Count count `theorydb:"attr:version"`
}

// counted returns META with the count after the one that was read. A value that is not
// a number counts as 0.
func (f fence) counted(r *metaRow) *countedMetaRow {
	n, ok := floorOf(f.meta[attrCount])
	if !ok {
		n = 0
	}
	return &countedMetaRow{metaRow: *r, Count: count(min(max(n, 0)+1, maxCount))}
}

// sameCount requires that META's count is as it was read.
func (f fence) sameCount() tabletheory.Precondition {
	var same sameness
	same.require("version", ":old_version", f.meta[attrCount])
	return same.condition()
}

// notNewer describes the failed condition of Monotonic for an error message; empty if
// another condition failed.
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
