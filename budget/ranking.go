package budget

import "container/heap"

// Rankings of clients. The first ones, one of each class, order clients by whose turn is next; the
// others by how many places they have.
const (
	mostRegenerations = int(classes) + iota
	mostUnknown
	mostVisitors
	rankings
)

// A ranking keeps the clients that have certain places in an order, as a binary heap.
type ranking struct {
	slot    int
	places  func(*client) int // that the ranking is about; a client without them is not in it
	before  func(c, other *client) bool
	clients []*client
}

func newRankings() (all [rankings]ranking) {
	for k := range classes {
		all[k] = ranking{
			places: func(c *client) int { return c.lines[k].Len() },
			before: func(c, other *client) bool {
				if c.share() != other.share() {
					return c.share() < other.share()
				}
				return c.since < other.since
			},
		}
	}
	for slot, places := range map[int]func(*client) int{
		mostRegenerations: func(c *client) int { return c.lines[regeneration].Len() },
		mostUnknown:       func(c *client) int { return c.lines[unknown].Len() },
		mostVisitors:      (*client).visitors,
	} {
		all[slot] = ranking{places: places, before: func(c, other *client) bool { return places(c) > places(other) }}
	}
	for slot := range all {
		all[slot].slot = slot
	}
	return all
}

// share is how many renders the client has; 0 for pages without a client.
func (c *client) share() int {
	if !c.prefix.IsValid() {
		return 0
	}
	return c.rendering
}

// first returns the first client; nil if there is none.
func (r *ranking) first() *client {
	if len(r.clients) == 0 {
		return nil
	}
	return r.clients[0]
}

// update adds, moves or removes a client that has changed.
func (r *ranking) update(c *client) {
	switch has, in := r.places(c) > 0, c.at[r.slot] > 0; {
	case has && in:
		heap.Fix(r, c.at[r.slot]-1)
	case has:
		heap.Push(r, c)
	case in:
		heap.Remove(r, c.at[r.slot]-1)
	}
}

// Len implements [heap.Interface].
func (r *ranking) Len() int { return len(r.clients) }

// Less implements [heap.Interface].
func (r *ranking) Less(i, j int) bool { return r.before(r.clients[i], r.clients[j]) }

// Swap implements [heap.Interface].
func (r *ranking) Swap(i, j int) {
	r.clients[i], r.clients[j] = r.clients[j], r.clients[i]
	r.clients[i].at[r.slot], r.clients[j].at[r.slot] = i+1, j+1
}

// Push implements [heap.Interface].
func (r *ranking) Push(c any) {
	r.clients = append(r.clients, c.(*client))
	c.(*client).at[r.slot] = len(r.clients)
}

// Pop implements [heap.Interface].
func (r *ranking) Pop() any {
	last := len(r.clients) - 1
	c := r.clients[last]
	r.clients[last] = nil
	r.clients = r.clients[:last]
	c.at[r.slot] = 0
	return c
}
