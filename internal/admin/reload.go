package admin

import (
	"context"
	"net/http"
)

// A Reload is the input of a reload, which has no fields.
type Reload struct{}

func (Reload) target() string { return "the configuration file" }

// Reloaded is the result of a reload.
type Reloaded struct {
	File    string `json:"file" doc:"Configuration file."`
	Routes  int    `json:"routes" doc:"Routes in use."`
	Origins int    `json:"origins" doc:"Origins in use."`
}

func (a *API) reload() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/reload", name: "reloadConfiguration", limit: lookTime,
		summary: "Read the configuration file again.",
		details: "Requests in flight finish under the old configuration, later ones follow the new one; pages stay in memory. " +
			"An invalid file, or one that changes what cannot change while the server runs, changes nothing.",
		problems: []int{http.StatusConflict, http.StatusUnprocessableEntity},
	}, func(r *http.Request, _ Reload) (Reloaded, error) {
		if a.cfg.Reload == nil {
			return Reloaded{}, &Error{
				Status: http.StatusConflict, Code: "no_configuration_file", Message: "no server with a configuration file is running here",
				Hint: "start isr serve --config FILE, or give the URL of a running server with --server",
			}
		}
		return a.cfg.Reload(r.Context())
	})
}

// Reload makes the server read its configuration file again.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return ask[Reloaded](ctx, c, http.MethodPost, "/-/reload", Reload{})
}
