package admin

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Meter adds up what a store consumes, by the kind of operation. Its zero value
// is ready, and it is safe for concurrent use.
type Meter struct {
	mu          sync.Mutex
	byOperation map[string]OperationUsage // guarded by mu
}

// Count adds an answer of the store, in capacity units.
func (m *Meter) Count(operation string, read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byOperation == nil {
		m.byOperation = make(map[string]OperationUsage)
	}
	u := m.byOperation[operation]
	u.Operation = operation
	u.Answers++
	u.ReadUnits += read
	u.WriteUnits += write
	m.byOperation[operation] = u
}

// usage is what was counted so far, by name.
func (m *Meter) usage() []OperationUsage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.byOperation), func(a, b OperationUsage) int { return cmp.Compare(a.Operation, b.Operation) })
}

// Usage is what a server has consumed of DynamoDB.
type Usage struct {
	Since      time.Time        `json:"since" doc:"When the server started."`
	Until      time.Time        `json:"until" doc:"Now, by the server's clock."`
	Operations []OperationUsage `json:"operations" doc:"By the kind of operation."`
}

// An OperationUsage is what one kind of operation has consumed.
type OperationUsage struct {
	Operation  string  `json:"operation" doc:"Such as acquire, publish or changes (a poll of the log)."`
	Answers    int64   `json:"answers" doc:"Answers of DynamoDB that said what they consumed."`
	ReadUnits  float64 `json:"read_units" doc:"Read capacity units."`
	WriteUnits float64 `json:"write_units" doc:"Write capacity units."`
}

func (a *API) showUsage() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/usage", name: "showUsage", limit: lookTime,
		summary:  "The capacity of DynamoDB that this server has consumed since its start.",
		details:  "Writes whose condition was false are not in it: DynamoDB does not say what they consumed. An embedded store costs nothing; it counts what DynamoDB would.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Usage, error) {
		if a.cfg.Meter == nil {
			return Usage{}, &Error{
				Status: http.StatusConflict, Code: "not_counted", Message: "no server runs here that would have counted",
				Hint: "start isr serve, or name a server that runs with --server URL",
			}
		}
		u := Usage{Since: a.began.UTC(), Until: a.cfg.Now().UTC(), Operations: a.cfg.Meter.usage()}
		if u.Operations == nil {
			u.Operations = []OperationUsage{}
		}
		return u, nil
	})
}

// Usage returns what the server has consumed since its start.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	return ask[Usage](ctx, c, http.MethodGet, "/-/usage", struct{}{})
}
