package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
)

// An item is one of DynamoDB's, in its JSON.
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

// An attribute is a value of DynamoDB, in its JSON.
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

// sorted has the members of all objects sorted by name, for files that do not
// change without a reason.
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

// An entry is an isr.Entry in the names of the rows.
type entry struct {
	BodyKey      string                   `json:"s3_key,omitempty"`
	GeneratedAt  int64                    `json:"generated_at,omitempty"`
	Revalidate   int64                    `json:"revalidate_seconds,omitempty"`
	ETag         string                   `json:"etag,omitempty"`
	TTL          int64                    `json:"ttl,omitempty"`
	Foreign      bool                     `json:"foreign,omitempty"`
	Version      int64                    `json:"v,omitempty"`
	GenerationID string                   `json:"generation_id,omitempty"`
	Key          string                   `json:"key,omitempty"`
	Route        string                   `json:"route,omitempty"`
	Status       int                      `json:"status,omitempty"`
	Header       map[string][]headerValue `json:"headers,omitempty"`
	SHA256       string                   `json:"content_sha256,omitempty"`
	Length       int64                    `json:"content_length,omitempty"`
	Tags         []string                 `json:"tags,omitempty"`
	Stale        int64                    `json:"stale_seconds,omitempty"`
	PurgeSeq     int64                    `json:"purge_seq,omitempty"`
	PinnedUntil  int64                    `json:"pinned_until,omitempty"`
	AssertedAt   int64                    `json:"asserted_at,omitempty"`
	RenderTime   int64                    `json:"render_ms,omitempty"`
}

// A headerValue is text, or bytes that are none.
type headerValue string

type binary struct {
	Base64 []byte `json:"base64"`
}

func (v headerValue) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(v)) {
		return json.Marshal(string(v))
	}
	return json.Marshal(binary{[]byte(v)})
}

func (v *headerValue) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, (*string)(v))
	}
	var b binary
	err := json.Unmarshal(text, &b)
	*v = headerValue(b.Base64)
	return err
}

func (e entry) entry() isr.Entry {
	next := isr.Entry{
		BodyKey: e.BodyKey, GeneratedAt: second(e.GeneratedAt), Revalidate: seconds(e.Revalidate), ETag: e.ETag,
		Expires: second(e.TTL), Foreign: e.Foreign, Version: e.Version, GenerationID: e.GenerationID,
		Key: e.Key, Route: e.Route, Status: e.Status, SHA256: e.SHA256, Length: e.Length, Tags: e.Tags,
		Stale: seconds(e.Stale), PurgeSeq: e.PurgeSeq, PinnedUntil: second(e.PinnedUntil),
		AssertedAt: second(e.AssertedAt), RenderTime: milliseconds(e.RenderTime),
	}
	for name, values := range e.Header {
		if next.Header == nil {
			next.Header = make(http.Header)
		}
		for _, v := range values {
			next.Header[http.CanonicalHeaderKey(name)] = append(next.Header[http.CanonicalHeaderKey(name)], string(v))
		}
	}
	return next
}

func entryOf(e *isr.Entry) *entry {
	if e == nil {
		return nil
	}
	found := &entry{
		BodyKey: e.BodyKey, GeneratedAt: secondsOf(e.GeneratedAt), Revalidate: int64(e.Revalidate / time.Second), ETag: e.ETag,
		TTL: secondsOf(e.Expires), Foreign: e.Foreign, Version: e.Version, GenerationID: e.GenerationID,
		Key: e.Key, Route: e.Route, Status: e.Status, SHA256: e.SHA256, Length: e.Length, Tags: e.Tags,
		Stale: int64(e.Stale / time.Second), PurgeSeq: e.PurgeSeq, PinnedUntil: secondsOf(e.PinnedUntil),
		AssertedAt: secondsOf(e.AssertedAt), RenderTime: e.RenderTime.Milliseconds(),
	}
	for name, values := range e.Header {
		if found.Header == nil {
			found.Header = make(map[string][]headerValue)
		}
		list := make([]headerValue, len(values))
		for i, v := range values {
			list[i] = headerValue(v)
		}
		found.Header[strings.ToLower(name)] = list
	}
	return found
}

// A cover is an isr.Cover.
type cover struct {
	Seq          int64 `json:"seq,omitempty"`
	HardSeq      int64 `json:"hard_seq,omitempty"`
	At           int64 `json:"at,omitempty"`
	MarkLifetime int64 `json:"mark_lifetime,omitempty"`
}

func (c *cover) cover() isr.Cover {
	if c == nil {
		return isr.Cover{}
	}
	return isr.Cover{Seq: c.Seq, HardSeq: c.HardSeq, At: second(c.At), MarkLifetime: seconds(c.MarkLifetime)}
}

func coverOf(c isr.Cover) *cover {
	if c == (isr.Cover{}) {
		return nil
	}
	return &cover{Seq: c.Seq, HardSeq: c.HardSeq, At: secondsOf(c.At), MarkLifetime: int64(c.MarkLifetime / time.Second)}
}

// A lock is an isr.Lock.
type lock struct {
	Owner     string `json:"owner,omitempty"`
	ExpiresAt int64  `json:"lease_expires_at,omitempty"`
	Failures  int    `json:"failures,omitempty"`
}

func lockOf(l *isr.Lock) *lock {
	if l == nil {
		return nil
	}
	return &lock{Owner: l.Owner, ExpiresAt: secondsOf(l.ExpiresAt), Failures: l.Failures}
}

// A malformed row is a *dynamostore.MalformedError.
type malformed struct {
	PK        string `json:"pk"`
	SK        string `json:"sk"`
	Attribute string `json:"attribute"`
	Expected  string `json:"expected"`
	Found     string `json:"found"`
}

// malformedOf is what err says of a row; nil if there is none. Any other error is
// one of the test.
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
