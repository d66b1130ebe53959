package cost

import (
	"math"
	"time"
)

// MaxPages bounds [Site.Pages].
const MaxPages = 100_000_000

// A Site is what a forecast is made of. Requests of pages are independent of each other, and the page of rank r gets a
// share of them in proportion to 1/r (Zipf's law, with the exponent 1).
type Site struct {
	Pages      int           // 1 to MaxPages
	Rate       float64       // requests per second, of all pages together, on average over the month
	Window     time.Duration // freshness window; more than 0
	Servers    int           // at least 1; each gets the same share of the requests
	Changed    float64       // share of the regenerations that change the page; 0 to 1
	History    bool
	Compressed bool
	Poll       time.Duration // interval of polls; 0 if the log is not polled
}

// Activity returns what the servers of a site do in a month. A page that gets λ requests a second is regenerated, is fresh
// for the window w, and is regenerated again by the next request, which comes 1/λ later on average: λ/(1+λw) times a second.
// Each of the other servers reads the new generation if it gets a request for it within the window, with the
// probability 1-exp(-λw/servers). Memory is unlimited.
func (s Site) Activity() Activity {
	harmonic := 0.0
	for rank := s.Pages; rank >= 1; rank-- { // the small numbers first, which keeps the sum exact
		harmonic += 1 / float64(rank)
	}
	window, regenerations, reads := s.Window.Seconds(), 0.0, 0.0
	for rank := s.Pages; rank >= 1; rank-- {
		rate := s.Rate / (float64(rank) * harmonic)
		times := rate / (1 + rate*window)
		regenerations += times
		reads += times * float64(s.Servers-1) * -math.Expm1(-rate*window/float64(s.Servers))
	}
	regenerations *= Month.Seconds()
	return Activity{
		Regenerations: regenerations,
		Changed:       s.Changed * regenerations,
		History:       s.History,
		Compressed:    s.Compressed,
		Reads:         reads * Month.Seconds(),
		Polls:         Polls(s.Servers, s.Poll, Month),
	}
}
