package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A trouble is a way in which an origin fails or sends a response that must not be shared, and
// what visitors get: the status, the body, and Cache-Status without its ttl.
type trouble struct {
	name      string
	behave    func(*origin) behaviour // nil: the origin is down
	cold      string                  // the first visitor of a page without a stored copy
	coldLate  string                  // the first, if the origin was faster than a busy machine; empty if that changes nothing
	coldAgain string                  // the next one
	kept      string                  // the first visitor once a stale copy is there
	keptAgain string                  // the next, when its regeneration has come to its end
	withdraws bool                    // it ends the copy
}

const (
	theStaleCopy = "200 the stale copy | isr; hit; detail=stale"
	plain        = "a plain sentence" // perhaps with the id of the request
	originsOwn   = "the origin's answer"
)

func troubles() []trouble {
	const refusedAgain = "200 " + originsOwn + " | isr; fwd=bypass; fwd-status=200; detail="
	refused := func(name, reason string, b behaviour) trouble {
		return trouble{
			name: name, behave: func(*origin) behaviour { return b },
			cold:      "200 " + originsOwn + " | isr; fwd=miss; fwd-status=200; detail=" + reason,
			coldAgain: refusedAgain + reason, kept: theStaleCopy, keptAgain: refusedAgain + reason,
		}
	}
	failed := func(name string, status int, whose string, b behaviour) trouble {
		answer := fmt.Sprintf("%d %s | isr; fwd=miss; fwd-status=%d; detail=", status, whose, status)
		return trouble{
			name: name, behave: func(*origin) behaviour { return b },
			cold: answer + "render-failed", coldAgain: answer + "back-off", kept: theStaleCopy, keptAgain: theStaleCopy,
		}
	}
	down := failed("down", http.StatusBadGateway, plain, nil)
	down.behave = nil
	hanging := failed("hanging", http.StatusGatewayTimeout, plain, nil)
	hanging.behave = func(o *origin) behaviour { return o.hang }
	cookie := refused("Set-Cookie", "set-cookie", setCookie)
	cookie.withdraws = true
	endless := refused("50 MB in chunks", "too-large", big(false))
	endless.cold, endless.coldLate = "200 "+originsOwn+" | isr; fwd=miss; fwd-status=200; stored", endless.cold // it was being stored, or was known to be too large
	blank := refused("an empty page", "empty", empty)
	blank.keptAgain = theStaleCopy // a blank page never takes the place of a good one
	return []trouble{
		down,
		hanging,
		failed("half a body", http.StatusBadGateway, plain, halfBody),
		failed("chunks cut off", http.StatusBadGateway, plain, chunksCutOff),
		failed("500", http.StatusInternalServerError, originsOwn, internalError),
		cookie,
		refused("Vary: Cookie", "vary", greeting),
		refused("50 MB", "too-large", big(true)),
		endless,
		blank,
	}
}

// Each kind of trouble, with a stale copy and without one; nothing of it is stored.
func TestOriginTrouble(t *testing.T) {
	t.Parallel()
	for _, tr := range troubles() {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			o.set("/kept", page(1, 0))
			g := serve(t, embedded(t, "--breaker-failures", "0"), o) // several pages may be tried
			get(t, g.url+"/kept")
			before := g.stored(t)
			awaitClock(t, "the page to expire", o.times("/kept")[0].Add(time.Second))
			if tr.behave == nil {
				o.down()
			} else {
				o.set("/cold/", tr.behave(o))
				o.set("/kept", tr.behave(o))
			}
			got := tr.visitors(t, g)
			expectReplies(t, tr, got)
			if tr.withdraws {
				expectWithdrawn(t, g)
				return
			}
			expectStoredAsBefore(t, g, before)
		})
	}
}

// leastBackOff is how long a failure is remembered at least.
const leastBackOff = 500 * time.Millisecond

// visitors are four clients, each with its own connection.
func (tr trouble) visitors(t *testing.T, g *gateway) []reply {
	t.Helper()
	kept := get(t, g.url+"/kept")
	if kept.took > 25*time.Second { // the time limit of a render is 30 s
		t.Errorf("the visitor of a page with a stale copy waited %s", kept.took)
	}
	var first, again reply
	tried := 0
	await(t, "a second visitor who comes after the render has ended, and before its failure is forgotten", patience, func() bool {
		tried++
		url, began := fmt.Sprintf("%s/cold/%d", g.url, tried), time.Now()
		first, again = get(t, url), get(t, url)
		return time.Since(began) < leastBackOff && !strings.Contains(again.cache(), "; collapsed") || describe(again) == tr.coldAgain
	})
	await(t, "the regeneration to end", patience, func() bool { return g.get(t, host+"/kept").LeaseOwner == "" })
	return []reply{first, again, kept, get(t, g.url+"/kept")}
}

func expectReplies(t *testing.T, tr trouble, got []reply) {
	t.Helper()
	var cookies []string
	for i, want := range []string{tr.cold, tr.coldAgain, tr.kept, tr.keptAgain} {
		who := []string{"cold", "cold, next", "with a stale copy", "with a stale copy, next"}[i]
		if text := describe(got[i]); text != want && (i > 0 || text != tr.coldLate) {
			t.Errorf("%s: %s\n got  %s\n want %s", tr.name, who, text, want)
		} else {
			t.Logf("%-16s | %-24s | %s | %s", tr.name, who, text, got[i].took.Round(time.Millisecond))
		}
		for _, cookie := range got[i].header["Set-Cookie"] {
			if slices.Contains(cookies, cookie) {
				t.Errorf("two visitors got the cookie %q", cookie)
			}
			cookies = append(cookies, cookie)
		}
		if cache := got[i].header.Get("Cache-Control"); got[i].status >= 500 && cache != "no-store" {
			t.Errorf("%s: an error with Cache-Control %q, expected no-store", tr.name, cache)
		}
	}
}

