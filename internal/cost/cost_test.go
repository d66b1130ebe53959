package cost_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/cost"
)

// TestActivity: the bills of docs/cost.md's units.
func TestActivity(t *testing.T) {
	const million = 1e6
	for name, c := range map[string]struct {
		of   cost.Activity
		want float64
	}{
		"nothing":                              {cost.Activity{}, 0},
		"a million regenerations":              {cost.Activity{Regenerations: million}, 3.375 + 0.40},
		"… that change the page":               {cost.Activity{Regenerations: million, Changed: million}, 3.375 + 5},
		"… in gzip too":                        {cost.Activity{Regenerations: million, Changed: million, Compressed: true}, 3.375 + 5 + 5},
		"… with history":                       {cost.Activity{Regenerations: million, History: true}, 6.5625 + 0.40},
		"a million reads by other servers":     {cost.Activity{Regenerations: million, Changed: million / 10, Reads: million}, 3.375 + 0.5 + 0.36 + 0.125 + 0.04},
		"a million polls":                      {cost.Activity{Polls: million}, 0.125},
		"three servers that poll for 30 days":  {cost.Activity{Polls: cost.Polls(3, 250*time.Millisecond, cost.Month)}, 4.32},
		"three servers that do not poll":       {cost.Activity{Polls: cost.Polls(3, 0, cost.Month)}, 0},
		"one server that polls every 1 second": {cost.Activity{Polls: cost.Polls(1, time.Second, cost.Month)}, 0.36},
	} {
		bill := c.of.Bill(cost.USEast1())
		if math.Abs(bill.Sum()-c.want) > 1e-9 {
			t.Errorf("%s: $%v, want $%v: %+v", name, bill.Sum(), c.want, bill)
		}
	}
}

// TestSite compares the forecast with a simulation of the same requests, in which a page is fetched by the first
// request after its window.
func TestSite(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, site := range []cost.Site{
		{Pages: 1, Rate: 0.01, Window: time.Minute, Servers: 1},
		{Pages: 200, Rate: 2, Window: time.Minute, Servers: 3, Changed: 0.1},
		{Pages: 3000, Rate: 5, Window: 10 * time.Minute, Servers: 4, Changed: 1},
	} {
		a := site.Activity()
		const days = 2
		regenerations, reads := simulate(random, site, days)
		for what, pair := range map[string][2]float64{
			"regenerations": {a.Regenerations / 30 * days, regenerations},
			"reads":         {a.Reads / 30 * days, reads},
		} {
			if math.Abs(pair[0]-pair[1]) > 0.005*pair[1]+3*math.Sqrt(pair[1]) { // the seed is fixed
				t.Errorf("%+v: a forecast of %.0f %s, and the simulation has %.0f", site, pair[0], what, pair[1])
			}
		}
		if a.Changed != site.Changed*a.Regenerations {
			t.Errorf("%+v: %+v", site, a)
		}
	}
}

// simulate returns how many pages are regenerated, and read by other servers, in a time.
func simulate(random *rand.Rand, s cost.Site, days float64) (regenerations, reads float64) {
	weights := make([]float64, s.Pages) // cumulated
	sum := 0.0
	for i := range weights {
		sum += 1 / float64(i+1)
		weights[i] = sum
	}
	expires := make([]float64, s.Pages)
	held := make([][]float64, s.Servers)
	for i := range held {
		held[i] = make([]float64, s.Pages)
	}
	end := days * 24 * 3600
	for now := 0.0; now < end; now += random.ExpFloat64() / s.Rate {
		page, target := 0, random.Float64()*sum
		for low, high := 0, s.Pages-1; low < high; page = low {
			if middle := (low + high) / 2; weights[middle] < target {
				low = middle + 1
			} else {
				high = middle
			}
		}
		server := held[random.IntN(s.Servers)]
		if now < server[page] {
			continue
		}
		if now >= expires[page] {
			expires[page] = now + s.Window.Seconds()
			regenerations++
		} else {
			reads++
		}
		server[page] = expires[page]
	}
	return regenerations, reads
}

func TestSet(t *testing.T) {
	p := cost.USEast1()
	if err := p.Set("read-units", 1); err != nil || p.ReadUnits != 1 {
		t.Errorf("%v, %v", p, err)
	}
	if err := p.Set("reads", 1); err == nil || err.Error() != `unknown price "reads"; expected one of read-units, write-units, table-storage, puts, gets, storage, cpu, memory, load-balancer, `+
		`capacity-units, address, nat, metric, alarm, dashboard, logs, secret, transfer` {
		t.Error(err)
	}
	for _, wrong := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := p.Set("puts", wrong); err == nil {
			t.Errorf("a price of %v is accepted", wrong)
		}
	}
	if p.List()[0].Dollars != 1 {
		t.Errorf("%+v", p.List())
	}
}

// TestInstallation: what runs around the stores, calculated by hand.
func TestInstallation(t *testing.T) {
	i := cost.Installation{
		Site:      cost.Site{Pages: 1, Rate: 10, Window: time.Hour, Servers: 2},
		PageBytes: 10_000, CPU: 0.5, Memory: 1, Zones: 3, NAT: true, AccessLog: true,
	}
	lines := make(map[string]float64)
	for _, line := range i.Bill(i.Activity(), cost.USEast1()) {
		lines[line.Service+": "+line.Of] = line.Dollars
	}
	const requests = 10 * 30 * 86400
	for of, want := range map[string]float64{
		"Fargate: servers":                         2 * 720 * (0.5*0.03238 + 0.00356),
		"load balancer: hours":                     16.2,
		"load balancer: capacity units, 1 GB each": requests * 10e3 / 1e9 * 0.008,
		"VPC: public IPv4 addresses":               6 * 3.6,
		"VPC: NAT gateways, without traffic":       3 * 32.4,
		"CloudWatch: Container Insights":           9.3,
		"CloudWatch: access log":                   requests * 500 / 1e9 * 0.5,
		"CloudWatch: alarms and the dashboard":     5,
		"S3: metrics of requests":                  3.3,
		"Secrets Manager: tokens":                  0.8,
		"traffic: to visitors":                     requests * 10e3 / 1e9 * 0.09,
		"DynamoDB: storage":                        0.25e-6,
	} {
		if got := lines[of]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: $%v, want $%v", of, got, want)
		}
	}
	// The page is asked for ten times a second, and rendered once an hour.
	if got := i.HitRatio(i.Activity()); math.Abs(got-(1-1.0/36_000)) > 1e-6 {
		t.Errorf("hit ratio %v", got)
	}
	i.NAT, i.PublicIPs, i.AccessLog = false, true, false
	for _, line := range i.Bill(i.Activity(), cost.USEast1()) {
		switch line.Of {
		case "NAT gateways, without traffic", "access log":
			t.Errorf("%+v", line)
		case "public IPv4 addresses":
			if line.Dollars != 5*3.6 {
				t.Errorf("%+v", line)
			}
		}
	}
}
