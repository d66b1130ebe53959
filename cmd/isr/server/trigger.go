package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/trigger"
	"github.com/facetheory/isr/trigger/queue"
)

// TriggerFlags configure purges that other systems ask for.
type TriggerFlags struct {
	fileHooks []trigger.Hook // of the configuration file

	Hook           []string `sep:"," placeholder:"NAME=PROVIDER" help:"Accept webhooks of github, contentful, sanity, shopify or generic at POST /-/hooks/NAME of the admin API's address; repeatable. The secret is ISR_HOOK_<NAME>_SECRET, with two lines while it is replaced. See docs/webhooks.md."`
	HookTarget     []string `sep:";" placeholder:"NAME=TARGET" help:"What a webhook purges, like shop=tag:product-{payload.id}: tag, url, prefix, host or tenant with a value, or all; up to 32 for each hook."`
	HookSecretFile []string `sep:"," placeholder:"NAME=FILE" help:"File with the secret of a hook, instead of the environment variable; repeatable."`
	HookHard       []string `sep:"," placeholder:"NAME" help:"Hook whose purges are hard: pages are never served again, instead of being stale; repeatable."`
	HookPublic     bool     `help:"Accept webhooks on the public address too, on all hosts."`

	PurgeQueue       string   `placeholder:"URL" help:"SQS queue with purge requests, in the format of POST /-/purge."`
	PurgeQueueTarget []string `sep:";" placeholder:"TARGET" help:"What events in the queue purge, in the format of --hook-target, like url:https://example.com/{payload.s3.object.key}; up to 32. The queue then has events instead of purge requests."`
	PurgeQueueHard   bool     `help:"Purge hard what events in the queue select."`
}

// A triggerPlan is the validated configuration of triggers.
type triggerPlan struct {
	hooks  []trigger.Hook
	public bool
	queue  *purgeQueue // nil if there is none
}

// A purgeQueue is a queue of purge requests, or of events.
type purgeQueue struct {
	url       string
	templates []trigger.Template
	hard      bool
}

// planTriggers validates the flags and reads the secrets. admin reports whether the admin API has an
// address.
func (f *TriggerFlags) planTriggers(admin bool) (p triggerPlan, err error) {
	p.public = f.HookPublic
	if p.hooks, err = f.hooks(); err != nil {
		return p, err
	}
	p.hooks = append(p.hooks, f.fileHooks...)
	switch {
	case len(p.hooks) == 0 && f.HookPublic:
		return p, cli.Usagef("--hook-public needs --hook NAME=PROVIDER")
	case len(p.hooks) > 0 && !admin && !f.HookPublic:
		return p, cli.Usagef("--hook %s has no address: with --table the admin API has one only if %s is set; set it, or accept webhooks on the public address with --hook-public", slices.Concat(f.Hook, []string{p.hooks[0].Name})[0], TokenVariable)
	}
	p.queue, err = f.queue()
	return p, err
}

// queue returns the configuration of the queue; nil if there is none.
func (f *TriggerFlags) queue() (*purgeQueue, error) {
	if f.PurgeQueue == "" {
		if len(f.PurgeQueueTarget) > 0 || f.PurgeQueueHard {
			return nil, cli.Usagef("--purge-queue-target and --purge-queue-hard need --purge-queue URL")
		}
		return nil, nil
	}
	if err := queue.ValidURL(f.PurgeQueue); err != nil {
		return nil, cli.Usagef("--purge-queue %v", err)
	}
	if f.PurgeQueueHard && len(f.PurgeQueueTarget) == 0 {
		return nil, cli.Usagef(`--purge-queue-hard needs --purge-queue-target; a purge request has its own "mode"`)
	}
	if n := len(f.PurgeQueueTarget); n > trigger.MaxTemplates {
		return nil, cli.Usagef("--purge-queue-target is given %d times; at most %d are allowed", n, trigger.MaxTemplates)
	}
	cfg := &purgeQueue{url: f.PurgeQueue, hard: f.PurgeQueueHard}
	for _, text := range f.PurgeQueueTarget {
		template, err := trigger.ParseTemplate(text)
		if err != nil {
			return nil, cli.Usagef("--purge-queue-target: %v", err)
		}
		cfg.templates = append(cfg.templates, template)
	}
	return cfg, nil
}

