package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/facetheory/isr/isrtest"
)

// A client is a program that speaks one version of HTTP.
type client struct {
	program   program
	version   string // "1.0", "1.1" or "2"
	encrypted bool   // by TLS
}

// A program sends requests one after another, on one connection if it can.
type program struct {
	name     string
	versions []string
	send     func(t *testing.T, s *clientSite, c client, requests []exchange) []answer
}

// An exchange is a request of a client. The scripts read it as JSON.
type exchange struct {
	Method string            `json:"method"` // default GET
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// An answer is the response that a client got. The scripts write it as JSON.
type answer struct {
	Version   string            `json:"version"` // of HTTP
	Status    int               `json:"status"`
	Header    map[string]string `json:"header"` // names in lower case
	Body      []byte            `json:"body"`   // decoded
	Continued bool              `json:"continued"`
}

func (a answer) String() string {
	return fmt.Sprintf("%d, %d bytes, %q", a.Status, len(a.Body), a.Header["cache-status"])
}

// clients returns the clients of all programs and versions, without and with TLS.
func clients() (all []client) {
	for _, p := range []program{
		{"curl", []string{"1.0", "1.1", "2"}, sendByCurl},
		{"go", []string{"1.1", "2"}, sendByGo},
		{"node", []string{"1.1", "2"}, sendByNode},
		{"python", []string{"1.0", "1.1"}, sendByPython},
	} {
		for _, version := range p.versions {
			all = append(all, client{p, version, false}, client{p, version, true})
		}
	}
	return all
}

func (c client) String() string {
	return c.program.name + "-" + c.version + map[bool]string{false: "-plain", true: "-tls"}[c.encrypted]
}

// send sends requests, and fails the test unless all are answered.
func (c client) send(t *testing.T, s *clientSite, requests ...exchange) []answer {
	t.Helper()
	for i := range requests {
		if requests[i].Method == "" {
			requests[i].Method = http.MethodGet
		}
	}
	answers := c.program.send(t, s, c, requests)
	if len(answers) != len(requests) {
		t.Fatalf("%s: %d answers to %d requests", c, len(answers), len(requests))
	}
	return answers
}

// --- Go ---------------------------------------------------------------------

func sendByGo(t *testing.T, s *clientSite, c client, requests []exchange) (answers []answer) {
	t.Helper()
	transport := s.transport(t, c.version)
	for i, e := range requests {
		var a answer
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got100Continue: func() { a.Continued = true },
			GotConn: func(info httptrace.GotConnInfo) {
				if i > 0 && !info.Reused {
					t.Errorf("%s %s: the connection was not kept", e.Method, e.Path)
				}
			},
		})
		req, err := http.NewRequestWithContext(ctx, e.Method, s.base(c.encrypted)+e.Path, bytes.NewReader(e.Body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range e.Header {
			req.Header.Set(name, value)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s %s: %v", e.Method, e.Path, err)
		}
		a.Body = decoded(t, res)
		a.Version = strings.TrimSuffix(strings.TrimPrefix(res.Proto, "HTTP/"), ".0")
		a.Status, a.Header = res.StatusCode, make(map[string]string)
		for name, values := range res.Header {
			a.Header[strings.ToLower(name)] = strings.Join(values, ", ")
		}
		answers = append(answers, a)
	}
	return answers
}

func decoded(t *testing.T, res *http.Response) []byte {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.Header.Get("Content-Encoding") == "gzip" {
		var zr *gzip.Reader
		if zr, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(zr)
		}
	}
	if err != nil {
		t.Fatalf("read the body: %v", err)
	}
	return body
}

// --- curl -------------------------------------------------------------------

// curl returns a command that requests a URL.
func curl(t *testing.T, s *clientSite, c client, path string, args ...string) *exec.Cmd {
	t.Helper()
	flag := map[string]string{"1.0": "--http1.0", "1.1": "--http1.1", "2": "--http2-prior-knowledge"}[c.version]
	if c.version == "2" && c.encrypted {
		flag = "--http2" // by ALPN
	}
	line := append([]string{"--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "60", "--cacert", s.cert, flag}, args...)
	return exec.CommandContext(t.Context(), isrtest.Engine(t, "ISR_TEST_CURL", "curl"), append(line, s.base(c.encrypted)+path)...) //nolint:gosec // the tool of ./test
}

// sendByCurl runs curl for each request.
func sendByCurl(t *testing.T, s *clientSite, c client, requests []exchange) (answers []answer) {
	t.Helper()
	for _, e := range requests {
		header := filepath.Join(t.TempDir(), "header")
		args := []string{"--dump-header", header, "--write-out", "%{stderr}%{http_version}"}
		switch e.Method {
		case http.MethodGet:
		case http.MethodHead:
			args = append(args, "--head", "--output", os.DevNull)
		default:
			args = append(args, "--request", e.Method, "--data-binary", "@-")
		}
		for name, value := range e.Header {
			switch name {
			case "Accept-Encoding":
				args = append(args, "--compressed")
			case "Expect":
				if c.version != "1.0" { // no 100 (Continue) comes there
					args = append(args, "--expect100-timeout", "50")
				}
				fallthrough
			default:
				args = append(args, "--header", name+": "+value)
			}
		}
		cmd := curl(t, s, c, e.Path, args...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(e.Body), &stderr
		body, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
		}
		a := parseDump(t, header)
		a.Body = body
		a.Version = strings.TrimSpace(stderr.String())
		if a.Version == "1" {
			a.Version = "1.0"
		}
		answers = append(answers, a)
	}
	return answers
}

// parseDump reads the header fields that curl has written: the fields of interim responses come
// first.
func parseDump(t *testing.T, file string) (a answer) {
	t.Helper()
	dump, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(dump)), "\r\n\r\n") {
		lines := strings.Split(block, "\r\n")
		fields := strings.Fields(lines[0])
		if len(fields) < 2 {
			t.Fatalf("curl dumped %q", dump)
		}
		if a.Status, err = strconv.Atoi(fields[1]); err != nil {
			t.Fatalf("curl dumped %q", dump)
		}
		a.Continued = a.Continued || a.Status == http.StatusContinue
		a.Header = make(map[string]string)
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ":")
			a.Header[strings.ToLower(name)] = strings.TrimSpace(value)
		}
	}
	return a
}

// --- Scripts ----------------------------------------------------------------

func sendByNode(t *testing.T, s *clientSite, c client, requests []exchange) []answer {
	t.Helper()
	return sendByScript(t, s, c, requests, isrtest.Engine(t, "ISR_TEST_NODE", "node"), "testdata/client.mjs")
}

func sendByPython(t *testing.T, s *clientSite, c client, requests []exchange) []answer {
	t.Helper()
	return sendByScript(t, s, c, requests, isrtest.Engine(t, "ISR_TEST_PYTHON", "python"), "-B", "testdata/client.py")
}

// sendByScript runs a script that sends all requests on one connection, except with HTTP/1.0.
func sendByScript(t *testing.T, s *clientSite, c client, requests []exchange, name string, args ...string) (answers []answer) {
	t.Helper()
	in, err := json.Marshal(map[string]any{"url": s.base(c.encrypted), "ca": s.cert, "version": c.version, "requests": requests})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &answers)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return answers
}
