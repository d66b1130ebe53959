package isr_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// ask gets a page, and fails the test if it is not the first rendering, or took longer.
func (c connected) ask(t *testing.T, path string, most time.Duration) {
	t.Helper()
	if a := get(c, path); a.Body.String() != path+" rendered 1" || a.took > most {
		t.Errorf("%s: %q after %v, want at most %v", path, a.Body, a.took, most)
	}
}

// A process gets the bodies that it needs from the one that has rendered them, or from another one if that was
// restarted, and reads the bucket if none has them.
func TestBodiesOfPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nodes := connect(tb, 4, site)
		get(nodes[2], "/")
		for _, i := range []int{0, 1, 3} { // the publisher has it
			nodes[i].ask(t, "/", 5*time.Millisecond)
			if asked, opens := nodes[i].end.bodies.Load(), nodes[i].bucket.opens.Load(); asked != 1 || opens != 0 {
				t.Errorf("node %d: %d peers asked, %d bodies of the bucket, want 1 and 0", i, asked, opens)
			}
		}
		if err := nodes[2].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := nodes[0].end.start(tb, 2, site)
		again.ask(t, "/", 5*time.Millisecond) // it was the publisher, and asks another one
		if asked, opens := again.end.bodies.Load(), again.bucket.opens.Load(); asked != 1 || opens != 0 {
			t.Errorf("after a restart: %d peers asked, %d bodies of the bucket, want 1 and 0", asked, opens)
		}
		site.renders.Store(0)
		get(nodes[3], "/rare")
		if err := nodes[3].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		last := nodes[0].end.start(tb, 3, site)
		last.ask(t, "/rare", bucketDelay+5*time.Millisecond)
		if asked, opens := last.end.bodies.Load(), last.bucket.opens.Load(); asked != 1 || opens != 1 {
			t.Errorf("a page that none has: %d peers asked, %d bodies of the bucket, want 1 and 1", asked, opens)
		}
		for i, n := range nodes[:2] {
			if opens := n.bucket.opens.Load(); opens != 0 {
				t.Errorf("node %d has read %d bodies of the bucket for others", i, opens)
			}
		}
	})
}

// Peers that lie, are slow, hang or are dead do not change what visitors get, delay it by little, and are
// soon not asked any more.
func TestPeersDoNotAnswerForBodies(t *testing.T) {
	const patience = 10 * time.Millisecond
	type reader = func(context.Context, netip.AddrPort, store.PeerBody) ([]byte, error)
	bytesOf := func(n func(int64) int64) reader {
		return func(_ context.Context, _ netip.AddrPort, b store.PeerBody) ([]byte, error) {
			return make([]byte, n(b.Length)), nil
		}
	}
	fails := func(err error) reader {
		return func(context.Context, netip.AddrPort, store.PeerBody) ([]byte, error) { return nil, err }
	}
	after := func(d time.Duration) reader {
		return func(ctx context.Context, _ netip.AddrPort, b store.PeerBody) ([]byte, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(d):
				return make([]byte, b.Length), nil
			}
		}
	}
	for name, c := range map[string]struct {
		read  reader
		most  time.Duration // that a visitor waits
		asked int64         // in eight reads
	}{
		"sends wrong bytes":     {bytesOf(func(n int64) int64 { return n }), bucketDelay, 1},
		"sends too few":         {bytesOf(func(n int64) int64 { return n - 1 }), bucketDelay, 1},
		"sends too many":        {bytesOf(func(n int64) int64 { return n + 1 }), bucketDelay, 1},
		"sends nothing":         {bytesOf(func(int64) int64 { return 0 }), bucketDelay, 1},
		"is dead":               {fails(errors.New("nothing listens")), bucketDelay, 3},
		"has it not":            {fails(store.ErrNotFound), bucketDelay, 8},
		"is busy":               {fails(store.ErrPeerBusy), bucketDelay, 8},
		"hangs":                 {after(time.Hour), patience + bucketDelay, 3},
		"is slow, and lies":     {after(patience + bucketDelay/2), patience + bucketDelay, 1},
		"lies after the answer": {after(patience + 2*bucketDelay), patience + bucketDelay, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			nodes := connect(tb, 2, site)
			reading := nodes[1]
			for i := range 8 {
				path := fmt.Sprint("/", i)
				get(nodes[0], path)
				site.renders.Store(0)
			}
			reading.end.read = c.read
			for i := range 8 {
				a := get(reading, fmt.Sprint("/", i))
				synctest.Wait() // until a request that has lost is noted
				if a.Body.String() != fmt.Sprintf("/%d rendered 1", i) || a.took > c.most+2*time.Millisecond {
					t.Errorf("a peer that %s: %q after %v, want at most %v", name, a.Body, a.took, c.most)
				}
			}
			if asked, opens := reading.end.bodies.Load(), reading.bucket.opens.Load(); asked != c.asked || opens != 8 {
				t.Errorf("a peer that %s: asked %d times, want %d; %d bodies of the bucket, want 8", name, asked, c.asked, opens)
			}
			// Once the circuit breaker has closed, it is asked again.
			reading.end.read = nil
			time.Sleep(10 * time.Second)
			get(nodes[0], "/last")
			before := reading.bucket.opens.Load()
			get(reading, "/last")
			if n := reading.bucket.opens.Load() - before; n != 0 {
				t.Errorf("a peer that %s, and is well again: %d bodies of the bucket", name, n)
			}
		})
	}
}

