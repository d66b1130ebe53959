package gateway

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"

	"github.com/facetheory/isr"
)

// A pseudonym names this gateway in Via (RFC 9110, section 7.6.3). It is unique, so that a
// request that comes back is recognized.
type pseudonym string

func newPseudonym() pseudonym { return pseudonym("isr-" + strings.ToLower(rand.Text()[:12])) }

// sign adds the gateway to the Via of a request to the origin. major and minor are the
// version of the request from the client.
func (p pseudonym) sign(out http.Header, major, minor int) {
	entry := strconv.Itoa(major) + "." + strconv.Itoa(minor) + " " + string(p)
	if lines := out["Via"]; len(lines) > 0 {
		entry = strings.Join(lines, ", ") + ", " + entry
	}
	out["Via"] = []string{entry}
}

// refuseLoops returns a handler that refuses the requests which this gateway has sent: without
// it, a request to an origin that leads back here would wait for itself.
func (p pseudonym) refuseLoops(next http.Handler) http.Handler {
	return &loopGuard{name: p, next: next}
}

type loopGuard struct {
	name pseudonym
	next http.Handler
}

func (g *loopGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.name.sent(r.Header) {
		isr.WriteErrorPage(w, http.StatusLoopDetected, "The address of the origin leads back to this cache. Check the origin in its configuration, and what is between.")
		return
	}
	g.next.ServeHTTP(w, r)
}

// Lookup implements [isr.HitHandler].
func (g *loopGuard) Lookup(r *http.Request, hit *isr.Hit) bool {
	return !g.name.sent(r.Header) && isr.LookupIn(g.next, r, hit)
}

// sent reports whether a request with this header was sent by the gateway.
func (p pseudonym) sent(h http.Header) bool {
	for _, line := range h["Via"] {
		// Not member by member: an open quote of a client would hide those after it.
		if strings.Contains(line, string(p)) {
			return true
		}
	}
	return false
}
