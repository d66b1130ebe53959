package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/gateway/admin"
)

const (
	// tokenVariable is the environment variable with the token of the admin API,
	// for servers and commands alike. There is no flag: others can read command lines.
	tokenVariable = "ISR_ADMIN_TOKEN"

	defaultAdmin = "127.0.0.1:9180"
)

// adminFlags say where a server has its admin API.
type adminFlags struct {
	Admin *string `placeholder:"ADDR" help:"Address of the admin API (127.0.0.1:9180; with --table only if ISR_ADMIN_TOKEN is set); none for none. Its token is that of ISR_ADMIN_TOKEN, else admin.token in the data folder."`
}

// An adminPlan is where the admin API is to be, and who may use it.
type adminPlan struct {
	address *net.TCPAddr // nil for none over the network
	chosen  bool         // the operator named the address
	secret  string       // empty if it is kept in the data folder
}

// plan checks the flags and the token against each other. embedded says that the
// store is.
func (f adminFlags) plan(embedded bool) (p adminPlan, err error) {
	p.secret = os.Getenv(tokenVariable)
	if p.secret != "" {
		if _, err := admin.NewToken(p.secret); err != nil {
			return p, usagef("%s: %v", tokenVariable, err)
		}
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
		return p, usagef("--admin %q is not an address; expected host:port, like %s, or none", address, defaultAdmin)
	}
	p.address, err = net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return p, usagef("--admin %q cannot be used: %v; expected host:port, like %s, or none", address, err, defaultAdmin)
	}
	switch {
	case p.secret != "":
	case !embedded:
		return p, usagef("--admin needs a token that all servers of the table know; set %s", tokenVariable)
	case !p.address.IP.IsLoopback():
		return p, usagef("--admin %s would let other machines in; set %s to a token of your own, or listen on 127.0.0.1:%d", address, tokenVariable, p.address.Port)
	}
	return p, nil
}

// An administration is the admin API of a server: on the socket of its folder, and
// over the network if that was planned.
type administration struct {
	socket  *running
	network *running // nil for none
	log     *slog.Logger
	closed  chan struct{}
}

// administer opens the admin API of a cache.
func (p adminPlan) administer(f *folder, st *stores, cache *isr.Cache, hosts gateway.Hosts, s *streams, log *slog.Logger) (*administration, error) {
	api, err := admin.New(pages{st.meta}, st.bodies, admin.Config{
		Cache: cache, Serve: hosts.Serve, Hosts: hosts.String(), Version: version(), Place: st.where, Meter: st.meter, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	socket, err := listenSocket(f, api.Handler(), log)
	if err != nil {
		return nil, err
	}
	a := &administration{socket: socket, log: log, closed: make(chan struct{})}
	a.network, err = p.listen(api, f, s, log)
	if err != nil {
		a.close()
		return nil, err
	}
	go a.watch()
	return a, nil
}

// watch tells of an API that ends by itself. The site goes on without it.
func (a *administration) watch() {
	network := make(chan error) // nobody's, if there is no network
	if a.network != nil {
		network = a.network.failed
	}
	select {
	case err := <-a.socket.failed:
		a.log.Error("the socket for commands is gone", "error", err)
	case err := <-network:
		a.log.Error("the admin API is gone", "error", err)
	case <-a.closed:
	}
}

// listen serves the API over the network, nil if that is not wanted or cannot be.
func (p adminPlan) listen(api *admin.API, f *folder, s *streams, log *slog.Logger) (*running, error) {
	if p.address == nil {
		return nil, nil
	}
	listener, err := net.ListenTCP("tcp", p.address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && !p.chosen:
		// Nobody asked for this address, and another isr on this machine is likely
		// to have it. The site is what matters.
		log.Warn("the admin API is on the socket in the data folder alone: its address is in use, perhaps by another isr; give one with --admin",
			"address", p.address.String(), "data", f.path)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with --admin, or --admin none", p.address, err)
	}
	token, err := p.token(f, s, log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	log.Info("admin API on http://"+displayAddress(listener.Addr()), "token", token.String())
	return start(newServer(api.Guarded(token, p.address.IP.IsLoopback()), log), listener), nil
}

// token is the operator's, or that which the data folder keeps.
func (p adminPlan) token(f *folder, s *streams, log *slog.Logger) (admin.Token, error) {
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
	if !isTerminal(s.out) {
		// What is written there may be a log, which is kept, and read by many.
		log.Info("made a token for the admin API", "file", tokenPath(f))
		return admin.NewToken(secret)
	}
	if _, err := fmt.Fprintf(s.out, "The admin token is %s (shown this once; kept in %s).\n", secret, tokenPath(f)); err != nil {
		return admin.Token{}, fmt.Errorf("the admin token could not be shown: %w", err)
	}
	return admin.NewToken(secret)
}

// isTerminal says whether a person is reading.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// adminGrace is how long answers to operators may take once the cache is closed.
const adminGrace = time.Second

// close ends the API. What it was asked of the cache has ended before.
func (a *administration) close() {
	close(a.closed)
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	if a.network != nil {
		a.network.stop(ctx, a.log)
	}
	a.socket.stop(ctx, a.log)
}
