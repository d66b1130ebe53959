package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/peer"
)

// peerVariable is the environment variable with the secret of the peers. There is no flag,
// since other users can read command lines.
const peerVariable = "ISR_PEER_SECRET"

// peerFlags configure the channel between the servers of a fleet.
type peerFlags struct {
	peerSecret string // of the configuration file; empty: the secret of ISR_PEER_SECRET

	Peer string `placeholder:"ADDR" help:"IP address and port at which the other servers of the table reach this one, like 10.0.0.5:7946, on a private network, or :7946 for the only private address of the machine (none). It listens there. They notify each other of changes, and send each other stored bodies. Needs --table, and a secret, the same for all of them, in ISR_PEER_SECRET."`
}

// node returns this server among its peers; nil if there is no --peer.
func (f *peerFlags) node(table string, polls bool, log *slog.Logger) (*peer.Node, error) {
	secret := cmp.Or(f.peerSecret, os.Getenv(peerVariable))
	switch {
	case f.Peer == "":
		return nil, nil //nolint:nilnil // there is none
	case table == "":
		return nil, cli.Usagef("--peer needs --table: the embedded store has one server")
	case !polls:
		return nil, cli.Usagef("--peer cannot be combined with --poll 0: peers know each other by the table")
	case secret == "":
		return nil, cli.Usagef("--peer needs a secret that all servers of the table share: set %s, or peer.secret in the configuration file, to the text of `openssl rand -hex 32`", peerVariable)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("cannot list the addresses of this machine: %w", err)
	}
	at, err := peer.ResolveAddress(f.Peer, own)
	if err != nil {
		return nil, cli.Usagef("--peer: %v", err)
	}
	node, err := peer.New(peer.Config{Address: at, Secret: []byte(secret), Logger: log})
	if err != nil {
		return nil, cli.Usagef("--peer: %v", err)
	}
	return node, nil
}

// servePeers serves the peers. Without --peer it returns an idle server, which never fails.
func servePeers(ctx context.Context, sockets *handover.Sockets, node *peer.Node, cache *isr.Cache, log *slog.Logger) (*Running, error) {
	if node == nil {
		return &Running{server: new(http.Server)}, nil
	}
	listener, _, err := sockets.Listen(ctx, node.Address().String())
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give an address of this machine with --peer", node.Address(), err)
	}
	log.Info("peers on " + node.Address().String())
	return start(node.Server(cache), node.Limit(listener)), nil
}

// closePeers ends the channel to the peers.
func closePeers(node *peer.Node, server *Running) error {
	if node == nil {
		return nil
	}
	node.Close()
	if err := server.server.Close(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
