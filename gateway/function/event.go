package function

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/facetheory/isr"
)

// A kind is what a request came through.
type kind int

const (
	functionURL kind = iota // or a CloudFront distribution in front of one
	httpAPI                 // API Gateway, payload format 2.0
	restAPI                 // API Gateway, payload format 1.0
	balancer                // an Application Load Balancer
)

func (k kind) String() string {
	return [...]string{"a Lambda function URL", "an HTTP API of API Gateway", "a REST API of API Gateway", "an Application Load Balancer"}[k]
}

// limit is the size of the largest response that is not streamed, in bytes of its JSON: AWS, "Lambda
// quotas" (6 MB), "API Gateway quotas" (10 MB, of which Lambda gives 6), and "Lambda functions as
// targets" of load balancers (1 MB).
func (k kind) limit() int {
	if k == balancer {
		return 1 << 20
	}
	return 6 << 20
}

// An event is an HTTP request as AWS sends it to a function.
type event struct {
	kind kind
	// multi: headers of the response are lists.
	multi  bool
	scheme string
	// instead answers the request; nil: the site answers.
	instead http.Handler
}

// ErrEvent: an event is no HTTP request.
var ErrEvent = errors.New("not an HTTP request of a function URL, of API Gateway or of a load balancer")

// errTarget: what a client asked for is no path, such as /%zz, which AWS passes on.
var errTarget = errors.New("the path is not valid")

// healthy answers the health checks of a load balancer, which have neither a host nor a client: the
// function runs.
func healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok\n")
}

// refuse answers a request whose path is not valid, as net/http's server does.
func refuse(w http.ResponseWriter, _ *http.Request) {
	isr.WriteErrorPage(w, http.StatusBadRequest, "Bad request: "+errTarget.Error()+".")
}

// parse returns the request of an event. One that is refused is not an error.
func parse(ctx context.Context, payload []byte) (event, *http.Request, error) {
	e, r, err := parseEvent(ctx, payload)
	if !errors.Is(err, errTarget) {
		return e, r, err
	}
	e.instead = http.HandlerFunc(refuse)
	r, err = http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	return e, r, err
}

