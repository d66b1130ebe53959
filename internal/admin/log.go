package admin

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"reflect"
	"strconv"

	"github.com/facetheory/isr/internal/telemetry/accesslog"
)

// A LogQuery selects requests of a running server.
type LogQuery struct {
	Where string `json:"where,omitempty" doc:"Conditions between spaces, of which all must be true, such as status>=500 route=/shop/ (docs/logs.md). Empty: all requests."`
}

func (a *API) watchRequests() operation {
	op := operation{
		method: http.MethodGet, path: "/-/log", name: "watchRequests", limit: streamTime, watches: true, adminOnly: true, lines: true,
		summary: "Watch the requests that the server answers from now on.",
		details: "Each line is a line of the access log in JSON. A line {\"isr.dropped\":N} says how many lines were left out because the client reads too slowly; " +
			"requests never wait for it. At most 16 streams, with those of events; each ends after an hour.",
		problems: []int{http.StatusConflict},
		input:    reflect.TypeFor[LogQuery](), output: reflect.TypeFor[json.RawMessage](),
	}
	op.serve = func(x *exchange) error {
		q, err := decode[LogQuery](x, op)
		if err != nil {
			return err
		}
		where, err := accesslog.ParseFilter(q.Where)
		if err != nil {
			return invalid("%v", err)
		}
		if a.cfg.Tail == nil {
			return noServer("not_counted", "no server is running here whose requests could be followed")
		}
		ctx, cancel := context.WithCancel(x.r.Context())
		defer cancel()
		defer context.AfterFunc(a.closed, cancel)()
		out := &eventStream{x: x, c: http.NewResponseController(x.w)}
		x.w.Header().Set("X-Accel-Buffering", "no") // for proxies that would collect lines
		writeHeader(x.w, "application/x-ndjson", http.StatusOK)
		_ = a.cfg.Tail.Follow(ctx, where, func() { out.write("") }, func(lines []byte, dropped int64) error {
			out.write(string(lines))
			if dropped > 0 {
				out.write(`{"` + droppedLines + `":` + strconv.FormatInt(dropped, 10) + "}\n")
			}
			return out.err
		}) // an error means that the client is gone
		return nil
	}
	return op
}

// droppedLines is the field of a line that tells how many lines were dropped.
const droppedLines = "isr.dropped"

// A LoggedRequest is a request of [Client.Requests]: the fields of the access log.
type LoggedRequest struct {
	Line json.RawMessage
	// Dropped is how many lines were left out here; then there is no Line.
	Dropped int64
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *LoggedRequest) UnmarshalJSON(text []byte) error {
	var told struct {
		Dropped int64 `json:"isr.dropped"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		return err
	}
	if l.Dropped = told.Dropped; told.Dropped == 0 {
		l.Line = append(json.RawMessage(nil), text...)
	}
	return nil
}

// Requests yields the requests that a filter selects, from now on, until the context is done or the server ends the stream.
func (c *Client) Requests(ctx context.Context, where string) iter.Seq2[LoggedRequest, error] {
	return askLines[LoggedRequest](ctx, c, http.MethodGet, "/-/log", LogQuery{Where: where})
}
