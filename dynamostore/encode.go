package dynamostore

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

// normalize returns the entry as a reader will find it, its times and intervals
// in whole seconds, or an error if no row can say it.
func normalize(e isr.Entry) (isr.Entry, error) {
	e.Foreign = false
	e.GeneratedAt = moment(floorSeconds(e.GeneratedAt))
	e.Revalidate = time.Duration(interval(e.Revalidate)) * time.Second
	e.Stale = time.Duration(interval(e.Stale)) * time.Second
	e.Expires = wholeMoment(e.Expires)
	e.PinnedUntil = wholeMoment(e.PinnedUntil)
	e.AssertedAt = wholeMoment(e.AssertedAt)
	switch {
	case e.BodyKey == "":
		return e, fmt.Errorf("the entry has no BodyKey")
	case e.GenerationID == "":
		return e, fmt.Errorf("the entry has no GenerationID")
	case e.GeneratedAt.Unix() < 0 || e.GeneratedAt.Unix() > maxMoment:
		return e, fmt.Errorf("GeneratedAt %v cannot be stored", e.GeneratedAt)
	case e.Status < 100 || e.Status > 999:
		return e, fmt.Errorf("the status %d is none of HTTP's", e.Status)
	case e.Length < 0 || e.PurgeSeq < 0:
		return e, fmt.Errorf("the length %d and the purge sequence %d may not be negative", e.Length, e.PurgeSeq)
	}
	return e, checkTexts(e)
}

// wholeMoment floors a time and clamps it to what a row can say; the zero time,
// which stands for an absent attribute, stays.
func wholeMoment(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return moment(min(max(floorSeconds(t), 0), maxMoment))
}

// checkTexts refuses what DynamoDB's strings cannot hold, which the SDK would
// alter without a word. Values of header fields are not checked: they may be any
// bytes, and headerValue keeps them.
func checkTexts(e isr.Entry) error {
	named := map[string]string{
		"BodyKey": e.BodyKey, "ETag": e.ETag, "GenerationID": e.GenerationID,
		"Key": e.Key, "Route": e.Route, "SHA256": e.SHA256,
		"a tag": strings.Join(e.Tags, ""), "a header name": strings.Join(slices.Collect(maps.Keys(e.Header)), ""),
	}
	for name, value := range named {
		if !utf8.ValidString(value) {
			return fmt.Errorf("%s is not valid UTF-8: %q", name, value)
		}
	}
	return nil
}

// encodeISR is the map of ours, of a normalized entry.
func encodeISR(e isr.Entry) types.AttributeValue {
	m := map[string]types.AttributeValue{
		attrVersion:      number(e.Version),
		attrGenerationID: text(e.GenerationID),
		attrBodyKey:      text(e.BodyKey),
		attrGeneratedAt:  number(e.GeneratedAt.Unix()),
		attrStatus:       number(int64(e.Status)),
		attrLength:       number(e.Length),
		attrStale:        number(interval(e.Stale)),
		attrPurgeSeq:     number(e.PurgeSeq),
	}
	for name, value := range map[string]string{attrKey: e.Key, attrRoute: e.Route, attrSHA256: e.SHA256} {
		if value != "" {
			m[name] = text(value)
		}
	}
	for name, at := range map[string]time.Time{attrPinnedUntil: e.PinnedUntil, attrAssertedAt: e.AssertedAt} {
		if !at.IsZero() {
			m[name] = number(at.Unix())
		}
	}
	if len(e.Header) > 0 {
		m[attrHeaders] = encodeHeader(e.Header)
	}
	if len(e.Tags) > 0 {
		m[attrTags] = encodeList(e.Tags, text)
	}
	return &types.AttributeValueMemberM{Value: m}
}

// encodeHeader writes names in lower case. Names that differ in case alone are
// one field: their values are joined, in the order of the names' bytes.
func encodeHeader(header http.Header) types.AttributeValue {
	joined := make(map[string][]string, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		lower := strings.ToLower(name)
		joined[lower] = append(joined[lower], header[name]...)
	}
	fields := make(map[string]types.AttributeValue, len(joined))
	for name, values := range joined {
		fields[name] = encodeList(values, headerValue)
	}
	return &types.AttributeValueMemberM{Value: fields}
}

// headerValue is the value of a header field: a string, or binary where its
// bytes are not UTF-8 (HTTP allows any above 0x7F).
func headerValue(s string) types.AttributeValue {
	if !utf8.ValidString(s) {
		return &types.AttributeValueMemberB{Value: []byte(s)}
	}
	return text(s)
}

func encodeList(values []string, encode func(string) types.AttributeValue) types.AttributeValue {
	list := make([]types.AttributeValue, len(values))
	for i, value := range values {
		list[i] = encode(value)
	}
	return &types.AttributeValueMemberL{Value: list}
}
