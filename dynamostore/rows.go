package dynamostore

import (
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// Sort keys of a page's rows, and the keys of the purge sequence, its log and its marks.
const (
	skLock  = "LOCK"
	skMeta  = "META"
	skPurge = "PURGE"

	versionPrefix = "VER#"
	requestPrefix = "REQ#"

	pkPurgeLog    = "PURGE"
	skSequence    = "SEQ"
	skBuild       = "BUILD"
	logPrefix     = "LOG#"
	markKeyPrefix = "MARK#"
)

// Names of attributes that are read before, or without, decoding a row. The models
// have all of them.
const (
	attrPK = "pk"
	attrSK = "sk"

	attrBodyKey     = "s3_key"
	attrGeneratedAt = "generated_at"
	attrGeneratedMS = "generated_ms" // in the map
	attrRevalidate  = "revalidate_seconds"
	attrTTL         = "ttl"
	attrCurrent     = "current_sk"
	attrISR         = "isr"
	attrCount       = "version" // of the reference; see Guards

	attrVersion      = "v"
	attrGenerationID = "generation_id"
	attrStatus       = "status" // of the HTTP response, in the map; of a request record
	attrLength       = "content_length"

	attrSeq     = "seq"
	attrAt      = "at"
	attrID      = "id"
	attrValue   = "value"
	attrTargets = "targets"
	attrApplied = "applied"
	attrSince   = "since"
	attrUntil   = "until"

	attrCreated = "created_at"

	attrToken     = "lease_token"
	attrExpiresAt = "lease_expires_at"
	attrFailures  = "failures"

	attrRequestHash = "request_hash"
	attrResult      = "result_s3_key"
	attrAttempt     = "attempt_token"
	attrInProgress  = "in_progress_until"
)

// maxPartition is DynamoDB's limit of a partition key, in bytes.
const maxPartition = 2048

// checkPartition refuses an invalid partition key before any I/O. The error wraps
// store.ErrInvalidKey. The keys in a Lease or a Record have been checked.
func checkPartition(pk string) error {
	if pk == "" || len(pk) > maxPartition || !utf8.ValidString(pk) {
		return fmt.Errorf("%w: a partition key must be UTF-8 of 1 to %d bytes (got %d bytes, %.60q); hash long cache keys, as store.HashedPartition does",
			store.ErrInvalidKey, maxPartition, len(pk), pk)
	}
	return nil
}

// A location is the table and the primary key of a row. Every model begins with one,
// because the name of the table is known only at run time.
type location struct {
	table string

	PK string `theorydb:"pk"`
	SK string `theorydb:"sk"`
}

// TableName returns the table, for package tabletheory.
func (l location) TableName() string { return l.table }

func (s *Store) at(pk, sk string) location { return location{table: s.table, PK: pk, SK: sk} }

// stringOf returns the attribute of a string.
func stringOf(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// A row is one item of the table as stored, of any writer.
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
