package fill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// MaxLoaded is the longest body that is loaded from a local disk into memory when it is
// requested first, in bytes. It is the longest that peers are asked for.
const MaxLoaded = store.MaxPeerBody

// detached returns the page of an entry without its body, if that suffices for the request that started
// the fill, or is how such bodies are sent; else nil. A body that is sent whole is verified, so that a
// damaged one is found before its page is served; the error is then as of fill.body.
func (s *Fill) detached(ctx context.Context, rec store.Record, read page.Interval) (*page.Page, error) {
	e := *rec.Entry
	if !s.e.Reader.Sendable(&e) {
		return nil, nil
	}
	p := page.NewDetached(s.Key, e, rec.Purges, read, s.Policy.View)
	if s.Light != nil {
		s.e.Encoder.Describe(ctx, p, s.Policy.View, s.Accept)
	}
	switch {
	case p.IsLight(s.Light, s.Policy.View):
		return p, nil
	case !s.e.SentFromDisk(p):
		return nil, nil
	}
	err := s.e.Reader.Check(ctx, &e)
	if errors.Is(err, bodies.ErrUnreadable) && !s.pinned(rec) {
		err = fmt.Errorf("%w: %w", bodies.ErrMissing, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// SentFromDisk reports whether whole bodies of a detached page are sent from the local disk.
func (e *Engine) SentFromDisk(p *page.Page) bool {
	return e.Reader.HasLocal() && p.Size() > MaxLoaded && !p.Codable
}

// sendRest sends what follows an offset in the body of a page that was just stored.
func (e *Engine) sendRest(ctx context.Context, w http.ResponseWriter, p *page.Page, offset int64) {
	body := e.Reader.Open(ctx, &p.Entry, "")
	defer body.Close()
	if _, err := body.Seek(offset, io.SeekStart); err == nil { // it fails for no offset of a body
		body.Send(w)
	}
	page.MustHaveSent(body, func(err error) { e.Suspect(p, err) })
}

// Suspect has the body of a page read and verified as a whole when the page is requested next.
func (e *Engine) Suspect(p *page.Page, err error) {
	e.Reader.Suspect(p.Entry.BodyKey)
	e.Node.Drop(p.Key)
	e.Complaints.Log("the body of a page cannot be sent from the store; it is verified", "key", p.Key.String(), "body", p.Entry.BodyKey, "error", err)
}
