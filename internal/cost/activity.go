package cost

import "time"

// Units of DynamoDB, with rows of at most 1 KB (docs/cost.md).
const (
	regenerationReads, regenerationWrites = 2, 5
	historyReads, historyWrites           = 2.5, 10 // with the default of three generations, once the history is full
	readReads                             = 1       // a fresh page that another server has rendered

	// A pause between polls has a random length: 0.9 of the interval on average (internal/changelog).
	meanPause = 0.9
)

// Activity is what all servers together do with the table and the bucket in a time.
type Activity struct {
	Regenerations float64 `json:"regenerations"` // pages that are rendered and published, missing ones among them
	Changed       float64 `json:"changed"`       // regenerations with a body that is not stored yet; at most Regenerations
	History       bool    `json:"history"`       // generations are kept for rollbacks (--history)
	Compressed    bool    `json:"compressed"`    // visitors want codings: a changed page has one more object
	Reads         float64 `json:"reads"`         // fresh pages that a server reads because another one has rendered them
	Polls         float64 `json:"polls"`         // of the log: [Polls]
}

// Polls returns how often servers poll the log in a time. Interval is the value of --poll; 0 or less means that the log is
// not polled.
func Polls(servers int, interval, in time.Duration) float64 {
	if interval <= 0 {
		return 0
	}
	return float64(servers) * float64(in) / (meanPause * float64(interval))
}

func (a Activity) regenerationUnits() (reads, writes float64) {
	if a.History {
		return historyReads * a.Regenerations, historyWrites * a.Regenerations
	}
	return regenerationReads * a.Regenerations, regenerationWrites * a.Regenerations
}

// Bill returns what the activity costs: requests to DynamoDB and S3, without storage.
func (a Activity) Bill(p Prices) Bill {
	reads, writes := a.regenerationUnits()
	otherBodies := 0.0 // bodies that a server reads because another one has stored them
	if a.Regenerations > 0 {
		otherBodies = a.Reads * a.Changed / a.Regenerations
	}
	bill := Bill{
		{DynamoDB, "regenerations", p.Capacity(reads, writes)},
		{DynamoDB, "other servers read the page", p.Capacity(readReads*a.Reads, 0)},
		{DynamoDB, "polls", p.Capacity(a.Polls, 0)},
		{S3, "PUTs and HEADs", p.requests(a.Changed, a.Regenerations-a.Changed)},
		{S3, "other servers read the body", p.requests(0, otherBodies)},
	}
	if a.Compressed {
		bill = append(bill, Line{S3, "codings, stored and read by other servers", p.requests(a.Changed, otherBodies)})
	}
	return bill
}

// The services of AWS that a bill has lines of.
const (
	DynamoDB = "DynamoDB"
	S3       = "S3"
)

// A Bill is what something costs, by line.
type Bill []Line

// A Line of a bill.
type Line struct {
	Service string  `json:"service"`
	Of      string  `json:"of"`
	Dollars float64 `json:"dollars"`
}

// Sum returns the dollars of all lines.
func (b Bill) Sum() (dollars float64) {
	for _, line := range b {
		dollars += line.Dollars
	}
	return dollars
}
