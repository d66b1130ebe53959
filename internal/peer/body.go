package peer

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/facetheory/isr/store"
)

const (
	bodyPath = "/v1/body"
	// maxBodies bounds the bodies that are sent at once, and the bodies that are received from one
	// process. Further requests are answered with busy.
	maxBodies = 32
	// sendTime bounds the sending of a body, of at most store.MaxPeerBody bytes.
	sendTime = 2 * time.Second
)

// A bodyRequest asks for a stored body of a page. A reply has either the body or a status: 404, 503.
type bodyRequest struct {
	Key    string `json:"key"`
	Tenant string `json:"tenant,omitempty"`
	Body   string `json:"body"`
	SHA256 string `json:"sha256"`
	Length int64  `json:"length"`
}

// described is what the HMAC of a reply with a body covers instead of the body, which its
// receiver verifies by the digest.
func (q bodyRequest) described() string { return q.SHA256 + " " + strconv.FormatInt(q.Length, 10) }

// serveBody answers a request for a body.
func (s *server) serveBody(w http.ResponseWriter, r *http.Request, nonce string, message []byte) {
	var q bodyRequest
	if err := json.Unmarshal(message, &q); err != nil {
		s.reply(w, nonce, http.StatusBadRequest, nil)
		return
	}
	select {
	case s.bodies <- struct{}{}:
		defer func() { <-s.bodies }()
	default:
		s.reply(w, nonce, http.StatusServiceUnavailable, nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), sendTime)
	defer cancel()
	body := s.cache.LocalBody(ctx, store.PeerBody{Key: store.Key{Tenant: q.Tenant, Text: q.Key}, BodyKey: q.Body, SHA256: q.SHA256, Length: q.Length})
	if body == nil {
		s.reply(w, nonce, http.StatusNotFound, nil)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTime)) // the connection is a net.Conn
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set(macField, s.node.secret.ofReply(nonce, http.StatusOK, q.described()))
	_, _ = w.Write(body) // the peer may have gone
}

// ReadBody asks a process for a body, as isr.Peers describes.
func (n *Node) ReadBody(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error) {
	if r := n.remote(at); r == nil || n.avoids(r) {
		return nil, errAvoided
	}
	q := bodyRequest{Key: b.Key.Text, Tenant: b.Key.Tenant, Body: b.BodyKey, SHA256: b.SHA256, Length: b.Length}
	body, err := n.readBody(ctx, at, q)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrPeerBusy) && ctx.Err() == nil {
		n.complain("a peer does not send a body", at.String(), err)
	}
	return body, err
}

func (n *Node) readBody(ctx context.Context, at netip.AddrPort, q bodyRequest) ([]byte, error) {
	res, nonce, err := n.post(ctx, n.bodies, at, bodyPath, q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // read only
	described := ""
	if res.StatusCode == http.StatusOK {
		described = q.described()
	}
	if want := n.secret.ofReply(nonce, res.StatusCode, described); !hmac.Equal([]byte(want), []byte(res.Header.Get(macField))) {
		return nil, fmt.Errorf("%w: status %d", errUnauthenticated, res.StatusCode)
	}
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %s at the peer %s", store.ErrNotFound, q.Body, at)
	case res.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %s", store.ErrPeerBusy, at)
	case res.StatusCode != http.StatusOK || res.ContentLength != q.Length:
		return nil, fmt.Errorf("the peer %s has sent the status %d and %d bytes, expected 200 and %d", at, res.StatusCode, res.ContentLength, q.Length)
	}
	body := make([]byte, q.Length)
	if _, err := io.ReadFull(res.Body, body); err != nil {
		return nil, fmt.Errorf("reading the body %s from the peer %s: %w", q.Body, at, err)
	}
	return body, nil
}
