package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Provider is the system that sends a webhook, which decides how requests are signed.
type Provider string

// The providers. All of them sign with HMAC-SHA256 (RFC 2104).
const (
	// Generic: X-ISR-Signature is "sha256=" and the hex MAC of X-ISR-Timestamp (epoch
	// seconds), a dot and the body. X-ISR-Delivery, if present, is the message id. With
	// "X-ISR-Event: ping" the response says what the payload would purge, and nothing is purged.
	Generic Provider = "generic"
	// GitHub: X-Hub-Signature-256 is "sha256=" and the hex MAC of the body, by which a message is
	// known: X-GitHub-Delivery, the id, is not signed, and neither is a time.
	// Source: docs.github.com, "Validating webhook deliveries".
	GitHub Provider = "github"
	// Contentful: X-Contentful-Signature is the hex MAC of method, path, signed headers and
	// body, joined by line feeds. X-Contentful-Timestamp is in milliseconds.
	// Source: sign-request.ts of contentful/node-apps-toolkit.
	Contentful Provider = "contentful"
	// Sanity: Sanity-Webhook-Signature is "t=<milliseconds>,v1=<MAC>", in base64url without
	// padding, of the time, a dot and the body. Idempotency-Key is the id.
	// Source: signature.ts of sanity-io/webhook-toolkit.
	Sanity Provider = "sanity"
	// Shopify: X-Shopify-Hmac-Sha256 is the MAC of the body in base64, by which a message is known,
	// as with GitHub. Source: shopify.dev, "Verify webhook deliveries".
	Shopify Provider = "shopify"
)

// Providers lists all providers.
func Providers() []Provider { return []Provider{GitHub, Contentful, Sanity, Shopify, Generic} }

// A Secret signs the requests of a webhook. It prints as "[secret]".
type Secret struct{ key string }

// Bounds of a secret, in bytes.
const (
	minSecret = 16
	maxSecret = 1024
)

// NewSecret returns a secret of 16 to 1,024 bytes. The error does not contain it.
func NewSecret(key string) (Secret, error) {
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("the secret has %d bytes; expected between %d and %d, like the output of: openssl rand -hex 32", len(key), minSecret, maxSecret)
	}
	return Secret{key}, nil
}

// String returns "[secret]".
func (Secret) String() string { return "[secret]" }

// GoString returns "[secret]".
func (Secret) GoString() string { return "[secret]" }

// A claim is what the header of a request claims about its body.
type claim struct {
	signed []string // the parts of the signed text
	mac    []byte
	at     time.Time     // when it was signed; zero if the provider does not say
	window time.Duration // for how long after that it is accepted
	id     string        // of the message; empty if the provider sends none
}

// How long after it was signed a request is accepted. Contentful repeats a failed delivery
// within two minutes, Sanity within half an hour, and neither documents whether it signs
// again. A replay within the window does nothing if it keeps its id, and costs a purge
// otherwise, since ids are not signed.
const (
	replayWindow       = 5 * time.Minute
	sanityReplayWindow = time.Hour
	clockSkew          = 5 * time.Minute // of a sender whose clock is ahead
)

// An unauthorizedError is a request whose signature is missing, malformed, wrong or too old.
type unauthorizedError struct{ problem string }

func (e *unauthorizedError) Error() string { return e.problem }

func unauthorized(format string, args ...any) error {
	return &unauthorizedError{fmt.Sprintf(format, args...)}
}

// verify returns the message id of a request that was signed with one of the secrets. Without
// an id of the provider, or a time, requests with the same signature are one message. Errors are
// *unauthorizedError; they do not say how a wrong signature differs.
func (p Provider) verify(r *http.Request, body []byte, secrets []Secret, now time.Time) (id string, err error) {
	c, err := p.claim(r, string(body))
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(secrets, c.signedWith) {
		return "", unauthorized("the signature is wrong: it was made with another secret, or the request was changed on its way")
	}
	switch age := now.Sub(c.at); {
	case c.at.IsZero():
	case age > c.window:
		return "", unauthorized("the request was signed %s ago; at most %s are accepted", age.Round(time.Second), c.window)
	case age < -clockSkew:
		return "", unauthorized("the request was signed %s in the future; check the clocks of the sender and of this machine", (-age).Round(time.Second))
	}
	if len(c.id) > maxID {
		return "", unauthorized("the message id has %d bytes; at most %d are accepted", len(c.id), maxID)
	}
	// Ids are not signed: a captured request that does not say when it was signed could be sent with
	// another one, for ever.
	if c.id == "" || c.at.IsZero() {
		return "mac:" + hex.EncodeToString(c.mac), nil
	}
	return c.id, nil
}

// maxID bounds a message id, in bytes.
const maxID = 256

// signedWith compares in constant time.
func (c claim) signedWith(s Secret) bool {
	mac := hmac.New(sha256.New, []byte(s.key))
	for _, part := range c.signed {
		mac.Write([]byte(part))
	}
	return hmac.Equal(mac.Sum(nil), c.mac)
}

