package notices_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/notices"
)

// A receiver keeps the latest request that it got.
type receiver struct {
	*httptest.Server
	header http.Header
	body   string
	status int
	answer http.Header
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			t.Error(err)
		}
		r.header, r.body = in.Header, string(body)
		for name, values := range r.answer {
			w.Header()[name] = values
		}
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, "invalid\npayload") // the client may be gone
	}))
	t.Cleanup(r.Close)
	return r
}

func text(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func (r *receiver) destination(format notices.Format, secret string) *notices.HTTP {
	return &notices.HTTP{URL: text(r.URL + "/services/T0/hidden"), Secret: text(secret), Format: format, Console: "https://admin.example.com"}
}

var begun = time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)

func message() notices.Message {
	p := notices.Problem{Kind: notices.FailingPages, Subject: "/shop", Text: "3 pages fail: <!channel> & \x1b[31mmore\nlines", Link: "/"}
	over := notices.Problem{Kind: notices.Purges, Subject: "cdn", Text: "purges are not delivered to cdn"}
	return notices.Message{ID: "m1", At: begun.Add(time.Hour), Server: "web-1", More: 2, Notices: []notices.Notice{
		{Problem: p, State: notices.Begun, Since: begun}, {Problem: p, State: notices.Continues, Since: begun}, {Problem: over, State: notices.Ended, Since: begun},
	}}
}

// TestSlack: a text of one line for each notice, which mentions nobody.
func TestSlack(t *testing.T) {
	r := newReceiver(t)
	if err := r.destination(notices.Slack, "").Send(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	var sent map[string]string
	if err := json.Unmarshal([]byte(r.body), &sent); err != nil {
		t.Fatal(err)
	}
	const want = `*isr on web-1*
:warning: since 09:30 UTC: 3 pages fail: &lt;!channel&gt; &amp; [31mmore lines <https://admin.example.com/|console>
:warning: still, since 09:30 UTC: 3 pages fail: &lt;!channel&gt; &amp; [31mmore lines <https://admin.example.com/|console>
:white_check_mark: over: purges are not delivered to cdn
and 2 more`
	if sent["text"] != want || len(sent) != 1 {
		t.Errorf("the message is\n%s\nwant\n%s", sent["text"], want)
	}
	long := message()
	for range 100 {
		n := long.Notices[0]
		n.Text = strings.Repeat("é", 1000)
		long.Notices = append(long.Notices, n)
	}
	if err := r.destination(notices.Slack, "").Send(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if len(r.body) > 4000 || !strings.Contains(r.body, "more") {
		t.Errorf("a message of 103 notices has %d bytes", len(r.body))
	}
}

// TestWebhook: all fields, signed as Standard Webhooks describes.
func TestWebhook(t *testing.T) {
	for name, c := range map[string]struct{ secret, key string }{
		"text":   {"a secret of the receiver", "a secret of the receiver"},
		"base64": {"whsec_" + base64.StdEncoding.EncodeToString([]byte("\x00\x01key")), "\x00\x01key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			if err := r.destination(notices.Webhook, c.secret).Send(t.Context(), message()); err != nil {
				t.Fatal(err)
			}
			mac := hmac.New(sha256.New, []byte(c.key))
			mac.Write([]byte("m1." + r.header.Get("Webhook-Timestamp") + "." + r.body))
			if got, want := r.header.Get("Webhook-Signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want || r.header.Get("Webhook-Id") != "m1" {
				t.Errorf("signed as %q, want %q", got, want)
			}
			for _, want := range []string{
				`"type":"isr.notices","timestamp":"2026-11-28T10:30:00Z","data":{"server":"web-1","notices":[{"kind":"failing_pages","state":"begun","subject":"/shop"`,
				`"since":"2026-11-28T09:30:00Z","link":"https://admin.example.com/"}`, `{"kind":"purges","state":"ended","subject":"cdn","text":"purges are not delivered to cdn","since":"2026-11-28T09:30:00Z"}`, `"more":2`,
			} {
				if !strings.Contains(r.body, want) {
					t.Errorf("the message has no %s:\n%s", want, r.body)
				}
			}
		})
	}
}

// TestRefusedMessages: errors name the host and the answer, and never the address, which is a secret; redirects are not followed.
func TestRefusedMessages(t *testing.T) {
	r := newReceiver(t)
	d := r.destination(notices.Slack, "")
	r.status, r.answer = http.StatusTooManyRequests, http.Header{"Retry-After": {"90"}}
	err := d.Send(t.Context(), message())
	if retry, ok := errors.AsType[*notices.RetryError](err); !ok || retry.After != 90*time.Second || !strings.Contains(err.Error(), "429 Too Many Requests invalid payload") {
		t.Errorf("429 is %v", err)
	}
	r.status, r.answer = http.StatusTemporaryRedirect, http.Header{"Location": {r.URL + "/elsewhere"}}
	err = d.Send(t.Context(), message())
	if err == nil || !strings.Contains(err.Error(), "307") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a redirect is %v", err)
	}
	r.Close()
	if err = d.Send(t.Context(), message()); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("without a server: %v", err)
	}
	d.URL = text("ftp://example.com/hidden")
	if err = d.Send(t.Context(), message()); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("another scheme: %v", err)
	}
	d = r.destination(notices.Webhook, "whsec_%%%")
	if err = d.Send(t.Context(), message()); err == nil || !strings.Contains(err.Error(), "base64") {
		t.Errorf("a secret that is not base64: %v", err)
	}
}
