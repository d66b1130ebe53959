package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// The memory of a server is bounded by --memory: at most MemoryNeed of it, of which the heap and
// stacks of Go may take all but what the program and its mapped files do. The collector keeps to
// that (see debug.SetMemoryLimit) as long as what is in use fits: with very many connections, or
// large renders, it does not, and the limit is raised, because a collector that cannot keep its
// limit takes half of the processor. The limit of the container is never exceeded for that.

const (
	// baseMemory is the memory of a server beside one and a half times its page cache: the program,
	// and parts of the table that were read lately, which the system takes back if it needs memory.
	baseMemory = 64 << 20
	// mappedMemory is the least of that.
	mappedMemory = 24 << 20
	// memoryEvery is the interval of checks whether what is in use fits.
	memoryEvery = time.Second
	// leastGarbage is how much garbage there is before the collector runs: enough for a few thousand
	// requests that pass through, even if hardly any page is in memory, and less than half of
	// baseMemory.
	leastGarbage = 26 << 20
)

// heapNeed is what the heap and stacks of a server with a memory tier of this size use at most, in bytes, beside what
// it buffers, and as long as its connections and renders need no more than baseMemory.
func heapNeed(tier int64) int64 { return tier + tier/2 }

// MemoryNeed is the memory of that server, of whose requests and responses buffered bytes are buffered at most.
func MemoryNeed(tier, buffered int64) int64 { return heapNeed(tier) + buffered + baseMemory }

// leastBuffers is the least default of --buffers.
const leastBuffers = 32 << 20

// bufferBytes is the budget of buffers.
func (c *ServeCommand) bufferBytes() int64 {
	if c.Buffers != nil {
		return int64(*c.Buffers)
	}
	return DefaultBuffers(int64(c.Memory))
}

// DefaultBuffers is the budget of buffers of a server with a memory tier of this size.
func DefaultBuffers(tier int64) int64 { return max(tier/4, leastBuffers) }

// memoryLimit is the limit of the heap and stacks of a server with a memory tier, of whose heap
// live bytes were in use lately. container is what the process may use, 0 if that is not known.
func memoryLimit(tier, live, container int64) int64 {
	limit := max(heapNeed(tier), live+live/4+leastGarbage)
	if container > 0 {
		limit = min(limit, max(container-container/10-mappedMemory, container/2))
	}
	return limit
}

// collectorPercent is the GOGC of a server of whose heap live bytes were in use lately: 100, and more
// as long as that would be less than leastGarbage. The limit of the memory holds all the same.
func collectorPercent(live int64) int {
	return int(max(100, 100*leastGarbage/max(live, 1<<20)))
}

// keepMemory keeps to the memory of a server until stop is called. GOMEMLIMIT and GOGC take precedence.
func keepMemory(ctx context.Context, tier, container int64) (stop func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before, percent, collects := debug.SetMemoryLimit(memoryLimit(tier, 0, container)), 0, os.Getenv("GOGC") == ""
	if collects {
		percent = debug.SetGCPercent(collectorPercent(leastGarbage))
	}
	end := inBackground(ctx, func(ctx context.Context) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for backoff.Wait(ctx, memoryEvery) == nil {
			metrics.Read(live)
			used := int64(live[0].Value.Uint64()) //nolint:gosec // bytes of memory
			debug.SetMemoryLimit(memoryLimit(tier, used, container))
			if collects {
				debug.SetGCPercent(collectorPercent(used))
			}
		}
	})
	return func() {
		end()
		debug.SetMemoryLimit(before)
		if collects {
			debug.SetGCPercent(percent)
		}
	}
}
