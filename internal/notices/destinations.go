package notices

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Format is how a destination takes messages.
type Format string

// The formats.
const (
	// Slack is {"text": …} in Slack's mrkdwn, which the incoming webhooks of Slack, Mattermost and Rocket.Chat take.
	Slack Format = "slack"
	// Webhook is JSON of all fields, signed as Standard Webhooks 1.0 describes if there is a secret.
	Webhook Format = "webhook"
)

// An HTTP is a destination that takes messages by POST. It follows no redirect: the address is a secret of the destination.
type HTTP struct {
	// URL returns the address, and Secret the key of the signatures, empty if messages are not signed. They are called for each
	// delivery, so that files can be replaced.
	URL, Secret func() (string, error)
	Format      Format
	Console     string // URL of the console, without a slash at its end; empty if there is none
}

var _ Destination = (*HTTP)(nil)

const (
	maxSlackText = 3500 // characters, of 4,000 that Slack shows
	maxLine      = 400  // characters of the text of a problem
	maxAnswer    = 4 << 10
	shownAnswer  = 200
)

// ValidURL returns an error unless a text is the URL of a webhook.
func ValidURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("is not a URL; expected one like https://hooks.slack.com/services/…") // the text may be a secret
	}
	return nil
}

// Send implements [Destination].
func (h *HTTP) Send(ctx context.Context, m Message) error {
	address, err := h.URL()
	if err == nil {
		err = ValidURL(address)
	}
	if err != nil {
		return fmt.Errorf("the address of the destination: %w", err)
	}
	body, err := h.body(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the destination is invalid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "isr")
	if err := h.sign(req, m, body); err != nil {
		return err
	}
	client := http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return fmt.Errorf("POST to %s: %w", req.URL.Host, failed.Err) // without the path, which may be a secret
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 == 2 {
		return nil
	}
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	err = fmt.Errorf("POST to %s returned %s %s", req.URL.Host, res.Status, oneLine(string(answer), shownAnswer))
	if seconds, bad := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); bad == nil {
		return &RetryError{After: time.Duration(seconds) * time.Second, Err: err}
	}
	return err
}

// sign adds the header fields of Standard Webhooks 1.0 (github.com/standard-webhooks, "Webhook Metadata" and "Signature scheme").
func (h *HTTP) sign(req *http.Request, m Message, body []byte) error {
	secret, err := h.Secret()
	if err != nil {
		return fmt.Errorf("the secret of the destination: %w", err)
	}
	if secret == "" {
		return nil
	}
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return errors.New("the secret of the destination begins with whsec_, but what follows is not base64")
		}
	}
	at := strconv.FormatInt(m.At.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", m.ID, at, body) // a hash does not fail
	req.Header.Set("Webhook-Id", m.ID)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

// The JSON of a webhook.
type (
	webhook struct {
		Type      string         `json:"type"` // isr.notices
		Timestamp time.Time      `json:"timestamp"`
		Data      webhookMessage `json:"data"`
	}
	webhookMessage struct {
		Server  string          `json:"server"`
		Notices []webhookNotice `json:"notices"`
		More    int             `json:"more,omitempty"`
	}
	webhookNotice struct {
		Kind    Kind      `json:"kind"`
		State   State     `json:"state"`
		Subject string    `json:"subject,omitempty"`
		Text    string    `json:"text"`
		Since   time.Time `json:"since"`
		Link    string    `json:"link,omitempty"`
	}
)

func (h *HTTP) body(m Message) ([]byte, error) {
	if h.Format == Slack {
		return json.Marshal(map[string]string{"text": h.slackText(m)})
	}
	out := webhook{Type: "isr.notices", Timestamp: m.At.UTC(), Data: webhookMessage{Server: m.Server, More: m.More}}
	for _, n := range m.Notices {
		out.Data.Notices = append(out.Data.Notices, webhookNotice{
			Kind: n.Kind, State: n.State, Subject: n.Subject, Text: oneLine(n.Text, maxLine), Since: n.Since.UTC(), Link: h.link(n.Problem),
		})
	}
	return json.Marshal(out)
}

func (h *HTTP) link(p Problem) string {
	if h.Console == "" || p.Link == "" {
		return ""
	}
	return h.Console + p.Link
}

// slackText returns a line for each notice.
func (h *HTTP) slackText(m Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*isr on %s*", escape(m.Server))
	for i, n := range m.Notices {
		line := "\n" + n.slackLine()
		if link := h.link(n.Problem); link != "" {
			line += " <" + link + "|console>"
		}
		if b.Len()+len(line) > maxSlackText {
			m.More += len(m.Notices) - i
			break
		}
		b.WriteString(line)
	}
	if m.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", m.More)
	}
	return b.String()
}

func (n Notice) slackLine() string {
	since := n.Since.UTC().Format("15:04 MST")
	text := escape(oneLine(n.Text, maxLine))
	switch n.State {
	case Ended:
		return ":white_check_mark: over: " + text
	case Continues:
		return ":warning: still, since " + since + ": " + text
	}
	return ":warning: since " + since + ": " + text
}

// escape escapes the control characters of mrkdwn (Slack, "Formatting text for app surfaces"), so that a text makes no link and
// mentions nobody.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// oneLine returns at most so many characters of a text, without line ends and control characters.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit-1]) + "…"
	}
	return text
}
