package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/console"
	"github.com/facetheory/isr/internal/handover"
)

const (
	// TokenVariable is the environment variable with the token of the admin API, for
	// servers and commands. There is no flag, since other users can read command lines.
	TokenVariable = "ISR_ADMIN_TOKEN"
	// readTokenVariable is the variable of the token that may only read, for servers.
	readTokenVariable = "ISR_ADMIN_READ_TOKEN"

	defaultAdmin = "127.0.0.1:9180"
)

// adminFlags configure the address of the admin API.
type adminFlags struct {
	// The tokens of the configuration file; if they are empty, ISR_ADMIN_TOKEN and ISR_ADMIN_READ_TOKEN have them.
	adminToken, readToken string

	Admin *string `placeholder:"ADDR" help:"Address of the admin API, or none (127.0.0.1:9180; with --table only if ISR_ADMIN_TOKEN is set). Its token is ISR_ADMIN_TOKEN, else the one in admin.token in the data folder."`
}

// An adminPlan is the validated address and token of the admin API.
type adminPlan struct {
	address *net.TCPAddr // nil: the socket only
	chosen  bool         // the operator named the address
	secret  string       // empty: the token of the data folder
	read    *admin.Token // may only read; nil if there is none

	triggers *atomic.Pointer[triggers] // served on the address too
	health   *health                   // served on the socket too
}

// plan validates the flags and the token. embedded reports whether the store is embedded.
func (f adminFlags) plan(embedded bool) (p adminPlan, err error) {
	p.secret = cmp.Or(f.adminToken, os.Getenv(TokenVariable))
	if p.secret != "" {
		if _, err := admin.NewToken(p.secret); err != nil {
			return p, cli.Usagef("%s: %v", TokenVariable, err)
		}
	}
	if p.read, err = f.reader(p.secret); err != nil {
		return p, err
	}
	address := defaultAdmin
	switch {
	case f.Admin != nil:
		address, p.chosen = *f.Admin, true
	case !embedded && p.secret == "":
		return p, nil
	}
	if address == "" || address == "none" {
		return p, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return p, cli.Usagef("--admin %q is not an address; expected host:port, like %s, or none", address, defaultAdmin)
	}
	p.address, err = net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return p, cli.Usagef("--admin %q does not resolve: %v; expected host:port, like %s, or none", address, err, defaultAdmin)
	}
	switch {
	case p.secret != "":
	case !embedded:
		return p, cli.Usagef("--admin with --table needs a token that all servers share; set %s", TokenVariable)
	case !p.address.IP.IsLoopback():
		return p, cli.Usagef("--admin %s is reachable from other machines; set %s to a token of your own, or listen on 127.0.0.1:%d", address, TokenVariable, p.address.Port)
	}
	return p, nil
}

// reader returns the token that may only read; nil if there is none.
func (f adminFlags) reader(secret string) (*admin.Token, error) {
	read := cmp.Or(f.readToken, os.Getenv(readTokenVariable))
	if read == "" {
		return nil, nil
	}
	token, err := admin.NewToken(read)
	switch {
	case err != nil:
		return nil, cli.Usagef("%s: %v", readTokenVariable, err)
	case read == secret:
		return nil, cli.Usagef("%s and %s are the same; the token that may only read needs a text of its own", readTokenVariable, TokenVariable)
	}
	return &token, nil
}

// An administration is the running admin API of a server: on the socket in its data folder,
// and over the network if the plan has an address.
type administration struct {
	api     *admin.API
	socket  *Running
	network *Running // nil if there is none
	log     *slog.Logger
	closed  chan struct{}
}

