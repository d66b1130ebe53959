package dynamostore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr"
)

// normalize returns the entry as a reader will find it, its times and intervals
// in whole seconds, or an error if no row can say it.
func normalize(e isr.Entry) (isr.Entry, error) {
	e.Foreign = false
	e.GeneratedAt = moment(floorSeconds(e.GeneratedAt))
	e.Revalidate = time.Duration(interval(e.Revalidate)) * time.Second
	e.Stale = time.Duration(interval(e.Stale)) * time.Second
	e.RenderTime = min(max(e.RenderTime.Truncate(time.Millisecond), 0), maxInterval*time.Second)
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
	case e.Status < minStatus || e.Status > maxStatus:
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
