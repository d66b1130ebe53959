package invalidate

import (
	"net/netip"
	"time"
)

const (
	// A client's purges may cost the origin a second of rendering per second, and creditLimit
	// at once.
	creditLimit = 30 * time.Second
	// maxCreditClients bounds the clients whose credit is known. Further clients share one credit.
	maxCreditClients = 4096
)

// A credit is, by client, until when it has paid for its purges: in the past, or absent, if it
// has all its credit.
type credit map[netip.Prefix]time.Time

// cheapest returns when the first of clients can pay a cost, and which one that is. Clients
// that are not distinguished can pay at once.
func (c credit) cheapest(clients []netip.Prefix, cost time.Duration, now time.Time) (due time.Time, client netip.Prefix) {
	for n, candidate := range clients {
		if at := c.paidUntil(candidate, now).Add(cost - creditLimit); n == 0 || at.Before(due) {
			due, client = at, candidate
		}
	}
	return due, client
}

// paidUntil returns until when a client has paid, not before now.
func (c credit) paidUntil(client netip.Prefix, now time.Time) time.Time {
	paid, known := c[client]
	if !known && len(c) >= maxCreditClients {
		paid = c[netip.Prefix{}]
	}
	if paid.Before(now) {
		return now
	}
	return paid
}

// charge makes a client pay.
func (c credit) charge(client netip.Prefix, cost time.Duration, now time.Time) {
	if !client.IsValid() {
		return
	}
	if _, known := c[client]; !known && len(c) >= maxCreditClients {
		for other, paid := range c {
			if paid.Before(now) {
				delete(c, other)
			}
		}
		if len(c) >= maxCreditClients {
			c[netip.Prefix{}] = c.paidUntil(client, now).Add(cost)
			return
		}
	}
	c[client] = c.paidUntil(client, now).Add(cost)
}
