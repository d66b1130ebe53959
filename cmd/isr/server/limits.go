package server

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/localdynamo"
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
// tier may change.
func keepMemory(ctx context.Context, tier *atomic.Int64, container int64) (stop func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before, percent, collects := debug.SetMemoryLimit(memoryLimit(tier.Load(), 0, container)), 0, os.Getenv("GOGC") == ""
	if collects {
		percent = debug.SetGCPercent(collectorPercent(leastGarbage))
	}
	end := inBackground(ctx, func(ctx context.Context) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for backoff.Wait(ctx, memoryEvery) == nil {
			metrics.Read(live)
			used := int64(live[0].Value.Uint64()) //nolint:gosec // bytes of memory
			debug.SetMemoryLimit(memoryLimit(tier.Load(), used, container))
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

const (
	// committers is the number of goroutines that sync files of the embedded store most of the
	// time while it commits: one for the table, one for the journal of bodies.
	committers = 2
	// manyCommits within commitPeriod are what processors are added for. They cost the requests that come
	// in that time more than a few commits do.
	manyCommits  = 10
	commitPeriod = 100 * time.Millisecond
	// limitChecked is how often the limit of the container is read while there are more processors.
	limitChecked = 5 * time.Second
)

// KeepProcessors adds processors while the store makes many commits, until stop is called. A goroutine that
// waits for a sync keeps its processor until Go's monitor takes it back, which lasts up to 10 ms, so that on
// two processors two such goroutines leave none to requests. With more processors than the machine has,
// Go's threads wait for each other instead: at full load the p99 of hits is then 12 ms instead of 5.
// Processors are therefore removed when fewer commits come. GOMAXPROCS takes precedence.
func KeepProcessors(ctx context.Context, db *localdynamo.DB) (stop func()) {
	if db == nil || os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	return inBackground(ctx, func(ctx context.Context) {
		for {
			select {
			case <-db.Committing():
			case <-ctx.Done():
				return
			}
			var added time.Time // zero: none are
			for manyCommitted(ctx, db) {
				if now := time.Now(); now.Sub(added) >= limitChecked {
					addProcessors()
					added = now
				}
			}
			if !added.IsZero() {
				runtime.SetDefaultGOMAXPROCS()
			}
		}
	})
}

// manyCommitted counts commits for a period. It returns false at once when ctx is done.
func manyCommitted(ctx context.Context, db *localdynamo.DB) bool {
	end := time.NewTimer(commitPeriod)
	defer end.Stop()
	for n := 0; ; n++ {
		select {
		case <-db.Committing():
		case <-end.C:
			return n >= manyCommits
		case <-ctx.Done():
			return false
		}
	}
}

// addProcessors sets the default number of processors, which depends on the limit of the container, and adds
// to it. It is repeated because Go does not follow that limit while a number is set.
func addProcessors() {
	runtime.SetDefaultGOMAXPROCS()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + committers)
}

// Open files are shared: visitors have those that are not reserved, and a client has a part of these.
const (
	// reservedFiles is how many open files are reserved at most, for connections to origins and stores, for files, and for the
	// servers of commands, health and metrics: half of all, if there are few.
	reservedFiles = 4096
	// clientParts is how many clients can have all connections of visitors.
	clientParts = 4
	// clientConnections is how many a client may have by default, if there are many.
	clientConnections = 1024
)

// connections returns the limits of visitors' connections for a process that may have that many open files, 0 if that
// is not known. perClient is the limit of a client; 0 means the default. within is the budget of their buffers.
func connections(files int64, perClient int, within *buffers.Budget, log *slog.Logger) *httpconn.Connections {
	cfg := httpconn.ConnectionLimits{Total: visitorConnections(files), PerClient: connectionsOfClient(files, perClient), Buffers: within, Logger: log}
	log.Debug("limits of connections", "files", files, "visitors", cfg.Total, "client", cfg.PerClient)
	return httpconn.NewConnections(cfg)
}

// visitorConnections is how many connections visitors may have; 0 or less if there is no limit.
func visitorConnections(files int64) int { return int(files - min(files/2, reservedFiles)) }

// connectionsOfClient is how many of them one client may have: chosen, if it is not 0.
func connectionsOfClient(files int64, chosen int) int {
	if total := visitorConnections(files); chosen == 0 && total > 0 {
		return max(min(clientConnections, total/clientParts), 1)
	}
	return cmp.Or(chosen, clientConnections)
}

// peerOf returns which client the connections of a listener are of. The connections of trusted proxies are of many
// clients, or of the one that the PROXY protocol names.
func peerOf(l config.Listener) httpconn.Peer {
	trust, _ := gateway.ParseTrust(l.TrustedProxies) // validated
	return func(a net.Addr) (netip.Prefix, bool) {
		at, err := netip.ParseAddrPort(a.String())
		return canonical.Client(a.String()), err == nil && !trust.Trusts(at.Addr())
	}
}

// SystemLimits are what the operating system allows this process. Zero means that a limit is not known.
type SystemLimits struct {
	Files     int64 // open files at most (RLIMIT_NOFILE, which Go has raised to its hard limit)
	OpenFiles int64 // now
	Memory    int64 // bytes: the least limit of its control groups, else the memory of the machine
}

// ReadSystemLimits reads them; on other systems than Linux it finds less.
func ReadSystemLimits() SystemLimits {
	l := SystemLimits{Memory: systemMemory(os.ReadFile)}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.Files = int64(min(files.Cur, 1<<62)) //nolint:gosec // bounded
	}
	if dir, err := os.Open("/proc/self/fd"); err == nil {
		if names, err := dir.Readdirnames(-1); err == nil {
			l.OpenFiles = int64(len(names)) - 1 // without dir
		}
		_ = dir.Close()
	}
	return l
}

// systemMemory returns the least limit in the files of control groups (cgroups(7), versions 1 and
// 2), and of the machine (proc(5)).
func systemMemory(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	consider := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if text, err := read("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
				if kb, err := strconv.ParseInt(f[1], 10, 43); err == nil {
					consider(kb << 10)
				}
			}
		}
	}
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if f[0] != "0" {
			if f[1] != "memory" {
				continue
			}
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the path may be the path of the host, so its parents are read too.
		for at := path.Clean("/" + f[2]); ; at = path.Dir(at) {
			if text, err := read(path.Join(root, at, name)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
					consider(n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}
