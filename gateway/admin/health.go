package admin

import (
	"net/http"
	"time"
)

// A Health is a sign of life, and to those who may know it, whose.
type Health struct {
	Status  string    `json:"status" doc:"Always ok."`
	Version string    `json:"version,omitempty" doc:"Which program this is."`
	Store   string    `json:"store,omitempty" doc:"Where the pages are."`
	Started time.Time `json:"started_at,omitzero" doc:"When the server started."`
}

func (a *API) showHealth() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/health", name: "showHealth", limit: lookTime, public: true,
		summary: "A sign of life.",
		details: "Needs no token; without one, it says nothing but ok. It does not ask the store.",
	}, func(r *http.Request, _ struct{}) (Health, error) {
		h := Health{Status: "ok"}
		if admitted(r) {
			h.Version, h.Store, h.Started = a.cfg.Version, a.cfg.Place, a.began.UTC()
		}
		return h, nil
	})
}
