package function_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/gateway/function"
)

const (
	urlEvent = `{"version":"2.0","rawPath":"/a%20b","rawQueryString":"x=1&y=%2F","cookies":["a=1","b=2"],
		"headers":{"host":"example.com","x-forwarded-for":"203.0.113.9, 198.51.100.7","x-one":"1","content-length":"3"},
		"requestContext":{"domainName":"abc.lambda-url.eu-west-1.on.aws","http":{"method":"POST","sourceIp":"198.51.100.7"}},"body":"aGV5","isBase64Encoded":true}`
	apiEvent = `{"version":"2.0","rawPath":"/prod/page","rawQueryString":"","headers":{"host":"example.com"},
		"requestContext":{"stage":"prod","domainName":"x.execute-api.eu-west-1.amazonaws.com","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`
	restEvent = `{"httpMethod":"GET","path":"/a b","multiValueQueryStringParameters":{"y":["/"],"x":["1","2"]},"multiValueHeaders":{"Host":["example.com"],"Accept":["a","b"]},
		"requestContext":{"identity":{"sourceIp":"2001:db8::7"}}}`
	albEvent = `{"httpMethod":"GET","path":"/a%20b","queryStringParameters":{"y":"%2F","x":"1"},
		"headers":{"host":"example.com","x-forwarded-for":"203.0.113.9, 198.51.100.7:4711","x-forwarded-proto":"https"},"requestContext":{"elb":{"targetGroupArn":"arn"}},"body":""}`
	albMulti = `{"httpMethod":"GET","path":"/","multiValueQueryStringParameters":{"x":["1","2"]},
		"multiValueHeaders":{"host":["example.com"],"x-forwarded-for":["198.51.100.7"],"x-forwarded-proto":["http"]},"requestContext":{"elb":{"targetGroupArn":"arn"}}}`
)

var discard = slog.New(slog.DiscardHandler)

// seen is a handler that answers with the request as an edge resolves it.
func seen(trusted ...string) http.Handler {
	trust, err := gateway.ParseTrust(trusted)
	if err != nil {
		panic(err)
	}
	hosts, err := gateway.ParseHosts([]string{"example.com"})
	if err != nil {
		panic(err)
	}
	return gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Trust: trust, Logger: discard}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["Set-Cookie"] = []string{"c=1", "d=2"}
		w.Header()["X-List"] = []string{"1", "2"}
		fmt.Fprintf(w, "%s %s %s from %s cookie=%q one=%q accept=%q for=%q body=%q", r.Method, r.Host, r.URL, r.RemoteAddr, r.Header.Get("Cookie"), r.Header.Get("X-One"), r.Header["Accept"], r.Header["X-Forwarded-For"], body)
	}))
}

