package dynamostore

import (
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// Sort keys of a page's rows, and where the purge sequence and its log are.
const (
	skLock  = "LOCK"
	skMeta  = "META"
	skPurge = "PURGE"

	versionPrefix = "VER#"
	requestPrefix = "REQ#"

	pkPurgeLog    = "PURGE"
	skSequence    = "SEQ"
	logPrefix     = "LOG#"
	markKeyPrefix = "MARK#"
)

// Names of attributes that rows are looked at for before, or without, being
// decoded. The models have all of them.
const (
	attrPK = "pk"
	attrSK = "sk"

	attrBodyKey     = "s3_key"
	attrGeneratedAt = "generated_at"
	attrRevalidate  = "revalidate_seconds"
	attrTTL         = "ttl"
	attrCurrent     = "current_sk"
	attrISR         = "isr"
	attrCount       = "version" // of the reference; see Guards

	attrVersion      = "v"
	attrGenerationID = "generation_id"
	attrStatus       = "status" // of an HTTP response, in the map; of a request
	attrLength       = "content_length"

	attrSeq     = "seq"
	attrAt      = "at"
	attrID      = "id"
	attrValue   = "value"
	attrTargets = "targets"

	attrToken     = "lease_token"
	attrExpiresAt = "lease_expires_at"
	attrFailures  = "failures"

	attrRequestHash = "request_hash"
	attrResult      = "result_s3_key"
	attrAttempt     = "attempt_token"
	attrUntil       = "in_progress_until"
)

// maxPartition is DynamoDB's bound of a partition key, in bytes.
const maxPartition = 2048

// checkPartition refuses a partition key that no page can have, before any I/O.
// The error wraps store.ErrInvalidKey. What Lease and Record name has been checked.
func checkPartition(pk string) error {
	if pk == "" || len(pk) > maxPartition || !utf8.ValidString(pk) {
		return fmt.Errorf("%w: a partition key is text of 1 to %d bytes, not %.60q of %d; hash long cache keys, as store.HashedPartition does",
			store.ErrInvalidKey, maxPartition, pk, len(pk))
	}
	return nil
}

// A location is where a row is. Every model begins with one: the table is the
// store's, and is known only when the program runs.
type location struct {
	table string

	PK string `theorydb:"pk"`
	SK string `theorydb:"sk"`
}

// TableName is for package tabletheory.
func (l location) TableName() string { return l.table }

func (s *Store) at(pk, sk string) location { return location{table: s.table, PK: pk, SK: sk} }

// stringOf is the attribute of a string.
func stringOf(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// A row is one item of the table as it was found, whoever wrote it.
type row map[string]types.AttributeValue

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