// administered returns the configuration of the admin API of a cache.
func (c *ServeCommand) administered(cache *isr.Cache, st *Stores, deliveries isr.Downstream, r *reloader, inst *instruments, maintenance *maintenanceSwitch, problems func() []problem, log *slog.Logger) admin.Config {
	return admin.Config{
		Cache: cache, Maintenance: maintenance, Downstream: deliveries, Hosts: r.public.served, Reload: r.onRequest(), Explain: r.explain, Origins: r.origins, Problems: textsOf(problems),
		Process: func() admin.Process { return r.process() }, Version: cli.Version(), Place: st.Where, Node: nodeName(), Sites: r.public.urls, Naming: r.naming,
		Embedded: c.Table == "", Demo: r.demo(), Meter: st.meter, Observer: inst.observer(), Metrics: r.metrics.Handler(), Live: inst.live, Tail: &inst.access.tail, Logger: log,
	}
}

// textsOf returns the texts of problems.
func textsOf(problems func() []problem) func() []string {
	return func() (texts []string) {
		for _, p := range problems() {
			texts = append(texts, p.text)
		}
		return texts
	}
}

// administer starts the admin API of a cache.
func (p adminPlan) administer(ctx context.Context, sockets *handover.Sockets, f *Folder, st *Stores, cfg admin.Config, s *cli.Streams, log *slog.Logger) (*administration, error) {
	api, err := admin.New(st.Meta, st.Bodies, cfg)
	if err != nil {
		return nil, err
	}
	handler := p.health.before(api.Handler())
	if st.disk != nil {
		handler = SourceOf(st).Before(handler)
	}
	socket, err := ListenSocket(f, handler, log)
	if err != nil {
		return nil, err
	}
	a := &administration{api: api, socket: socket, log: log, closed: make(chan struct{})}
	a.network, err = p.listen(ctx, sockets, api, f, s, log)
	if err != nil {
		a.close()
		return nil, err
	}
	go a.watch()
	return a, nil
}

// watch logs a listener that fails. The server continues without it.
func (a *administration) watch() {
	network := make(chan error) // never ready without a network listener
	if a.network != nil {
		network = a.network.Failed
	}
	select {
	case err := <-a.socket.Failed:
		a.log.Error("failed to serve commands on the socket", "error", err)
	case err := <-network:
		a.log.Error("failed to serve the admin API", "error", err)
	case <-a.closed:
	}
}

