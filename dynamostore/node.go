package dynamostore

import (
	"context"
	"fmt"
	"strings"

	"github.com/facetheory/isr/store"
)

const (
	pkNodes    = "NODES"
	nodePrefix = "NODE#"

	// nodeTTL is how long, in seconds, the row of a node stays after it counts as gone.
	nodeTTL = 3600
)

// nodeRow is a process that follows the log: the row NODE#<id> in the partition NODES.
type nodeRow struct {
	location

	Name    string  `theorydb:"attr:name,omitempty"`
	Release string  `theorydb:"attr:release,omitempty"`
	Config  string  `theorydb:"attr:config,omitempty"`
	Peer    laxText `theorydb:"attr:peer,omitempty"`
	Applied count   `theorydb:"attr:applied"`
	Since   instant `theorydb:"attr:since"`
	At      instant `theorydb:"attr:at"`
	Until   horizon `theorydb:"attr:until"`
	TTL     horizon `theorydb:"ttl,attr:ttl"`
}

var requiredOfNode = []required{
	{attrApplied, expectedCount}, {attrSince, expectedInstant}, {attrAt, expectedInstant}, {attrUntil, expectedHorizon},
}

// Announce implements [store.PresenceStore]. It costs a write unit. The row is put without
// a condition: if a lost request arrives late, the row is out of date until the process
// announces itself again, or, if it has withdrawn itself, until n.Until.
func (s *Store) Announce(ctx context.Context, n store.Node) error {
	ctx = s.metered(ctx, "announce")
	if err := n.Validate(); err != nil {
		return fmt.Errorf("announce a process: %w", err)
	}
	until := ceilSeconds(n.Until)
	row := &nodeRow{
		location: s.at(pkNodes, nodePrefix+n.ID), Name: n.Name, Release: n.Release, Config: n.Config, Applied: count(n.Applied),
		Since: instant(floorSeconds(n.Since)), At: instant(floorSeconds(n.SeenAt)), Until: horizon(until), TTL: horizon(until + nodeTTL),
	}
	if n.Peer.IsValid() {
		row.Peer = laxText(n.Peer.String())
	}
	err := s.execute(ctx, operation{bounded: true, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(row).CreateOrUpdate()
	}})
	if err != nil {
		return fmt.Errorf("announce process %s: %w", n.ID, err)
	}
	return nil
}

// Withdraw implements [store.PresenceStore]. It costs a write unit.
func (s *Store) Withdraw(ctx context.Context, id string) error {
	ctx = s.metered(ctx, "withdraw")
	err := store.ValidNodeID(id)
	if err == nil {
		row := &nodeRow{location: s.at(pkNodes, nodePrefix+id)}
		err = s.execute(ctx, operation{bounded: true, send: func(ctx context.Context) error {
			return s.db.WithContext(ctx).Model(row).Delete()
		}})
	}
	if err != nil {
		return fmt.Errorf("withdraw process %.128q: %w", id, err)
	}
	return nil
}

// Nodes implements [store.PresenceStore]. It costs a read unit for about 30 processes. A
// malformed row is a *[MalformedError]: it stands for a process whose state is unknown.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	ctx = s.metered(ctx, "nodes")
	now := s.config.Now()
	var nodes []store.Node
	for found, err := range s.pages(ctx, s.withPrefix(pkNodes, nodePrefix)) {
		var n store.Node
		if err == nil {
			n, err = s.node(ctx, found)
		}
		if err != nil {
			return nil, fmt.Errorf("list the processes: %w", err)
		}
		if n.Until.After(now) {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// node decodes the row of a process.
func (s *Store) node(ctx context.Context, found row) (store.Node, error) {
	if err := found.check("", found, requiredOfNode); err != nil {
		return store.Node{}, err
	}
	var r nodeRow
	if err := s.decode(ctx, found, &r); err != nil {
		return store.Node{}, err
	}
	return store.Node{
		Peer: r.Peer.address(), ID: strings.TrimPrefix(found.text(attrSK), nodePrefix), Name: r.Name, Release: r.Release, Config: r.Config, Applied: int64(r.Applied),
		Since: r.Since.time(), SeenAt: r.At.time(), Until: r.Until.time(),
	}, nil
}
