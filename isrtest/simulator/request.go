package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A demand is one idempotency key of a page and its request record.
type demand struct {
	hash       string            // of its inputs, as first recorded
	generation string            // of its result, once completed
	body       string            // the body key of its result
	attempts   map[string]string // the life that made it, by token
}

// demand makes a request with one of a few idempotency keys, so that keys repeat; some requests
// reuse a key with other inputs.
func (w *world) demand(l *life, p *page) {
	if !w.mayForce(l, p) {
		return
	}
	l.pages[p].force()
	w.visitors++
	v := &visitor{number: w.visitors, life: l, page: p}
	v.name = fmt.Sprintf("r%d", w.rng.IntN(2))
	inputs := "the inputs"
	if w.rng.IntN(8) == 0 {
		inputs = "other inputs"
	}
	v.inputs = inputs
	w.log("request to %s: %s of %s with %s", l.name, v.name, p.path, inputs)
	l.asking++
	w.ended.Go(func() {
		ctx, cancel := w.aside()
		defer cancel()
		got, err := l.cache.Regenerate(ctx, p.key, isr.WithIdempotencyKey(v.name), isr.WithInputs(inputs))
		w.happened(event{kind: demanded, life: l, page: p, entry: got.Entry, replayed: got.Replayed, visitor: v, err: err})
	})
}

// checkDemanded: every acknowledged request returns the one result that is recorded.
func (w *world) checkDemanded(e event) {
	name := e.visitor.name
	e.life.pages[e.page].forcing = false
	e.life.asking--
	w.log("%s: %s of %s: %s", e.life.name, name, e.page.path, summary(e.err))
	if e.err != nil {
		return
	}
	if e.replayed {
		w.counts["request replayed"]++
	}
	d := e.page.demands["REQ#"+name]
	if d == nil || d.generation == "" {
		w.violate("a request has one result", "%s got a result for %s of %s, which has no record", e.life.name, name, e.page.path)
		return
	}
	if hash, err := store.HashInputs(e.visitor.inputs); err != nil || hash != d.hash {
		w.violate("a request keeps its inputs", "%s executed %s of %s with inputs that differ from the record", e.life.name, name, e.page.path)
	}
	// An unchanged generation may have replaced the original result.
	if d.generation != e.entry.GenerationID && d.body != e.entry.BodyKey {
		w.violate("a request has one result", "%s got a result for %s of %s that differs from the record", e.life.name, name, e.page.path)
	}
}

// checkRequests checks the changes of request records.
func (w *world) checkRequests(p *page, c *call, before, after partition) {
	for _, sk := range slices.Sorted(maps.Keys(after)) {
		if !strings.HasPrefix(sk, "REQ#") || same(before[sk], after[sk]) {
			continue
		}
		w.log("  %s of %s: %s", sk, p.path, textOf(after[sk], "status"))
		w.checkRequest(p, c, sk, before, after)
	}
}

func (w *world) checkRequest(p *page, c *call, sk string, before, after partition) {
	was, is := before[sk], after[sk]
	d := p.demands[sk]
	if d == nil {
		d = &demand{hash: textOf(is, "request_hash"), attempts: make(map[string]string)}
		p.demands[sk] = d
	}
	switch {
	case d.generation != "":
		w.violate("a request completes at most once", "%s of %s was completed, and %s changed it", sk, p.path, c.life.name)
	case textOf(is, "request_hash") != d.hash:
		w.violate("a request keeps its inputs", "%s of %s has a different hash", sk, p.path)
	case is["ttl"] == nil:
		w.violate("a request record expires", "%s of %s has no ttl", sk, p.path)
	}
	token := textOf(is, "attempt_token")
	if token != textOf(was, "attempt_token") {
		w.checkAttempt(p, c, sk, before, after)
		d.attempts[token] = c.life.name
	} else if d.attempts[token] != c.life.name {
		w.violate("a request record is changed by its holder", "%s of %s belongs to %s, and %s changed it", sk, p.path, d.attempts[token], c.life.name)
	}
	if textOf(is, "status") == "COMPLETED" {
		d.generation, d.body = textOf(is, "generation_id"), textOf(is, "result_s3_key")
		if now := after.meta(); same(before["META"], after["META"]) || now == nil || now.generation != d.generation || now.bodyKey != textOf(is, "result_s3_key") {
			w.violate("a request completes with its publish", "%s of %s was completed without one", sk, p.path)
		}
	}
}

// checkAttempt: a request is started, or taken over, in the transaction that takes the lease, and not
// while another process executes it.
func (w *world) checkAttempt(p *page, c *call, sk string, before, after partition) {
	was, is := before[sk], after[sk]
	if textOf(is, "status") != "STARTED" {
		w.violate("a request starts before it ends", "%s of %s", sk, p.path)
	}
	a, b := before.lock(), after.lock()
	if b == nil || a != nil && a.token == b.token {
		w.violate("a request starts with the lease", "%s started %s of %s without it", c.life.name, sk, p.path)
		return
	}
	w.grants[b.token].request = sk
	if left := numberOf(was, "in_progress_until") - w.clockOf(c); textOf(was, "status") == "STARTED" && left > 0 {
		w.violate("a request in progress is not taken over", "%s took over %s of %s, which was in progress for %d s more", c.life.name, sk, p.path, left)
	}
}

// checkDone: a publish that carries a request completes its record.
func (w *world) checkDone(p *page, before partition, g *generation) {
	held := before.lock()
	if held == nil || w.grants[held.token] == nil || w.grants[held.token].request == "" {
		return
	}
	lease := w.grants[held.token]
	if d := p.demands[lease.request]; d == nil || d.generation != g.generation {
		w.violate("a publish completes its request", "%s of %s did not complete %s", w.generationName(g), p.path, lease.request)
	}
}
