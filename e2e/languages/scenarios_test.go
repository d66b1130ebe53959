//go:build unix

package languages

import "testing"

// TestOneTable runs each scenario with one worker of each language on one table.
func TestOneTable(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		t.Parallel() // most of the time is spent waiting for leases to expire
		c := newCrew(t, e, 1)
		for _, scenario := range []struct {
			name string
			run  func(*testing.T, *crew)
		}{
			{"generations", generations},
			{"history", history},
			{"leases", leases},
			{"back-offs", backOffs},
			{"requests", requests},
			{"purges", purges},
			{"Next.js revalidations", revalidations},
			{"deliveries to a cache in front", deliveries},
			{"reference rows", referenceRows},
			{"reference requests", referenceRequests},
			{"unknown attributes", unknownAttributes},
			{"malformed rows", malformedRows},
			{"killed holders", killedHolders},
			{"frozen holders", frozenHolders},
		} {
			t.Run(scenario.name, func(t *testing.T) {
				c.newTable(t)
				scenario.run(t, c)
			})
		}
	})
}
