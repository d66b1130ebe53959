package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A fate is the fault, if any, that a call meets.
type fate int

const (
	served      fate = iota
	lostRequest      // not executed; the caller gets a connection error
	lostReply        // executed; the caller gets a connection error
	slow             // delayed, then chosen again
	slowReply        // executed now, answered later
	throttled        // refused for lack of capacity
	conflict         // refused because of another transaction on the row
	busy             // refused because a transaction with the same token is in progress
	duplicate        // executed twice; the caller gets the second response
	copied           // executed and answered; a second copy may arrive later
	inPart           // executed and seen in part; answered once all of it is seen
)

func (f fate) String() string {
	return [...]string{"", " [request lost]", " [reply lost]", " [slow]", " [slow reply]", " [throttled]", " [conflict]", " [in progress]", " [twice]", " [copied]", " [in part]"}[f]
}

// fates are the faults that a kind of call may meet.
func (k kind) fates() []fate {
	switch k {
	case reading:
		return []fate{lostRequest, slow, slowReply, throttled}
	case writing:
		return []fate{lostRequest, lostReply, slow, slowReply, throttled, conflict, duplicate, copied}
	case transaction:
		return []fate{lostRequest, lostReply, slow, slowReply, throttled, conflict, busy, duplicate, copied}
	case body:
	}
	return []fate{lostRequest, lostReply, slow, slowReply, duplicate}
}

// deliver lets a call proceed.
func (w *world) deliver(c *call) {
	switch {
	case c.expired.Load():
		w.log("%s: %s: %s", c.life.name, c.op, summary(c.ended))
		w.gate.expire(c)
	case c.gone.Load():
		w.arriveLate(c)
	case c.done != nil:
		w.log("%s: %s: answered %s", c.life.name, c.op, summary(c.done.err))
		w.gate.answer(c, *c.done)
	case w.isDenied(c):
		w.log("%s: %s [denied]", c.life.name, c.op)
		w.counts["body denied"]++
		w.gate.answer(c, outcome{err: errDenied})
	default:
		f := served
		if w.rng.Float64()*100 < w.profile.faults {
			f = pick(w.rng, c.kind.fates())
		}
		if c.kind != reading && w.rng.Float64()*100 < w.profile.lost[c.errand] {
			f = lostReply
		}
		if w.tears != nil && f == served && c.kind == transaction && w.rng.IntN(3) == 0 {
			f = inPart
		}
		if f == served && w.profile.slowSEQ && c.op == "get PURGE SEQ" && w.besideSEQ(c) {
			return
		}
		w.meet(c, f)
	}
}

// besideSEQ lets a page be read and then purged while a read of SEQ is in progress that is
// not abandoned for it. It reports whether the read must wait.
func (w *world) besideSEQ(c *call) bool {
	switch {
	case !c.ready.IsZero():
		if w.rng.IntN(3) == 0 {
			w.purge(pick(w.rng, w.pages))
		}
		return false
	case w.rng.IntN(2) == 0:
		return false
	}
	c.ready = time.Now().Add(time.Duration(w.rng.Int64N(int64(w.pace.callTimeout * 3 / 5))))
	w.log("%s: %s%s", c.life.name, c.op, slow)
	w.visitIfMay(c.life, pick(w.rng, w.pages))
	return true
}

// arriveLate executes, or loses, a request whose caller is gone.
func (w *world) arriveLate(c *call) {
	w.gate.forget(c)
	if w.rng.IntN(2) == 0 {
		w.log("%s: %s: lost", c.life.name, c.op)
		return
	}
	w.counts["late"]++
	w.execute(c, " [late]")
}

// meet applies a fate to a call.
func (w *world) meet(c *call, f fate) {
	if f != served {
		w.counts["fault"]++
	}
	if f == lostReply && c.errand != other {
		w.counts["lost reply to "+string(c.errand)]++
	}
	switch f {
	case lostRequest, throttled, conflict, busy:
		w.log("%s: %s%s", c.life.name, c.op, f)
		w.gate.answer(c, outcome{err: c.refusal(w, f)})
	case slow:
		c.ready = time.Now().Add(w.delay())
		w.log("%s: %s%s", c.life.name, c.op, f)
	case slowReply:
		o := w.execute(c, f.String())
		c.done, c.ready = &o, time.Now().Add(w.delay())
	case inPart:
		o, until := w.executeInPart(c, f.String())
		c.done, c.ready = &o, until
	case lostReply:
		w.executeInPart(c, f.String())
		w.gate.answer(c, outcome{err: errReset})
	case duplicate:
		w.execute(c, f.String())
		w.gate.answer(c, w.execute(c, f.String()))
	case copied:
		o := w.execute(c, f.String())
		w.gate.copyOf(c)
		w.gate.answer(c, o)
	case served:
		w.gate.answer(c, w.execute(c, ""))
	}
}