// hooks returns the declared hooks.
func (f *TriggerFlags) hooks() ([]trigger.Hook, error) {
	var hooks []trigger.Hook
	for _, text := range f.Hook {
		name, provider, _ := strings.Cut(text, "=")
		if err := trigger.ValidHookName(name); err != nil {
			return nil, cli.Usagef("--hook %s: %v", text, err)
		}
		if !slices.Contains(trigger.Providers(), trigger.Provider(provider)) {
			return nil, cli.Usagef("--hook %s: unknown provider %q; expected NAME=PROVIDER, like shop=shopify, with one of %v", text, provider, trigger.Providers())
		}
		if slices.ContainsFunc(hooks, func(h trigger.Hook) bool { return h.Name == name }) {
			return nil, cli.Usagef("--hook %s: there is another hook with this name", text)
		}
		hooks = append(hooks, trigger.Hook{Name: name, Provider: trigger.Provider(provider)})
	}
	find := func(flag, name string) (*trigger.Hook, error) {
		i := slices.IndexFunc(hooks, func(h trigger.Hook) bool { return h.Name == name })
		if i < 0 {
			return nil, cli.Usagef("--%s names the hook %q, which is not declared; declare it with --hook %s=PROVIDER", flag, name, name)
		}
		return &hooks[i], nil
	}
	if err := f.fillHooks(find); err != nil {
		return nil, err
	}
	for i := range hooks {
		h := &hooks[i]
		switch n := len(h.Targets); {
		case n == 0:
			return nil, cli.Usagef("hook %s has no targets; name what it purges with --hook-target %s=tag:product-{payload.id}", h.Name, h.Name)
		case n > trigger.MaxTemplates:
			return nil, cli.Usagef("hook %s has %d targets; --hook-target is allowed %d times for each hook", h.Name, n, trigger.MaxTemplates)
		}
		var err error
		if h.Secrets, err = f.secrets(h.Name); err != nil {
			return nil, err
		}
	}
	return hooks, nil
}

// addHooks adds the hooks of a configuration file.
func (f *TriggerFlags) addHooks(hooks map[string]config.Hook) error {
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		h := hooks[name]
		hook := trigger.Hook{Name: name, Provider: trigger.Provider(h.Provider), Hard: h.Hard}
		for _, text := range h.Targets {
			template, err := trigger.ParseTemplate(text)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			hook.Targets = append(hook.Targets, template)
		}
		for _, s := range h.Secrets {
			text, err := s.Read()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			secret, err := trigger.NewSecret(text)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			hook.Secrets = append(hook.Secrets, secret)
		}
		f.fileHooks = append(f.fileHooks, hook)
	}
	return nil
}

// fillHooks sets the targets and modes of hooks.
func (f *TriggerFlags) fillHooks(find func(flag, name string) (*trigger.Hook, error)) error {
	for _, text := range f.HookTarget {
		name, target, _ := strings.Cut(text, "=")
		h, err := find("hook-target", name)
		if err != nil {
			return err
		}
		template, err := trigger.ParseTemplate(target)
		if err != nil {
			return cli.Usagef("--hook-target %s: %v", text, err)
		}
		h.Targets = append(h.Targets, template)
	}
	for _, name := range f.HookHard {
		h, err := find("hook-hard", name)
		if err != nil {
			return err
		}
		h.Hard = true
	}
	for _, text := range f.HookSecretFile {
		name, _, _ := strings.Cut(text, "=")
		if _, err := find("hook-secret-file", name); err != nil {
			return err
		}
	}
	return nil
}

