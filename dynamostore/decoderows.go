package dynamostore

import (
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

// decodeEntry reads the content attributes of a META row, or of a VER# row,
// which has the same ones.
func decodeEntry(pk, sk string, attrs row) (*isr.Entry, *MalformedError) {
	d := &decoder{pk: pk, sk: sk, attrs: attrs}
	e := &isr.Entry{
		BodyKey:     d.text(attrBodyKey),
		GeneratedAt: d.moment(attrGeneratedAt),
		Revalidate:  d.interval(attrRevalidate, false),
		ETag:        d.optionalText(attrETag),
		Expires:     d.horizon(attrTTL),
	}
	if d.err != nil {
		return nil, d.err
	}
	ours := attrs.child(attrISR)
	if !describes(ours, attrs) {
		// Another service wrote this row, or wrote over one of ours: nothing
		// that we knew of the earlier content may be said of this one.
		e.Foreign, e.Status = true, http.StatusOK
		return e, nil
	}
	m := &decoder{pk: pk, sk: sk, prefix: attrISR + ".", attrs: ours}
	m.entry(e)
	if m.err != nil {
		// The map claims this very content, so that its status and its headers
		// are what the page is: serving it with guessed ones would be worse
		// than rendering it again.
		return nil, m.err
	}
	return e, nil
}

// describes says whether our map is about the content that the row points at.
// A map that does not say so in the right types is none of ours.
func describes(ours, attrs row) bool {
	if ours == nil || ours.text(attrBodyKey) == "" || ours.text(attrBodyKey) != attrs.text(attrBodyKey) {
		return false
	}
	mine, ok := ours[attrGeneratedAt].(*types.AttributeValueMemberN)
	theirs, ok2 := attrs[attrGeneratedAt].(*types.AttributeValueMemberN)
	// Compared as text: DynamoDB returns equal numbers as equal texts, and a
	// fraction is another number than the whole seconds that we write.
	return ok && ok2 && mine.Value == theirs.Value
}

// entry reads the map `isr` into e. What a page cannot be served without is
// required; what is missing otherwise has the value that promises least.
func (d *decoder) entry(e *isr.Entry) {
	e.Version = d.count(attrVersion, 0, maxCount, false)
	e.GenerationID = d.text(attrGenerationID)
	e.Key = d.optionalText(attrKey)
	e.Route = d.optionalText(attrRoute)
	e.Status = int(d.count(attrStatus, 100, 999, false))
	e.Header = d.headers()
	e.SHA256 = d.optionalText(attrSHA256)
	e.Length = d.count(attrLength, 0, maxCount, false)
	e.Tags = d.texts(attrTags)
	e.Stale = d.interval(attrStale, true)
	e.PurgeSeq = d.count(attrPurgeSeq, 0, maxCount, true)
	e.PinnedUntil = d.horizon(attrPinnedUntil)
	e.AssertedAt = d.optionalMoment(attrAssertedAt)
}

// headers reads the map of lower-case names to lists of strings.
func (d *decoder) headers() http.Header {
	if d.absent(attrHeaders) {
		return nil
	}
	stored, ok := d.attrs[attrHeaders].(*types.AttributeValueMemberM)
	if !ok {
		d.fail(attrHeaders, "a map of lists of strings")
		return nil
	}
	header := make(http.Header, len(stored.Value))
	for name, value := range stored.Value {
		values, ok := stringList(value)
		if !ok {
			d.fail(attrHeaders, "a map of lists of strings, and a list at "+name)
			return nil
		}
		header[http.CanonicalHeaderKey(name)] = values
	}
	return header
}

// decodeLock reads a LOCK row as the condition of Acquire does: a row without a
// number in lease_expires_at is free.
func decodeLock(attrs row) *isr.Lock {
	lock := &isr.Lock{Owner: attrs.text(attrOwner)}
	if n, ok := attrs[attrExpiresAt].(*types.AttributeValueMemberN); ok {
		// Rounded up: `lease_expires_at <= :now` compares a whole :now.
		if seconds, err := ceilNumber(n.Value); err == nil {
			lock.ExpiresAt = moment(min(max(seconds, 0), maxMoment))
		}
	}
	lock.Failures = decodeFailures(attrs)
	return lock
}

// decodeFailures reads the count of failures of a LOCK row, 0 if there is none
// or it makes no sense: it only shapes a back-off.
func decodeFailures(attrs row) int {
	const enough = 1 << 20
	n, ok := attrs[attrFailures].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	failures, err := floorNumber(n.Value)
	if err != nil {
		return 0
	}
	return int(min(max(failures, 0), enough))
}

// decodeCover reads a PURGE row. One that is malformed is an error and not an
// absence: it stands for a purge, and no purge may be lost.
func decodeCover(pk string, attrs row) (isr.Cover, *MalformedError) {
	d := &decoder{pk: pk, sk: skPurge, attrs: attrs}
	cover := isr.Cover{
		Seq:     d.count(attrSeq, 0, maxCount, false),
		HardSeq: d.count(attrHardSeq, 0, maxCount, true),
		At:      d.moment(attrAt),
	}
	if d.err != nil {
		return isr.Cover{}, d.err
	}
	return cover, nil
}

// decodeSequence reads the SEQ row.
func decodeSequence(attrs row) (isr.Sequence, *MalformedError) {
	d := &decoder{pk: pkPurgeLog, sk: skSequence, attrs: attrs}
	seq := isr.Sequence{
		Seq:          d.count(attrSeq, 0, maxCount, false),
		MarkLifetime: d.interval(attrMarkLifetime, true),
	}
	if d.err != nil {
		return isr.Sequence{}, d.err
	}
	return seq, nil
}

// version reads the fence of a META row: ok is false where the row has none.
func (r row) version() (v int64, ok bool) {
	n, isNumber := r.child(attrISR)[attrVersion].(*types.AttributeValueMemberN)
	if !isNumber {
		return 0, false
	}
	v, err := floorNumber(n.Value)
	return v, err == nil && v >= 0 && v < maxCount
}
