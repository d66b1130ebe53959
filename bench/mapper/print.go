package main

import (
	"fmt"
	"time"
)

// print prints a row: a line for each side.
func print(r row, results []result) {
	fmt.Printf("\n%-28s %12s %12s %12s %32s\n", r.name, "time", "bytes", "allocations", "of tabletheory's")
	for i, s := range r.sides {
		m := results[i]
		fmt.Printf("  %-26s %12v %12.0f %12.0f %10.2fx %9s %9s\n", s.name, precise(m.time), m.bytes, m.allocations,
			m.ratio, times(m.bytes, results[0].bytes), times(m.allocations, results[0].allocations))
	}
}

// precise is a time in three digits or so.
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

// times is a ratio; there is none to nothing.
func times(value, ours float64) string {
	if ours == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", value/ours)
}