// invoke returns the response as JSON.
func invoke(t *testing.T, h *function.Handler, event string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := h.Invoke(ctx, []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.(json.RawMessage), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// Each kind of event is the request that it stands for, from the peer that AWS states.
func TestRequests(t *testing.T) {
	for name, test := range map[string]struct{ event, trusted, want string }{
		"function URL":         {urlEvent, "", `POST example.com /a%20b?x=1&y=%2F from 198.51.100.7:0 cookie="a=1; b=2" one="1" accept=[] for=[] body="hey"`},
		"behind a trusted CDN": {urlEvent, "198.51.100.0/24", `POST example.com /a%20b?x=1&y=%2F from 203.0.113.9:0 cookie="a=1; b=2" one="1" accept=[] for=[] body="hey"`},
		"HTTP API":             {apiEvent, "", `GET example.com /page from 198.51.100.7:0 cookie="" one="" accept=[] for=[] body=""`},
		"REST API":             {restEvent, "", `GET example.com /a%20b?x=1&x=2&y=%2F from [2001:db8::7]:0 cookie="" one="" accept=["a" "b"] for=[] body=""`},
		"load balancer":        {albEvent, "", `GET example.com /a%20b?x=1&y=%2F from 198.51.100.7:0 cookie="" one="" accept=[] for=[] body=""`},
		"behind a trusted LB":  {albEvent, "198.51.100.0/24", `GET example.com /a%20b?x=1&y=%2F from 203.0.113.9:0 cookie="" one="" accept=[] for=[] body=""`},
		"LB without a client":  {strings.Replace(albMulti, `"x-forwarded-for":["198.51.100.7"],`, "", 1), "", `GET example.com /?x=1&x=2 from 0.0.0.0:0 cookie="" one="" accept=[] for=[] body=""`},
		"two spellings":        {strings.Replace(albMulti, `"host"`, `"accept":["c"],"ACCEPT":["a"],"Accept":["b"],"host"`, 1), "", `GET example.com /?x=1&x=2 from 198.51.100.7:0 cookie="" one="" accept=["a" "b" "c"] for=[] body=""`},
		"with lists":           {albMulti, "", `GET example.com /?x=1&x=2 from 198.51.100.7:0 cookie="" one="" accept=[] for=[] body=""`},
	} {
		var trusted []string
		if test.trusted != "" {
			trusted = []string{test.trusted}
		}
		got := invoke(t, function.New(seen(trusted...), function.Config{Logger: discard}), test.event)
		if got["body"] != test.want {
			t.Errorf("%s:\n got %v\nwant %s", name, got["body"], test.want)
		}
	}
}

// Each kind of response has headers and cookies in its own form.
func TestResponses(t *testing.T) {
	h := function.New(seen(), function.Config{Logger: discard})
	for event, want := range map[string]string{
		urlEvent:  `cookies=[c=1 d=2] headers.X-List=1, 2`,
		restEvent: `multiValueHeaders.Set-Cookie=[c=1 d=2] multiValueHeaders.X-List=[1 2]`,
		albEvent:  `headers.Set-Cookie=c=1 headers.X-List=1, 2 statusDescription=200 OK`,
		albMulti:  `multiValueHeaders.Set-Cookie=[c=1 d=2] multiValueHeaders.X-List=[1 2]`,
	} {
		got := invoke(t, h, event)
		for pair := range strings.SplitSeq(strings.ReplaceAll(want, ", ", ",_"), " ") {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || strings.HasPrefix(pair, "d=") || strings.HasPrefix(pair, "2]") {
				continue
			}
			var at any = got
			for part := range strings.SplitSeq(name, ".") {
				at = at.(map[string]any)[part]
			}
			if text := strings.ReplaceAll(fmt.Sprint(at), ", ", ",_"); !strings.HasPrefix(text, value) {
				t.Errorf("%s is %q, want %q", name, text, value)
			}
		}
		if got["statusCode"] != 200.0 {
			t.Errorf("status %v", got["statusCode"])
		}
	}
}

// What is not text is sent in base64, and what is too large is refused, whether its length is known
// beforehand or not.
func TestBodies(t *testing.T) {
	size, declared := 0, false
	h := function.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		if declared {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		_, _ = w.Write(bytes.Repeat([]byte{0xff}, size))
	}), function.Config{Logger: discard})
	for _, test := range []struct {
		event string
		size  int
		want  float64
	}{{urlEvent, 4 << 20, 200}, {urlEvent, 5 << 20, 502}, {urlEvent, 7 << 20, 502}, {albMulti, 700 << 10, 200}, {albMulti, 800 << 10, 502}, {restEvent, 4 << 20, 200}} {
		for _, declared = range []bool{false, true} {
			size = test.size
			got := invoke(t, h, test.event)
			if got["statusCode"] != test.want {
				t.Errorf("%d bytes: status %v, want %v", size, got["statusCode"], test.want)
			}
			body := got["body"].(string)
			if test.want == 200 {
				if content, err := base64.StdEncoding.DecodeString(body); err != nil || len(content) != size || got["isBase64Encoded"] != true {
					t.Errorf("%d bytes arrive as %d, %v", size, len(content), err)
				}
			} else if !strings.Contains(body, "too large") {
				t.Errorf("%d bytes are refused by %.100q", size, body)
			}
		}
	}
}

// A stream begins before its end, is not limited to 6 MB, and ends after what its request has
// begun.
func TestStream(t *testing.T) {
	proceed, settled := make(chan struct{}), make(chan struct{})
	h := function.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = []string{"c=1", "d=2"}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-proceed
		_, _ = w.Write(make([]byte, 8<<20))
	}), function.Config{Stream: true, Logger: discard, Settle: func(context.Context) error { close(settled); return nil }})
	out, err := h.Invoke(t.Context(), []byte(urlEvent))
	if err != nil {
		t.Fatal(err)
	}
	response := out.(io.ReadCloser)
	defer func() { _ = response.Close() }()
	prelude, buf := "", make([]byte, 1024)
	for !strings.HasSuffix(prelude, "first") {
		n, err := response.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		prelude += string(buf[:n])
	}
	head, _, ok := strings.Cut(prelude, "\x00\x00\x00\x00\x00\x00\x00\x00first")
	var header struct {
		StatusCode int
		Cookies    []string
	}
	if err := json.Unmarshal([]byte(head), &header); !ok || err != nil || header.StatusCode != http.StatusTeapot || len(header.Cookies) != 2 {
		t.Errorf("the prelude is %q, %v", prelude, err)
	}
	close(proceed)
	if rest, err := io.ReadAll(response); err != nil || len(rest) != 8<<20 {
		t.Errorf("the rest has %d bytes, %v", len(rest), err)
	}
	select {
	case <-settled:
	default:
		t.Error("the stream has ended before what its request has begun")
	}
}

