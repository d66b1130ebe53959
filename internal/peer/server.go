package peer

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/facetheory/isr/store"
)

const (
	leasePath = "/v1/lease"
	logPath   = "/v1/log"

	// maxMessage bounds the body of a request and of a reply, in bytes: the longest key, with
	// each byte escaped.
	maxMessage = 32 << 10
	// maxRequests bounds the requests that are answered at once, and maxConnections the
	// connections.
	maxRequests    = 512
	maxConnections = 512
	// longestPoll bounds how long a request for the end of a lease is held, and longestRead how
	// long one that the log is read.
	longestPoll = 25 * time.Second
	longestRead = 2 * time.Second
)

// A Cache answers the requests of peers. Its methods are safe for concurrent use.
type Cache interface {
	// AwaitFlight waits until this process has ended its work on a page. It returns false if
	// there is none, or if ctx ends first.
	AwaitFlight(ctx context.Context, k store.Key) bool
	// HearChange reads the log if it has changed up to a sequence, at a limited rate.
	HearChange(ctx context.Context, seq int64) error
	// HearPeer is called with the address of a process that has sent an authenticated request.
	HearPeer(address netip.AddrPort)
	// LocalBody returns a stored body that this process has in memory or on its disk; nil if it has none.
	LocalBody(ctx context.Context, b store.PeerBody) []byte
}

// A leaseRequest asks for the end of the work on a page.
type leaseRequest struct {
	Key    string `json:"key"`
	Tenant string `json:"tenant,omitempty"`
}

// A leaseReply answers it. Ended is false if there is no such work, or it has not ended yet.
type leaseReply struct {
	Ended bool `json:"ended"`
}

// A logRequest is a notification of a change of the log.
type logRequest struct {
	Seq int64 `json:"seq"`
}

// Server returns the server of this process for its peers. It is to listen at the address of
// the node alone, with [Node.Listen].
func (n *Node) Server(c Cache) *http.Server {
	s := &server{node: n, cache: c, busy: make(chan struct{}, maxRequests), bodies: make(chan struct{}, maxBodies)}
	return &http.Server{
		Handler: s, MaxHeaderBytes: 4 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: longestPoll + 10*time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
}

type server struct {
	node   *Node
	cache  Cache
	busy   chan struct{} // has an element for each request
	bodies chan struct{} // has an element for each body that is sent
	seen   nonces
}

// ServeHTTP answers authenticated requests. Others learn nothing but that they are refused.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it would end a long poll; the connection is a net.Conn
	seen := &s.seen
	if r.URL.Path == bodyPath {
		seen = nil
	}
	from, nonce, err := s.node.secret.verify(r.Header, s.node.address, s.node.now(), seen, r.URL.Path, string(body))
	if err != nil {
		s.node.complain("refused a request of a peer", r.RemoteAddr, err)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	s.cache.HearPeer(from)
	if r.URL.Path == bodyPath {
		s.serveBody(w, r, nonce, body)
		return
	}
	status, reply := s.answer(r.Context(), r.URL.Path, body)
	s.reply(w, nonce, status, reply)
}

// reply sends an authenticated reply.
func (s *server) reply(w http.ResponseWriter, nonce string, status int, reply []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(reply)))
	w.Header().Set(macField, s.node.secret.ofReply(nonce, status, string(reply)))
	w.WriteHeader(status)
	_, _ = w.Write(reply) // the peer may have gone
}

func (s *server) answer(ctx context.Context, path string, body []byte) (status int, reply []byte) {
	switch path {
	case leasePath:
		var q leaseRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return http.StatusBadRequest, nil
		}
		ctx, cancel := context.WithTimeout(ctx, longestPoll)
		defer cancel()
		reply, _ := json.Marshal(leaseReply{Ended: s.cache.AwaitFlight(ctx, store.Key{Tenant: q.Tenant, Text: q.Key})}) // a bool
		return http.StatusOK, reply
	case logPath:
		var q logRequest
		if err := json.Unmarshal(body, &q); err != nil || q.Seq < 0 {
			return http.StatusBadRequest, nil
		}
		ctx, cancel := context.WithTimeout(ctx, longestRead)
		defer cancel()
		if err := s.cache.HearChange(ctx, q.Seq); err != nil {
			return http.StatusConflict, nil
		}
		return http.StatusOK, nil
	}
	return http.StatusNotFound, nil
}
