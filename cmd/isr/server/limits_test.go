package server

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/localdynamo"
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
	var tier atomic.Int64
	tier.Store(1 << 30)
	stop := keepMemory(t.Context(), &tier, 0)
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
	keepMemory(t.Context(), &tier, 0)()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("GOMEMLIMIT is set, and the limit is %d", got)
	}
}

// Descriptors are reserved, and a client has a part of the others unless another limit is given.
func TestConnectionLimits(t *testing.T) {
	for _, tt := range []struct {
		files int64
		given int
		want  string
	}{
		{0, 0, "files=0 visitors=0 client=1024"},
		{3, 0, "files=3 visitors=2 client=1"},
		{1024, 0, "files=1024 visitors=512 client=128"},
		{1024, 400, "files=1024 visitors=512 client=400"},
		{20000, 0, "files=20000 visitors=15904 client=1024"},
		{1 << 20, 5000, "files=1048576 visitors=1044480 client=5000"},
	} {
		var log strings.Builder
		connections(tt.files, tt.given, nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		if got := strings.TrimSpace(log.String()); !strings.HasSuffix(got, tt.want) {
			t.Errorf("got %s, expected %s", got, tt.want)
		}
	}
}

// The connections of trusted proxies have no limit, connections of others count for their networks.
func TestPeerOf(t *testing.T) {
	peer := peerOf(config.Listener{TrustedProxies: []string{"10.0.0.0/8"}})
	for address, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32 false", "::ffff:10.1.2.3": "10.1.2.3/32 false", "192.0.2.1": "192.0.2.1/32 true", "2001:db8::1:2": "2001:db8::/64 true",
	} {
		client, limited := peer(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1)))
		got := client.String() + " false"
		if limited {
			got = client.String() + " true"
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", address, got, want)
		}
	}
}

// Processors are added while the store makes many commits, and removed once it does not.
func TestKeepProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	runtime.SetDefaultGOMAXPROCS()
	defer runtime.SetDefaultGOMAXPROCS()
	synctest.Test(t, func(t *testing.T) {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		defer db.Close()
		before := runtime.GOMAXPROCS(0)
		stop := KeepProcessors(t.Context(), db)
		tables := 0
		// during makes commits within a period, and checks how many processors there are after it.
		during := func(period string, commits, want int) {
			t.Helper()
			for range commits {
				commitTo(t, db, fmt.Sprint("table", tables))
				tables++
				synctest.Wait()
			}
			time.Sleep(commitPeriod)
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%s: %d processors, want %d", period, got, want)
			}
		}
		during("no commit", 0, before)
		during("few commits", manyCommits, before) // the first one begins the period
		during("many commits", manyCommits+1, before+committers)
		for range limitChecked/commitPeriod - 1 {
			during("as many", manyCommits, before+committers)
		}
		runtime.GOMAXPROCS(before + 10) // as if the limit of the container were lower now
		during("with another limit", manyCommits, before+committers)
		during("no commit again", 0, before)
		during("many commits again", manyCommits+1, before+committers)
		stop()
		during("after stop", 0, before)

		t.Setenv("GOMAXPROCS", "1")
		defer KeepProcessors(t.Context(), db)()
		during("with GOMAXPROCS", manyCommits+1, before)
	})
}

// commitTo creates a table.
func commitTo(t *testing.T, db *localdynamo.DB, name string) {
	t.Helper()
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            &name,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: &name, KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSystemMemory(t *testing.T) {
	t.Parallel()
	const meminfo = "MemTotal:       16000000 kB\nMemFree:         1 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no files":         {nil, 0},
		"a machine":        {map[string]string{"/proc/meminfo": meminfo}, 16000000 << 10},
		"version 2":        {map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1000000\n"}, 1000000},
		"a container":      {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "5\n"}, 5},
		"version 1":        {map[string]string{"/proc/self/cgroup": "3:cpu:/x\n2:memory:/x\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "7\n"}, 7},
		"malformed":        {map[string]string{"/proc/meminfo": "MemTotal: many kB\n", "/proc/self/cgroup": "::\nx\n0\n"}, 0},
		"no limit, 2^63-1": {map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "2:memory:/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16000000 << 10},
	} {
		read := func(name string) ([]byte, error) {
			if text, ok := test.files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
		if got := systemMemory(read); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestSystemLimits(t *testing.T) {
	t.Parallel()
	if l := ReadSystemLimits(); l.Files < 3 || l.OpenFiles > l.Files {
		t.Errorf("%+v", l)
	}
}
