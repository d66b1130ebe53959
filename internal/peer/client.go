package peer

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/facetheory/isr/store"
)

const (
	// maxPeers bounds the processes that this one remembers something of.
	maxPeers = 4096
	// maxWaits bounds the leases that are waited for at once.
	maxWaits = 256
	// avoidTime is how long a process that does not answer is not asked.
	avoidTime = 5 * time.Second
	// connectTime bounds a connection.
	connectTime = time.Second
	// complainEvery bounds the log.
	complainEvery = 10 * time.Second
)

// A Config are the settings of a [Node].
type Config struct {
	// Address is where the other processes reach this one (see [store.ParsePeerAddress]). It listens
	// there, and nowhere else.
	Address netip.AddrPort
	// Secret is the secret of the fleet: MinSecret to MaxSecret bytes.
	Secret []byte
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Logger gets what fails, at a limited rate. Nil means slog.Default().
	Logger *slog.Logger
}

// A Node is this process among its peers. It is safe for concurrent use.
type Node struct {
	address netip.AddrPort
	secret  secret
	now     func() time.Time
	log     *slog.Logger
	client  *http.Client
	bodies  *http.Client  // for bodies, which must not wait for leases to end
	waits   chan struct{} // has an element for each lease that is waited for

	mu         sync.Mutex
	peers      map[netip.AddrPort]*remote // guarded by mu; at most maxPeers
	complained time.Time                  // guarded by mu
	closed     bool                       // guarded by mu
	telling    sync.WaitGroup

	ctx    context.Context //nolint:containedctx // of notifications
	cancel context.CancelFunc
}

// A remote is what this process knows of another one.
type remote struct {
	avoidUntil time.Time
	seq        int64 // the last one to notify it of
	told       bool  // a goroutine notifies it
}

// New returns a node, which sends and receives nothing yet. The caller must Close it.
func New(cfg Config) (*Node, error) {
	secret, err := newSecret(cfg.Secret)
	if err != nil {
		return nil, err
	}
	if _, err := store.ParsePeerAddress(cfg.Address.String()); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	n := &Node{
		address: cfg.Address, secret: secret, now: cfg.Now, log: cfg.Logger,
		waits: make(chan struct{}, maxWaits), peers: make(map[netip.AddrPort]*remote),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.client, n.bodies = newClient(4, 64), newClient(maxBodies, maxBodies)
	return n, nil
}

// newClient returns a client with a bounded number of connections to each process, idle and in all. It
// uses no proxy and follows no redirects: a process speaks with its peers alone.
func newClient(idle, all int) *http.Client {
	dialer := &net.Dialer{Timeout: connectTime}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConns: maxConnections, MaxIdleConnsPerHost: idle, MaxConnsPerHost: all,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 4 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Address returns the address of this process.
func (n *Node) Address() netip.AddrPort { return n.address }

// Limit returns a listener for [Node.Server], at its address, with a bounded number of connections.
func (n *Node) Limit(l net.Listener) net.Listener { return netutil.LimitListener(l, maxConnections) }

// Close ends notifications in progress, and closes idle connections.
func (n *Node) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.telling.Wait()
	n.client.CloseIdleConnections()
	n.bodies.CloseIdleConnections()
}

// AwaitLease asks a process to answer when it has ended its work on a page, and reports whether
// it has answered so. False: the process does not answer, is not asked because it has just not
// answered, knows of no such work, or works for longer than a request is held.
func (n *Node) AwaitLease(ctx context.Context, at netip.AddrPort, k store.Key) bool {
	select {
	case n.waits <- struct{}{}:
		defer func() { <-n.waits }()
	default:
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longestPoll+2*connectTime)
	defer cancel()
	var reply leaseReply
	return n.call(ctx, at, leasePath, leaseRequest{Key: k.Text, Tenant: k.Tenant}, &reply) == nil && reply.Ended
}

// Tell notifies processes that the log has changed up to a sequence. It does not wait for them.
// While a process is being notified, the highest of further sequences is kept for it.
func (n *Node) Tell(all []netip.AddrPort, seq int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	for _, at := range all {
		r := n.remoteLocked(at)
		if r == nil {
			return
		}
		r.seq = max(r.seq, seq)
		if !r.told {
			r.told = true
			n.telling.Go(func() { n.tell(at, r) })
		}
	}
}

// tell notifies a process until it knows the last sequence, or does not answer.
func (n *Node) tell(at netip.AddrPort, r *remote) {
	for told := int64(-1); ; {
		n.mu.Lock()
		seq := r.seq
		if seq <= told {
			r.told = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(n.ctx, longestRead+connectTime)
		_ = n.call(ctx, at, logPath, logRequest{Seq: seq}, nil) // it reads the log at its next poll
		cancel()
		told = seq
	}
}

// remoteLocked returns what is known of a process; nil if there are too many. The caller holds mu.
func (n *Node) remoteLocked(at netip.AddrPort) *remote {
	r := n.peers[at]
	if r != nil {
		return r
	}
	if len(n.peers) >= maxPeers {
		for other, old := range n.peers {
			if !old.told && n.now().After(old.avoidUntil) {
				delete(n.peers, other)
			}
		}
		if len(n.peers) >= maxPeers {
			return nil
		}
	}
	r = new(remote)
	n.peers[at] = r
	return r
}

// errAvoided: a process has not answered lately.
var errAvoided = errors.New("the peer has not answered lately")

// remote returns what is known of a process; nil if there are too many.
func (n *Node) remote(at netip.AddrPort) *remote {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.remoteLocked(at)
}

// avoids reports whether a process has not answered lately.
func (n *Node) avoids(r *remote) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now().Before(r.avoidUntil)
}

// call sends a request to a process, and decodes its reply.
func (n *Node) call(ctx context.Context, at netip.AddrPort, path string, message, reply any) error {
	r := n.remote(at)
	if r == nil || n.avoids(r) {
		return errAvoided
	}
	err := n.exchange(ctx, at, path, message, reply)
	if err == nil || ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	n.mu.Lock()
	r.avoidUntil = n.now().Add(avoidTime)
	n.mu.Unlock()
	n.complain("a peer does not answer", at.String(), err)
	return err
}

func (n *Node) exchange(ctx context.Context, at netip.AddrPort, path string, message, reply any) error {
	res, nonce, err := n.post(ctx, n.client, at, path, message)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(res.Body, maxMessage))
	if err != nil {
		return err
	}
	if want := n.secret.ofReply(nonce, res.StatusCode, string(text)); !hmac.Equal([]byte(want), []byte(res.Header.Get(macField))) {
		return fmt.Errorf("%w: status %d", errUnauthenticated, res.StatusCode)
	}
	if reply == nil || res.StatusCode != http.StatusOK {
		return nil
	}
	return json.Unmarshal(text, reply)
}

// post sends a request to a process, and returns its reply, which is not verified yet, and the nonce for that.
func (n *Node) post(ctx context.Context, by *http.Client, at netip.AddrPort, path string, message any) (res *http.Response, nonce string, err error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	nonce = n.secret.sign(r.Header, n.address, at, n.now(), path, string(body))
	res, err = by.Do(r)
	return res, nonce, err
}

// complain logs a failure, unless one was logged lately.
func (n *Node) complain(what, who string, err error) {
	n.mu.Lock()
	now := n.now()
	quiet := now.Sub(n.complained).Abs() < complainEvery
	if !quiet {
		n.complained = now
	}
	n.mu.Unlock()
	if !quiet {
		n.log.Warn(what, "peer", who, "error", err)
	}
}