func (p Provider) claim(r *http.Request, body string) (claim, error) {
	switch p {
	case GitHub:
		return gitHubClaim(r, body)
	case Contentful:
		return contentfulClaim(r, body)
	case Sanity:
		return sanityClaim(r, body)
	case Shopify:
		return shopifyClaim(r, body)
	}
	return genericClaim(r, body)
}

func genericClaim(r *http.Request, body string) (c claim, err error) {
	at, err := only(r, "X-ISR-Timestamp")
	if err != nil {
		return c, err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return c, unauthorized("the header X-ISR-Timestamp is not a number of seconds since 1970")
	}
	c = claim{signed: []string{at, ".", body}, at: time.Unix(seconds, 0), window: replayWindow, id: r.Header.Get("X-ISR-Delivery")}
	c.mac, err = hexMAC(r, "X-ISR-Signature", "sha256=")
	return c, err
}

func gitHubClaim(r *http.Request, body string) (c claim, err error) {
	c = claim{signed: []string{body}, id: r.Header.Get("X-GitHub-Delivery")}
	c.mac, err = hexMAC(r, "X-Hub-Signature-256", "sha256=")
	return c, err
}

func shopifyClaim(r *http.Request, body string) (c claim, err error) {
	c = claim{signed: []string{body}, id: r.Header.Get("X-Shopify-Webhook-Id")}
	const name = "X-Shopify-Hmac-Sha256"
	text, err := only(r, name)
	if err != nil {
		return c, err
	}
	if c.mac, err = base64.StdEncoding.Strict().DecodeString(text); err != nil {
		return c, unauthorized("the header %s is not base64", name)
	}
	return c, nil
}

// sanitySignature is the format of decodeSignatureHeader.
var sanitySignature = regexp.MustCompile(`^t=([0-9]{1,15})[, ]+v1=([A-Za-z0-9_-]+)$`)

func sanityClaim(r *http.Request, body string) (c claim, err error) {
	const name = "Sanity-Webhook-Signature"
	text, err := only(r, name)
	if err != nil {
		return c, err
	}
	match := sanitySignature.FindStringSubmatch(text)
	if match == nil {
		return c, unauthorized("the header %s is not of the form t=TIME,v1=SIGNATURE", name)
	}
	milliseconds, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		return c, unauthorized("the time in the header %s is not a number", name)
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(match[2])
	if err != nil {
		return c, unauthorized("the signature in the header %s is not base64url", name)
	}
	return claim{
		signed: []string{match[1], ".", body}, mac: mac,
		at: time.UnixMilli(milliseconds), window: sanityReplayWindow, id: r.Header.Get("Idempotency-Key"),
	}, nil
}

// contentfulClaim reads a request of Contentful. The signed text is the method, the path, the
// signed headers as "name:value" in the order of their names, joined by semicolons, and the
// body, joined by line feeds. The path of a hook needs no escaping; its URL has no query.
func contentfulClaim(r *http.Request, body string) (c claim, err error) {
	const timestamp, headers = "x-contentful-timestamp", "x-contentful-signed-headers"
	at, err := only(r, timestamp)
	if err != nil {
		return c, err
	}
	milliseconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return c, unauthorized("the header %s is not a number of milliseconds since 1970", timestamp)
	}
	list, err := only(r, headers)
	if err != nil {
		return c, err
	}
	names := strings.Split(strings.ToLower(list), ",")
	if !slices.Contains(names, timestamp) || !slices.Contains(names, headers) {
		return c, unauthorized("the header %s must list %s and %s", headers, timestamp, headers)
	}
	if r.URL.RawQuery != "" {
		return c, unauthorized("the URL of the webhook has a query; remove it in Contentful")
	}
	slices.Sort(names)
	signed := make([]string, 0, len(names))
	for _, name := range slices.Compact(names) {
		value := r.Host
		if name != "host" {
			if value, err = only(r, name); err != nil {
				return c, err
			}
		}
		signed = append(signed, name+":"+strings.TrimSpace(value))
	}
	c = claim{
		signed: []string{r.Method, "\n", r.URL.EscapedPath(), "\n", strings.Join(signed, ";"), "\n", body},
		at:     time.UnixMilli(milliseconds), window: replayWindow, id: r.Header.Get("X-Contentful-Idempotency-Key"),
	}
	c.mac, err = hexMAC(r, "X-Contentful-Signature", "")
	return c, err
}

// only returns the value of a header field that must occur once.
func only(r *http.Request, name string) (string, error) {
	values := r.Header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", unauthorized("expected one header %s, found %d; is the hook of another provider, or has it no secret there?", name, len(values))
	}
	return values[0], nil
}

// hexMAC reads a header field of a prefix and a MAC in hex.
func hexMAC(r *http.Request, name, prefix string) ([]byte, error) {
	text, err := only(r, name)
	if err != nil {
		return nil, err
	}
	digits, found := strings.CutPrefix(text, prefix)
	mac, err := hex.DecodeString(digits)
	if err != nil || !found {
		return nil, unauthorized("the header %s is not of the form %sHEX", name, prefix)
	}
	return mac, nil
}
