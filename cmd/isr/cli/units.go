package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/config"
)

// Counted returns a number with its noun: "1 route", "2 routes".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// A Span is a duration on the command line: a Go duration, or days (30d).
type Span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := config.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; expected one like 90s, 10m, 24h or 30d, at most ten years", text)
	}
	*s = Span(d)
	return nil
}

// A Size is a number of bytes on the command line.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	units := []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	for _, u := range units {
		digits, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err == nil && n >= 0 && n <= (1<<50)/u.bytes {
			*s = Size(n * u.bytes)
			return nil
		}
		break
	}
	return fmt.Errorf("%q is not a size of at most 1PiB; expected bytes, or a number of KiB, MiB or GiB, such as 256MiB", text)
}

// SpanText formats a duration for output: its two largest units.
func SpanText(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	days, rest := d/(24*time.Hour), d%(24*time.Hour)
	switch {
	case days > 0:
		return fmt.Sprintf("%s%dd%dh", sign, days, rest/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%s%dh%dm", sign, d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%s%dm%ds", sign, d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%s%ds", sign, d/time.Second)
}

// Seconds formats a number of seconds as SpanText does.
func Seconds(n int64) string { return SpanText(time.Duration(n) * time.Second) }
