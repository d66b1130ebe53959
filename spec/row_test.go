package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// An item is a DynamoDB item in DynamoDB's JSON.
type item map[string]types.AttributeValue

func (i item) MarshalJSON() ([]byte, error) {
	if i == nil {
		return []byte("null"), nil
	}
	text, err := attributevalue.MarshalMapJSON(i)
	if err != nil {
		return nil, err
	}
	return sorted(text)
}

func (i *item) UnmarshalJSON(text []byte) (err error) {
	if string(text) == "null" {
		return nil
	}
	*i, err = attributevalue.UnmarshalMapJSON(text)
	return err
}

// An attribute is an attribute value in DynamoDB's JSON.
type attribute struct{ types.AttributeValue }

func (a attribute) MarshalJSON() ([]byte, error) {
	text, err := attributevalue.MarshalJSON(a.AttributeValue)
	if err != nil {
		return nil, err
	}
	return sorted(text)
}

func (a *attribute) UnmarshalJSON(text []byte) (err error) {
	a.AttributeValue, err = attributevalue.UnmarshalJSON(text)
	return err
}

// sorted sorts the members of all objects by name, so that -update changes only
// lines whose values change.
func sorted(text []byte) ([]byte, error) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	out := new(bytes.Buffer)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

// A cover is the JSON form of store.PurgeState.
type cover struct {
	Seq          int64 `json:"seq,omitempty"`
	HardSeq      int64 `json:"hard_seq,omitempty"`
	At           int64 `json:"at,omitempty"`
	MarkLifetime int64 `json:"mark_lifetime,omitempty"`
	Build        int64 `json:"build,omitempty"`
}

func (c *cover) cover() store.PurgeState {
	if c == nil {
		return store.PurgeState{}
	}
	return store.PurgeState{Seq: c.Seq, HardSeq: c.HardSeq, At: vocabulary.Moment(c.At), MarkLifetime: seconds(c.MarkLifetime), Build: c.Build}
}

func coverOf(c store.PurgeState) *cover {
	if c == (store.PurgeState{}) {
		return nil
	}
	return &cover{Seq: c.Seq, HardSeq: c.HardSeq, At: vocabulary.SecondOf(c.At), MarkLifetime: int64(c.MarkLifetime / time.Second), Build: c.Build}
}

// A lock is the JSON form of store.Lock.
type lock struct {
	Owner     string `json:"owner,omitempty"`
	ExpiresAt int64  `json:"lease_expires_at,omitempty"`
	Failures  int    `json:"failures,omitempty"`
}

func lockOf(l *store.Lock) *lock {
	if l == nil {
		return nil
	}
	return &lock{Owner: l.Owner, ExpiresAt: vocabulary.SecondOf(l.ExpiresAt), Failures: l.Failures}
}

// A malformed is the JSON form of *dynamostore.MalformedError.
type malformed struct {
	PK        string `json:"pk"`
	SK        string `json:"sk"`
	Attribute string `json:"attribute"`
	Expected  string `json:"expected"`
	Found     string `json:"found"`
}

// malformedOf returns the malformed row that err describes, or nil if err is nil.
// Any other error fails the test.
func malformedOf(t *testing.T, err error) *malformed {
	t.Helper()
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*dynamostore.MalformedError](err)
	if !ok {
		t.Errorf("not a malformed row: %v", err)
		return nil
	}
	return &malformed{PK: e.PK, SK: e.SK, Attribute: e.Attribute, Expected: e.Expected, Found: e.Found}
}
