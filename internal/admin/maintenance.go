package admin

import (
	"context"
	"net/http"
)

// Maintenance is the maintenance mode of a server.
type Maintenance struct {
	On         bool `json:"on" doc:"Whether the site is in maintenance mode: its origins are not called, and visitors get stored pages, or the maintenance page."`
	Configured bool `json:"configured" doc:"Whether maintenance.on of the configuration file has it on, which this operation cannot end."`
}

// A Maintainer switches the maintenance mode of a server. It must be safe for concurrent use.
type Maintainer interface {
	Maintenance() Maintenance
	// SetMaintenance begins or ends maintenance mode, also for the time after a restart.
	SetMaintenance(on bool) (Maintenance, error)
}

// A SetMaintenance is the input of a switch of maintenance mode.
type SetMaintenance struct {
	On bool `json:"on" doc:"Begin maintenance mode, or end it."`
}

// target names the new mode for the audit log.
func (s SetMaintenance) target() string {
	if s.On {
		return "maintenance mode: on"
	}
	return "maintenance mode: off"
}

func (a *API) showMaintenance() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/maintenance", name: "showMaintenance", limit: lookTime,
		summary:  "Show whether the site is in maintenance mode.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Maintenance, error) {
		if a.cfg.Maintenance == nil {
			return Maintenance{}, noSite()
		}
		return a.cfg.Maintenance.Maintenance(), nil
	})
}

func (a *API) setMaintenance() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/maintenance", name: "setMaintenance", limit: lookTime,
		summary: "Begin or end maintenance mode on this server.",
		details: "The origins are not called: stored pages are served, also stale ones, and all other requests get the maintenance page with 503. " +
			"Editors with a draft token reach the origins. The mode survives a restart. Each server has its own; maintenance.on of the configuration file is for all that read it.",
		problems: []int{http.StatusConflict},
	}, func(_ *http.Request, in SetMaintenance) (Maintenance, error) {
		if a.cfg.Maintenance == nil {
			return Maintenance{}, noSite()
		}
		return a.cfg.Maintenance.SetMaintenance(in.On)
	})
}

func noSite() *Error { return noServer("no_site", "no server is running here that serves a site") }

// Maintenance returns the maintenance mode of the server.
func (c *Client) Maintenance(ctx context.Context) (Maintenance, error) {
	return ask[Maintenance](ctx, c, http.MethodGet, "/-/maintenance", struct{}{})
}

// SetMaintenance begins or ends the maintenance mode of the server.
func (c *Client) SetMaintenance(ctx context.Context, on bool) (Maintenance, error) {
	return ask[Maintenance](ctx, c, http.MethodPost, "/-/maintenance", SetMaintenance{On: on})
}
