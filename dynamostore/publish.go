package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Publish implements [store.MetaStore] as the reference documents describe it: one
// transaction updates META, if it is exactly what was read, and deletes LOCK, if the
// lease is ours and has not expired. It costs
//
//   - four write units if META has at most 1 KB;
//   - four more with history (none for a renewal, whose version stays as it is), for the version row of the generation and the expiry of
//     the previous one;
//   - two more for a lease with a claim, which is completed unless the page is withdrawn;
//   - four more, and a read unit, if it ends a pin or how.Reload is set, for the log row
//     that notifies all nodes.
//
// It returns next as a reader will find it, with times in whole seconds.
//
// A transaction whose reply was lost is repeated unchanged, under the same client
// token, until the lease ends or ctx is done. If there is still no reply, Publish
// settles the outcome in a context of its own, of SettleTimeout: it deletes LOCK,
// after which the transaction can no longer commit, and then reads whether it has. So
// a caller that cancels ctx waits for at most SettleTimeout, and gets the actual
// outcome: nil if the generation was published.
func (s *Store) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	held, err := s.own(l)
	if err != nil {
		return store.Entry{}, fmt.Errorf("publish: %w", err)
	}
	if held.ended() {
		return store.Entry{}, fmt.Errorf("publish %s: %w", held.pk, store.ErrLeaseLost)
	}
	p, err := s.newPublication(held, read, next, how)
	if err == nil {
		err = p.execute(s.metered(ctx, p.meterName()))
	}
	if errors.Is(err, store.ErrLeaseLost) {
		held.end()
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("publish %s: %w", held.pk, err)
	}
	held.end()
	if !next.Withdrawn {
		held.closeClaim()
	}
	// If we crash here, surplus versions stay until they expire.
	if how.History && how.Keep > 0 && !how.Renew {
		s.prune(ctx, held.pk, how.Keep)
	}
	return p.next, nil
}

// A publication is one call of Publish.
type publication struct {
	swap
	lease *lease
	sent  []*transaction

	logged bool         // it has a log row
	page   store.Key    // in the log row
	seen   seenSequence // which the next attempt advances
	id     string       // of the log row
	renews bool         // next is the generation of the entry that was read
	// deliver are the downstream caches, if it has a log row.
	deliver []string
}

func (s *Store) newPublication(l *lease, read store.Record, next store.Entry, how store.PublishOptions) (*publication, error) {
	f, err := fenceOf(read)
	if err == nil && f.pk != l.pk {
		err = fmt.Errorf("the record was not read from this partition")
	}
	if err != nil {
		return nil, err
	}
	// The record decides: if the page was pinned or unpinned since, the fence refuses
	// the publish.
	pinned := read.Entry != nil && read.Entry.PinnedUntil.After(s.config.Now())
	if pinned && !how.Unpin {
		return nil, fmt.Errorf("%w (until %s)", store.ErrPinned, read.Entry.PinnedUntil.UTC().Format(time.RFC3339))
	}
	logged := pinned || how.Reload
	if logged {
		if err := errors.Join(checkPage(how.Key), store.ValidDestinations(how.Destinations)); err != nil {
			return nil, err
		}
	}
	kept := how.History
	if how.Renew {
		if err := checkRenewal(read.Entry, next); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
		}
		kept = f.meta.text(attrCurrent) == versionPrefix+next.GenerationID
	}
	w, err := s.newSwap(f, next, kept, how.Superseded)
	if err != nil {
		return nil, err
	}
	w.newer = s.config.Guards.Monotonic
	w.replaced = how.History && how.Unchanged
	return &publication{swap: w, lease: l, renews: how.Renew, logged: logged, page: how.Key, id: rand.Text(), deliver: how.Destinations}, nil
}

