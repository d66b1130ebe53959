package server

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/httpconn"
)

// Open files are shared: visitors have those that are not reserved, and a client has a part of these.
const (
	// reservedFiles is how many open files are reserved at most, for connections to origins and stores, for files, and for the
	// servers of commands, health and metrics: half of all, if there are few.
	reservedFiles = 4096
	// clientParts is how many clients can have all connections of visitors.
	clientParts = 4
	// clientConnections is how many a client may have by default, if there are many.
	clientConnections = 1024
)

// connections returns the limits of visitors' connections for a process that may have that many open files, 0 if that
// is not known. perClient is the limit of a client; 0 means the default. within is the budget of their buffers.
func connections(files int64, perClient int, within *buffers.Budget, log *slog.Logger) *httpconn.Connections {
	cfg := httpconn.ConnectionLimits{Total: int(files - min(files/2, reservedFiles)), PerClient: clientConnections, Buffers: within, Logger: log}
	if cfg.Total > 0 {
		cfg.PerClient = max(min(clientConnections, cfg.Total/clientParts), 1)
	}
	cfg.PerClient = cmp.Or(perClient, cfg.PerClient)
	log.Debug("limits of connections", "files", files, "visitors", cfg.Total, "client", cfg.PerClient)
	return httpconn.NewConnections(cfg)
}

// peerOf returns which client the connections of a listener are of. The connections of trusted proxies are of many
// clients, or of the one that the PROXY protocol names.
func peerOf(l config.Listener) httpconn.Peer {
	trust, _ := gateway.ParseTrust(l.TrustedProxies) // validated
	return func(a net.Addr) (netip.Prefix, bool) {
		at, err := netip.ParseAddrPort(a.String())
		return canonical.Client(a.String()), err == nil && !trust.Trusts(at.Addr())
	}
}
