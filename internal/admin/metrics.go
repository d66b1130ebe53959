package admin

import (
	"net/http"
	"reflect"
)

func (a *API) showMetrics() operation {
	return operation{
		method: http.MethodGet, path: "/metrics", name: "showMetrics", limit: lookTime, kind: "text/plain",
		input: reflect.TypeFor[struct{}](), output: reflect.TypeFor[string](),
		summary:  "Show the metrics of the server, for Prometheus.",
		details:  "In the text format of Prometheus, in OpenMetrics, or as protobuf, by the header Accept.",
		problems: []int{http.StatusConflict},
		serve: func(x *exchange) error {
			if a.cfg.Metrics == nil {
				return &Error{
					Status: http.StatusConflict, Code: "not_counted", Message: "no server is running here that has metrics",
					Hint: "start isr serve, or give the URL of a running server with --server",
				}
			}
			a.cfg.Metrics.ServeHTTP(x.w, x.r)
			return nil
		},
	}
}
