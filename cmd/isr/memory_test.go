package main

import (
	"runtime/debug"
	"testing"
)

// The limit follows --memory, leaves room for what is in use, and stays within the container.
func TestMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for name, tt := range map[string]struct{ tier, live, container, want int64 }{
		"the default":               {256 * mib, 0, 0, 424 * mib},
		"none":                      {0, 10 * mib, 0, 40 * mib},
		"in use":                    {32 * mib, 60 * mib, 1 << 40, 91 * mib},
		"more in use":               {32 * mib, 400 * mib, 0, 516 * mib},
		"a container":               {256 * mib, 0, 320 * mib, 264 * mib},
		"more than a container has": {256 * mib, 400 * mib, 320 * mib, 264 * mib},
		"a small container":         {256 * mib, 0, 40 * mib, 20 * mib},
	} {
		if got := memoryLimit(tt.tier, tt.live, tt.container); got != tt.want {
			t.Errorf("%s: %d MiB, want %d", name, got/mib, tt.want/mib)
		}
	}
}

func TestKeepMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	stop := keepMemory(t.Context(), 1<<30, 0)
	if got := debug.SetMemoryLimit(-1); got < 1<<30 || got > memoryNeed(1<<30) {
		t.Errorf("the limit is %d", got)
	}
	stop()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit was %d, and is %d", before, got)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	keepMemory(t.Context(), 1<<30, 0)()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("GOMEMLIMIT is set, and the limit is %d", got)
	}
}