// describe returns a reply in the words of the table.
func describe(r reply) string {
	whose := plain
	switch {
	case r.body == bodyOf("/kept", 1):
		whose = "the stale copy"
	case strings.HasPrefix(r.body, originMark), r.status == http.StatusOK && r.body == "":
		whose = originsOwn
		if len(r.body) > len(bigChunk) && len(r.body) != bigBody {
			whose = fmt.Sprintf("%d bytes of the origin's answer", len(r.body))
		}
	case !regexp.MustCompile(`Please try again in a moment\.\n(Request ID: [0-9a-f]{32}\n)?$`).MatchString(r.body):
		whose = fmt.Sprintf("%.100q", r.body)
	}
	ttl := regexp.MustCompile(`; ttl=-?\d+`)
	return fmt.Sprintf("%d %s | %s", r.status, whose, ttl.ReplaceAllString(r.cache(), ""))
}

// expectWithdrawn fails the test unless the stored copy is withdrawn and no other page is
// stored.
func expectWithdrawn(t *testing.T, g *gateway) {
	t.Helper()
	after := g.stored(t)
	if kept := after[host+"/kept"]; len(after) != 1 || kept.State != "withdrawn" || kept.Status != http.StatusGone {
		t.Errorf("stored are %+v, expected one page that was withdrawn", after)
	}
}

// expectStoredAsBefore fails the test if the stored pages or their generations have changed.
func expectStoredAsBefore(t *testing.T, g *gateway, before map[string]listed) {
	t.Helper()
	after := g.stored(t)
	for key, p := range after {
		if p.Generation != before[key].Generation {
			t.Errorf("%s is stored in generation %q, expected what was there before: %q", key, p.Generation, before[key].Generation)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d pages are stored, expected %d", len(after), len(before))
	}
}

// A visitor with a cookie is served by the origin directly; a visitor without one never gets
// that response.
func TestVaryCookie(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", greeting)
	g := serve(t, embedded(t), o)
	for range 3 {
		for _, who := range []string{"ann", "", "bob"} {
			var fields []string
			if who != "" {
				fields = []string{"Cookie", "user=" + who}
			}
			r := get(t, g.url+"/", fields...)
			if want := originMark + "hello " + strings.Join(fields[min(1, len(fields)):], ""); r.body != want {
				t.Errorf("visitor %q got %q, expected %q", who, r.body, want)
			}
		}
	}
	expectNothingStored(t, g)
}

// After the origin recovers, a page that failed is rendered after a back-off of a second or
// two, and a stale page is regenerated.
func TestOriginRecovers(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/kept", page(1, 0))
	g := serve(t, embedded(t), o)
	get(t, g.url+"/kept")
	awaitClock(t, "the page to expire", o.times("/kept")[0].Add(time.Second))
	for _, path := range []string{"/cold", "/kept"} {
		o.set(path, internalError)
		get(t, g.url+path)
	}
	o.awaitVisit(t, "/kept", 2, patience)
	for _, path := range []string{"/cold", "/kept"} {
		failed := o.count(path)
		o.set(path, page(60, 0))
		took := await(t, path+" to be well", patience, func() bool {
			r := get(t, g.url+path)
			return r.status == http.StatusOK && renderingOf(path, r.body) > failed
		})
		t.Logf("%s: well %s after the origin is, which was asked %d times in all", path, took.Round(time.Millisecond), o.count(path))
	}
}

// A response that is truncated while it passes through is truncated for the visitor too: it
// must not look complete.
func TestCutOffPassesOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/half", halfBody)
	o.set("/chunks", chunksCutOff)
	g := serve(t, embedded(t), o)
	for _, path := range []string{"/half", "/chunks"} {
		if r := visit(t.Context(), browsers(t), http.MethodPost, g.url+path); r.err == nil {
			t.Errorf("POST %s: got %s, expected a connection that breaks off", path, r)
		}
	}
}

// originMark is the prefix of the responses of a failing origin.
const originMark = "origin: "

func (o *origin) down() {
	_ = o.server.Listener.Close()
	o.server.CloseClientConnections()
}

func halfBody(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Content-Length", "10000")
	chunksCutOff(w, nil, 0)
}

func chunksCutOff(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header()["Content-Type"] = nil // so that it is not streamed, and its visitors get 502
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	_, _ = w.Write([]byte(originMark + strings.Repeat("half ", 1000)))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func internalError(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write([]byte(originMark + "out of order"))
}

func setCookie(w http.ResponseWriter, r *http.Request, n int) {
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	http.SetCookie(w, &http.Cookie{Name: "visitor", Value: r.URL.Path[1:] + strconv.Itoa(n)})
	_, _ = w.Write([]byte(originMark + "welcome"))
}

func greeting(w http.ResponseWriter, r *http.Request, _ int) {
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	w.Header().Set("Vary", "Cookie")
	_, _ = w.Write([]byte(originMark + "hello " + r.Header.Get("Cookie")))
}

func empty(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
}

const (
	bigChunk = originMark + "0123456789 0123456789 0123456789 0123456789 0123456\n" // 64 bytes
	bigBody  = 50_000_000 / len(bigChunk) * len(bigChunk)
)

// big is 50 MB, with its length declared or not.
func big(declared bool) behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		w.Header().Set("Content-Type", "text/plain")
		if declared {
			w.Header().Set("Content-Length", strconv.Itoa(bigBody))
		}
		block := []byte(strings.Repeat(bigChunk, 1000))
		for sent := 0; sent < bigBody; sent += len(block) {
			if _, err := w.Write(block[:min(len(block), bigBody-sent)]); err != nil {
				return
			}
		}
	}
}
