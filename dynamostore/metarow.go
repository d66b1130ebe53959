package dynamostore

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// contentRow is what every writer says of content: the attributes of the
// reference schema, in META and in VER# rows.
type contentRow struct {
	location

	BodyKey     string   `theorydb:"attr:s3_key"`
	GeneratedAt instant  `theorydb:"attr:generated_at"`
	Revalidate  period   `theorydb:"attr:revalidate_seconds"`
	ETag        string   `theorydb:"attr:etag,omitempty"`
	Expires     *horizon `theorydb:"ttl,attr:ttl,omitempty"`
	Current     string   `theorydb:"attr:current_sk,omitempty"`
}

// metaRow is what this package says of content.
type metaRow struct {
	contentRow

	ISR isrMap `theorydb:"attr:isr"`
}

// isrMap is the map of ours in a row. BodyKey and GeneratedAt say which content
// it describes.
type isrMap struct {
	Version      count      `theorydb:"attr:v"`
	GenerationID string     `theorydb:"attr:generation_id"`
	BodyKey      string     `theorydb:"attr:s3_key"`
	GeneratedAt  instant    `theorydb:"attr:generated_at"`
	Key          string     `theorydb:"attr:key,omitempty"`
	Route        string     `theorydb:"attr:route,omitempty"`
	Status       statusCode `theorydb:"attr:status"`
	Header       header     `theorydb:"attr:headers,omitempty"`
	SHA256       string     `theorydb:"attr:content_sha256,omitempty"`
	Length       count      `theorydb:"attr:content_length"`
	Tags         tagList    `theorydb:"attr:tags,omitempty"`
	Stale        period     `theorydb:"attr:stale_seconds"`
	PurgeSeq     count      `theorydb:"attr:purge_seq"`
	PinnedUntil  *horizon   `theorydb:"attr:pinned_until,omitempty"`
	AssertedAt   *instant   `theorydb:"attr:asserted_at,omitempty"`
	RenderTime   count      `theorydb:"attr:render_ms,omitempty"`
	Withdrawn    flag       `theorydb:"attr:withdrawn,omitempty"`
}

// newMetaRow is the META row of a normalized entry.
func newMetaRow(at location, e store.Entry) *metaRow {
	content := contentRow{
		location: at,
		BodyKey:  e.BodyKey, GeneratedAt: instant(e.GeneratedAt.Unix()),
		Revalidate: period(interval(e.Revalidate)), ETag: e.ETag,
	}
	ours := isrMap{
		Version: count(e.Version), GenerationID: e.GenerationID, BodyKey: content.BodyKey, GeneratedAt: content.GeneratedAt,
		Key: e.Key, Route: e.Route, Status: statusCode(e.Status), Header: header(e.Header), SHA256: e.SHA256,
		Length: count(e.Length), Tags: e.Tags, Stale: period(interval(e.Stale)), PurgeSeq: count(e.PurgeSeq),
		RenderTime: count(e.RenderTime / time.Millisecond), Withdrawn: flag(e.Withdrawn),
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

// What a page cannot be served without. What is missing otherwise has the value
// that promises least.
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

// content reads the entry that a META row or a VER# row carries. If it is
// malformed, the error is a *[MalformedError].
func (s *Store) content(ctx context.Context, found row) (*store.Entry, error) {
	if err := found.check("", found, requiredOfContent); err != nil {
		return nil, err
	}
	if !found.isOurs() {
		// Another service wrote this row, or wrote over one of ours: nothing
		// that we knew of the earlier content may be said of this one.
		var r contentRow
		if err := s.decode(ctx, found, &r); err != nil {
			return nil, err
		}
		e := r.entry()
		e.Foreign, e.Status = true, http.StatusOK
		return e, nil
	}
	// The map claims this very content, so that its status and its headers are
	// what the page is: serving it with guessed ones would be worse than
	// rendering it again.
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

// isOurs says whether our map is about the content that the row points at. A map
// that does not say so in the right types is none of ours.
func (r row) isOurs() bool {
	ours := r.child(attrISR)
	if ours == nil || ours.text(attrBodyKey) == "" || ours.text(attrBodyKey) != r.text(attrBodyKey) {
		return false
	}
	mine, ok := ours[attrGeneratedAt].(*types.AttributeValueMemberN)
	theirs, ok2 := r[attrGeneratedAt].(*types.AttributeValueMemberN)
	// Compared as text: DynamoDB returns equal numbers as equal texts, and a
	// fraction is another number than the whole seconds that we write.
	return ok && ok2 && mine.Value == theirs.Value
}

func (r *contentRow) entry() *store.Entry {
	return &store.Entry{
		BodyKey: r.BodyKey, GeneratedAt: r.GeneratedAt.time(), Revalidate: r.Revalidate.duration(),
		ETag: r.ETag, Expires: r.Expires.time(),
	}
}

// describe adds to an entry what only we know of it.
func (m *isrMap) describe(e *store.Entry) {
	e.Version, e.GenerationID = int64(m.Version), m.GenerationID
	e.Key, e.Route = m.Key, m.Route
	e.Status, e.Header = int(m.Status), http.Header(m.Header)
	e.SHA256, e.Length = m.SHA256, int64(m.Length)
	e.Tags, e.Stale, e.PurgeSeq = m.Tags, m.Stale.duration(), int64(m.PurgeSeq)
	e.PinnedUntil, e.AssertedAt = m.PinnedUntil.time(), m.AssertedAt.time()
	e.Withdrawn = bool(m.Withdrawn)
	e.RenderTime = time.Duration(min(m.RenderTime, maxInterval*1000)) * time.Millisecond
}
