package isr

import (
	"bytes"
	"cmp"
	"html"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A Report describes the answer to one request, for metrics and access logs. Its texts come
// from the configuration or from closed sets, except Key and Generation.
type Report struct {
	// Route is the label of the route (see [Route.Label]); empty if the request reached none.
	Route string
	// Key is the key of the page; zero for a request that was not projected onto one.
	Key store.Key
	// Hit, Forward, ForwardStatus, Stored, Collapsed and Detail are the parameters of
	// Cache-Status (RFC 9211, section 2): Forward is "miss", "stale", "bypass", "method" or
	// "request", and empty for a hit. A visitor who goes away before the answer has the detail
	// "canceled", and gets no Cache-Status. All are zero if the cache did not answer, as for
	// a request without a route.
	Hit           bool
	Forward       string
	ForwardStatus int
	Stored        bool
	Collapsed     bool
	Detail        string
	// Refused: the request was not accepted, as by an allow list or a rate limit; Detail says by which. Such requests may be
	// many, and are not written to logs one by one.
	Refused bool
	// Age is the age of the page, and Generation its id; zero if there is no page.
	Age        time.Duration
	Generation string
	// Render is how long the origin took for the render that the request waited for, and
	// LeaseWait how long the request waited while another process held the lease. Zero
	// otherwise, as for requests that pass through.
	Render    time.Duration
	LeaseWait time.Duration
}

// A Reporter is an [http.ResponseWriter] that receives a Report. The handlers of a cache fill
// it while they serve, if the writer that they are called with is a Reporter, or unwraps to
// one (see [http.ResponseController]).
type Reporter interface {
	http.ResponseWriter
	// Report returns the report of the request, which the handler writes to until it returns.
	Report() *Report
}

// ReportOf returns the report of the request that a writer is for, nil if the writer is no
// [Reporter] and does not unwrap to one. It is on the hit path.
func ReportOf(w http.ResponseWriter) *Report {
	for {
		switch inner := w.(type) {
		case Reporter:
			return inner.Report()
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}

// answer records what Cache-Status says. A nil report records nothing.
func (r *Report) answer(s httpcache.Status) {
	if r == nil {
		return
	}
	r.Hit, r.Forward, r.ForwardStatus, r.Stored, r.Collapsed, r.Detail = s.Hit, s.Forward, s.ForwardStatus, s.Stored, s.Collapsed, s.Detail
	if s.Hit {
		r.Forward = "" // a fallback
	}
}

// identify reports the route, and the page that a request is for.
func (h *handler) identify(w http.ResponseWriter, k store.Key) {
	if r := ReportOf(w); r != nil {
		r.Route, r.Key = h.route.Label, k
	}
}

// ofPage records that a request is answered with a page of this age.
func (r *Report) ofPage(label string, p *page.Page, status httpcache.Status, age time.Duration) {
	r.Route, r.Key, r.Age, r.Generation = label, p.Key, age, p.Entry.GenerationID
	r.answer(status)
}

// reportWaits reports what a request has waited for in a flight since it came. got is the reply
// that it gets.
func reportWaits(w http.ResponseWriter, f *fill.WaitTimes, came time.Time, got reply) {
	r := ReportOf(w)
	if r == nil {
		return
	}
	r.LeaseWait = max(r.LeaseWait, f.LeaseWait.Load().Since(came))
	if _, stored := got.outcome.(fill.StoredPage); !stored {
		r.Render = time.Duration(f.Took.Load())
	}
}

// WriteErrorPage responds with a text for people that no cache may store. text is a sentence or
// two, without a line break. The last line of the page is the id of the request (see
// [RequestIDLine]). A renderer may use it too: each visitor who gets the page of a shared render
// gets the line with the id of its own request.
func WriteErrorPage(w http.ResponseWriter, status int, text string) {
	if r := render.Of(w); r != nil {
		r.MarkPlain() // visitors get the page of theirs when it is sent
	} else if p := errorPageOf(w, status, true); p != nil {
		p.send(w, status, false)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n"+RequestIDLine(w)) // the visitor is gone
}

// An ErrorPage is what a site shows instead of the text of an error. It is immutable.
type ErrorPage struct {
	// Status replaces the status of the error. Zero: it stays.
	Status int
	// ContentType is the Content-Type of Body.
	ContentType string
	// Body is the page. The text {request_id} in it stands for the id of the request, escaped for HTML and XML;
	// it is removed if there is none.
	Body []byte
	// RetryAfter is stated in Retry-After, rounded up to seconds. Zero: what the error itself states, if anything.
	RetryAfter time.Duration
}

// requestIDMark stands for the id of a request in an [ErrorPage].
const requestIDMark = "{request_id}"

// send sends the page with a status. Fields that are set already stay, except those of the page.
func (p *ErrorPage) send(w http.ResponseWriter, status int, head bool) {
	body := p.Body
	if bytes.Contains(body, []byte(requestIDMark)) {
		body = bytes.ReplaceAll(body, []byte(requestIDMark), []byte(html.EscapeString(requestID(w))))
	}
	h := w.Header()
	if p.RetryAfter > 0 {
		delete(h, "Retry-After")
		setRetryAfter(h, p.RetryAfter)
	}
	delete(h, "Content-Encoding")
	h["Content-Type"], h["Content-Length"] = []string{p.ContentType}, []string{strconv.Itoa(len(body))}
	h["Cache-Control"], h["X-Content-Type-Options"] = []string{"no-store"}, []string{"nosniff"}
	w.WriteHeader(cmp.Or(p.Status, status))
	if !head {
		_, _ = w.Write(body) // the visitor is gone
	}
}

// An ErrorPager is an [http.ResponseWriter] with pages of its own for error responses. The handlers of a cache
// and [WriteErrorPage] show them, if the writer that they are called with is an ErrorPager, or unwraps to one (see
// [http.ResponseController]).
type ErrorPager interface {
	http.ResponseWriter
	// ErrorPage returns the page for an error response with a status; nil if it has none. own: the text is this
	// program's, and not the renderer's.
	ErrorPage(status int, own bool) *ErrorPage
}

// errorPageOf returns the page that a site shows for an error; nil if it has none.
func errorPageOf(w http.ResponseWriter, status int, own bool) *ErrorPage {
	for {
		if pager, ok := w.(ErrorPager); ok {
			if p := pager.ErrorPage(status, own); p != nil {
				return p
			}
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = inner.Unwrap()
	}
}

// Identified is an [http.ResponseWriter] that knows the id of the request that it answers.
type Identified interface {
	http.ResponseWriter
	// RequestID returns the id, which may be made by the first call; empty if there is none. It is called
	// by the goroutine that serves the request.
	RequestID() string
}

// RequestIDLine returns the last line of a plain error page: the id by which an operator finds
// the request that w answers. It is empty unless w, or a writer that it unwraps to (see
// [http.ResponseController]), is [Identified].
func RequestIDLine(w http.ResponseWriter) string {
	if id := requestID(w); id != "" {
		return "Request ID: " + id + "\n"
	}
	return ""
}

// requestID returns the id of the request that w answers; empty if it has none.
func requestID(w http.ResponseWriter) string {
	for {
		switch inner := w.(type) {
		case Identified:
			return inner.RequestID()
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return ""
		}
	}
}

// requestIDHeader is the header by which an origin gets the id of a request.
const requestIDHeader = "X-Request-Id"

// forwardRequestID adds the id of a request to its header, before the renderer may get it. Hits
// go without: an id is made when it is first asked for.
func forwardRequestID(w http.ResponseWriter, r *http.Request) {
	if id := requestID(w); id != "" {
		r.Header[requestIDHeader] = []string{id}
	}
}
