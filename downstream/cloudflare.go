package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// CloudflareEndpoint is the API of Cloudflare.
const CloudflareEndpoint = "https://api.cloudflare.com/client/v4"

// Bounds of Cloudflare's purge API: 100 operations a request on all plans, except that 30
// prefixes, and the length of a tag.
const (
	cloudflareItems     = 100
	cloudflarePrefixes  = 30
	cloudflareTagLength = 1024
)

// Cloudflare is a zone of Cloudflare. All its purges are hard. A prefix is extended to a
// whole path segment, because Cloudflare matches segments. Source: Cloudflare, "Purge
// cache".
type Cloudflare struct {
	zone string
	api  *caller
}

// NewCloudflare returns a zone. endpoint is usually [CloudflareEndpoint]. The token needs
// the permission Cache Purge of the zone.
func NewCloudflare(zone, endpoint string, token Token) *Cloudflare {
	return &Cloudflare{zone: zone, api: newCaller(endpoint, token, bearer)}
}

// Limits implements [Destination]. The longest debounce of all: the smallest plan allows
// five requests a minute.
func (c *Cloudflare) Limits() Limits {
	return Limits{Targets: cloudflareItems, Debounce: time.Second}
}

// cloudflarePurge is the body of a request, with one of the fields.
type cloudflarePurge struct {
	Everything bool     `json:"purge_everything,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Prefixes   []string `json:"prefixes,omitempty"`
	Hosts      []string `json:"hosts,omitempty"`
	Files      []string `json:"files,omitempty"`
}

// Deliver implements [Destination].
func (c *Cloudflare) Deliver(ctx context.Context, b Batch) error {
	for _, purge := range cloudflarePurges(selectionOf(b.Targets)) {
		answer, err := c.api.post(ctx, "/zones/"+url.PathEscape(c.zone)+"/purge_cache", purge)
		if err != nil {
			return err
		}
		if err := cloudflareResult(answer.body); err != nil {
			return err
		}
	}
	return nil
}

func cloudflarePurges(s selection) []cloudflarePurge {
	if s.all || !allPrintable(s.tags, cloudflareTagLength, ",") {
		return []cloudflarePurge{{Everything: true}}
	}
	var all []cloudflarePurge
	for tags := range slices.Chunk(s.tags, cloudflareItems) {
		all = append(all, cloudflarePurge{Tags: tags})
	}
	for hosts := range slices.Chunk(s.hosts, cloudflarePrefixes) {
		all = append(all, cloudflarePurge{Hosts: hosts})
	}
	for prefixes := range slices.Chunk(s.prefixes, cloudflarePrefixes) {
		var texts []string
		for _, p := range prefixes {
			texts = append(texts, cloudflarePrefix(p))
		}
		all = append(all, cloudflarePurge{Prefixes: slices.Compact(texts)})
	}
	for pages := range slices.Chunk(s.pages, cloudflareItems) {
		var urls []string
		for _, p := range pages {
			urls = append(urls, p.url())
		}
		all = append(all, cloudflarePurge{Files: urls})
	}
	return all
}

// cloudflarePrefix returns the prefix that covers a, of whole path segments: a prefix that
// ends within a segment loses the segment.
func cloudflarePrefix(a address) string {
	path, _, query := strings.Cut(a.path, "?")
	if !query {
		path = path[:strings.LastIndexByte(path, '/')+1]
	}
	return strings.TrimSuffix(a.host+path, "/")
}

// cloudflareResult checks the body of a response of status 200, which reports errors too.
func cloudflareResult(body []byte) error {
	var result struct {
		Success *bool `json:"success"`
		Errors  []struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(body, &result); err != nil || result.Success == nil {
		return &RetryError{Err: fmt.Errorf("the response of Cloudflare is not the JSON of its API%s", shown(body))}
	}
	if *result.Success {
		return nil
	}
	err := errors.New("Cloudflare did not purge")
	for _, e := range result.Errors {
		err = fmt.Errorf("%w: %.200s (code %d)", err, e.Message, e.Code)
	}
	return &RetryError{Err: err}
}
