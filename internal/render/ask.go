package render

import (
	"errors"
	"fmt"
	"net/http"
)

// Ask sends a request to a renderer, and returns the header of what it answers. The rest of the response is
// not read. The renderer may go on until the context of the request ends.
func Ask(h http.Handler, r *http.Request) (Answer, error) {
	answers, failed := make(chan Answer, 1), make(chan error, 1)
	to := discarded{header: make(http.Header), outage: new(Recorder)}
	w := &watcher{ResponseWriter: to, show: func(a Answer) { answers <- a }}
	go func() {
		defer func() {
			if v := recover(); v != nil {
				failed <- fmt.Errorf("%w: %v", ErrPanicked, v)
			}
		}()
		h.ServeHTTP(w, r)
		w.sent(http.StatusOK) // in case nothing was written
	}()
	select {
	case a := <-answers:
		return a, to.outage.Unreached() // then it is the error page of a proxy
	case err := <-failed:
		select {
		case a := <-answers: // it panicked after that
			return a, nil
		default:
			return Answer{}, err
		}
	case <-r.Context().Done():
		return Answer{}, ErrTimeout
	}
}

// errDiscarded ends a response of which only the header is read.
var errDiscarded = errors.New("only the header of the response is read")

// discarded is an [http.ResponseWriter] that takes no body.
type discarded struct {
	header http.Header
	outage *Recorder // knows whether the renderer has reached its origin (see [Of])
}

func (d discarded) Header() http.Header { return d.header }

func (discarded) WriteHeader(int) {}

func (discarded) Write([]byte) (int, error) { return 0, errDiscarded }

// Flush implements [http.Flusher]: there is nothing to flush.
func (discarded) Flush() {}

// Unwrap lets [Of] reach the recorder.
func (d discarded) Unwrap() http.ResponseWriter { return d.outage }

// An Answer is the header of a response.
type Answer struct {
	Status int
	Header http.Header
}

// A watcher shows the header of a response before it is judged.
type watcher struct {
	http.ResponseWriter
	show func(Answer)
}

func (w *watcher) WriteHeader(status int) {
	w.sent(status)
	w.ResponseWriter.WriteHeader(status)
}

// sent shows the header, once.
func (w *watcher) sent(status int) {
	if w.show != nil && status >= 200 {
		w.show(Answer{status, w.Header().Clone()})
		w.show = nil
	}
}

func (w *watcher) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher] for renderers that require it.
func (w *watcher) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a recorder can flush
}

// Unwrap lets [Of] reach the recorder.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Watch returns a renderer that calls show with the header of what h answers.
func Watch(h http.Handler, show func(Answer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &watcher{ResponseWriter: w, show: show}
		h.ServeHTTP(seen, r)
		if r.Context().Err() == nil {
			seen.sent(http.StatusOK) // in case nothing was written
		}
	})
}
