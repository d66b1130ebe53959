package gateway

import (
	"fmt"
	"net/http"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/redirect"
)

// redirectStatus is the Cache-Status of a redirect of the configuration.
const redirectStatus = "isr; detail=redirect"

// permanentFor bounds how long browsers keep a permanent redirect, for which they have no bound of their own: a mistake would
// last for years.
const permanentFor = "max-age=3600"

// moved answers a request that is redirected.
type moved redirect.Redirect

func (to moved) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Location", to.Location)
	h.Set("Cache-Status", redirectStatus)
	h.Set("Cache-Control", "no-cache")
	if to.Status == http.StatusMovedPermanently || to.Status == http.StatusPermanentRedirect {
		h.Set("Cache-Control", permanentFor)
	}
	h.Set("Content-Length", "0")
	if report := isr.ReportOf(w); report != nil {
		report.Detail = "redirect"
	}
	w.WriteHeader(to.Status)
}

// redirectDecision describes moved.
func redirectDecision(to redirect.Redirect) isr.Decision {
	return isr.Decision{
		Verdict: isr.VerdictBypass, Status: to.Status, CacheStatus: redirectStatus,
		Reasons:     []isr.Reason{{Text: fmt.Sprintf("%s of the configuration redirects the request to %s", to.Place, to.Location)}},
		Explanation: isr.Explanation{Bypass: "redirect"},
	}
}
