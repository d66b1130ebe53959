package main

import (
	"fmt"
	"time"
)

// print prints a row, with a line per side.
func print(r row, results []result) {
	fmt.Printf("\n%-28s %12s %12s %12s %32s\n", r.name, "time", "bytes", "allocations", "of tabletheory's")
	for i, s := range r.sides {
		m := results[i]
		fmt.Printf("  %-26s %12v %12.0f %12.0f %10.2fx %9s %9s\n", s.name, precise(m.time), m.bytes, m.allocations,
			m.ratio, times(m.bytes, results[0].bytes), times(m.allocations, results[0].allocations))
	}
}

// precise rounds a time to about three digits.
func precise(nanoseconds float64) time.Duration {
	d := time.Duration(nanoseconds)
	switch {
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d >= 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond)
	}
	return d
}

// times returns a ratio, or "-" if ours is 0.
func times(value, ours float64) string {
	if ours == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", value/ours)
}
