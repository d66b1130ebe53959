package downstream

import (
	"bytes"
	"context"
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
)

// Bounds of one request to a downstream cache.
const (
	requestTime = 15 * time.Second // until the whole response is read
	maxAnswer   = 256 << 10        // bytes of a response
	shownAnswer = 200              // bytes of a response in an error message

	longestRetryAfter = time.Hour
	// configurationRetry is when to try again after an error that an operator corrects.
	configurationRetry = time.Minute
)

// A Token returns the secret of a destination. It is called for each delivery, so that
// it can be replaced without a restart.
type Token func() (string, error)

// A caller sends requests to the API of one downstream cache. It follows no redirects,
// which could carry the token to another server.
type caller struct {
	client http.Client
	base   string // without a slash at its end
	token  Token  // nil: none
	// authorize adds the token to a request.
	authorize func(r *http.Request, token string)
}

func newCaller(base string, token Token, authorize func(*http.Request, string)) *caller {
	return &caller{
		client: http.Client{
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				TLSHandshakeTimeout:    5 * time.Second,
				MaxConnsPerHost:        4,
				IdleConnTimeout:        time.Minute,
				MaxResponseHeaderBytes: 64 << 10,
				ForceAttemptHTTP2:      true,
			},
			Timeout:       requestTime,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: base, token: token, authorize: authorize,
	}
}

// bearer is the usual way to send a token.
func bearer(r *http.Request, token string) { r.Header.Set("Authorization", "Bearer "+token) }

// An answer is a successful response.
type answer struct {
	header http.Header
	body   []byte
}

// post sends JSON, nil for an empty body.
func (c *caller) post(ctx context.Context, path string, in any) (answer, error) {
	var body []byte
	header := make(http.Header)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return answer{}, &PermanentError{err}
		}
		header.Set("Content-Type", "application/json")
	}
	return c.send(ctx, http.MethodPost, path, "", header, body)
}

// send sends a request and returns a response of status 2xx; others are errors. host
// replaces the Host header, unless it is empty.
func (c *caller) send(ctx context.Context, method, path, host string, header http.Header, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, &PermanentError{err}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "isr")
	if host != "" {
		req.Host = host
	}
	secret := ""
	if c.token != nil {
		if secret, err = c.token(); err != nil {
			return answer{}, &RetryError{After: configurationRetry, Err: err}
		}
		if secret != "" {
			c.authorize(req, secret)
		}
	}
	res, err := c.client.Do(req)
	if err != nil {
		return answer{}, &RetryError{Err: redacted(err, secret)}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, &RetryError{Err: fmt.Errorf("read response of %s %s: %w", method, path, redacted(err, secret))}
	case len(text) > maxAnswer:
		return answer{}, &RetryError{Err: fmt.Errorf("the response of %s %s has more than %d bytes", method, path, maxAnswer)}
	case res.StatusCode/100 == 2:
		return answer{res.Header, text}, nil
	}
	return answer{}, refused(res, redacted(fmt.Errorf("%s %s returned %s%s", method, path, res.Status, shown(text)), secret))
}

// redacted removes a secret from the text of an error.
func redacted(err error, secret string) error {
	if secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), secret, "[token]"))
}

// shown returns the beginning of a response for an error message.
func shown(text []byte) string {
	line := strings.ToValidUTF8(strings.Join(strings.Fields(string(text[:min(len(text), shownAnswer)])), " "), "")
	if line == "" {
		return ""
	}
	return ": " + line
}

// refused classifies a response of another status than 2xx. Responses that an operator
// can change without changing the purge, such as to a wrong token, are retried.
func refused(res *http.Response, err error) error {
	after := retryAfter(res.Header.Get("Retry-After"), time.Now())
	switch status := res.StatusCode; {
	case status/100 == 3:
		target := res.Header.Get("Location")
		if u, bad := url.Parse(target); bad == nil {
			target = u.Redacted()
		}
		return &RetryError{After: configurationRetry, Err: fmt.Errorf("%w; redirects are not followed (to %.200q): correct the address", err, target)}
	case status == http.StatusTooManyRequests:
		return &RetryError{After: after, Busy: true, Err: err}
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500:
		return &RetryError{After: after, Err: err}
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return &RetryError{After: configurationRetry, Err: err}
	}
	return &PermanentError{err}
}

// retryAfter reads the header Retry-After (RFC 9110, 10.2.3): seconds or a date. The
// result is at most an hour, and 0 for a malformed value.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), longestRetryAfter)
}
