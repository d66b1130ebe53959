package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
)

// Maintenance is the maintenance mode of a site: its origins are not called. Stored pages are served, stale ones as
// while an origin fails, and every other request gets Page with status 503: pages that are not stored, requests that bypass the
// cache, and unsafe methods. Editors with a draft token (see [Drafts]) reach the origin. Renders in progress go on, and so do
// health checks.
type Maintenance struct {
	// On begins maintenance mode, whatever [Site.SetMaintenance] says.
	On bool
	// Page is shown to visitors who get no stored page. An empty Body means a built-in page.
	Page isr.ErrorPage
}

// DefaultMaintenanceRetry is the Retry-After of the maintenance page, if it has none.
const DefaultMaintenanceRetry = 5 * time.Minute

// builtInMaintenancePage is shown if a site has no page of its own.
const builtInMaintenancePage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Down for maintenance</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:20vh auto 0;padding:0 1.5rem}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}}</style>
<h1>Down for maintenance</h1>
<p>This page is not available while the site is being worked on. Please try again in a few minutes.</p>
</html>
`

// page returns the page as it is sent.
func (m Maintenance) page() *isr.ErrorPage {
	p := m.Page
	if len(p.Body) == 0 {
		p.ContentType, p.Body = "text/html; charset=utf-8", []byte(builtInMaintenancePage)
	}
	if p.RetryAfter <= 0 {
		p.RetryAfter = DefaultMaintenanceRetry
	}
	p.Status = http.StatusServiceUnavailable
	return &p
}

// maintenance is the maintenance mode of a running site.
type maintenance struct {
	cfg      Maintenance // guarded by Site.mu
	switched bool        // guarded by Site.mu: by SetMaintenance
	shown    atomic.Pointer[isr.ErrorPage]
}

// shownTo returns a writer that shows the maintenance page for errors, while maintenance mode is on.
func (m *maintenance) shownTo(w http.ResponseWriter) http.ResponseWriter {
	p := m.shown.Load()
	if p == nil {
		return w
	}
	return maintenanceWriter{w, p}
}

// maintain applies the maintenance mode. Callers must hold s.mu.
func (s *Site) maintain() {
	m := &s.maintenance
	on := m.cfg.On || m.switched
	if on {
		m.shown.Store(m.cfg.page())
	}
	for _, o := range s.tree.Load().origins {
		o.budget.Pause(on)
	}
	if !on {
		m.shown.Store(nil)
	}
}

// SetMaintenance begins or ends maintenance mode, unless [Maintenance.On] has it on anyway.
func (s *Site) SetMaintenance(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maintenance.switched = on
	s.maintain()
}

// InMaintenance reports whether maintenance mode is on by the configuration, and by SetMaintenance.
func (s *Site) InMaintenance() (configured, switched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maintenance.cfg.On, s.maintenance.switched
}

// A maintenanceWriter shows the maintenance page for errors.
type maintenanceWriter struct {
	http.ResponseWriter
	page *isr.ErrorPage
}

var _ isr.ErrorPager = maintenanceWriter{}

// ErrorPage implements [isr.ErrorPager].
func (w maintenanceWriter) ErrorPage(status int, _ bool) *isr.ErrorPage {
	if status < http.StatusInternalServerError {
		return nil
	}
	return w.page
}

// Unwrap is for [http.ResponseController].
func (w maintenanceWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
