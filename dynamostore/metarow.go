package dynamostore

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// contentRow has the attributes of the reference schema, which every writer writes, in
// META and in VER# rows.
type contentRow struct {
	location

	BodyKey     string   `theorydb:"attr:s3_key"`
	GeneratedAt instant  `theorydb:"attr:generated_at"`
	Revalidate  period   `theorydb:"attr:revalidate_seconds"`
	ETag        string   `theorydb:"attr:etag,omitempty"`
	Expires     *horizon `theorydb:"ttl,attr:ttl,omitempty"`
	Current     string   `theorydb:"attr:current_sk,omitempty"`
}

// metaRow is a META or VER# row of this package.
type metaRow struct {
	contentRow

	ISR isrMap `theorydb:"attr:isr"`
}

// isrMap is this package's map in a row. BodyKey and GeneratedAt name the content that
// it describes. GeneratedMS is GeneratedAt in epoch milliseconds, absent if they are whole
// seconds; one of another second does not count.
type isrMap struct {
	Version      count      `theorydb:"attr:v"`
	GenerationID string     `theorydb:"attr:generation_id"`
	BodyKey      string     `theorydb:"attr:s3_key"`
	GeneratedAt  instant    `theorydb:"attr:generated_at"`
	GeneratedMS  laxNumber  `theorydb:"attr:generated_ms,omitempty"`
	Key          string     `theorydb:"attr:key,omitempty"`
	Route        string     `theorydb:"attr:route,omitempty"`
	Status       statusCode `theorydb:"attr:status"`
	Header       header     `theorydb:"attr:headers,omitempty"`
	SHA256       string     `theorydb:"attr:content_sha256,omitempty"`
	Length       count      `theorydb:"attr:content_length"`
	Tags         tagList    `theorydb:"attr:tags,omitempty"`
	Stale        period     `theorydb:"attr:stale_seconds"`
	PurgeSeq     count      `theorydb:"attr:purge_seq"`
	Build        count      `theorydb:"attr:build,omitempty"`
	PinnedUntil  *horizon   `theorydb:"attr:pinned_until,omitempty"`
	AssertedAt   *instant   `theorydb:"attr:asserted_at,omitempty"`
	RenderTime   count      `theorydb:"attr:render_ms,omitempty"`
	InitialAge   count      `theorydb:"attr:age_seconds,omitempty"`
	Withdrawn    flag       `theorydb:"attr:withdrawn,omitempty"`
	Peer         laxText    `theorydb:"attr:peer,omitempty"`
}

// newMetaRow returns the META row of a normalized entry.
func newMetaRow(at location, e store.Entry) *metaRow {
	content := contentRow{
		location: at,
		BodyKey:  e.BodyKey, GeneratedAt: instant(e.GeneratedAt.Unix()),
		Revalidate: period(interval(e.Revalidate)), ETag: e.ETag,
	}
	ours := isrMap{
		Version: count(e.Version), GenerationID: e.GenerationID, BodyKey: content.BodyKey, GeneratedAt: content.GeneratedAt,
		Key: e.Key, Route: e.Route, Status: statusCode(e.Status), Header: header(e.Header), SHA256: e.SHA256,
		Length: count(e.Length), Tags: e.Tags, Stale: period(interval(e.Stale)), PurgeSeq: count(e.PurgeSeq), Build: count(e.Build),
		RenderTime: count(e.RenderTime / time.Millisecond), InitialAge: count(e.InitialAge / time.Second), Withdrawn: flag(e.Withdrawn),
	}
	if ms := e.GeneratedAt.UnixMilli(); ms%1000 != 0 {
		ours.GeneratedMS = laxNumber(ms)
	}
	if e.Peer.IsValid() {
		ours.Peer = laxText(e.Peer.String())
	}
	if !e.Expires.IsZero() {
		content.Expires = new(horizon(e.Expires.Unix()))
	}
	if !e.PinnedUntil.IsZero() {
		ours.PinnedUntil = new(horizon(e.PinnedUntil.Unix()))
	}
	if !e.AssertedAt.IsZero() {
		ours.AssertedAt = new(instant(e.AssertedAt.Unix()))
	}
	return &metaRow{contentRow: content, ISR: ours}
}

