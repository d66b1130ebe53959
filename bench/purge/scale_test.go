package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/store"
)

var (
	fleetSize  = flag.Int("fleet", 60, "nodes of the simulated fleet")
	purgeRate  = flag.Int("rate", 20, "purges a second")
	burstSize  = flag.Int("burst", 0, "purges at once, when the load begins")
	loadTime   = flag.Duration("load", 3*time.Second, "how long pages are purged")
	purgers    = flag.Int("purgers", 10, "nodes that purge")
	settleTime = flag.Duration("settle", 2*time.Minute, "time between the start of the fleet and the load")
)

// TestScale runs a fleet on one table in virtual time, with the limits that DynamoDB has
// for one partition and with its latencies, while some of the nodes purge tags: none may be
// lost or fail, and every node must know each soon after it was acknowledged. With -v it
// prints what the fleet consumes and how late nodes are:
//
//	go test -C bench ./purge -run TestScale -v -fleet 1000 -rate 100 -load 1m
func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLimitedTable(t)
		var nodes []*isr.Cache
		for i := range *fleetSize {
			nodes = append(nodes, table.node(t, i))
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		time.Sleep(*settleTime)
		table.reset()
		purgeAll(t, nodes, table)
		time.Sleep(5 * time.Second)
		table.report(t)
	})
}

// purgeAll purges another tag at each tick.
func purgeAll(t *testing.T, nodes []*isr.Cache, table *limitedTable) {
	var wg sync.WaitGroup
	every := time.Second / time.Duration(*purgeRate)
	for n := range *burstSize + int(*loadTime/every) {
		wg.Go(func() {
			began := time.Now()
			receipt, err := nodes[n%min(*purgers, len(nodes))].Purge(t.Context(), isr.Purge{
				Targets: []store.PurgeTarget{isr.PurgeTag("", fmt.Sprint("product-", n))},
			})
			if err != nil {
				t.Errorf("purge %d: %v", n, err)
				return
			}
			table.acknowledged(receipt.Seq, time.Since(began), receipt.WriteUnits)
		})
		if n >= *burstSize {
			time.Sleep(every)
		}
	}
	wg.Wait()
}

// node starts a process that follows the log.
func (l *limitedTable) node(t *testing.T, i int) *isr.Cache {
	meta, err := dynamostore.New(nodeAPI{l.engine, l, i}, tableName, dynamostore.Config{Owner: fmt.Sprint("node-", i)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := isr.New(meta, l.bodies, isr.Config{Memory: 64 << 10, Node: fmt.Sprint("node-", i), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return c
}

func newLimitedTable(t *testing.T) *limitedTable {
	client, engine := localdynamotest.Open(t)
	if err := dynamostore.CreateTable(t.Context(), client, tableName); err != nil {
		t.Fatal(err)
	}
	bodies, err := dirbody.Open(t.TempDir(), dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bodies.Close() })
	return &limitedTable{engine: engine, bodies: bodies, partitions: make(map[string]*partitionLimits), acked: make(map[int64]time.Time), seen: make(map[int][]sighting)}
}

// report checks that every node has seen every purge, and prints the figures.
func (l *limitedTable) report(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var late []time.Duration
	for node := range *fleetSize {
		next := 0
		known := l.seen[node]
		for _, seq := range slices.Sorted(maps.Keys(l.acked)) {
			for next < len(known) && known[next].seq < seq {
				next++
			}
			if next == len(known) {
				t.Errorf("node %d has not seen purge %d", node, seq)
				break
			}
			late = append(late, max(0, known[next].at.Sub(l.acked[seq])))
		}
	}
	t.Logf("%d nodes, %d purges in %v, %d transactions", *fleetSize, len(l.took), *loadTime, l.commits)
	t.Logf("purge acknowledged after            %s", quantiles(l.took))
	t.Logf("node has read it after that         %s", quantiles(late))
	for name, p := range l.partitions {
		t.Logf("partition %-8s reads: %6.0f a second on average, %6.0f in the busiest; writes: %5.0f, %5.0f; throttled %d of %d calls",
			name, p.read.sum/time.Since(l.began).Seconds(), p.read.busiest, p.write.sum/loadTime.Seconds(), p.write.busiest, p.throttled, p.calls)
	}
	t.Logf("write units of the purges           %.1f each", l.units/float64(len(l.took)))
}

func quantiles(times []time.Duration) string {
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[min(int(share*float64(len(times))), len(times)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, at most %v", at(0.5), at(0.99), at(1))
}
