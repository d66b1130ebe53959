package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/warm"
	"github.com/facetheory/isr/store"
)

// warmSettings returns the schedule of a file.
func warmSettings(f *config.File) warm.Settings {
	return warm.Settings{Sitemaps: f.Warm.Sitemap, Every: f.Warm.Every, Rate: f.Warm.Rate, Pages: f.Warm.Pages}
}

// makeWarm makes the schedule of warm, before reloads are accepted.
func (s *server) makeWarm(context.Context) (end func(), err error) {
	s.warm = warm.New(warm.Options{
		Store: s.back.st.Meta, Pages: warmedPages{s.reloader, s.back.cache}, Transport: ownTransport{s.public, s.reloader.file},
		Serves: func(host string) bool {
			canonicalHost, ok := canonical.Host(host)
			return ok && s.public.hosts.Load().Serve(canonicalHost)
		},
		Ended: s.warmed, Logger: s.log,
	}, warmSettings(s.reloader.file()))
	return nil, nil
}

// startWarm begins to follow the schedule. It ends as soon as the server is asked to stop, while requests are still served: ctx is
// done then, unless a successor takes over.
func (s *server) startWarm(ctx context.Context) (end func(), err error) {
	s.endWarm = untilStopped(ctx, s.warm.Run)
	return s.endWarm, nil
}

// prepareWarm gives the schedule the settings of the next file.
func (s *server) prepareWarm(_ context.Context, _, next *setup) (replacement, error) {
	return replacement{use: func() { s.warm.Set(warmSettings(next.file)) }}, nil
}

func (s *server) drainWarm(context.Context) { s.endWarm() }

// warmed counts a run, and adds it to the audit as one change.
func (s *server) warmed(r warm.Report) {
	s.watch.inst.metrics.Warmed(r)
	result := "ok"
	if r.Err != nil {
		result = r.Result()
	}
	s.administration.api.Record(admin.AuditEntry{
		Action: "warmPages", Target: strings.Join(r.Sitemaps, ", "), Result: result, TookMS: float64(r.Took.Milliseconds()),
		Remote: "this machine", Role: admin.RoleAdmin, Via: "schedule", Pages: r.Pages,
	})
}

// warmedPages are the pages of a site as visitors get them.
type warmedPages struct {
	r     *reloader
	cache *isr.Cache
}

var _ warm.Pages = warmedPages{}

// Find implements [warm.Pages].
func (p warmedPages) Find(ctx context.Context, url string) (store.Key, warm.Outcome, error) {
	request, err := admin.Explain{URL: url}.Request()
	if err != nil {
		return store.Key{}, warm.NotCached, nil //nolint:nilerr // it is the URL of no page
	}
	e, k, err := p.r.explain(request.WithContext(ctx), false)
	var refused *refusedRequest
	switch verdict := isr.Verdict(e.Verdict); {
	case errors.As(err, &refused):
		return k, warm.NotCached, nil
	case err != nil:
		return k, "", err
	case verdict == isr.VerdictHit:
		return k, warm.Fresh, nil
	case k == (store.Key{}) || verdict == isr.VerdictBypass || verdict == isr.VerdictRefused:
		return k, warm.NotCached, nil
	case e.Memory != nil && e.Memory.OriginDown:
		return k, warm.OriginDown, nil
	}
	return k, warm.Due, nil
}

// Render implements [warm.Pages].
func (p warmedPages) Render(ctx context.Context, k store.Key) (warm.Outcome, error) {
	made, err := p.cache.Regenerate(ctx, k, isr.WithUnlessFresh())
	var spared *budget.Error
	var held *store.HeldError
	switch {
	case err == nil && made.Fresh:
		return warm.Fresh, nil
	case err == nil:
		return warm.Rendered, nil
	case errors.As(err, &spared) && spared.Open:
		return warm.OriginDown, nil
	case errors.As(err, &spared):
		return warm.OriginBusy, nil
	case errors.As(err, &held) && !held.Lock.IsBackOff(), errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved), errors.Is(err, store.ErrPinned):
		return warm.Fresh, nil
	case errors.Is(err, isr.ErrUncacheable), errors.Is(err, isr.ErrUnreachable), errors.Is(err, isr.ErrNoRenderer), errors.Is(err, store.ErrInvalidKey):
		return warm.NotCached, nil
	}
	return "", err
}

// Busy implements [warm.Pages].
func (p warmedPages) Busy() bool {
	for _, o := range p.r.site.Origins() {
		if o.Waiting > 0 {
			return true
		}
	}
	return false
}

// ownTransport sends requests to the public listeners of this server without a network: no name need point here, and no
// certificate is verified. Each request is served by the handler of the listener that would receive it.
type ownTransport struct {
	public *public
	file   func() *config.File
}

// RoundTrip implements [http.RoundTripper].
func (t ownTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	file := t.file()
	listeners := t.public.now().listeners
	if len(listeners) == 0 {
		return nil, errors.New("the server is shutting down")
	}
	l := listeners[min(receiver(file, r), len(listeners)-1)] // a reload replaces both, one after the other
	listener := gateway.Listener{PublicScheme: file.PublicScheme, Scheme: file.SchemeOf(l.cfg), ClientTimeout: time.Minute}
	received := r.Clone(gateway.WithoutProtection(listener.Context(r.Context())))
	received.RequestURI, received.RemoteAddr, received.Host = r.URL.RequestURI(), "127.0.0.1:0", r.URL.Host
	received.Proto, received.ProtoMajor, received.ProtoMinor, received.Body = "HTTP/1.1", 1, 1, http.NoBody
	reader, writer := io.Pipe()
	w := &ownResponse{header: make(http.Header), body: writer, begun: make(chan *http.Response, 1)}
	go w.serve(*l.handler.Load(), received)
	select {
	case response := <-w.begun:
		response.Body, response.Request = reader, r
		return response, nil
	case <-r.Context().Done():
		_ = reader.Close() // the handler ends at its next write
		return nil, context.Cause(r.Context())
	}
}

// An ownResponse is the response to a request of an ownTransport, whose body is read while it is written.
type ownResponse struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan *http.Response // receives the response once its header is written
	wrote  bool
}

func (w *ownResponse) serve(h http.Handler, r *http.Request) {
	var err error
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("the response was broken off: %v", failure) // as net/http does to a client
		}
		w.WriteHeader(http.StatusInternalServerError) // unless it has begun
		_ = w.body.CloseWithError(err)                // nil: its end
	}()
	h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
}

// Header implements [http.ResponseWriter].
func (w *ownResponse) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *ownResponse) WriteHeader(status int) {
	if w.wrote || status < http.StatusOK {
		return
	}
	w.wrote = true
	w.begun <- &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: w.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}
}

// Write implements [http.ResponseWriter].
func (w *ownResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
