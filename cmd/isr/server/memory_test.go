package server

import (
	"runtime/debug"
	"testing"
)

// The limit follows --memory, leaves room for what is in use, and stays within the container.
func TestMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for name, tt := range map[string]struct{ tier, live, container, want int64 }{
		"the default":               {256 * mib, 0, 0, 384 * mib},
		"none":                      {0, 8 * mib, 0, 36 * mib},
		"in use":                    {32 * mib, 60 * mib, 1 << 40, 101 * mib},
		"more in use":               {32 * mib, 400 * mib, 0, 526 * mib},
		"a container":               {256 * mib, 0, 320 * mib, 264 * mib},
		"more than a container has": {256 * mib, 400 * mib, 320 * mib, 264 * mib},
		"a small container":         {256 * mib, 0, 40 * mib, 20 * mib},
	} {
		if got := memoryLimit(tt.tier, tt.live, tt.container); got != tt.want {
			t.Errorf("%s: %d MiB, want %d", name, got/mib, tt.want/mib)
		}
	}
}

// The collector waits for some garbage if little is in use.
func TestCollectorPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[int64]int{0: 2600, 8 * mib: 325, 16 * mib: 162, 32 * mib: 100, 400 * mib: 100} {
		if got := collectorPercent(live); got != want {
			t.Errorf("%d MiB in use: %d, want %d", live/mib, got, want)
		}
	}
}

func TestKeepMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "")
	percent := debug.SetGCPercent(150)
	defer debug.SetGCPercent(percent)
	before := debug.SetMemoryLimit(-1)
	stop := keepMemory(t.Context(), 1<<30, 0)
	if got := debug.SetMemoryLimit(-1); got <= 1<<30 || got >= MemoryNeed(1<<30, 0) {
		t.Errorf("the limit is %d", got)
	}
	stop()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit was %d, and is %d", before, got)
	}
	if got := debug.SetGCPercent(150); got != 150 {
		t.Errorf("the percentage of the collector was 150, and is %d", got)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	keepMemory(t.Context(), 1<<30, 0)()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("GOMEMLIMIT is set, and the limit is %d", got)
	}
}
