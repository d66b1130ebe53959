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

// Spaces of the request tokens: by token, and by time of expiry followed by
// the token, so that those to forget come first.
const (
	tokenSpace  = "tokens"
	expirySpace = "tokens by expiry"
)

const (
	tokenLife  = 10 * time.Minute
	maxToken   = 36 // characters
	forgetEach = 4  // expired tokens that each new one takes along
)

// token is the client request token of a transaction; nil if it has none.
type token struct {
	id     string
	digest []byte // of the parameters
	now    time.Time
}

// completed is what is remembered of a transaction.
type completed struct {
	Digest  []byte
	Expires int64 // epoch milliseconds
	Cost    price
}

func checkToken(id *string) error {
	if id == nil {
		return nil
	}
	return checkLength("ClientRequestToken", len(*id), maxToken)
}

// token takes a token that checkToken has passed.
func (db *DB) token(id *string, operations []*operation) *token {
	if id == nil {
		return nil
	}
	sum := sha256.New()
	for _, o := range operations {
		o.digest(sum)
	}
	return &token{id: *id, digest: sum.Sum(nil), now: db.now()}
}

// digest feeds what the operation says, however it was written down: maps in
// the order of their keys, numbers and sets in canonical form.
func (o *operation) digest(sum hash.Hash) {
	text := func(s *string) {
		if s == nil {
			sum.Write([]byte{0})
			return
		}
		sum.Write(binary.AppendUvarint([]byte{1}, uint64(len(*s))))
		sum.Write([]byte(*s))
	}
	// The operation has been planned, so that all of its values are valid. A
	// map of nothing and no map at all were told apart there.
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

// look reports whether this transaction was done before, and its price.
func (t *token) look(tx *transaction) (price, bool, error) {
	if t == nil {
		return price{}, false, nil
	}
	stored := tx.Get(tokenSpace, []byte(t.id))
	if stored == nil {
		return price{}, false, nil
	}
	var c completed
	if err := json.Unmarshal(stored, &c); err != nil {
		return price{}, false, fmt.Errorf("%w: request token %q: %w", ErrCorrupt, t.id, err)
	}
	if c.Expires <= t.now.UnixMilli() {
		return price{}, false, nil
	}
	if string(c.Digest) != string(t.digest) {
		return price{}, false, &types.IdempotentParameterMismatchException{Message: aws.String("Specified idempotent token was used with different request parameters within the idempotency window")}
	}
	return c.Cost, true, nil
}

// remember stores the token with the writes of its transaction, and forgets a
// few that have expired: more than it adds, so that they cannot pile up.
func (t *token) remember(tx *transaction, cost price) error {
	if t == nil {
		return nil
	}
	if err := t.forget(tx); err != nil {
		return err
	}
	c := completed{Digest: t.digest, Expires: t.now.Add(tokenLife).UnixMilli(), Cost: cost}
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

// forget removes expired tokens, and the one that is about to be written anew.
func (t *token) forget(tx *transaction) error {
	var old [][]byte
	tx.Range(expirySpace, nil, expiryKey(t.now.UnixMilli()+1, ""), false, func(key, _ []byte) bool {
		old = append(old, append([]byte(nil), key...))
		return len(old) < forgetEach
	})
	if stored := tx.Get(tokenSpace, []byte(t.id)); stored != nil {
		var c completed
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