// A peer that is slow, but sooner than the bucket, is made use of.
func TestSlowPeersMayBeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nodes := connect(tb, 2, site)
		get(nodes[0], "/")
		nodes[1].end.read = func(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error) {
			time.Sleep(20 * time.Millisecond)
			return nodes[1].end.local(ctx, at, b)
		}
		nodes[1].ask(t, "/", 25*time.Millisecond)
		nodes[1].bucket.delay = time.Hour // the bucket does not answer at all
		get(nodes[0], "/another")
		if a := get(nodes[1], "/another"); a.Body.String() != "/another rendered 2" || a.took > 25*time.Millisecond {
			t.Errorf("%q after %v", a.Body, a.took)
		}
	})
}

// What a process knows to be purged hard, and what it has not, it does not send; nor anything that is named
// in another way than its entry does.
func TestBodiesForPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nodes := connect(tb, 2, site)
		get(nodes[0], "/")
		time.Sleep(time.Second)
		rec := tb.record(page)
		asked := store.PeerBody{Key: page, BodyKey: rec.Entry.BodyKey, SHA256: rec.Entry.SHA256, Length: rec.Entry.Length}
		if rec.Entry.Peer != nodes[0].end.at {
			t.Errorf("the entry names the peer %v, want %v", rec.Entry.Peer, nodes[0].end.at)
		}
		sends := func(what string, b store.PeerBody, want bool) {
			t.Helper()
			if got := nodes[0].LocalBody(t.Context(), b); (got != nil) != want || got != nil && string(got) != "/ rendered 1" {
				t.Errorf("%s: %q, want a body: %v", what, got, want)
			}
		}
		sends("as in the table", asked, true)
		for name, change := range map[string]func(*store.PeerBody){
			"another page":      func(b *store.PeerBody) { b.Key.Text = "example.com/other" },
			"another tenant":    func(b *store.PeerBody) { b.Key.Tenant = "acme" },
			"another body":      func(b *store.PeerBody) { b.BodyKey += "0" },
			"a file":            func(b *store.PeerBody) { b.BodyKey = "../table.db" },
			"a path to it":      func(b *store.PeerBody) { b.BodyKey = "bodies/../" + b.BodyKey },
			"no body":           func(b *store.PeerBody) { b.BodyKey = "" },
			"another digest":    func(b *store.PeerBody) { b.SHA256 = b.SHA256[1:] + "0" },
			"another length":    func(b *store.PeerBody) { b.Length++ },
			"nothing":           func(b *store.PeerBody) { *b = store.PeerBody{} },
			"a malformed key":   func(b *store.PeerBody) { b.Key.Text = "\x00" },
			"a negative length": func(b *store.PeerBody) { b.Length = -1 },
		} {
			b := asked
			change(&b)
			sends(name, b, false)
		}
		for _, hard := range []bool{false, true} {
			if _, err := nodes[1].Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeSite}}, Hard: hard}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			sends(fmt.Sprint("purged hard: ", hard), asked, !hard)
		}
	})
}

// Pages of other services have no digest: their bodies are read from the bucket.
func TestForeignBodiesAreNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nodes := connect(tb, 2, site)
		tb.putForeign(page, "theirs", "by another service")
		for i, n := range nodes {
			if a := get(n, "/"); a.Body.String() != "by another service" || n.end.bodies.Load() != 0 || n.bucket.opens.Load() != 1 {
				t.Errorf("node %d: %q, %d peers asked", i, a.Body, n.end.bodies.Load())
			}
		}
	})
}

// A process that has a page in memory but for its body sends it from its local disk, and reads nothing from elsewhere.
func TestBodiesOfTheLocalDisk(t *testing.T) {
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			far := &remote{BodyStore: tb.bodies}
			var bodies store.BodyStore = tb.bodies
			if !local {
				bodies = far
			}
			c := tb.crowdedNode(bodies, site)
			opened, sent := far.opened.Load(), 0
			for i := range c.pages {
				k := store.Key{Text: fmt.Sprint("example.com/", i)}
				e := tb.record(k).Entry
				if body := c.LocalBody(t.Context(), store.PeerBody{Key: k, BodyKey: e.BodyKey, SHA256: e.SHA256, Length: e.Length}); body != nil {
					sent++
				}
			}
			if local && sent != c.pages || !local && sent > c.pages/2 || far.opened.Load() != opened {
				t.Errorf("on a local disk %v: %d of %d bodies sent, %d read from elsewhere", local, sent, c.pages, far.opened.Load()-opened)
			}
		})
	}
}
