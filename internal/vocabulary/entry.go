package vocabulary

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/store"
)

// An Entry is a store.Entry with the attribute names of the rows. Times are epoch
// seconds; durations are whole seconds, except RenderTime, which is in milliseconds.
// GeneratedMS is GeneratedAt in epoch milliseconds, 0 if they are whole seconds.
type Entry struct {
	BodyKey      string                   `json:"s3_key,omitempty"`
	GeneratedAt  int64                    `json:"generated_at,omitempty"`
	GeneratedMS  int64                    `json:"generated_ms,omitempty"`
	Revalidate   int64                    `json:"revalidate_seconds,omitempty"`
	ETag         string                   `json:"etag,omitempty"`
	TTL          int64                    `json:"ttl,omitempty"` // store.Entry.Expires
	Foreign      bool                     `json:"foreign,omitempty"`
	Version      int64                    `json:"v,omitempty"`
	GenerationID string                   `json:"generation_id,omitempty"`
	Key          string                   `json:"key,omitempty"`
	Route        string                   `json:"route,omitempty"`
	Status       int                      `json:"status,omitempty"`
	Header       map[string][]HeaderValue `json:"headers,omitempty"` // by lower-case names
	SHA256       string                   `json:"content_sha256,omitempty"`
	Length       int64                    `json:"content_length,omitempty"`
	Tags         []string                 `json:"tags,omitempty"`
	Stale        int64                    `json:"stale_seconds,omitempty"`
	PurgeSeq     int64                    `json:"purge_seq,omitempty"`
	Build        int64                    `json:"build,omitempty"`
	PinnedUntil  int64                    `json:"pinned_until,omitempty"`
	AssertedAt   int64                    `json:"asserted_at,omitempty"`
	RenderTime   int64                    `json:"render_ms,omitempty"`
	InitialAge   int64                    `json:"age_seconds,omitempty"`
	Withdrawn    bool                     `json:"withdrawn,omitempty"`
	Peer         netip.AddrPort           `json:"peer,omitzero"`
}

// EntryOf converts e; it returns nil if e is nil.
func EntryOf(e *store.Entry) *Entry {
	if e == nil {
		return nil
	}
	var ms int64
	if e.GeneratedAt.Nanosecond() != 0 {
		ms = e.GeneratedAt.UnixMilli()
	}
	return &Entry{
		BodyKey: e.BodyKey, GeneratedAt: SecondOf(e.GeneratedAt), GeneratedMS: ms, Revalidate: int64(e.Revalidate / time.Second), ETag: e.ETag,
		TTL: SecondOf(e.Expires), Foreign: e.Foreign, Version: e.Version, GenerationID: e.GenerationID,
		Key: e.Key, Route: e.Route, Status: e.Status, Header: headerOf(e.Header), SHA256: e.SHA256, Length: e.Length, Tags: e.Tags,
		Stale: int64(e.Stale / time.Second), PurgeSeq: e.PurgeSeq, Build: e.Build, PinnedUntil: SecondOf(e.PinnedUntil),
		AssertedAt: SecondOf(e.AssertedAt), RenderTime: e.RenderTime.Milliseconds(), InitialAge: int64(e.InitialAge / time.Second), Withdrawn: e.Withdrawn, Peer: e.Peer,
	}
}

// ISR converts e to a store.Entry.
func (e Entry) ISR() store.Entry {
	generatedAt := Moment(e.GeneratedAt)
	if e.GeneratedMS != 0 {
		generatedAt = time.UnixMilli(e.GeneratedMS).UTC()
	}
	return store.Entry{
		BodyKey: e.BodyKey, GeneratedAt: generatedAt, Revalidate: time.Duration(e.Revalidate) * time.Second, ETag: e.ETag,
		Expires: Moment(e.TTL), Foreign: e.Foreign, Version: e.Version, GenerationID: e.GenerationID,
		Key: e.Key, Route: e.Route, Status: e.Status, Header: e.header(), SHA256: e.SHA256, Length: e.Length, Tags: e.Tags,
		Stale: time.Duration(e.Stale) * time.Second, PurgeSeq: e.PurgeSeq, Build: e.Build, PinnedUntil: Moment(e.PinnedUntil),
		AssertedAt: Moment(e.AssertedAt), RenderTime: time.Duration(e.RenderTime) * time.Millisecond, InitialAge: time.Duration(e.InitialAge) * time.Second, Withdrawn: e.Withdrawn, Peer: e.Peer,
	}
}

func headerOf(h http.Header) map[string][]HeaderValue {
	if len(h) == 0 {
		return nil
	}
	header := make(map[string][]HeaderValue, len(h))
	for name, values := range h {
		list := make([]HeaderValue, len(values))
		for i, v := range values {
			list[i] = HeaderValue(v)
		}
		header[strings.ToLower(name)] = list
	}
	return header
}

func (e Entry) header() http.Header {
	if len(e.Header) == 0 {
		return nil
	}
	header := make(http.Header, len(e.Header))
	for name, values := range e.Header {
		for _, v := range values {
			header.Add(name, string(v))
		}
	}
	return header
}

// A HeaderValue is a string in JSON, or {"base64": …} if it is not valid UTF-8.
type HeaderValue string

type binary struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON never fails.
func (v HeaderValue) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(v)) {
		return json.Marshal(string(v))
	}
	return json.Marshal(binary{[]byte(v)})
}

// UnmarshalJSON accepts both forms.
func (v *HeaderValue) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, (*string)(v))
	}
	var b binary
	err := json.Unmarshal(text, &b)
	*v = HeaderValue(b.Base64)
	return err
}
