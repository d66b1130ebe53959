package httpcache

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Tags returns the purge tags that a response names, sorted and without duplicates:
//
//	Surrogate-Key      separated by spaces (Fastly)
//	Cache-Tag          separated by commas (Cloudflare, Akamai)
//	Cache-Groups       a list of strings (RFC 9875)
//	X-Next-Cache-Tags  separated by commas (Next.js)
//
// An error means that a Cache-Groups is no such list: its tags are unknown.
func Tags(h http.Header) ([]string, error) {
	var tags []string
	for _, line := range h["Surrogate-Key"] {
		for tag := range strings.FieldsSeq(line) {
			// A comma at the end joins lines (RFC 9110, section 5.3).
			if tag = strings.TrimRight(tag, ","); tag != "" {
				tags = append(tags, tag)
			}
		}
	}
	for _, name := range []string{"Cache-Tag", "X-Next-Cache-Tags"} {
		for _, line := range h[name] {
			for tag := range strings.SplitSeq(line, ",") {
				if tag = strings.TrimSpace(tag); tag != "" {
					tags = append(tags, tag)
				}
			}
		}
	}
	groups, err := cacheGroups(h["Cache-Groups"])
	if err != nil {
		return nil, err
	}
	tags = append(tags, groups...)
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// cacheGroups parses Cache-Groups (RFC 9875, section 2). Parameters are ignored.
func cacheGroups(lines []string) ([]string, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, fmt.Errorf("the Cache-Groups %.100q is not a list of strings (RFC 9875): %w", lines, err)
	}
	groups := make([]string, 0, len(list))
	for i, member := range list {
		item, _ := member.(httpsfv.Item)
		group, ok := item.Value.(string)
		if !ok {
			return nil, fmt.Errorf("the Cache-Groups %.100q is not a list of strings (RFC 9875): member %d is no string in quotes", lines, i+1)
		}
		groups = append(groups, group)
	}
	return groups, nil
}