// listen serves the API over the network. It returns nil if there is no address, and if the
// default address is in use.
func (p adminPlan) listen(ctx context.Context, sockets *handover.Sockets, api *admin.API, f *Folder, s *cli.Streams, log *slog.Logger) (*Running, error) {
	if p.address == nil {
		return nil, nil
	}
	listener, _, err := sockets.Listen(ctx, p.address.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && !p.chosen:
		// The default address is likely used by another isr on this machine. Serve the
		// site anyway.
		log.Warn("admin API address in use, perhaps by another isr: serving it on the socket in the data folder only; give one with --admin",
			"address", p.address.String(), "data", f.path)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with --admin, or --admin none", p.address, err)
	}
	token, err := p.token(f, s, log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	pages, err := console.Handler()
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	address := "http://" + displayAddress(listener.Addr())
	log.Info("admin API on "+address, "fingerprint", token.String())
	guard := admin.Guard{Token: token, ReadToken: p.read, Loopback: p.address.IP.IsLoopback(), Console: pages}
	if guard.Loopback {
		log.Info("console on " + address + "/")
	}
	return start(newServer(onAdmin(p.triggers, api.Guarded(guard)), log), listener), nil
}

// token returns the operator's token, else the token of the data folder.
func (p adminPlan) token(f *Folder, s *cli.Streams, log *slog.Logger) (admin.Token, error) {
	if p.secret != "" {
		return admin.NewToken(p.secret)
	}
	secret, fresh, err := keptToken(f)
	if err != nil {
		return admin.Token{}, err
	}
	if !fresh {
		return admin.NewToken(secret)
	}
	if !cli.IsTerminal(s.Out) {
		// Standard output may be a log file: do not write the secret to it.
		log.Info("created admin token", "file", tokenPath(f))
		return admin.NewToken(secret)
	}
	if _, err := fmt.Fprintf(s.Out, "The admin token is %s (shown only once; stored in %s).\n", secret, tokenPath(f)); err != nil {
		return admin.Token{}, fmt.Errorf("show admin token: %w", err)
	}
	return admin.NewToken(secret)
}

// adminGrace bounds the admin requests in flight once the cache is closed.
const adminGrace = time.Second

// close stops the API. Callers close the cache first, which ends the operations on it.
func (a *administration) close() {
	close(a.closed)
	a.api.Close()
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	if a.network != nil {
		a.network.Stop(ctx, a.log)
	}
	a.socket.Stop(ctx, a.log)
}

// tokenPath returns the path of the admin token in a data folder.
func tokenPath(f *Folder) string { return filepath.Join(f.path, "admin.token") }

// keptToken returns the token of a claimed folder, and creates it the first time; fresh
// reports whether it did.
func keptToken(f *Folder) (secret string, fresh bool, err error) {
	secret, err = readToken(tokenPath(f))
	if errors.Is(err, os.ErrNotExist) {
		secret = rand.Text()
		return secret, true, writeToken(tokenPath(f), secret)
	}
	return secret, false, err
}

// readToken reads a token file. It refuses files that other users could have read or
// created.
func readToken(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", fmt.Errorf("admin token %s is a symbolic link; replace it with a file, or set %s", path, TokenVariable)
	}
	if err != nil {
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("admin token %s is not a regular file; remove it, and isr creates a new one", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("admin token %s has mode %04o and may have been read by others; remove it, and isr creates a new one, or run chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err != nil {
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	}
	secret := string(bytes.TrimSpace(text))
	if _, err := admin.NewToken(secret); err != nil {
		return "", fmt.Errorf("%s: %w; remove the file, and isr creates a new one", path, err)
	}
	return secret, nil
}

// writeToken writes the file atomically, by rename. A crash before the rename leaves a
// temporary file, and the next start creates another token. The lock of the folder excludes
// concurrent writers.
func writeToken(path, secret string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "admin.token-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write admin token: %w", err)
	}
	_, err = file.WriteString(secret + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write admin token: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// purgeFlags configure the method PURGE at the public address.
type purgeFlags struct {
	PurgeMethod bool     `help:"Purge pages by requests with the method PURGE at --listen, with the token of the admin API or from --purge-from."`
	PurgeFrom   []string `sep:"," placeholder:"CIDR" help:"Network whose clients may purge with the method PURGE without a token: a CIDR like 10.0.0.0/8, an address, loopback or private; repeatable (none)."`
}

func (f *purgeFlags) validate(embedded bool, plan adminPlan) error {
	switch {
	case len(f.PurgeFrom) > 0 && !f.PurgeMethod:
		return cli.Usagef("--purge-from needs --purge-method")
	case f.PurgeMethod && len(f.PurgeFrom) == 0 && !embedded && plan.secret == "":
		return cli.Usagef("--purge-method with --table needs a token that all servers share, in %s; or give --purge-from CIDR", TokenVariable)
	}
	if _, err := gateway.ParseTrust(f.PurgeFrom); err != nil {
		return cli.Usagef("--purge-from %v", err)
	}
	return nil
}

// withPurgeMethod adds the method PURGE to the handler of the site, if it is enabled.
func (c *ServeCommand) withPurgeMethod(site *gateway.Site, a *administration, plan adminPlan, f *Folder, s *cli.Streams, log *slog.Logger) (http.Handler, error) {
	if !c.PurgeMethod {
		return site, nil
	}
	networks, _ := gateway.ParseTrust(c.PurgeFrom) // validated
	cfg := admin.PurgeMethodConfig{
		Admit:        func(r *http.Request) bool { return gateway.FromNetworks(r, networks) },
		TenantHeader: site.TenantHeader,
	}
	if plan.secret != "" || c.Table == "" {
		token, err := plan.token(f, s, log)
		if err != nil {
			return nil, err
		}
		cfg.Token = &token
	}
	return a.api.PurgeMethod(cfg, site), nil
}
