package cli

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "30d": 30 * 24 * time.Hour, "0.5d": 12 * time.Hour, "0": 0, "1h30m": 90 * time.Minute} {
		var s Span
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "256MiB": 256 << 20, "1GiB": 1 << 30, "5KB": 5000, "7B": 7} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || int64(s) != want {
			t.Errorf("%q is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1s", "5", "4000d", "1y", "NaNd"} {
		if err := new(Span).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("the duration %q is accepted", text)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5GiB", "99999999999GiB", "1TB"} {
		if err := new(Size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("the size %q is accepted", text)
		}
	}
}

func TestSpanText(t *testing.T) {
	for want, d := range map[string]time.Duration{"0s": 0, "59s": 59 * time.Second, "1m5s": 65 * time.Second, "2h0m": 2 * time.Hour, "3d4h": 76 * time.Hour, "-5s": -5 * time.Second} {
		if got := SpanText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
