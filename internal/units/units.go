// Package units writes durations and numbers of bytes: once for all that people read, and for isr.yaml.
//
// Everything is a pure function, safe for concurrent use.
package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes writes a number of bytes for people: 512 B, 1.5 KiB, 2.0 GiB.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// Duration writes a duration as isr.yaml and the command line have it: 1d, 5m, 1m30s.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
