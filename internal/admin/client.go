package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Client calls an [API]. Errors of the API are of type [*Error]; others mean that no
// response of the API arrived. A Client is safe for concurrent use.
type Client struct {
	http  http.Client
	base  string // without a slash at its end
	token string
}

// NewClient returns the client of a server: its URL, such as
// "http://127.0.0.1:9180", and its token, empty if it needs none. A nil transport means
// http.DefaultTransport. It follows no redirects, which could send the token to another
// server.
func NewClient(server, token string, transport http.RoundTripper) (*Client, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the server %q is not an address; expected one like http://127.0.0.1:9180", server)
	case u.User != nil:
		return nil, fmt.Errorf("the server %q has a user name; remove it and set a token instead", u.Redacted())
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the server %q has a path or query; expected only scheme and host, like %s://%s", server, u.Scheme, u.Host)
	}
	return &Client{
		http: http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base:  u.Scheme + "://" + u.Host,
		token: token,
	}, nil
}

// Local reports whether the server is addressed as this machine: localhost or a loopback
// address.
func (c *Client) Local() bool {
	u, err := url.Parse(c.base)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
}

// Bounds of a response, in bytes.
const (
	maxAnswer = 32 << 20 // a diff of two bodies of 1 MiB whose characters are all escaped
	maxLine   = 1 << 20
)

// ask sends a request and returns the decoded response.
func ask[Out any](ctx context.Context, c *Client, method, path string, in any) (out Out, err error) {
	res, err := c.send(ctx, method, path, in)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("read response of %s: %w", c.base, err)
	}
	return out, nil
}

// askLines sends a request and yields the decoded lines of the response.
func askLines[Out any](ctx context.Context, c *Client, method, path string, in any) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var none Out
		res, err := c.send(ctx, method, path, in)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			out, err := decodeLine[Out](lines.Bytes())
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(out, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(none, fmt.Errorf("read response of %s: %w", c.base, err))
		}
	}
}

// decodeLine decodes a line of a response. The last line may be an error.
func decodeLine[Out any](line []byte) (out Out, err error) {
	if bytes.Contains(line, []byte(`"error"`)) { // decoding each line twice would take as long as the rest of a list
		var failed failure
		if err := json.Unmarshal(line, &failed); err == nil && failed.Error != nil {
			return out, failed.Error
		}
	}
	if err := json.Unmarshal(line, &out); err != nil {
		return out, fmt.Errorf("decode a line of the response: %w", err)
	}
	return out, nil
}

// send sends a request and returns the response; other statuses than 200 are errors.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	req, err := c.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request to server failed: %w", err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	return nil, c.failure(res)
}

func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Request, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	target, body := c.base+path, io.Reader(http.NoBody)
	if method == http.MethodGet {
		var parameters map[string]string
		if err := json.Unmarshal(text, &parameters); err != nil {
			return nil, fmt.Errorf("parameters of %s must be strings: %w", path, err)
		}
		values := make(url.Values)
		for name, value := range parameters {
			values.Set(name, value)
		}
		if len(values) > 0 {
			target += "?" + values.Encode()
		}
	} else {
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	if named, ok := in.(interface{ header() http.Header }); ok {
		maps.Copy(req.Header, named.header())
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// failure returns the error of a response. A response without one is not from an admin API.
func (c *Client) failure(res *http.Response) error {
	var failed failure
	text, err := io.ReadAll(io.LimitReader(res.Body, maxInput))
	if err := errors.Join(err, json.Unmarshal(text, &failed)); err != nil || failed.Error == nil {
		return fmt.Errorf("%s is not an admin API of isr: it returned %s", c.base, res.Status)
	}
	failed.Error.Status = res.StatusCode
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1<<31 {
		failed.Error.RetryAfter = time.Duration(seconds) * time.Second
	}
	return failed.Error
}
