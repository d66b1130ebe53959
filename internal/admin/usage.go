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

// A Meter sums the consumed capacity of a store by kind of operation. Its zero value is
// ready to use. It is safe for concurrent use.
type Meter struct {
	mu          sync.Mutex
	byOperation map[string]OperationUsage // guarded by mu
	minutes     [60]unitsOfMinute         // guarded by mu
}

// unitsOfMinute are the units that were consumed in one minute.
type unitsOfMinute struct {
	minute      int64 // Unix time
	read, write float64
}

// Count adds the capacity units of one response of the store.
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
	minute := time.Now().Unix() / 60
	of := &m.minutes[minute%60]
	if of.minute != minute {
		*of = unitsOfMinute{minute: minute}
	}
	of.read += read
	of.write += write
}

// unitsOfHour returns the units that were consumed in the hour before a time.
func (m *Meter) unitsOfHour(now time.Time) (read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.minutes {
		if of.minute > now.Unix()/60-60 {
			read += of.read
			write += of.write
		}
	}
	return read, write
}

// Units returns the units that were consumed in all.
func (m *Meter) Units() (read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.byOperation {
		read += u.ReadUnits
		write += u.WriteUnits
	}
	return read, write
}

// usage returns the counts, sorted by name.
func (m *Meter) usage() []OperationUsage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.byOperation), func(a, b OperationUsage) int { return cmp.Compare(a.Operation, b.Operation) })
}

// Usage is the DynamoDB capacity that a server has consumed.
type Usage struct {
	Since      time.Time        `json:"since" doc:"When the server started."`
	Until      time.Time        `json:"until" doc:"Now, by the server's clock."`
	Operations []OperationUsage `json:"operations" doc:"By the kind of operation."`
}

// An OperationUsage is the capacity that one kind of operation has consumed.
type OperationUsage struct {
	Operation  string  `json:"operation" doc:"For example acquire, publish or changes (a poll of the log)."`
	Answers    int64   `json:"answers" doc:"Responses of DynamoDB that report consumed capacity."`
	ReadUnits  float64 `json:"read_units" doc:"Read capacity units."`
	WriteUnits float64 `json:"write_units" doc:"Write capacity units."`
}

func (a *API) showUsage() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/usage", name: "showUsage", limit: lookTime,
		summary:  "Show the DynamoDB capacity that this server has consumed since its start.",
		details:  "Does not include writes whose condition failed, for which DynamoDB reports no capacity. For an embedded store, which costs nothing, the numbers are what DynamoDB would consume.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Usage, error) {
		if a.cfg.Meter == nil {
			return Usage{}, &Error{
				Status: http.StatusConflict, Code: "not_counted", Message: "no server is running here that counts consumed capacity",
				Hint: "start isr serve, or give the URL of a running server with --server",
			}
		}
		u := Usage{Since: a.began.UTC(), Until: a.cfg.Now().UTC(), Operations: a.cfg.Meter.usage()}
		if u.Operations == nil {
			u.Operations = []OperationUsage{}
		}
		return u, nil
	})
}

// Usage returns the capacity that the server has consumed since its start.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	return ask[Usage](ctx, c, http.MethodGet, "/-/usage", struct{}{})
}
