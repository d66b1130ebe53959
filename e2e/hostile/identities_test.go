package hostile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// poison lists headers that some origin, framework or cache treats as part of the request, and
// that are not in the cache key.
func poison() []string {
	return []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-Server",
		"X-Forwarded-Prefix", "X-Forwarded-Path", "X-Forwarded-Uri", "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Ssl",
		"Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Originating-Ip", "X-Remote-Ip", "X-Remote-Addr", "X-Cluster-Client-Ip",
		"True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "X-Host", "X-Http-Host-Override", "X-Original-Host", "X-Backend-Host",
		"X-Original-Url", "X-Rewrite-Url", "X-Override-Url", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
		"X-Http-Destinationurl", "X-Proxy-Url", "X-Wap-Profile", "Proxy", "Proxy-Host", "Request-Uri", "X-Arbitrary", "Base-Url", "Http-Url",
		"Redirect", "Referer", "Referrer", "Refferer", "Origin", "User-Agent", "Accept", "Accept-Language", "Accept-Charset", "Accept-Datetime",
		"X-Requested-With", "X-Csrf-Token", "X-Xsrf-Token", "X-Api-Key", "X-Api-Version", "X-User", "X-User-Id", "X-Username", "X-Session",
		"X-Session-Id", "X-Auth-Token", "X-Access-Token", "X-Amz-Website-Redirect-Location", "X-Amz-Security-Token", "X-Debug", "X-Test",
		"X-Env", "X-Locale", "X-Language", "X-Country", "X-Geo", "X-Device", "X-Ua-Device", "X-Nextjs-Data", "X-Middleware-Subrequest",
		"X-Middleware-Prefetch", "X-Invoke-Path", "X-Invoke-Query", "X-Matched-Path", "X-Now-Route-Matches", "X-Vercel-Id", "Next-Router-State-Tree",
		"Rsc", "Pragma", "Cache-Control", "Surrogate-Capability", "Early-Data", "Dnt", "Save-Data", "Sec-Fetch-Site", "If-None-Match", "If-Modified-Since",
	}
}

// Two identities send every poison header for the same pages, to an origin that reflects what
// it receives into cacheable pages. Neither of them, nor a visitor without headers, ever gets a
// page that contains the other's values.
func TestPoisonHeadersOfTwoIdentities(t *testing.T) {
	t.Parallel()
	origin, _ := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := len(r.URL.Path); { // the ways in which a response opts in
		case n%3 == 0:
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		case n%3 == 1:
			w.Header().Set("Cache-Control", "max-age=60")
		default:
			w.Header().Set("Expires", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
		}
		fmt.Fprintf(w, "%s %s %s %v", r.Method, r.Host, r.RequestURI, r.Header)
	})
	g := startTarget(t, origin, "--query", "page")
	identities := []string{"alice", "mallory"}
	attack := func(who, path, fields string) {
		res, err := g.tryRaw("GET " + path + " HTTP/1.1\r\nHost: " + site + "\r\n" + fields + "Connection: close\r\n\r\n")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		body, err := io.ReadAll(res.Body)
		text := fmt.Sprint(res.Header, string(body))
		for _, other := range identities {
			if other != who && strings.Contains(text, other) {
				t.Errorf("%q requested %s with %.60q and got content of %s: %.300s", who, path, fields, other, text)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	var group sync.WaitGroup
	for turn, who := range []string{"alice", "mallory", "", "alice", "mallory", ""} {
		for i, name := range poison() {
			path := fmt.Sprintf("/page%d?page=1", i)
			if who == "" {
				group.Go(func() { attack(who, path, "") })
				continue
			}
			value := who + ".example"
			fields := []string{
				name + ": " + value + "\r\n",
				name + ": " + value + "\r\nCookie: id=" + who + "\r\n",
				name + ": " + value + "\r\nAuthorization: Bearer " + who + "\r\n",
			}[(turn+i)%3]
			group.Go(func() { attack(who, path, fields) })
		}
		group.Wait()
	}
	for _, who := range identities {
		for _, path := range []string{"/?user=" + who, "/?page=1&" + who, "/?page=1;" + who, "//" + who + ".example/", "/%2e%2e/" + who} {
			attack(who, path, "")
		}
	}
	attack("", "/?page=1", "")
	attack("", "/", "")
	if rows := g.stored(); strings.Contains(rows, "Authorization") || strings.Contains(rows, `id=`) {
		t.Errorf("stored: %s", rows)
	}
	g.healthy()
}
