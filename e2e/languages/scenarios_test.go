//go:build unix

package languages

import "testing"

// TestOneTable has one worker of each language share tables.
func TestOneTable(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		t.Parallel() // much of the time is waiting for leases to end
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
			{"reference rows", referenceRows},
			{"requests of the reference", referenceRequests},
			{"what nobody knows yet", unknownAttributes},
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
