// Package cost computes what a site costs on AWS in a month of 30 days.
//
// An [Activity] is what a fleet of servers does with its table and its bucket: pages that are regenerated, pages that a
// server reads because another one has rendered them, polls of the log. Its bill follows from the units of
// docs/cost.md, which dynamostore/units_test.go measures, and from [Prices]. A replay of a log counts the activity; a
// [Site] estimates it from the number of pages and the rate of requests.
//
//	Site ──(requests by Zipf's law, one regeneration per freshness window)──► Activity ──(units)──► Bill
//
// It knows no store and no server. Everything is a pure function, safe for concurrent use.
package cost

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Month is the month of all bills: 30 days. AWS bills hours, and a month of 30 days has 720.
const Month = 30 * 24 * time.Hour

// Prices are in US dollars.
type Prices struct {
	ReadUnits    float64
	WriteUnits   float64
	TableStorage float64
	Puts         float64
	Gets         float64
	Storage      float64

	CPU          float64
	Memory       float64
	LoadBalancer float64
	Capacities   float64
	Address      float64
	NAT          float64
	Metric       float64
	Alarm        float64
	Dashboard    float64
	Logs         float64
	Secret       float64
	Transfer     float64
}

// USEast1 returns the list prices of us-east-1 on demand, as of the version of this program. They change, and differ
// by region.
func USEast1() Prices {
	return Prices{
		ReadUnits: 0.125, WriteUnits: 0.625, TableStorage: 0.25, Puts: 5, Gets: 0.40, Storage: 0.023,
		CPU: 0.03238, Memory: 0.00356, LoadBalancer: 0.0225, Capacities: 0.008, Address: 0.005, NAT: 0.045,
		Metric: 0.30, Alarm: 0.10, Dashboard: 3, Logs: 0.50, Secret: 0.40, Transfer: 0.09,
	}
}

// A Price is one of [Prices] with its name, which [Prices.Set] takes, and what is bought for it.
type Price struct {
	Name    string
	Of      string
	Dollars float64
}

// List returns all prices.
func (p Prices) List() []Price {
	var all []Price
	for _, field := range p.fields() {
		all = append(all, Price{field.name, field.of, *field.dollars})
	}
	return all
}

// Set changes the price of a name.
func (p *Prices) Set(name string, dollars float64) error {
	if !(dollars >= 0) || math.IsInf(dollars, 0) { // the first also refuses NaN
		return fmt.Errorf("price %s must be a number of dollars of at least 0 (got %v)", name, dollars)
	}
	var names []string
	for _, field := range p.fields() {
		if field.name == name {
			*field.dollars = dollars
			return nil
		}
		names = append(names, field.name)
	}
	return fmt.Errorf("unknown price %q; expected one of %s", name, strings.Join(names, ", "))
}

type priceField struct {
	name, of string
	dollars  *float64
}

func (p *Prices) fields() []priceField {
	return []priceField{
		{"read-units", "a million read request units of DynamoDB", &p.ReadUnits},
		{"write-units", "a million write request units of DynamoDB", &p.WriteUnits},
		{"table-storage", "a GB and month in DynamoDB", &p.TableStorage},
		{"puts", "a million PUTs and LISTs on S3", &p.Puts},
		{"gets", "a million GETs and HEADs on S3", &p.Gets},
		{"storage", "a GB and month in S3", &p.Storage},
		{"cpu", "an hour of a processor of Fargate on ARM", &p.CPU},
		{"memory", "an hour of a GB of Fargate on ARM", &p.Memory},
		{"load-balancer", "an hour of a load balancer", &p.LoadBalancer},
		{"capacity-units", "a capacity unit of it, for an hour", &p.Capacities},
		{"address", "an hour of a public IPv4 address", &p.Address},
		{"nat", "an hour of a NAT gateway", &p.NAT},
		{"metric", "a metric of CloudWatch, for a month", &p.Metric},
		{"alarm", "an alarm, for a month", &p.Alarm},
		{"dashboard", "a dashboard, for a month", &p.Dashboard},
		{"logs", "a GB of logs", &p.Logs},
		{"secret", "a secret, for a month", &p.Secret},
		{"transfer", "a GB to the Internet", &p.Transfer},
	}
}

// Capacity returns the price of units of DynamoDB in dollars.
func (p Prices) Capacity(readUnits, writeUnits float64) float64 {
	return (readUnits*p.ReadUnits + writeUnits*p.WriteUnits) / million
}

// requests returns the price of requests to S3 in dollars.
func (p Prices) requests(puts, gets float64) float64 {
	return (puts*p.Puts + gets*p.Gets) / million
}

const million = 1e6
