package admin

import (
	"net/http"
	"time"
)

// A Health is the health of the server; the fields after Status need a token.
type Health struct {
	Status  string    `json:"status" doc:"Always ok."`
	Version string    `json:"version,omitempty" doc:"Version of the program."`
	Store   string    `json:"store,omitempty" doc:"Where pages are stored."`
	Started time.Time `json:"started_at,omitzero" doc:"When the server started."`
}

func (a *API) showHealth() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/health", name: "showHealth", limit: lookTime, public: true,
		summary: "Check that the server runs.",
		details: "Needs no token; without one, the response is only the status ok. Does not check the store.",
	}, func(r *http.Request, _ struct{}) (Health, error) {
		h := Health{Status: "ok"}
		if visitorOf(r).admitted {
			h.Version, h.Store, h.Started = a.cfg.Version, a.cfg.Place, a.began.UTC()
		}
		return h, nil
	})
}
