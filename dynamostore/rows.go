package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Sort keys of a page's rows, and where the purge sequence is.
const (
	skLock  = "LOCK"
	skMeta  = "META"
	skPurge = "PURGE"

	versionPrefix = "VER#"

	pkPurgeLog = "PURGE"
	skSequence = "SEQ"
)

// Attribute names. Those of the reference schema are shared with writers in
// other languages; those of ours stand in the map `isr`, in PURGE and in SEQ.
const (
	attrPK = "pk"
	attrSK = "sk"

	attrBodyKey     = "s3_key"
	attrGeneratedAt = "generated_at"
	attrRevalidate  = "revalidate_seconds"
	attrETag        = "etag"
	attrTTL         = "ttl"
	attrCurrent     = "current_sk"
	attrISR         = "isr"

	attrVersion      = "v"
	attrGenerationID = "generation_id"
	attrKey          = "key"
	attrRoute        = "route"
	attrStatus       = "status"
	attrHeaders      = "headers"
	attrSHA256       = "content_sha256"
	attrLength       = "content_length"
	attrTags         = "tags"
	attrStale        = "stale_seconds"
	attrPurgeSeq     = "purge_seq"
	attrPinnedUntil  = "pinned_until"
	attrAssertedAt   = "asserted_at"

	attrToken     = "lease_token"
	attrExpiresAt = "lease_expires_at"
	attrOwner     = "lease_owner"
	attrFailures  = "failures"

	attrSeq          = "seq"
	attrHardSeq      = "hard_seq"
	attrAt           = "at"
	attrMarkLifetime = "mark_lifetime"
)

// lockLinger is how many seconds a LOCK row outlives its lease before DynamoDB
// may collect it: longer than clocks differ.
const lockLinger = 3600

// A row is one item of the table.
type row map[string]types.AttributeValue

// key is the primary key of a row.
func key(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrPK: text(pk), attrSK: text(sk)}
}

// text returns the string attribute of that name, or the empty string.
func (r row) text(name string) string {
	if s, ok := r[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// child returns the map attribute of that name, or nil.
func (r row) child(name string) row {
	if m, ok := r[name].(*types.AttributeValueMemberM); ok {
		return m.Value
	}
	return nil
}
