package caddy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/purgetarget"
	"github.com/facetheory/isr/store"
)

// maxPurge bounds the body of a purge, in bytes.
const maxPurge = 1 << 20

var _ caddy.AdminRouter = Admin{}

// Admin adds POST /isr/purge to Caddy's admin API, with the body
//
//	{"targets": [{"tag": "news"}, {"url": "example.com/"}, {"prefix": "example.com/blog/"}], "hard": true}
//
// A target may also be {"host": HOST}, {"tenant": TENANT} or {"all": true}. The pages of all isr directives
// that are selected are stale then, or, if the purge is hard, never served again: by one directive of
// each store at once, and within 250 ms by others and by other servers that share its table.
type Admin struct{}

// CaddyModule implements [caddy.Module].
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.isr", New: func() caddy.Module { return new(Admin) }}
}

// Routes implements [caddy.AdminRouter].
func (a Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/isr/purge", Handler: caddy.AdminHandlerFunc(a.purge)}}
}

// A purgeRequest is the body of a purge.
type purgeRequest struct {
	Targets []purgetarget.PurgeTarget `json:"targets"`
	Tenant  string                    `json:"tenant,omitempty"`
	Hard    bool                      `json:"hard,omitempty"`
	Unpin   bool                      `json:"unpin,omitempty"`
}

func (a Admin) purge(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("the method is %s, expected POST", r.Method)}
	}
	p, err := parsePurge(http.MaxBytesReader(w, r.Body, maxPurge))
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	var failed error
	stores := 0
	pool.Range(func(_, value any) bool {
		// One cache writes the purge; others on the same stores find it in the log.
		if c := value.(*shared).any(); c != nil {
			_, err := c.Purge(r.Context(), p)
			failed, stores = errors.Join(failed, err), stores+1
		}
		return true
	})
	switch {
	case stores == 0:
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no site has the directive isr")}
	case errors.Is(failed, store.ErrInvalidInput), errors.Is(failed, store.ErrInvalidKey), errors.Is(failed, store.ErrPinned):
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: failed}
	case failed != nil:
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: failed}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]int{"stores": stores, "targets": len(p.Targets)})
}

func parsePurge(body io.Reader) (p isr.Purge, err error) {
	var in purgeRequest
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return p, fmt.Errorf(`the body is not a purge: %w; expected {"targets": [{"tag": "news"}], "hard": true}`, err)
	}
	if n := len(in.Targets); n == 0 || n > store.MaxPurgeTargets {
		return p, fmt.Errorf("the purge has %d targets; expected 1 to %d", n, store.MaxPurgeTargets)
	}
	p.Hard, p.Unpin = in.Hard, in.Unpin
	for i, t := range in.Targets {
		target, err := t.Parse(in.Tenant)
		if err != nil {
			return p, fmt.Errorf("target %d: %w", i+1, err)
		}
		p.Targets = append(p.Targets, target)
	}
	return p, nil
}
