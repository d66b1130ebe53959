package gateway

import (
	"maps"
	"slices"
	"time"

	"github.com/facetheory/isr/budget"
)

// An OriginState is what an origin does at a moment.
type OriginState struct {
	Name string
	budget.State
	// Addresses are the URLs of its servers, in the order of the configuration; none for a
	// handler.
	Addresses []AddressState
}

// An AddressState is what is known of one server of an origin.
type AddressState struct {
	URL string
	// Up: requests prefer this server. It is not up after failed health checks, and while it is ejected
	// (see [Ejection]).
	Up bool
	// Open are the requests whose responses have not ended.
	Open int64
	// Requests and Ejections are counted since the origin began.
	Requests, Ejections int64
}

// Origins returns the present state of all origins, sorted by name.
func (s *Site) Origins() []OriginState {
	origins := s.tree.Load().origins
	all := make([]OriginState, 0, len(origins))
	for _, name := range slices.Sorted(maps.Keys(origins)) {
		o := origins[name]
		state := OriginState{Name: name, State: o.budget.State()}
		if o.pool != nil {
			for _, a := range o.pool.addresses {
				state.Addresses = append(state.Addresses, AddressState{
					URL: a.url.String(), Up: a.isUp(time.Now()), Open: a.open.Load(), Requests: a.requests.Load(), Ejections: a.ejections.Load(),
				})
			}
		}
		all = append(all, state)
	}
	return all
}
