package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// A setup is a validated configuration: what flags and a file ask of a server.
type setup struct {
	*ServeCommand
	file         *config.File
	admin        adminPlan
	triggerPlan  triggerPlan
	draftSecrets []string
	errorPages   gateway.ErrorPages
}

// A replacement is what a reload does to a part of a server. It is prepared from the next configuration, and has no effect
// before it is used. All replacements of a reload are prepared before any is used. A function that is nil does nothing.
type replacement struct {
	// use puts it in the place of what is there. It cannot fail.
	use func()
	// discard ends it unused.
	discard func()
	// retire ends what it has replaced, and lets the work in flight of that finish until the context is done.
	retire func(context.Context)
}

// prepareParts prepares the replacements of parts, in their order. After an error there is none.
func prepareParts(ctx context.Context, parts []part, old, next *setup) (all []replacement, err error) {
	for _, p := range parts {
		if p.prepare == nil {
			continue
		}
		one, err := p.prepare(ctx, old, next)
		if err != nil {
			discardAll(all)
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func discardAll(all []replacement) {
	for _, one := range slices.Backward(all) {
		if one.discard != nil {
			one.discard()
		}
	}
}

// A reloader replaces the configuration of a running server.
type reloader struct {
	path string
	// read reads the file, with the flags that belong into it; plan validates it.
	read    func() (*config.File, error)
	plan    func(*config.File) (*setup, error)
	parts   []part
	site    *gateway.Site
	public  *public
	digest  *digest
	metrics *metrics.Metrics
	live    *live.Monitor
	// watch comes from the server's instruments.
	watch func(*gateway.SiteConfig)
	// buffered is the budget of buffers of the server.
	buffered *buffers.Budget
	// reopenLogs opens log files again. It reports whether there are any.
	reopenLogs func() bool
	// adjustLog gives the log the format and the level of a file.
	adjustLog func(*config.File)
	log       *slog.Logger

	// flags are the flags that were set.
	flags given

	current atomic.Pointer[setup]

	mu       sync.Mutex
	begun    bool           // guarded by mu: the server serves
	ended    bool           // guarded by mu: it ends
	retiring sync.WaitGroup // of the parts that were replaced
	// retired is done when parts that were replaced must end at once.
	retired context.Context
	endAll  context.CancelFunc
}

// present returns the present configuration.
func (r *reloader) present() *setup { return r.current.Load() }

// file returns the present configuration file.
func (r *reloader) file() *config.File { return r.present().file }

// naming returns how a setting is set now. It implements [details.Naming].
func (r *reloader) naming(setting string) string { return r.flags.naming(setting, r.file()) }

// reload reads the file again. Nothing changes after an error.
func (r *reloader) reload(ctx context.Context) (done admin.Reloaded, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		r.metrics.Reloaded(err)
		r.live.Happen(reloadHappening(err))
	}()
	if !r.begun {
		return admin.Reloaded{}, r.refuse("starting", http.StatusConflict, "the server is starting", "reload again once it serves")
	}
	if r.ended {
		return admin.Reloaded{}, r.refuse("shutting_down", http.StatusConflict, "the server is shutting down", "start it again: it reads the file then")
	}
	old := r.present()
	file, err := r.read()
	if err != nil {
		return admin.Reloaded{}, r.invalid(err.Error())
	}
	changes := config.Changes(old.file, file)
	if names := namesOf(changes, func(c config.Change) bool { return c.NeedsRestart }, config.Change.String); len(names) > 0 {
		return admin.Reloaded{}, r.refuse("restart_needed", http.StatusConflict,
			fmt.Sprintf("%s cannot change while the server runs: %s", r.path, strings.Join(names, ", ")),
			"nothing has changed; restart the server, or undo that part and reload again")
	}
	next, err := r.plan(file)
	if err != nil {
		return admin.Reloaded{}, r.invalid(r.path + ": " + err.Error())
	}
	if err := r.replace(ctx, old, next); err != nil {
		return admin.Reloaded{}, r.invalid(r.path + ": " + err.Error())
	}
	r.adjustLog(file)
	done = admin.Reloaded{
		File: r.path, Routes: len(file.Routes), Origins: len(file.Origins),
		Changed: namesOf(changes, func(config.Change) bool { return true }, func(c config.Change) string { return c.Name }),
	}
	r.log.Info("reloaded configuration", "file", r.path, "routes", done.Routes, "origins", done.Origins, "changed", done.Changed)
	return done, nil
}

// replace puts the next configuration in the place of the old one. After an error, the old one is in use.
func (r *reloader) replace(ctx context.Context, old, next *setup) error {
	cfg, err := SiteConfig(next.file, r.log)
	if err != nil {
		return err
	}
	r.watch(&cfg)
	cfg.Buffers = r.buffered
	all, err := prepareParts(ctx, r.parts, old, next)
	if err != nil {
		return err
	}
	// Hosts that are new get their routes before they are served; requests for hosts that
	// are gone get 404 or another route for a moment.
	if err := r.site.Reload(cfg); err != nil {
		discardAll(all)
		return err
	}
	for _, one := range all {
		if one.use != nil {
			one.use()
		}
	}
	r.current.Store(next)
	r.digest.set(next.ServeCommand, next.file)
	grace := old.graceTime(longestRender(old.file, time.Duration(old.RenderTimeout)))
	for _, one := range all {
		if one.retire == nil {
			continue
		}
		r.retiring.Go(func() {
			ctx, cancel := context.WithTimeout(r.retired, grace)
			defer cancel()
			one.retire(ctx)
		})
	}
	return nil
}

// begin begins to accept reloads.
func (r *reloader) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
}

// close refuses reloads from now on.
func (r *reloader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// drain lets the parts that were replaced finish, until ctx is done.
func (r *reloader) drain(ctx context.Context) {
	r.close()
	stop := context.AfterFunc(ctx, r.endAll)
	defer stop()
	r.retiring.Wait()
}

// end ends the parts that were replaced at once.
func (r *reloader) end() {
	r.endAll()
	r.drain(context.Background())
}

// namesOf returns the texts of the changes that are to be named.
func namesOf(changes []config.Change, which func(config.Change) bool, text func(config.Change) string) []string {
	names := []string{}
	for _, c := range changes {
		if which(c) {
			names = append(names, text(c))
		}
	}
	return names
}

// invalid refuses a file.
func (r *reloader) invalid(problem string) error {
	return r.refuse("invalid_configuration", http.StatusUnprocessableEntity, problem, "nothing has changed; correct the file and reload again")
}

// reloadHappening is the event of a reload.
func reloadHappening(err error) live.Happening {
	if err != nil {
		return live.Happening{At: time.Now(), Kind: "reload", Reason: "failed", Text: "the configuration was not reloaded; see the log for the reason"}
	}
	return live.Happening{At: time.Now(), Kind: "reload", Reason: "ok", Text: "the configuration was reloaded"}
}

// refuse logs and returns why a reload has changed nothing.
func (r *reloader) refuse(code string, status int, problem, hint string) error {
	err := &admin.Error{Status: status, Code: code, Message: problem, Hint: hint}
	r.log.Error("failed to reload configuration", "file", r.path, "error", errors.New(err.Error()))
	return err
}

// Hangups has the SIGHUP that a command which runs for long has received. A signal that comes before
// the command is ready is handled then.
type Hangups chan os.Signal

// CatchHangups has SIGHUP sent to a channel instead of ending the program, until stop is called. Commands
// call it before anything else, and stop last, so that SIGHUP ends no server without a drain.
func CatchHangups() (h Hangups, stop func()) {
	h = make(Hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h, func() { signal.Stop(h) }
}

// Each calls do at each SIGHUP until ctx is done or stop is called, which waits for do.
func (h Hangups) Each(ctx context.Context, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for {
			select {
			case <-h:
				do()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		waiting.Wait()
	}
}

// signaled does what SIGHUP asks for: it opens the logs again, and then reloads. Without a configuration
// file it logs that there is none.
func (r *reloader) signaled() {
	defer supervisor{r.log}.reloading()()
	reopened := r.reopenLogs()
	if r.path == "" {
		r.log.Info("SIGHUP has reloaded nothing: there is no configuration file (--config)", "access_log_reopened", reopened)
		return
	}
	_, _ = r.reload(context.Background()) // logged
}

// onRequest returns the operation of the admin API; nil if there is no configuration file.
func (r *reloader) onRequest() func(context.Context) (admin.Reloaded, error) {
	if r.path == "" {
		return nil
	}
	return func(ctx context.Context) (admin.Reloaded, error) {
		defer supervisor{r.log}.reloading()()
		return r.reload(context.WithoutCancel(ctx)) // what was begun is finished
	}
}
