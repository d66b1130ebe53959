package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/store"
)

// HookPath is the path of webhooks: a POST to HookPath + Name.
const HookPath = "/-/hooks/"

// A Hook receives the webhooks of one sender.
type Hook struct {
	// Name is 1 to 32 lower-case letters, digits and '-', and the last part of the URL.
	Name     string
	Provider Provider
	// Secrets are one or two secrets, either of which a request may be signed with: while a
	// secret is replaced, the old and the new one.
	Secrets []Secret
	// Targets are 1 to [MaxTemplates] templates, all of which are filled with each payload.
	Targets []Template
	// Hard is the mode (see [isr.Purge]).
	Hard bool
}

var hookName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidHookName returns an error unless name can be the name of a hook.
func ValidHookName(name string) error {
	if !hookName.MatchString(name) {
		return fmt.Errorf("%q is not the name of a hook; expected 1 to 32 lower-case letters, digits and hyphens, such as shop", name)
	}
	return nil
}

func (h Hook) validate() error {
	if err := ValidHookName(h.Name); err != nil {
		return err
	}
	switch {
	case len(h.Secrets) < 1 || len(h.Secrets) > 2:
		return fmt.Errorf("hook %s has %d secrets; expected one, or two while it is replaced", h.Name, len(h.Secrets))
	case len(h.Targets) < 1 || len(h.Targets) > MaxTemplates:
		return fmt.Errorf("hook %s has %d targets; expected 1 to %d", h.Name, len(h.Targets), MaxTemplates)
	}
	return nil
}

// Bounds of webhooks. Bodies are bounded by their number: at most 64 are in memory.
const (
	maxBody    = 1 << 20
	bodyTime   = 10 * time.Second                          // to read a request
	submitTime = DefaultMaxWait + purgeTime + 2*recordTime // to wait for the purge
	writeTime  = 10 * time.Second                          // to write a response
	maxReading = 64                                        // requests whose bodies are read at the same time
	perClient  = 16                                        // of them, of one client
)

// Hooks serves webhooks. It is safe for concurrent use.
type Hooks struct {
	purges *Debouncer
	hooks  map[string]Hook
	now    func() time.Time
	log    *slog.Logger

	mu       sync.Mutex
	reading  map[netip.Prefix]int // guarded by mu; bodies being read, by client
	total    int                  // guarded by mu; their number
	warnedAt time.Time            // guarded by mu; when a refused request was logged last
	unlogged int                  // guarded by mu; refused requests since
}

// NewHooks returns the handler of webhooks, whose names must differ. now is the wall clock.
func NewHooks(purges *Debouncer, hooks []Hook, now func() time.Time, log *slog.Logger) (*Hooks, error) {
	h := &Hooks{purges: purges, hooks: make(map[string]Hook), now: now, log: log, reading: make(map[netip.Prefix]int)}
	for _, hook := range hooks {
		if err := hook.validate(); err != nil {
			return nil, err
		}
		if _, found := h.hooks[hook.Name]; found {
			return nil, fmt.Errorf("two hooks are named %s", hook.Name)
		}
		h.hooks[hook.Name] = hook
	}
	return h, nil
}

// Before returns a handler that serves webhooks, and all other requests with next.
func (h *Hooks) Before(next http.Handler) http.Handler {
	return before{h, next}
}

type before struct {
	hooks *Hooks
	next  http.Handler
}

func (b before) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isHook(r) {
		b.hooks.ServeHTTP(w, r)
		return
	}
	b.next.ServeHTTP(w, r)
}

// Lookup implements [isr.HitHandler].
func (b before) Lookup(r *http.Request, hit *isr.Hit) bool {
	return !isHook(r) && isr.LookupIn(b.next, r, hit)
}

func isHook(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, HookPath) }

// A hookReply is the response to a webhook that was executed.
type hookReply struct {
	Receipt   int64    `json:"receipt,omitempty"`
	Targets   []string `json:"targets,omitempty"`
	NotStored []string `json:"not_stored,omitempty"`
	Duplicate bool     `json:"duplicate,omitempty"`
	Message   string   `json:"message,omitempty"`
}

// A hookError is the response to a webhook that was refused.
type hookError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ServeHTTP implements [http.Handler]. It responds once the purge is committed. Senders
// repeat a request that gets 5xx, if they repeat requests at all.
func (h *Hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	controller, now := http.NewResponseController(w), time.Now()
	err := errors.Join(controller.SetReadDeadline(now.Add(bodyTime)), controller.SetWriteDeadline(now.Add(bodyTime+submitTime+writeTime)))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return // the connection is gone
	}
	reply, err := h.serve(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	respond(w, http.StatusOK, reply)
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the sender repeats a request without a response
}

// A refusal is an error with a status.
type refusal struct {
	status int
	code   string
	text   string
}

func (e *refusal) Error() string { return e.text }

