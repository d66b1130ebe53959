package units_test

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/units"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB", 2 << 40: "2048.0 GiB"} {
		if got := units.Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 48 * time.Hour: "2d", 25 * time.Hour: "25h",
		500 * time.Millisecond: "500ms", time.Hour + time.Second: "1h0m1s",
	} {
		if got := units.Duration(d); got != want {
			t.Errorf("%v: %s, want %s", int64(d), got, want)
		}
	}
}