// checkRenewal refuses a renewal whose content is not the content of the entry that was read.
// The time distinguishes a renewal from the state before it, and from an earlier renewal.
func checkRenewal(read *store.Entry, next store.Entry) error {
	switch {
	case read == nil || read.Foreign || read.Withdrawn || next.Withdrawn:
		return errors.New("there is no entry that can be renewed")
	case next.GenerationID != read.GenerationID || next.BodyKey != read.BodyKey || next.SHA256 != read.SHA256 || next.Length != read.Length:
		return fmt.Errorf("a renewal must have the generation and the body of the entry, %s (got %s)", read.GenerationID, next.GenerationID)
	case next.GeneratedAt.UnixMilli() == read.GeneratedAt.UnixMilli():
		return fmt.Errorf("a renewal must have another GeneratedAt than the entry (got %s)", next.GeneratedAt.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// meterName is the operation's name for [Config.Meter].
func (p *publication) meterName() string {
	switch requested := p.lease.openClaim() != nil && !p.next.Withdrawn; {
	case p.renews:
		return "renew"
	case p.current != "" && requested:
		return "publish with history and request"
	case p.current != "":
		return "publish with history"
	case requested:
		return "publish with request"
	}
	return "publish"
}

// execute publishes, or settles whether it has. A cancelled transaction is followed by a
// new one, because what a transaction requires (a version of META, a lease token, a
// sequence) never becomes true again: a refused one cannot commit later.
func (p *publication) execute(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, nothing needs to be settled
	}
	return p.store.execute(ctx, operation{
		prepare: p.prepare,
		send:    func(ctx context.Context) error { return p.latest().send(ctx) },
		refused: p.refused,
		expired: func(repetition bool) bool { return !p.lease.running() || repetition && p.latest().expired() },
		settle:  p.settle,
	})
}

func (p *publication) latest() *transaction { return p.sent[len(p.sent)-1] }

// prepare states the next transaction, with a client token and a time of its own. It
// reads SEQ if the publication is in the log: nodes that have a pinned generation in
// memory would serve it until the pin ends.
//
// Deleting LOCK gives up the lease and proves that it was held: DynamoDB allows one
// action per item, so that there is no separate check.
func (p *publication) prepare(ctx context.Context) (done bool, err error) {
	if p.logged {
		if p.seen, err = p.store.readSequence(ctx, true); err != nil {
			return false, err
		}
	}
	lock := &lockRow{location: p.store.at(p.lease.pk, skLock)}
	actions := []action{
		p.updateMeta(),
		remove(onLock, lock, tabletheory.ConditionExpression(isHeld, p.lease.heldAt(p.store.config.Now()))),
	}
	actions = append(actions, p.createVersion()...)
	actions = append(actions, p.retireVersion()...)
	actions = append(actions, p.completeClaim()...)
	if p.logged {
		log := &logRow{ID: p.id, Targets: []logTarget{reloadOf(p.page)}, Destinations: p.deliver}
		actions = append(actions, p.store.advance(p.seen, log, 0)...)
		jobs := logWrites{store: p.store, seen: p.seen, now: floorSeconds(p.store.config.Now())}
		jobs.deliver(p.deliver, true, pageTarget(p.page))
		actions = append(actions, jobs.jobActions(p.id)...)
	}
	p.sent = append(p.sent, p.store.newTransaction(actions))
	return false, nil
}

// createVersion makes the version row of the generation, if it is to be kept. The row
// has no ttl while the generation is current.
func (p *publication) createVersion() []action {
	if p.current == "" || p.renews {
		return nil
	}
	row := newMetaRow(p.store.at(p.lease.pk, p.current), p.next)
	row.Expires = nil
	return []action{create(onVersion, row)}
}

// completeClaim records the generation as the result of the lease's claim, unless the
// page is withdrawn.
func (p *publication) completeClaim() []action {
	c := p.lease.openClaim()
	if c == nil || p.next.Withdrawn {
		return nil
	}
	r, fields := c.finished(p.store, p.lease.pk, store.RequestEnd{Result: &p.next})
	return []action{update(onRequest, r, fields, c.isMine()...)}
}

// judge classifies failed conditions. retry: another transaction may succeed. A nil
// error: an earlier attempt of this publication made them fail. The rows that come back
// with them settle the common case of a lost reply at no cost, when META is what this
// publication made it.
func (p *publication) judge(why refusal) (retry bool, err error) {
	meta, moved := why[onMeta]
	lock, lost := why[onLock]
	switch {
	case moved && p.isOurs(meta.Item):
		return false, nil
	case moved && lost:
		return false, fmt.Errorf("%w%s, and %w", store.ErrLeaseLost, holder(lock), store.ErrMoved)
	case lost:
		return false, fmt.Errorf("%w%s", store.ErrLeaseLost, holder(lock))
	case moved && p.newer:
		return false, fmt.Errorf("%w%s", store.ErrMoved, notNewer(meta.Item, p.next.GeneratedAt))
	case moved:
		return false, store.ErrMoved
	case why.has(onRequest):
		// The process that took the claim over has the lease as well, or will: what
		// was rendered under it must not be published.
		return false, fmt.Errorf("%w: its request record was taken over or ended", store.ErrLeaseLost)
	case why.has(onVersion):
		return false, fmt.Errorf("version %s exists already: a generation id must be used once", p.next.GenerationID)
	}
	if why.has(onSuperseded) {
		p.skipSuperseded() // its row is gone
	}
	return true, nil
}

// isOurs reports whether META is what this publication made it, perhaps pinned since.
func (p *publication) isOurs(meta row) bool {
	ours := meta.child(attrISR)
	return ours.text(attrGenerationID) == p.next.GenerationID && (!p.renews || ours.beganAt(p.next.GeneratedAt))
}

// beganAt reports whether a map of this package has this time, in whole milliseconds.
func (r row) beganAt(t time.Time) bool {
	if ms, ok := floorOf(r[attrGeneratedMS]); ok && ms != 0 {
		return ms == t.UnixMilli()
	}
	seconds, ok := floorOf(r[attrGeneratedAt])
	return ok && time.Unix(seconds, 0).Equal(t)
}

// refused classifies failed conditions, and asks the rows if an earlier attempt may
// have made them fail.
func (p *publication) refused(ctx context.Context, err error, attempts progress) (retry bool, result error) {
	why := p.latest().refusal(err, 0)
	if len(why) == 0 {
		return false, err
	}
	retry, result = p.judge(why)
	switch {
	case retry:
		return true, err
	case result == nil || attempts.first():
		return false, result
	}
	ctx, cancel := settling(ctx, p.store.config.SettleTimeout)
	defer cancel()
	committed, err := p.committed(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w; looking what became of it: %w", store.ErrUnknownOutcome, result, err)
	case committed:
		return false, nil
	}
	return false, result
}

// settle finds out whether a transaction without a reply was committed, independently
// of the caller's context: it makes all of them impossible, and then reads the rows.
//
// If we crash before that, the transaction commits as a whole or not at all.
func (p *publication) settle(ctx context.Context, cause error, _ progress) error {
	ctx, cancel := settling(ctx, p.store.config.SettleTimeout)
	defer cancel()
	committed := false
	result, err := p.revoke(ctx, cause)
	if err == nil {
		committed, err = p.committed(ctx)
	}
	p.store.config.Logger.Warn("isr: settled a write whose reply was lost",
		slog.String("write", "publish"), slog.String("pk", p.lease.pk), slog.String("generation", p.next.GenerationID),
		slog.Bool("committed", committed), slog.Any("cause", cause), slog.Any("err", err))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; settling it: %w", store.ErrUnknownOutcome, cause, err)
	case committed:
		return nil
	}
	return result
}

// revoke deletes LOCK if it carries our token. After that no transaction of ours can
// commit: each requires the token. It returns the result of Publish if none has. If we
// crash before that, the lease expires.
func (p *publication) revoke(ctx context.Context, cause error) (result, err error) {
	gone, err := p.lease.revoke(ctx)
	if err != nil {
		return nil, err
	}
	p.lease.end()
	if gone {
		return fmt.Errorf("%w: %w", store.ErrLeaseLost, cause), nil
	}
	return cause, nil // the lease was given back
}

// committed reports whether META has, or had, our generation. Callers must have made
// sure that no transaction of ours can commit later.
func (p *publication) committed(ctx context.Context) (bool, error) {
	// The transaction may still be committing META, although LOCK is gone.
	rows, err := p.store.readSerializable(ctx, p.lease.pk, skMeta)
	if err != nil {
		return false, err
	}
	meta := rows[skMeta]
	if p.isOurs(meta) {
		return true, nil
	}
	if v, ok := meta.version(); meta == nil || ok && v <= p.next.Version {
		return false, nil // unchanged, or another writer took our number
	}
	if p.current != "" && !p.renews {
		// The version row is written with META.
		version, err := p.store.readRow(ctx, false, p.lease.pk, p.current)
		if err != nil || version != nil {
			return version != nil, err
		}
	}
	return p.remembered(ctx)
}

// remembered repeats the transactions, because DynamoDB remembers the outcome by
// client token: another writer has replaced META since, after us or instead of us. A
// repetition is harmless now: it gets the remembered reply, or fails its conditions.
func (p *publication) remembered(ctx context.Context) (bool, error) {
	for _, tx := range p.sent {
		refused := false
		err := p.store.execute(ctx, operation{send: tx.send, refused: func(context.Context, error, progress) (bool, error) {
			refused = true
			return false, nil
		}})
		if err != nil || !refused {
			return err == nil, err
		}
	}
	return false, nil
}
