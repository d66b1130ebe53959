package gateway

import (
	"net/http"

	"github.com/facetheory/isr"
)

// ErrorPages are the pages that visitors get instead of the texts of this program's own errors, by status. The keys 4 and 5 are
// for all errors from 400 and from 500 on that have none. Responses of origins stay as they are.
type ErrorPages map[int]*isr.ErrorPage

// shownTo returns a writer that shows the pages.
func (p ErrorPages) shownTo(w http.ResponseWriter) http.ResponseWriter {
	if len(p) == 0 {
		return w
	}
	return errorPagesWriter{w, p}
}

// An errorPagesWriter shows pages for errors.
type errorPagesWriter struct {
	http.ResponseWriter
	pages ErrorPages
}

var _ isr.ErrorPager = errorPagesWriter{}

// ErrorPage implements [isr.ErrorPager].
func (w errorPagesWriter) ErrorPage(status int, own bool) *isr.ErrorPage {
	if !own {
		return nil
	}
	if p := w.pages[status]; p != nil {
		return p
	}
	return w.pages[status/100]
}

// Unwrap is for [http.ResponseController].
func (w errorPagesWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