// A response that is aborted is an error, not a complete response, and a panic does not end the
// process.
func TestAborted(t *testing.T) {
	for _, cause := range []any{http.ErrAbortHandler, "bug"} {
		abort := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "part")
			panic(cause)
		})
		if _, err := function.New(abort, function.Config{Logger: discard}).Invoke(t.Context(), []byte(urlEvent)); err == nil {
			t.Error("an aborted response was returned")
		}
		out, err := function.New(abort, function.Config{Stream: true, Logger: discard}).Invoke(t.Context(), []byte(urlEvent))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(out.(io.Reader)); err == nil || !bytes.HasSuffix(text, []byte("part")) {
			t.Errorf("an aborted stream ended with %v after %q", err, text)
		}
	}
}

func TestOtherEvents(t *testing.T) {
	h := function.New(seen(), function.Config{Logger: discard})
	for _, event := range []string{
		`{}`, `[]`, `{"Records":[{"eventSource":"aws:s3"}]}`, strings.Replace(urlEvent, "198.51.100.7\"}", "nowhere\"}", 1),
		strings.Replace(urlEvent, "aGV5", "?", 1), strings.Replace(apiEvent, "/prod/page", "page", 1), strings.Replace(apiEvent, "GET", "G T", 1),
	} {
		if _, err := h.Invoke(t.Context(), []byte(event)); !errors.Is(err, function.ErrEvent) {
			t.Errorf("%.80s: %v", event, err)
		}
	}
	if _, ok := function.IsQueue([]byte(`{"Records":[{"eventSource":"aws:sqs","messageId":"1"}]}`)); !ok {
		t.Error("messages of a queue are not recognized")
	}
	if _, ok := function.IsQueue([]byte(urlEvent)); ok {
		t.Error("a request is taken for messages")
	}
}

// What clients and load balancers can cause is answered, and is not an error of the function, which
// would raise alarms.
func TestAnsweredWithoutTheSite(t *testing.T) {
	const check = `{"requestContext":{"elb":{"targetGroupArn":"arn"}},"httpMethod":"GET","path":"/","queryStringParameters":{},
		"headers":{"user-agent":"ELB-HealthChecker/2.0"},"body":"","isBase64Encoded":false}`
	h := function.New(seen(), function.Config{Logger: discard})
	for event, want := range map[string]float64{
		check: 200,
		strings.Replace(check, `"headers":{`, `"headers":{"host":"example.com","x-forwarded-for":"nowhere",`, 1): 0,
		strings.Replace(urlEvent, "/a%20b", "/%zz", 1):                                                           400,
		strings.Replace(albEvent, "/a%20b", "/%zz", 1):                                                           400,
		strings.Replace(albMulti, `"path":"/"`, `"path":"/%"`, 1):                                                400,
	} {
		if want == 0 {
			if _, err := h.Invoke(t.Context(), []byte(event)); !errors.Is(err, function.ErrEvent) {
				t.Errorf("%s: %v", event, err)
			}
		} else if got := invoke(t, h, event); got["statusCode"] != want {
			t.Errorf("%s: %v, want %v", event, got, want)
		}
	}
	streaming := function.New(seen(), function.Config{Stream: true, Logger: discard})
	out, err := streaming.Invoke(t.Context(), []byte(strings.Replace(urlEvent, "/a%20b", "/%zz", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(out.(io.Reader)); err != nil || !strings.Contains(string(text), "400") {
		t.Errorf("%q, %v", text, err)
	}
}

// An address that only begins like the peer's stays in X-Forwarded-For.
func TestOtherAddressesAreKept(t *testing.T) {
	event := strings.Replace(urlEvent, "203.0.113.9, 198.51.100.7", "198.51.100.70", 1)
	got := invoke(t, function.New(seen("198.51.100.7"), function.Config{Logger: discard}), event)
	if body := fmt.Sprint(got["body"]); !strings.Contains(body, "from 198.51.100.70:0") {
		t.Errorf("the client: %s", body)
	}
}

// No event makes the handler panic.
func FuzzInvoke(f *testing.F) {
	for _, event := range []string{urlEvent, apiEvent, restEvent, albEvent, albMulti} {
		f.Add([]byte(event))
	}
	h := function.New(seen("198.51.100.0/24"), function.Config{Logger: discard})
	f.Fuzz(func(_ *testing.T, event []byte) { _, _ = h.Invoke(context.Background(), event) })
}