// delay draws a delay, shorter or longer than the timeout of calls.
func (w *world) delay() time.Duration {
	return time.Duration(w.rng.Int64N(int64(w.pace.callTimeout * 8 / 5)))
}

// execute executes a call and checks what it changed. It first processes what the caller
// saw before the call: in real time that may be new.
func (w *world) execute(c *call, how string) outcome {
	w.digestEvents()
	w.checkContention(c)
	var o outcome
	if w.tears != nil {
		w.tears.now = time.Now()
	}
	w.outside.do(func() { o.value, o.err = c.do() })
	w.log("%s: %s%s: %s", c.life.name, c.op, how, summary(o.err))
	w.countRefusal(c, o.err)
	w.inspect(c)
	return o
}

// checkContention: a change of the log that lost a race is retried with the current SEQ,
// which is read after the pause, not before: it moves during the pause.
func (w *world) checkContention(c *call) {
	if !c.again || c.gone.Load() || !w.pace.ordered() {
		return
	}
	w.counts["judged contended"]++
	if c.seqAge > 0 {
		w.violate("SEQ is read after the back-off", "%s sends a change %.3fs after it read SEQ", c.life.name, c.seqAge.Seconds())
	}
}

// countRefusal counts transactions that failed a condition, by errand and row.
func (w *world) countRefusal(c *call, err error) {
	for _, sk := range c.refusedBy(err) {
		if sk == "META" || sk == "LOCK" || sk == "SEQ" {
			w.counts[string(c.errand)+" refused by "+sk]++
		}
	}
}

// refusedBy returns the sort keys of the rows whose conditions failed.
func (c *call) refusedBy(err error) []string {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return nil
	}
	var rows []string
	for i, reason := range canceled.CancellationReasons {
		if aws.ToString(reason.Code) == "ConditionalCheckFailed" {
			rows = append(rows, c.rows[i])
		}
	}
	return rows
}

// errReset is a broken connection.
var errReset = errors.New("simulator: connection reset by peer")

// refusal is the response to a call that was not executed.
func (c *call) refusal(w *world, f fate) error {
	if f == lostRequest {
		return errReset
	}
	if c.kind == transaction && f != busy {
		code := "TransactionConflict"
		if f == throttled {
			code = "ThrottlingError"
		}
		reasons := make([]types.CancellationReason, len(c.rows))
		for i := range reasons {
			reasons[i].Code = aws.String("None")
		}
		reasons[w.rng.IntN(len(reasons))].Code = &code
		return &types.TransactionCanceledException{CancellationReasons: reasons}
	}
	switch f {
	case busy:
		return &types.TransactionInProgressException{}
	case conflict:
		return &types.TransactionConflictException{}
	}
	return &types.ProvisionedThroughputExceededException{}
}

// outcomeIsFault reports whether the error is a fault, not the engine's response.
func outcomeIsFault(err error) bool {
	if err == nil {
		return false
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
			code := aws.ToString(r.Code)
			return code != "None" && code != "ConditionalCheckFailed"
		})
	}
	_, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	return !refused && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrExists)
}

// summary describes a result in the trace: codes, not texts.
func summary(err error) string {
	if err == nil {
		return "ok"
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		var codes []string
		for _, reason := range canceled.CancellationReasons {
			codes = append(codes, aws.ToString(reason.Code))
		}
		return "cancelled: " + strings.Join(codes, ", ")
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	for _, known := range []error{
		store.ErrLeaseLost, store.ErrMoved, store.ErrUnknownOutcome, isr.ErrUncacheable, store.ErrNotFound, store.ErrExists, isr.ErrClosed, store.ErrDenied, errReset,
		context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if _, held := errors.AsType[*store.HeldError](err); held {
		return "held"
	}
	return fmt.Sprintf("%T", err)
}
