package isr

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Bounds of the tags of one page. They are part of its rows, and each is looked up among
// the purge marks.
const (
	maxTags     = 128 // as in Next.js
	maxTagBytes = 16 << 10
)

// withTags adds the tags of the route and of the response to the verdict on a response
// that may be stored. A response with invalid or too many tags is refused: without one of
// its tags, a purge would miss the page.
func withTags(v httpcache.Verdict, h http.Header, ofRoute []string) httpcache.Verdict {
	if v.Refused == httpcache.RefusedTooLarge && validTagsOf(h) != nil {
		v = httpcache.Verdict{Withdraws: v.Withdraws} // the tags are the reason, and are named
	}
	if v.Refused != "" || v.Failed {
		return v
	}
	tags, err := httpcache.Tags(h)
	if err == nil && len(ofRoute) > 0 {
		tags = append(tags, ofRoute...)
		slices.Sort(tags)
		tags = slices.Compact(tags)
	}
	if err == nil {
		err = validTags(tags)
	}
	if err != nil {
		return httpcache.Verdict{Refused: httpcache.RefusedTags, Cause: err, Withdraws: v.Withdraws}
	}
	v.Tags = tags
	return v
}

// validTagsOf checks the tags of a response alone.
func validTagsOf(h http.Header) error {
	tags, err := httpcache.Tags(h)
	if err == nil {
		err = validTags(tags)
	}
	return err
}

func validTags(tags []string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("the page has %d tags, at most %d are allowed", len(tags), maxTags)
	}
	bytes := 0
	for _, tag := range tags {
		if err := store.ValidTag(tag); err != nil {
			return err
		}
		bytes += len(tag)
	}
	if bytes > maxTagBytes {
		return fmt.Errorf("the tags of the page have %d bytes in all, at most %d are allowed", bytes, maxTagBytes)
	}
	return nil
}