func parseEvent(ctx context.Context, payload []byte) (event, *http.Request, error) {
	var shape struct {
		Version        string `json:"version"`
		HTTPMethod     string `json:"httpMethod"`
		RequestContext struct {
			ELB  *struct{} `json:"elb"`
			HTTP *struct{} `json:"http"`
		} `json:"requestContext"`
	}
	if err := json.Unmarshal(payload, &shape); err != nil {
		return event{}, nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	switch {
	case shape.RequestContext.HTTP != nil:
		return parseV2(ctx, payload)
	case shape.RequestContext.ELB != nil:
		return parseBalancer(ctx, payload)
	case shape.HTTPMethod != "":
		return parseV1(ctx, payload)
	}
	return event{}, nil, ErrEvent
}

// parseV2 parses payload format 2.0, of function URLs and HTTP APIs.
func parseV2(ctx context.Context, payload []byte) (event, *http.Request, error) {
	var e events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(payload, &e); err != nil {
		return event{}, nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	ev := event{kind: httpAPI, scheme: "https"}
	if strings.Contains(e.RequestContext.DomainName, ".lambda-url.") {
		ev.kind = functionURL
	}
	path := e.RawPath
	if stage := e.RequestContext.Stage; ev.kind == httpAPI && stage != "" && stage != "$default" {
		path = cmp.Or(strings.TrimPrefix(path, "/"+stage), "/") // it is part of the URL of the API, not of the site
	}
	header := make(http.Header, len(e.Headers))
	for name, value := range e.Headers {
		header.Set(name, value)
	}
	if len(e.Cookies) > 0 {
		header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	r, err := build(ctx, e.RequestContext.HTTP.Method, path, e.RawQueryString, header, e.Body, e.IsBase64Encoded)
	if err != nil {
		return ev, nil, err
	}
	r.Host = cmp.Or(r.Host, e.RequestContext.DomainName)
	return ev, r, from(r, e.RequestContext.HTTP.SourceIP)
}

// parseV1 parses payload format 1.0, of REST APIs.
func parseV1(ctx context.Context, payload []byte) (event, *http.Request, error) {
	var e events.APIGatewayProxyRequest
	if err := json.Unmarshal(payload, &e); err != nil {
		return event{}, nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	query := url.Values(e.MultiValueQueryStringParameters)
	if len(query) == 0 {
		query = lists[url.Values](e.QueryStringParameters)
	}
	// The path and the parameters are decoded.
	path := (&url.URL{Path: e.Path}).EscapedPath()
	r, err := build(ctx, e.HTTPMethod, path, query.Encode(), headerOf(e.MultiValueHeaders, e.Headers), e.Body, e.IsBase64Encoded)
	if err != nil {
		return event{kind: restAPI, multi: true}, nil, err
	}
	r.Host = cmp.Or(r.Host, e.RequestContext.DomainName)
	return event{kind: restAPI, multi: true, scheme: "https"}, r, from(r, e.RequestContext.Identity.SourceIP)
}

// parseBalancer parses the events of a load balancer. They do not name the balancer's peer: it
// appends its address to X-Forwarded-For, unless it is configured to remove that header
// (routing.http.xff_header_processing.mode): then all clients have the unspecified address. Its
// parameters are as they were sent.
func parseBalancer(ctx context.Context, payload []byte) (event, *http.Request, error) {
	var e events.ALBTargetGroupRequest
	if err := json.Unmarshal(payload, &e); err != nil {
		return event{}, nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	parameters := e.MultiValueQueryStringParameters
	if len(parameters) == 0 {
		parameters = lists[map[string][]string](e.QueryStringParameters)
	}
	header := headerOf(e.MultiValueHeaders, e.Headers)
	ev := event{kind: balancer, multi: len(e.MultiValueHeaders) > 0, scheme: last(header, "X-Forwarded-Proto")}
	r, err := build(ctx, e.HTTPMethod, e.Path, rawQuery(parameters), header, e.Body, e.IsBase64Encoded)
	if err != nil {
		return ev, nil, err
	}
	if len(header["X-Forwarded-For"]) == 0 && strings.HasPrefix(header.Get("User-Agent"), "ELB-HealthChecker/") {
		ev.instead = http.HandlerFunc(healthy)
		return ev, r, nil
	}
	return ev, r, from(r, cmp.Or(last(header, "X-Forwarded-For"), netip.IPv4Unspecified().String()))
}

// rawQuery joins parameters that are not decoded, by name.
func rawQuery(parameters map[string][]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		for _, value := range parameters[name] {
			pairs = append(pairs, name+"="+value)
		}
	}
	return strings.Join(pairs, "&")
}

// headerOf returns a header by its lists, or else its texts.
func headerOf(multi map[string][]string, single map[string]string) http.Header {
	if len(multi) == 0 {
		multi = lists[map[string][]string](single)
	}
	header := make(http.Header, len(multi))
	// Two spellings of a name are one list, always in the same order.
	for _, name := range slices.Sorted(maps.Keys(multi)) {
		canonical := http.CanonicalHeaderKey(name)
		header[canonical] = append(header[canonical], multi[name]...)
	}
	return header
}

func lists[M ~map[string][]string](single map[string]string) M {
	multi := make(M, len(single))
	for name, value := range single {
		multi[name] = []string{value}
	}
	return multi
}

// last returns the last member of a list field, trimmed.
func last(h http.Header, name string) string {
	lines := h[name]
	if len(lines) == 0 {
		return ""
	}
	line := lines[len(lines)-1]
	return strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
}

// build returns a request as net/http's server does.
func build(ctx context.Context, method, path, query string, header http.Header, body string, encoded bool) (*http.Request, error) {
	target := path
	if query != "" {
		target += "?" + query
	}
	if !strings.HasPrefix(target, "/") {
		return nil, fmt.Errorf("%w: the path %.100q does not begin with a slash", ErrEvent, path)
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrEvent, errTarget, err)
	}
	content := []byte(body)
	if encoded {
		if content, err = base64.StdEncoding.DecodeString(body); err != nil {
			return nil, fmt.Errorf("%w: the body: %w", ErrEvent, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://function/", newBody(content))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	r.URL, r.RequestURI, r.Header, r.ContentLength = u, target, header, int64(len(content))
	r.Host = header.Get("Host")
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"} {
		delete(header, name)
	}
	if len(content) > 0 {
		header["Content-Length"] = []string{fmt.Sprint(len(content))}
	}
	return r, nil
}

// from sets the address of the peer, as AWS states it, and removes it from the end of
// X-Forwarded-For, where AWS has appended it.
func from(r *http.Request, address string) error {
	peer, err := parsePeer(address)
	if err != nil {
		return fmt.Errorf("%w: the address of the client is %.100q", ErrEvent, address)
	}
	r.RemoteAddr = net.JoinHostPort(peer.String(), "0")
	const name = "X-Forwarded-For"
	if appended, err := parsePeer(last(r.Header, name)); err == nil && appended == peer {
		lines := r.Header[name]
		line := lines[len(lines)-1]
		if at := strings.LastIndexByte(line, ','); at >= 0 {
			lines[len(lines)-1] = line[:at]
		} else if r.Header[name] = lines[:len(lines)-1]; len(lines) == 1 {
			delete(r.Header, name)
		}
	}
	return nil
}

// parsePeer parses an address, to which a load balancer can add the port.
func parsePeer(text string) (netip.Addr, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), nil
	}
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return at.Unmap(), err
}
