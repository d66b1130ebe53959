package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/units"
)

// A Size is a number of bytes.
type Size int64

// A Window is a freshness window, or bounds of windows that follow the content (see
// [isr.AutoWindow]), which differ.
type Window struct{ Min, Max time.Duration }

// Fixed returns a window that does not follow the content.
func Fixed(d time.Duration) Window { return Window{d, d} }

// parseWindow parses "5m" or "auto 30s to 1h".
func parseWindow(text string) (Window, error) {
	bounds, auto := strings.CutPrefix(text, "auto")
	if !auto {
		d, err := ParseDuration(text)
		return Fixed(d), err
	}
	least, most, found := strings.Cut(bounds, " to ")
	low, err1 := ParseDuration(strings.TrimSpace(least))
	high, err2 := ParseDuration(strings.TrimSpace(most))
	if !found || err1 != nil || err2 != nil {
		return Window{}, errors.New("expected bounds like auto 30s to 1h")
	}
	if low < time.Second || high <= low {
		return Window{}, errors.New("the lower bound must be at least 1s, and the upper one higher")
	}
	return Window{low, high}, nil
}

// String is the inverse of parseWindow.
func (w Window) String() string {
	if w.Min == w.Max {
		return units.Duration(w.Min)
	}
	return "auto " + units.Duration(w.Min) + " to " + units.Duration(w.Max)
}

// A Percent is a part of a whole, from 0 to 1.
type Percent float64

// A Secret is a text that is never printed: from a variable of the environment, or in a
// file, which [Secret.Read] reads.
type Secret struct {
	value string
	path  string
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s == Secret{} }

// maxSecret bounds the size of a file with a secret, in bytes.
const maxSecret = 4 << 10

// Read returns the secret, without white space at its ends. It reads the file again, which
// must have at most 4 KiB.
func (s Secret) Read() (string, error) {
	if s.path == "" {
		return s.value, nil
	}
	file, err := os.Open(s.path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	switch value := strings.TrimSpace(string(text)); {
	case err != nil:
		return "", fmt.Errorf("read secret: %w", err)
	case len(text) > maxSecret:
		return "", fmt.Errorf("read secret: %s has more than %d bytes", s.path, maxSecret)
	case value == "":
		return "", fmt.Errorf("read secret: %s is empty", s.path)
	default:
		return value, nil
	}
}

// File returns the path of the file with the secret; empty if it is in the environment.
func (s Secret) File() string { return s.path }

// String implements [fmt.Stringer]. It does not contain the secret.
func (s Secret) String() string {
	switch {
	case s.path != "":
		return "(secret in " + s.path + ")"
	case s.value != "":
		return "(secret)"
	}
	return ""
}

// GoString implements [fmt.GoStringer], so that %#v does not print the secret either.
func (s Secret) GoString() string { return "config.Secret{" + s.String() + "}" }

// maxDays bounds durations: ten years.
const maxDays = 3650

// ParseDuration parses a duration, in the configuration file and on the command line: a
// Go duration, or days (30d); not negative, and at most ten years.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && n >= 0 && n <= maxDays {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxDays*24*time.Hour {
		return 0, errors.New("expected a duration like 90s, 10m, 24h or 30d, at most ten years")
	}
	return d, nil
}

type unit struct {
	suffix string
	bytes  int64
}

func sizeUnits() []unit {
	return []unit{
		{"PiB", 1 << 50},
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"GB", 1e9},
		{"MB", 1e6},
		{"KB", 1e3},
		{"B", 1},
		{"", 1},
	}
}

// parseSize parses a number of bytes: "256MiB".
func parseSize(text string) (Size, error) {
	for _, u := range sizeUnits() {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err == nil && n >= 0 && n <= (1<<50)/u.bytes {
			return Size(n * u.bytes), nil
		}
		break
	}
	return 0, errors.New("expected a size like 256MiB or 1GiB, at most 1PiB")
}

// String is the inverse of parseSize, in the largest binary unit without a fraction.
func (s Size) String() string {
	for _, u := range sizeUnits()[:5] {
		if s > 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	if s == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// parsePercent parses a percentage: "50%".
func parsePercent(text string) (Percent, error) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, errors.New("expected a percentage like 50%")
	}
	return Percent(n / 100), nil
}

// String is the inverse of parsePercent.
func (p Percent) String() string { return strconv.FormatFloat(float64(p)*100, 'g', 6, 64) + "%" }
