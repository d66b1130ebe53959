package dynamostore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/store"
)

// normalize returns the entry as a reader will find it, its times and intervals
// in whole seconds, or an error that wraps store.ErrInvalidInput if no row can say
// it, or if it cannot be meant. Intervals of more than ten years are those: they
// say "as long as possible".
func normalize(e store.Entry) (store.Entry, error) {
	if err := checkEntry(e); err != nil {
		return e, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
	}
	e.Foreign = false
	e.GeneratedAt = moment(floorSeconds(e.GeneratedAt))
	e.Revalidate = time.Duration(interval(e.Revalidate)) * time.Second
	e.Stale = time.Duration(interval(e.Stale)) * time.Second
	e.RenderTime = min(e.RenderTime.Truncate(time.Millisecond), maxInterval*time.Second)
	e.Expires = wholeMoment(e.Expires)
	e.PinnedUntil = wholeMoment(e.PinnedUntil)
	e.AssertedAt = wholeMoment(e.AssertedAt)
	return e, nil
}

func checkEntry(e store.Entry) error {
	switch {
	case e.BodyKey == "":
		return fmt.Errorf("the entry has no BodyKey")
	case e.GenerationID == "":
		return fmt.Errorf("the entry has no GenerationID")
	case e.GeneratedAt.IsZero():
		return fmt.Errorf("the entry has no GeneratedAt")
	case e.Status < minStatus || e.Status > maxStatus:
		return fmt.Errorf("the status %d is none of HTTP's: expected %d to %d", e.Status, minStatus, maxStatus)
	case e.Length < 0 || e.PurgeSeq < 0 || e.Length > maxCount || e.PurgeSeq > maxCount:
		return fmt.Errorf("the length %d and the purge sequence %d: expected 0 to %d", e.Length, e.PurgeSeq, maxCount)
	case e.Revalidate < 0 || e.Stale < 0 || e.RenderTime < 0:
		return fmt.Errorf("the windows %v and %v, and the render time %v, may not be negative", e.Revalidate, e.Stale, e.RenderTime)
	}
	return cmp.Or(
		checkMoment("GeneratedAt", e.GeneratedAt), checkMoment("Expires", e.Expires),
		checkMoment("PinnedUntil", e.PinnedUntil), checkMoment("AssertedAt", e.AssertedAt),
		checkTexts(e),
	)
}

// checkMoment refuses a time that no row can say; the zero time is none. Seconds
// that were milliseconds to begin with lie beyond the calendar.
func checkMoment(name string, t time.Time) error {
	if t.IsZero() || t.Unix() >= 0 && t.Unix() <= maxMoment {
		return nil
	}
	return fmt.Errorf("%s is %d in epoch seconds: expected 0 to %d, the end of the year 9999; divide milliseconds by 1,000", name, t.Unix(), maxMoment)
}

// wholeMoment floors a time to the second; the zero time, which stands for an
// absent attribute, stays.
func wholeMoment(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return moment(floorSeconds(t))
}

// checkTexts refuses what DynamoDB's strings cannot hold, which the SDK would
// alter without a word. Values of header fields are not checked: they may be any
// bytes, and headerValue keeps them.
func checkTexts(e store.Entry) error {
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