// Attributes without which a page cannot be served. Other missing attributes have
// their zero value.
var (
	requiredOfContent = []required{
		{attrBodyKey, expectedText}, {attrGeneratedAt, expectedInstant}, {attrRevalidate, expectedPeriod},
	}
	requiredOfISR = []required{
		{attrVersion, expectedCount},
		{attrGenerationID, expectedText},
		{attrStatus, expectedStatusCode},
		{attrLength, expectedCount},
	}
)

// content decodes the entry in a META or VER# row. If it is malformed, the error is a
// *[MalformedError].
func (s *Store) content(ctx context.Context, found row) (*store.Entry, error) {
	if err := found.check("", found, requiredOfContent); err != nil {
		return nil, err
	}
	if !found.isOurs() {
		// Another service wrote or overwrote this row: the map describes
		// earlier content.
		var r contentRow
		if err := s.decode(ctx, found, &r); err != nil {
			return nil, err
		}
		e := r.entry()
		e.Foreign, e.Status = true, http.StatusOK
		return e, nil
	}
	// The map describes this content. If its status or its headers are malformed, a new
	// render is better than serving the content with guessed ones.
	if err := found.check(attrISR+".", found.child(attrISR), requiredOfISR); err != nil {
		return nil, err
	}
	var r metaRow
	if err := s.decode(ctx, found, &r); err != nil {
		return nil, err
	}
	e := r.entry()
	r.ISR.describe(e)
	return e, nil
}

// isOurs reports whether the map describes the content that the row refers to, with
// attributes of the right types.
func (r row) isOurs() bool {
	ours := r.child(attrISR)
	if ours == nil || ours.text(attrBodyKey) == "" || ours.text(attrBodyKey) != r.text(attrBodyKey) {
		return false
	}
	mine, ok := ours[attrGeneratedAt].(*types.AttributeValueMemberN)
	theirs, ok2 := r[attrGeneratedAt].(*types.AttributeValueMemberN)
	// Compared as text: DynamoDB normalizes numbers, and a fraction differs from the
	// whole seconds that this package writes.
	return ok && ok2 && mine.Value == theirs.Value
}

func (r *contentRow) entry() *store.Entry {
	return &store.Entry{
		BodyKey: r.BodyKey, GeneratedAt: r.GeneratedAt.time(), Revalidate: r.Revalidate.duration(),
		ETag: r.ETag, Expires: r.Expires.time(),
	}
}

// describe adds the map's attributes to an entry.
func (m *isrMap) describe(e *store.Entry) {
	if ms := int64(m.GeneratedMS); ms/1000 == e.GeneratedAt.Unix() {
		e.GeneratedAt = time.UnixMilli(ms).UTC()
	}
	e.Version, e.GenerationID = int64(m.Version), m.GenerationID
	e.Key, e.Route = m.Key, m.Route
	e.Status, e.Header = int(m.Status), http.Header(m.Header)
	e.SHA256, e.Length = m.SHA256, int64(m.Length)
	e.Tags, e.Stale = m.Tags, m.Stale.duration()
	e.PurgeSeq, e.Build = int64(m.PurgeSeq), int64(m.Build)
	e.PinnedUntil, e.AssertedAt = m.PinnedUntil.time(), m.AssertedAt.time()
	e.Withdrawn = bool(m.Withdrawn)
	e.RenderTime = time.Duration(min(m.RenderTime, maxInterval*1000)) * time.Millisecond
	e.InitialAge = time.Duration(min(m.InitialAge, maxInterval)) * time.Second
	e.Peer = m.Peer.address()
}
