package admin

import (
	"errors"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// Bounds of stored bodies that are shown, in bytes.
const (
	maxShown  = 4 << 20 // larger bodies are not read
	shownText = 1 << 20
)

// quarantinedGeneration selects the generation in quarantine.
const quarantinedGeneration = "quarantined"

// A Generation names a generation of a page.
type Generation struct {
	Target
	Generation string `json:"generation,omitempty" doc:"Its id, or an unambiguous prefix of it; quarantined: the rejected one. Default: the current one."`
}

// A Body is the stored body of a generation, as text.
type Body struct {
	Key         string    `json:"key" doc:"The page's key."`
	Generation  string    `json:"generation_id" doc:"Id of the generation."`
	GeneratedAt time.Time `json:"generated_at" doc:"When its rendering began."`
	ContentType string    `json:"content_type" doc:"Its header field Content-Type."`
	Bytes       int64     `json:"body_bytes" doc:"Size of the body, without content coding."`
	Shown       int64     `json:"shown_bytes" doc:"Size of the text."`
	Truncated   bool      `json:"truncated" doc:"The text is only the beginning, of 1 MiB."`
	Binary      bool      `json:"binary" doc:"The body is no UTF-8, and not shown."`
	Text        string    `json:"text" doc:"The body."`
}

// stored returns a generation and its body.
func (a *API) stored(r *http.Request, in Generation) (k store.Key, e store.Entry, body []byte, err error) {
	if k, err = in.key(); err != nil {
		return k, e, nil, err
	}
	if in.Generation == quarantinedGeneration {
		if visitorOf(r).role == RoleRead {
			return k, e, nil, &Error{
				Status: http.StatusForbidden, Code: "read_only", Message: "this token may not see generations that were rejected", Hint: "use the admin token",
			}
		}
		e, body, err = a.cache.QuarantinedBody(r.Context(), k, maxShown)
	} else {
		e, body, err = a.cache.Body(r.Context(), k, in.Generation, maxShown)
	}
	switch {
	case errors.Is(err, store.ErrNoVersion):
		err = errNoVersion(err)
	case errors.Is(err, isr.ErrNoBody):
		err = &Error{Status: http.StatusNotFound, Code: "no_body", Message: err.Error(), Hint: "isr get writes a body of any size"}
	case errors.Is(err, store.ErrNotQuarantined):
		err = quarantineError(err)
	}
	return k, e, body, err
}

func (a *API) showBody() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/body", name: "showBody", limit: lookTime,
		summary:  "Show the stored body of a generation, as text.",
		details:  "Bodies of more than 4 MiB are not shown. Bodies of rejected generations are for the admin token only.",
		problems: []int{http.StatusNotFound},
	}, func(r *http.Request, in Generation) (Body, error) {
		k, e, body, err := a.stored(r, in)
		if err != nil {
			return Body{}, err
		}
		b := Body{
			Key: k.String(), Generation: e.GenerationID, GeneratedAt: e.GeneratedAt.UTC(),
			ContentType: e.Header.Get("Content-Type"), Bytes: int64(len(body)),
		}
		if b.Binary = !utf8.Valid(body) || strings.ContainsRune(string(body), 0); b.Binary {
			return b, nil
		}
		if b.Truncated = len(body) > shownText; b.Truncated {
			body = body[:shownText]
		}
		b.Text = strings.ToValidUTF8(string(body), "")
		b.Shown = int64(len(b.Text))
		return b, nil
	})
}

// storedPolicy is the Content-Security-Policy of a stored page. The browser gives it an origin
// of its own, runs none of its scripts, and loads nothing for it.
const storedPolicy = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

func (a *API) showStored() operation {
	op := operation{
		method: http.MethodGet, path: "/-/document", name: "showStored", limit: lookTime, kind: "text/html",
		summary:  "Show a stored page, for a frame of the console.",
		details:  "HTML of at most 4 MiB, which can neither run scripts nor load anything. Rejected generations are for the admin token only.",
		problems: []int{http.StatusNotFound, http.StatusUnsupportedMediaType},
		input:    reflect.TypeFor[Generation](), output: reflect.TypeFor[string](),
	}
	op.serve = func(x *exchange) error {
		in, err := decode[Generation](x, op)
		if err != nil {
			return err
		}
		_, e, body, err := a.stored(x.r, in)
		if err != nil {
			return err
		}
		kind := e.Header.Get("Content-Type")
		if media, _, _ := mime.ParseMediaType(kind); media != "text/html" && media != "application/xhtml+xml" {
			return &Error{
				Status: http.StatusUnsupportedMediaType, Code: "not_html", Message: "the page is no HTML, but " + strings.ToValidUTF8(kind, "?"),
				Hint: "GET /-/body shows it as text",
			}
		}
		h := x.w.Header()
		h.Set("Content-Security-Policy", storedPolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		writeHeader(x.w, htmlKind(kind), http.StatusOK)
		_, _ = x.w.Write(body) // fails if the client is gone
		return nil
	}
	return op
}

// htmlKind returns the Content-Type of a stored page: HTML, also if it is XHTML, with its
// charset.
func htmlKind(kind string) string {
	_, parameters, _ := mime.ParseMediaType(kind)
	if charset := parameters["charset"]; charset != "" {
		return mime.FormatMediaType("text/html", map[string]string{"charset": charset})
	}
	return "text/html"
}
