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

// normalize returns the entry as a reader will find it, with times and intervals in
// whole seconds (GeneratedAt and RenderTime in milliseconds), or an error that wraps store.ErrInvalidInput if a row cannot store it.
// Intervals of more than ten years, which mean "as long as possible", become ten years.
func normalize(e store.Entry) (store.Entry, error) {
	if err := checkEntry(e); err != nil {
		return e, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
	}
	e.Foreign = false
	e.GeneratedAt = time.UnixMilli(e.GeneratedAt.UnixMilli()).UTC()
	e.Revalidate = time.Duration(interval(e.Revalidate)) * time.Second
	e.Stale = time.Duration(interval(e.Stale)) * time.Second
	e.RenderTime = min(e.RenderTime.Truncate(time.Millisecond), maxInterval*time.Second)
	e.InitialAge = time.Duration(interval(e.InitialAge)) * time.Second
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
		return fmt.Errorf("the HTTP status must be between %d and %d (got %d)", minStatus, maxStatus, e.Status)
	case min(e.Length, e.PurgeSeq, e.Build) < 0 || max(e.Length, e.PurgeSeq, e.Build) > maxCount:
		return fmt.Errorf("the length, the purge sequence and the sequence of the build must be between 0 and %d (got %d, %d and %d)",
			int64(maxCount), e.Length, e.PurgeSeq, e.Build)
	case min(e.Revalidate, e.Stale, e.RenderTime, e.InitialAge) < 0:
		return fmt.Errorf("the freshness window, the stale window, the render time and the initial age must not be negative (got %v, %v, %v and %v)",
			e.Revalidate, e.Stale, e.RenderTime, e.InitialAge)
	}
	return cmp.Or(
		checkMoment("GeneratedAt", e.GeneratedAt), checkMoment("Expires", e.Expires),
		checkMoment("PinnedUntil", e.PinnedUntil), checkMoment("AssertedAt", e.AssertedAt),
		checkTexts(e),
	)
}

// checkMoment refuses a time that a row cannot store, such as milliseconds that were
// taken for seconds. The zero time is valid: it means no time.
func checkMoment(name string, t time.Time) error {
	if t.IsZero() || t.Unix() >= 0 && t.Unix() <= maxMoment {
		return nil
	}
	return fmt.Errorf("%s must be between 0 and %d epoch seconds, the end of the year 9999 (got %d); divide milliseconds by 1,000", name, int64(maxMoment), t.Unix())
}

// wholeMoment floors a time to the second; the zero time, which stands for an
// absent attribute, stays.
func wholeMoment(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return moment(floorSeconds(t))
}

// checkTexts refuses text that is not valid UTF-8, which DynamoDB's strings cannot
// store and the SDK would alter silently. Values of header fields may be any bytes;
// headerValue preserves them.
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
