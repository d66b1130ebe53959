package gateway

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
)

// A pseudonym names this gateway in Via (RFC 9110, section 7.6.3). It is unique, so that a
// request that comes back is recognized.
type pseudonym string

func newPseudonym() pseudonym { return pseudonym("isr-" + strings.ToLower(rand.Text()[:12])) }

// sign adds the gateway to the Via of a request to the origin. major and minor are the
// version of the request from the client.
func (p pseudonym) sign(out http.Header, major, minor int) {
	entry := fmt.Sprintf("%d.%d %s", major, minor, string(p))
	if lines := out["Via"]; len(lines) > 0 {
		entry = strings.Join(lines, ", ") + ", " + entry
	}
	out["Via"] = []string{entry}
}

// refuseLoops returns a handler that refuses the requests which this gateway has sent: without
// it, a request to an origin that leads back here would wait for itself.
func (p pseudonym) refuseLoops(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, line := range r.Header["Via"] {
			for member := range httpcache.Members(line) {
				if _, by, _ := strings.Cut(member, " "); by == string(p) {
					plain(w, http.StatusLoopDetected, "The address of the origin leads back to this cache. Check the origin in its configuration, and what is between.")
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}
