package isr_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// Advice is of use: what it says ends the refusal that it is given for, and advice that would not is
// not given. The clock is 2000-01-01 00:00:00.
func TestExplainAdvice(t *testing.T) {
	const (
		sMaxAge  = "send Cache-Control: s-maxage=60"
		clock    = "correct the clock of the site"
		behind   = "a cache behind isr has kept the response"
		precedes = "takes precedence over Cache-Control"
	)
	for name, c := range map[string]struct {
		route  isr.Route
		status int
		header []string
		detail string
		advice []string // parts of it
		never  []string
	}{
		"an old Date":             {header: []string{"Cache-Control: max-age=120", "Date: Fri, 31 Dec 1999 23:57:00 GMT"}, detail: "too-old", advice: []string{clock}, never: []string{sMaxAge, behind}},
		"an old Date and Expires": {header: []string{"Expires: Fri, 31 Dec 1999 23:58:00 GMT", "Date: Fri, 31 Dec 1999 23:57:00 GMT"}, detail: "too-old", advice: []string{clock}, never: []string{sMaxAge}},
		"a high Age":              {header: []string{"Cache-Control: max-age=600", "Age: 700"}, detail: "too-old", advice: []string{behind}, never: []string{sMaxAge, clock}},
		"both":                    {header: []string{"Cache-Control: max-age=60", "Age: 70", "Date: Fri, 31 Dec 1999 23:57:00 GMT"}, detail: "too-old", advice: []string{clock, behind}, never: []string{sMaxAge}},
		"an Age of the targeted":  {header: []string{"CDN-Cache-Control: max-age=60", "Age: 70"}, detail: "too-old", advice: []string{behind}, never: []string{sMaxAge}},
		"nothing said":            {detail: "no-freshness", advice: []string{sMaxAge, "revalidate: 60s"}},
		"zero":                    {header: []string{"Cache-Control: max-age=0", "Age: 5"}, detail: "no-freshness", advice: []string{sMaxAge}, never: []string{"or set revalidate"}},
		"zero, targeted":          {header: []string{"CDN-Cache-Control: max-age=0"}, detail: "no-freshness", advice: []string{"max-age=60 in CDN-Cache-Control", precedes}, never: []string{sMaxAge}},
		"private, targeted":       {header: []string{"CDN-Cache-Control: private", "Cache-Control: max-age=60"}, detail: "private", advice: []string{"CDN-Cache-Control", precedes}, never: []string{"send Cache-Control: public"}},
		"private":                 {header: []string{"Cache-Control: private, s-maxage=60"}, detail: "private", advice: []string{"send Cache-Control: public, s-maxage=60"}},
		"a header of 70 KB":       {header: []string{"Cache-Control: s-maxage=60", "X-Long: " + strings.Repeat("x", 70_000)}, detail: "header-too-large", advice: []string{"raise max_header"}, never: []string{"max_body"}},
		"a header of 200 KB":      {header: []string{"Cache-Control: s-maxage=60", "X-Long: " + strings.Repeat("x", 200_000)}, detail: "header-too-large", advice: []string{"at most 128KiB"}, never: []string{"max_body", "raise"}},
		"a body":                  {header: []string{"Cache-Control: s-maxage=60", "Content-Length: 20000000"}, detail: "too-large", advice: []string{"raise max_body"}, never: []string{"max_header"}},
		"a body of 2 GiB":         {header: []string{"Cache-Control: s-maxage=60", "Content-Length: 2147483648"}, detail: "too-large", advice: []string{"cache: off"}, never: []string{"raise"}},
		"600 tags":                {header: []string{"Cache-Control: s-maxage=60", "Cache-Tag: " + numbers(600)}, detail: "tags", advice: []string{"raise max_tags"}},
		"3000 tags":               {header: []string{"Cache-Control: s-maxage=60", "Cache-Tag: " + numbers(3000)}, detail: "tags", advice: []string{"send fewer tags"}, never: []string{"raise"}},
		"an invalid tag":          {header: []string{"Cache-Control: s-maxage=60", "Cache-Tag: a\x7f"}, detail: "tags", advice: []string{"correct the tags"}, never: []string{"raise"}},
		"Vary that can be learned": {
			header: []string{"Cache-Control: s-maxage=60", "Vary: Accept-Language"}, detail: "vary", advice: []string{"vary: auto", "headers: [NAME]", "remove it"},
		},
		"Vary: User-Agent":       {header: []string{"Cache-Control: s-maxage=60", "Vary: User-Agent"}, detail: "vary", advice: []string{"headers: [NAME]"}, never: []string{"vary: auto"}},
		"Vary: *":                {header: []string{"Cache-Control: s-maxage=60", "Vary: *"}, detail: "vary", advice: []string{"remove * from Vary"}, never: []string{"vary: auto", "headers: ["}},
		"Vary: Cookie":           {header: []string{"Cache-Control: s-maxage=60", "Vary: Cookie"}, detail: "vary", advice: []string{"remove Cookie from Vary"}, never: []string{"vary: auto", "headers: ["}},
		"a status to be named":   {status: 418, header: []string{"Cache-Control: s-maxage=60"}, detail: "status", advice: []string{"in statuses"}},
		"a status that never is": {status: 206, header: []string{"Cache-Control: s-maxage=60"}, detail: "status", advice: []string{"never stored"}, never: []string{"statuses"}},
		"a status of zero":       {route: isr.Route{Negative: map[int]time.Duration{404: 0}}, status: 404, header: []string{"Cache-Control: s-maxage=60"}, detail: "status", advice: []string{"negative of the route (404"}, never: []string{"statuses"}},
		"must-understand":        {status: 418, header: []string{"Cache-Control: must-understand, s-maxage=60"}, detail: "status"},
		"a redirect to itself":   {status: 301, header: []string{"Cache-Control: s-maxage=60", "Location: https://example.com/"}, detail: "self-redirect", advice: []string{"public_scheme: https (--public-scheme https)"}},
		"no-cache":               {header: []string{"Cache-Control: no-cache, s-maxage=60"}, detail: "no-cache", advice: []string{"in place of no-cache"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTable(t).cacheOf(t).Handler(c.route, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for _, line := range c.header {
						name, value, _ := strings.Cut(line, ": ")
						w.Header().Add(name, value)
					}
					w.WriteHeader(max(c.status, 200))
				}))
				f := explainGet(h, "/").Fetched
				if f == nil || f.Stored || len(f.Obstacles) != 1 || f.Obstacles[0].Detail != c.detail || f.Obstacles[0].What == "" {
					t.Fatalf("fetched %+v", f)
				}
				advice := f.Obstacles[0].Advice
				for _, part := range c.advice {
					if !strings.Contains(advice, part) {
						t.Errorf("the advice lacks %q: %s", part, advice)
					}
				}
				for _, part := range c.never {
					if strings.Contains(advice, part) {
						t.Errorf("the advice is of no use (%q): %s", part, advice)
					}
				}
			})
		})
	}
}

// numbers returns n tags.
func numbers(n int) string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprint(i)
	}
	return strings.Join(tags, ",")
}