// secrets returns the secrets of a hook: one, or two while it is replaced.
func (f *TriggerFlags) secrets(name string) (secrets []trigger.Secret, err error) {
	variable := "ISR_HOOK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_SECRET"
	text, source := os.Getenv(variable), variable
	for _, flag := range f.HookSecretFile {
		of, path, _ := strings.Cut(flag, "=")
		if of != name {
			continue
		}
		if text != "" {
			return nil, cli.Usagef("hook %s has a secret in %s and in --hook-secret-file %s; give one of them", name, variable, flag)
		}
		if text, err = readSecret(path); err != nil {
			return nil, cli.Usagef("--hook-secret-file %s: %v", flag, err)
		}
		source = path
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) < 1 || len(lines) > 2 {
		return nil, cli.Usagef("hook %s has %d secrets; set %s, or --hook-secret-file %s=FILE, to the secret of its provider, or to two of them in two lines while it is replaced", name, len(lines), variable, name)
	}
	for _, line := range lines {
		secret, err := trigger.NewSecret(line)
		if err != nil {
			return nil, cli.Usagef("%s: %v", source, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// readSecret reads a small file.
func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	return string(text), err
}

// triggers are the running triggers of a server.
type triggers struct {
	purges   *trigger.Debouncer
	hooks    *trigger.Hooks  // nil if there are none
	consumer *queue.Consumer // nil if there is none
	plan     triggerPlan
	cancel   context.CancelFunc // ends the consumer
	running  sync.WaitGroup
}

// triggers returns the triggers of a server, which purge nothing before they are started.
func (c *ServeCommand) triggers(ctx context.Context, p triggerPlan, cache *isr.Cache, st *Stores, inst *instruments, log *slog.Logger) (*triggers, error) {
	t := &triggers{purges: trigger.NewDebouncer(cache, st.Meta, trigger.Config{Logger: log}), plan: p, cancel: func() {}}
	if len(p.hooks) > 0 {
		var err error
		if t.hooks, err = trigger.NewHooks(t.purges, p.hooks, time.Now, log); err != nil {
			return nil, err
		}
	}
	if p.queue != nil {
		client, err := c.SQS(ctx, "--purge-queue", p.queue.url, log)
		if err != nil {
			return nil, err
		}
		purges := &queue.Purges{Debouncer: t.purges, Queue: p.queue.url, Templates: p.queue.templates, Hard: p.queue.hard, Logger: log}
		t.consumer = queue.New(client, purges, queue.Config{URL: p.queue.url, Note: inst.metrics.Message("purges"), Logger: log})
	}
	return t, nil
}

// SQS returns the client of a queue that a flag gives. Its region is in the URL, else in the AWS
// configuration; its endpoint is the URL's host.
func (f StoreFlags) SQS(ctx context.Context, flag, queueURL string, log *slog.Logger) (*sqs.Client, error) {
	u, err := url.Parse(queueURL)
	if err != nil {
		return nil, err
	}
	if parts := strings.Split(u.Hostname(), "."); len(parts) >= 4 && parts[0] == "sqs" && parts[2] == "amazonaws" {
		f.Region = parts[1]
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cfg, err := f.AWSConfig(ctx, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	endpoint := u.Scheme + "://" + u.Host
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.BaseEndpoint = &endpoint }), nil
}

// onAdmin returns the handler of the admin API's address, which has the hooks of the triggers at the time of a request.
func onAdmin(current *atomic.Pointer[triggers], next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := next
		if t := current.Load(); t.hooks != nil {
			h = t.hooks.Before(next)
		}
		h.ServeHTTP(w, r)
	})
}

// onPublic returns the handler of the public address.
func (t *triggers) onPublic(next http.Handler) http.Handler {
	if t.hooks == nil || !t.plan.public {
		return next
	}
	return t.hooks.Before(next)
}

// start starts the consumer of the queue.
func (t *triggers) start(ctx context.Context) {
	if t.consumer == nil {
		return
	}
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	t.running.Go(func() { t.consumer.Run(ctx) })
}

// stop executes the messages in hand and accepts no others. It takes until ctx is done at
// most. Callers close the cache after it.
func (t *triggers) stop(ctx context.Context, log *slog.Logger) {
	t.cancel()
	done := make(chan struct{})
	go func() {
		t.running.Wait()
		close(done)
	}()
	err := t.purges.Close(ctx)
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		log.Warn("triggers canceled at shutdown; their messages will be delivered again", "error", err)
	}
}
