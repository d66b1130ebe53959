package localdynamo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Spaces of the request tokens: by token, and by expiry time followed by the
// token, so that pruning finds the oldest first.
const (
	tokenSpace  = "tokens"
	expirySpace = "tokens by expiry"
)

const (
	tokenLife      = 10 * time.Minute
	maxToken       = 36 // characters
	prunedPerWrite = 4  // expired tokens that each new one removes
)

// requestToken is the ClientRequestToken of a transaction, its idempotency key.
// A nil requestToken is valid and means that there is none.
type requestToken struct {
	id     string
	digest []byte // of the parameters
	now    time.Time
}

// tokenRecord is the stored record of a committed transaction.
type tokenRecord struct {
	Digest  []byte // of the parameters
	Expires int64  // epoch milliseconds
	Cost    transactionCost
}

func checkToken(id *string) error {
	if id == nil {
		return nil
	}
	return checkLength("ClientRequestToken", len(*id), maxToken)
}

// newToken returns the token of a transaction, or nil. checkToken has passed.
func (db *DB) newToken(id *string, operations []*operation) *requestToken {
	if id == nil {
		return nil
	}
	sum := sha256.New()
	for _, o := range operations {
		o.writeDigest(sum)
	}
	return &requestToken{id: *id, digest: sum.Sum(nil), now: db.now()}
}

// writeDigest writes the operation to sum in a canonical form: maps sorted by key,
// numbers and sets normalized.
func (o *operation) writeDigest(sum hash.Hash) {
	text := func(s *string) {
		if s == nil {
			sum.Write([]byte{0})
			return
		}
		sum.Write(binary.AppendUvarint([]byte{1}, uint64(len(*s))))
		sum.Write([]byte(*s))
	}
	// The operation has been planned, so its values are valid, and an empty map
	// has already been told from a missing one.
	fields := func(m map[string]types.AttributeValue) {
		clean, _ := value.NormalizeItem(m)
		encoded := value.Encode(nil, clean)
		sum.Write(binary.AppendUvarint(nil, uint64(len(encoded))))
		sum.Write(encoded)
	}
	sum.Write([]byte{byte(o.verb)})
	text(o.table)
	fields(o.item)
	fields(o.key)
	text(o.update)
	text(o.condition)
	names := make(map[string]types.AttributeValue, len(o.names))
	for key, name := range o.names {
		names[key] = &types.AttributeValueMemberS{Value: name}
	}
	fields(names)
	fields(o.values)
	text(aws.String(string(o.onFailure)))
}

// lookUp reports whether this transaction was committed before, and its cost.
func (t *requestToken) lookUp(tx *transaction) (transactionCost, bool, error) {
	if t == nil {
		return transactionCost{}, false, nil
	}
	stored := tx.Get(tokenSpace, []byte(t.id))
	if stored == nil {
		return transactionCost{}, false, nil
	}
	var c tokenRecord
	if err := json.Unmarshal(stored, &c); err != nil {
		return transactionCost{}, false, fmt.Errorf("%w: request token %q: %w", ErrCorrupt, t.id, err)
	}
	if c.Expires <= t.now.UnixMilli() {
		return transactionCost{}, false, nil
	}
	if string(c.Digest) != string(t.digest) {
		return transactionCost{}, false, &types.IdempotentParameterMismatchException{Message: aws.String("Specified idempotent token was used with different request parameters within the idempotency window")}
	}
	return c.Cost, true, nil
}

// record stores the token with the writes of its transaction. It also prunes
// more expired tokens than it adds, so that they cannot accumulate.
func (t *requestToken) record(tx *transaction, cost transactionCost) error {
	if t == nil {
		return nil
	}
	if err := t.prune(tx); err != nil {
		return err
	}
	c := tokenRecord{Digest: t.digest, Expires: t.now.Add(tokenLife).UnixMilli(), Cost: cost}
	stored, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := tx.Put(tokenSpace, []byte(t.id), stored); err != nil {
		return err
	}
	return tx.Put(expirySpace, expiryKey(c.Expires, t.id), []byte{})
}

func expiryKey(expires int64, id string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(expires)), id...)
}

// prune removes a few expired tokens, and the expired record of t itself, which
// is about to be replaced.
func (t *requestToken) prune(tx *transaction) error {
	var old [][]byte
	tx.Range(expirySpace, nil, expiryKey(t.now.UnixMilli()+1, ""), false, func(key, _ []byte) bool {
		old = append(old, append([]byte(nil), key...))
		return len(old) < prunedPerWrite
	})
	if stored := tx.Get(tokenSpace, []byte(t.id)); stored != nil {
		var c tokenRecord
		if err := json.Unmarshal(stored, &c); err == nil {
			old = append(old, expiryKey(c.Expires, t.id))
		}
	}
	for _, key := range old {
		if err := tx.Delete(expirySpace, key); err != nil {
			return err
		}
		if err := tx.Delete(tokenSpace, key[8:]); err != nil {
			return err
		}
	}
	return nil
}