func (h *Hooks) serve(r *http.Request) (hookReply, error) {
	hook, found := h.hooks[strings.TrimPrefix(r.URL.Path, HookPath)]
	switch {
	case !found:
		return hookReply{}, &refusal{http.StatusNotFound, "not_found", "no hook at " + r.URL.Path + "; hooks are declared with --hook NAME=PROVIDER"}
	case r.Method != http.MethodPost:
		return hookReply{}, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "a hook takes POST (got " + r.Method + ")"}
	}
	body, err := h.read(r)
	if err != nil {
		return hookReply{}, err
	}
	id, err := hook.Provider.verify(r, body, hook.Secrets, h.now())
	if err != nil {
		return hookReply{}, err
	}
	if hook.Provider == GitHub && r.Header.Get("X-GitHub-Event") == "ping" {
		return hookReply{Message: "pong: the signature is right"}, nil
	}
	targets, err := hook.targets(r, body)
	if err != nil {
		return hookReply{}, err
	}
	if hook.Provider == Generic && r.Header.Get("X-ISR-Event") == "ping" {
		return hookReply{Message: "pong: the signature is right, and the targets are what this payload would purge", Targets: targetNames(targets)}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), submitTime)
	defer cancel()
	outcome, err := h.purges.Submit(ctx, Message{Source: "hook " + hook.Name, ID: id, Targets: targets, Hard: hook.Hard})
	if err != nil {
		return hookReply{}, err
	}
	reply := hookReply{Receipt: outcome.Receipt.Seq, Duplicate: outcome.Duplicate, Targets: targetNames(targets)}
	for _, k := range outcome.NotStored {
		reply.NotStored = append(reply.NotStored, k.String())
	}
	h.log.Info("purged by webhook", "hook", hook.Name, "id", id, "receipt", outcome.Receipt.Seq, "duplicate", outcome.Duplicate, "targets", reply.Targets, "not_stored", reply.NotStored)
	return reply, nil
}

func targetNames(targets []store.PurgeTarget) []string {
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		names = append(names, t.String())
	}
	return names
}

// targets returns what the payload of a verified request purges.
func (h Hook) targets(r *http.Request, body []byte) ([]store.PurgeTarget, error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return nil, &refusal{http.StatusUnsupportedMediaType, "not_json", fmt.Sprintf("expected the Content-Type application/json, found %.100q; choose JSON as the format of the webhook", r.Header.Get("Content-Type"))}
	}
	payload, err := decode(body)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, "invalid_json", err.Error()}
	}
	return Expand(h.Targets, payload)
}

// decode decodes one JSON value. It keeps numbers as they are written. encoding/json bounds
// the depth.
func decode(text []byte) (payload any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&payload); err != nil {
		return nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body is not JSON: expected one value, found more after it")
	}
	return payload, nil
}

// read reads the body of a request that is not verified yet. A client that sends many bodies
// slowly leaves room for others.
func (h *Hooks) read(r *http.Request) ([]byte, error) {
	client := canonical.Client(r.RemoteAddr)
	if !h.admit(client) {
		return nil, &refusal{http.StatusServiceUnavailable, "busy", "too many webhooks are being received; try again in a second"}
	}
	defer h.release(client)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{http.StatusRequestTimeout, "timeout", fmt.Sprintf("the body did not arrive within %s", bodyTime)}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "unreadable", "the body cannot be read: " + err.Error()}
	case len(body) > maxBody:
		return nil, &refusal{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes; select fewer fields in the webhook", maxBody)}
	}
	return body, nil
}

func (h *Hooks) admit(client netip.Prefix) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total >= maxReading || h.reading[client] >= perClient {
		return false
	}
	h.total++
	h.reading[client]++
	return true
}

func (h *Hooks) release(client netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total--
	if h.reading[client]--; h.reading[client] == 0 {
		delete(h.reading, client)
	}
}

// refuse responds with an error and logs it. Requests that are not verified are logged once a
// second at most.
func (h *Hooks) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, code := http.StatusServiceUnavailable, "purge_failed"
	var refused *refusal
	var wrong *unauthorizedError
	switch {
	case errors.As(err, &wrong):
		status, code = http.StatusUnauthorized, "wrong_signature"
		w.Header().Set("WWW-Authenticate", "HMAC")
	case errors.As(err, &refused):
		status, code = refused.status, refused.code
	case errors.Is(err, store.ErrInvalidInput), errors.Is(err, store.ErrInvalidKey):
		status, code = http.StatusUnprocessableEntity, "no_target"
	case errors.Is(err, store.ErrPinned):
		status, code = http.StatusConflict, "pinned"
	case errors.Is(err, ErrBusy), errors.Is(err, ErrClosed):
		code = "busy"
	}
	switch status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	if refused != nil || wrong != nil {
		h.warnSometimes(r, status, err)
	} else {
		h.log.Warn("webhook not executed", "path", r.URL.Path, "status", status, "error", err)
	}
	respond(w, status, struct {
		Error hookError `json:"error"`
	}{hookError{code, err.Error()}})
}

func (h *Hooks) warnSometimes(r *http.Request, status int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.warnedAt) >= time.Second {
		h.log.Warn("webhook refused", "path", r.URL.Path, "remote", r.RemoteAddr, "status", status, "error", err, "others", h.unlogged)
		h.warnedAt, h.unlogged = now, 0
		return
	}
	h.unlogged++
}
