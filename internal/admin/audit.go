package admin

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Bounds of the changes that are remembered.
const (
	maxChanges = 1000
	// maxChangeTarget bounds the text of a target, in bytes.
	maxChangeTarget = 1024
)

// An AuditEntry is a change that was requested, whether it succeeded or failed.
type AuditEntry struct {
	At     time.Time `json:"at" doc:"When it ended."`
	Action string    `json:"action" doc:"Name of the operation, such as purgePages."`
	Target string    `json:"target" doc:"What was to be changed, such as the key of a page; at most 1,024 bytes."`
	Result string    `json:"result" doc:"ok, or the code of the error."`
	TookMS float64   `json:"took_ms" doc:"How long it took, in milliseconds."`
	Remote string    `json:"remote" doc:"Address of the client; this machine, for one on the socket."`
	Token  string    `json:"token,omitempty" doc:"Fingerprint of the token. Missing if none was needed."`
	Role   Role      `json:"role" doc:"admin or read."`
	Via    string    `json:"via" doc:"console, token, socket, network (the method PURGE without a token), or schedule (warm of the configuration)."`
	Pages  int       `json:"pages,omitempty" doc:"How many pages a run over many pages has requested so far. The target is then the name of the run, and result the last one that was not ok."`
}

// An Audit is the changes that a server remembers.
type Audit struct {
	Since   time.Time    `json:"since" doc:"Since when it remembers them."`
	Kept    int          `json:"kept" doc:"How many it remembers at most."`
	Entries []AuditEntry `json:"entries" doc:"The newest first."`
}

// An AuditQuery selects changes.
type AuditQuery struct {
	Target string `json:"target,omitempty" doc:"Only changes of this page, by its key."`
	Limit  string `json:"limit,omitempty" doc:"At most so many, 1 to 1000. Default: 100."`
}

// A trail is the latest changes, in a ring. It is safe for concurrent use.
type trail struct {
	since time.Time

	mu      sync.Mutex
	changes []AuditEntry // guarded by mu
	next    int          // guarded by mu: the oldest, once the ring is full
}

func (t *trail) add(e AuditEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(e)
}

// join adds a change of a page to the entry of its run by the same caller. first: there was none.
func (t *trail) join(e AuditEntry) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.changes {
		run := &t.changes[i]
		if run.Pages == 0 || run.Target != e.Target || run.Action != e.Action || run.Token != e.Token || run.Via != e.Via {
			continue
		}
		run.At, run.Pages, run.TookMS = e.At, run.Pages+1, run.TookMS+e.TookMS
		if e.Result != resultOK {
			run.Result = e.Result
		}
		return false
	}
	e.Pages = 1
	t.addLocked(e)
	return true
}

func (t *trail) addLocked(e AuditEntry) {
	if len(t.changes) < maxChanges {
		t.changes = append(t.changes, e)
		return
	}
	t.changes[t.next] = e
	t.next = (t.next + 1) % maxChanges
}

// latest returns at most limit changes of a page, empty for any, the newest first.
func (t *trail) latest(target string, limit int) []AuditEntry {
	t.mu.Lock()
	ordered := append(slices.Clone(t.changes[t.next:]), t.changes[:t.next]...)
	t.mu.Unlock()
	found := []AuditEntry{}
	for _, e := range slices.Backward(ordered) {
		if len(found) == limit {
			break
		}
		if target == "" || e.Target == target {
			found = append(found, e)
		}
	}
	return found
}

func (a *API) listAudit() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/audit", name: "listAudit", limit: lookTime, adminOnly: true,
		summary: "List the latest changes that were requested of this server.",
		details: "They are kept in memory; the log of the server has all of them.",
	}, func(_ *http.Request, in AuditQuery) (Audit, error) {
		limit, err := within("limit", in.Limit, 100, 1, maxChanges)
		if err != nil {
			return Audit{}, err
		}
		return Audit{Since: a.trail.since.UTC(), Kept: maxChanges, Entries: a.trail.latest(in.Target, limit)}, nil
	})
}

// within parses a number of a query between bounds.
func within(name, text string, otherwise, least, most int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, invalid("%s must be a number from %d to %d (got %.40q)", name, least, most, text)
	}
	return n, nil
}

// resultOK is the result of a change that has succeeded.
const resultOK = "ok"

// audit logs a change, whether it succeeded or failed, and remembers it. Requests that no token
// or session has admitted are not remembered: they would displace the others. The changes of a run are
// remembered as one, and the log has the first at level info.
func (a *API) audit(ctx context.Context, x *exchange, op operation, err error, took time.Duration) {
	v, result, level, target := x.visitor, resultOK, slog.LevelInfo, x.target
	if err != nil {
		result = describe(err).Code
	}
	e := AuditEntry{
		At: a.cfg.Now().UTC(), Action: op.name, Target: target, Result: result,
		TookMS: milliseconds(took), Remote: v.remote, Token: v.token, Role: v.role, Via: v.via,
	}
	switch {
	case v.role == "":
	case x.run == "":
		a.Record(e)
	default:
		e.Target = x.run
		if first := a.trail.join(e); first {
			a.tell(e)
		} else {
			level = slog.LevelDebug
		}
	}
	attrs := []any{
		slog.String("remote", v.remote), slog.String("token", v.token), slog.String("action", op.name), slog.String("target", target), slog.String("result", result),
		slog.Duration("took", took.Round(time.Microsecond)), slog.String("role", string(v.role)), slog.String("via", v.via),
	}
	if x.run != "" {
		attrs = append(attrs, slog.String("run", x.run))
	}
	a.log.LogAttrs(context.WithoutCancel(ctx), level, "admin change", slog.Group("audit", attrs...))
}

// Record remembers a change that ends now, such as one that the server has made by itself, and tells the consoles.
func (a *API) Record(e AuditEntry) {
	e.At = a.cfg.Now().UTC()
	e.Target = e.Target[:min(len(e.Target), maxChangeTarget)]
	a.trail.add(e)
	a.tell(e)
}

// milliseconds returns a duration in milliseconds, rounded to microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
