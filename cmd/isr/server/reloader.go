package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// A reloader replaces the configuration of a running server.
type reloader struct {
	path    string
	read    func() (*config.File, error)
	site    *gateway.Site
	public  *public
	digest  *digest
	metrics *metrics.Metrics
	live    *live.Monitor
	// edge replaces the handlers of the listeners.
	edge func(f *config.File, draftSecrets []string)
	// watch comes from the server's instruments.
	watch func(*gateway.SiteConfig)
	// buffered is the budget of buffers of the server.
	buffered *buffers.Budget
	// reopenLogs opens log files again; nil if there are none.
	reopenLogs func()
	// adjustLog gives the log the format and the level of a file.
	adjustLog func(*config.File)
	log       *slog.Logger

	// flags are the flags that were set.
	flags given

	mu      sync.Mutex
	current *config.File // guarded by mu
}

// file returns the present configuration.
func (r *reloader) file() *config.File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// naming returns how a setting is set now. It implements [details.Naming].
func (r *reloader) naming(setting string) string { return r.flags.naming(setting, r.file()) }

// reload reads the file again. Nothing changes after an error.
func (r *reloader) reload() (done admin.Reloaded, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		r.metrics.Reloaded(err)
		r.live.Happen(reloadHappening(err))
	}()
	next, err := r.read()
	if err != nil {
		return admin.Reloaded{}, r.refuse("invalid_configuration", http.StatusUnprocessableEntity, err.Error(), "nothing has changed; correct the file and reload again")
	}
	if names := config.NeedRestart(r.current, next); len(names) > 0 {
		return admin.Reloaded{}, r.refuse("restart_needed", http.StatusConflict,
			fmt.Sprintf("%s cannot change while the server runs: %s", r.path, strings.Join(names, ", ")),
			"nothing has changed; restart the server, or undo that part and reload again")
	}
	secrets, err := draftSecrets(next)
	var cfg gateway.SiteConfig
	if err == nil {
		cfg, err = SiteConfig(next, r.log)
	}
	if err == nil {
		r.watch(&cfg)
		cfg.Buffers = r.buffered
		err = r.site.Reload(cfg)
	}
	if err != nil {
		return admin.Reloaded{}, r.refuse("invalid_configuration", http.StatusUnprocessableEntity, r.path+": "+err.Error(), "nothing has changed; correct the file and reload again")
	}
	// Hosts that are new get their routes before they are served; requests for hosts that
	// are gone get 404 or another route for a moment.
	r.edge(next, secrets)
	r.current = next
	r.digest.set(next)
	r.adjustLog(next)
	done = admin.Reloaded{File: r.path, Routes: len(next.Routes), Origins: len(next.Origins)}
	r.log.Info("reloaded configuration", "file", r.path, "routes", done.Routes, "origins", done.Origins)
	return done, nil
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
	if r.reopenLogs != nil {
		r.reopenLogs()
	}
	if r.path == "" {
		r.log.Info("SIGHUP has reloaded nothing: there is no configuration file (--config)", "access_log_reopened", r.reopenLogs != nil)
		return
	}
	_, _ = r.reload() // logged
}

// onRequest returns the operation of the admin API; nil if there is no configuration file.
func (r *reloader) onRequest() func(context.Context) (admin.Reloaded, error) {
	if r.path == "" {
		return nil
	}
	return func(context.Context) (admin.Reloaded, error) {
		defer supervisor{r.log}.reloading()()
		return r.reload()
	}
}

// digestFlags are the flags, besides those that set the file (siteFlags), that all servers of
// a fleet should have alike. Addresses, folders and secrets are not among them.
func digestFlags() map[string]bool {
	flags := map[string]bool{
		"table": true, "bucket": true, "region": true, "store-timeout": true, "guard": true, "downstream": true, "purge-method": true, "purge-from": true,
		"hook-public": true, "regenerate-queue": true, "purge-queue": true, "purge-queue-target": true, "purge-queue-hard": true,
	}
	for _, f := range cacheFields() {
		flags[f.flag] = true
	}
	return flags
}

// A digest is of the configuration of a server, which a reload changes.
type digest struct {
	settings []string // of flags
	text     atomic.Pointer[string]
}

// newDigest returns the digest of a file and of the flags, which the file has set.
func newDigest(k *kong.Context, f *config.File) *digest {
	d := new(digest)
	for _, flag := range k.Selected().Flags {
		if digestFlags()[flag.Name] {
			d.settings = append(d.settings, fmt.Sprintf("%s=%v", flag.Name, flag.Target.Interface()))
		}
	}
	d.set(f)
	return d
}

func (d *digest) set(f *config.File) {
	text := f.Digest(d.settings)
	d.text.Store(&text)
}

func (d *digest) get() string { return *d.text.Load() }
