package spec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/internal/vocabulary"
)

// The vectors of vectors/storable.json are generated from the rules of storable.md alone: each family below states its
// answers, which no code under test computes. The tests of the three languages compare their code with the file.

// A storableFile is vectors/storable.json; README.md describes its members.
type storableFile struct {
	Responses []response `json:"responses"`
	Fields    []kept     `json:"fields"`
	Requests  []asked    `json:"requests"`
}

// A response is a question about a response with its answer.
type response struct {
	Name         string            `json:"name"`
	Rule         int               `json:"rule"`
	Config       *storableConfig   `json:"config,omitempty"`
	Requested    int64             `json:"requested_ms,omitempty"`
	Status       int               `json:"status"`
	Headers      map[string][]line `json:"headers,omitempty"`
	Verdict      string            `json:"verdict"`
	Reason       string            `json:"reason,omitempty"`
	Withdraws    bool              `json:"withdraws,omitempty"`
	Fresh        int64             `json:"fresh_seconds,omitempty"`
	Stale        int64             `json:"stale_seconds,omitempty"`
	StaleIfError int64             `json:"stale_if_error_seconds,omitempty"`
	Age          int64             `json:"age_seconds,omitempty"`
	Tags         []string          `json:"tags,omitempty"`
}

type storableConfig struct {
	OptIn        string `json:"opt_in,omitempty"`
	Stale        int64  `json:"stale_seconds,omitempty"`
	StaleIfError int64  `json:"stale_if_error_seconds,omitempty"`
	MaxBody      int64  `json:"max_body_bytes,omitempty"`
	MaxHeader    int64  `json:"max_header_bytes,omitempty"`
	MaxTags      int    `json:"max_tags,omitempty"`
}

// A kept is a question about the fields that are stored of a response.
type kept struct {
	Name    string            `json:"name"`
	Headers map[string][]line `json:"headers"`
	Stored  map[string][]line `json:"stored,omitempty"`
	ETag    string            `json:"etag,omitempty"`
}

// An asked is a question about a request for a page of example.com whose key has the parameter page.
type asked struct {
	Name          string            `json:"name"`
	Method        string            `json:"method"`
	Target        string            `json:"target"`
	Headers       map[string][]line `json:"headers,omitempty"`
	IgnoreCookies []string          `json:"ignore_cookies,omitempty"`
	Bypass        string            `json:"bypass,omitempty"`
	Key           string            `json:"key,omitempty"`
}

// A line is a field line: text, or bytes that are no UTF-8, or, to keep the file short, a text that is repeated.
type line struct {
	text  string
	times int
}

func (l line) MarshalJSON() ([]byte, error) {
	if l.times > 1 {
		return json.Marshal(map[string]any{"repeat": l.text, "times": l.times})
	}
	return vocabulary.HeaderValue(l.text).MarshalJSON()
}

// fields makes headers of lines such as "Cache-Control: max-age=60".
func fields(lines ...string) map[string][]line {
	headers := make(map[string][]line)
	for _, text := range lines {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			panic("no field line: " + text)
		}
		name = strings.ToLower(name)
		headers[name] = append(headers[name], line{text: strings.Trim(value, " \t")})
	}
	return headers
}

// cases collects vectors.
type cases struct{ storableFile }

// stored adds a response with status 200 that is stored, and fresh for some seconds. The result can be changed.
func (c *cases) stored(rule int, name string, fresh int64, lines ...string) *response {
	c.Responses = append(c.Responses, response{Name: name, Rule: rule, Status: http.StatusOK, Headers: fields(lines...), Verdict: "stored", Fresh: fresh})
	return &c.Responses[len(c.Responses)-1]
}

// refused adds a response with status 200 that is refused.
func (c *cases) refused(rule int, name, reason string, lines ...string) *response {
	v := c.stored(rule, name, 0, lines...)
	v.Verdict, v.Reason = "refused", reason
	switch reason {
	case "set-cookie", "malformed", "private", "no-store", "no-cache":
		v.Withdraws = true
	}
	return v
}

// lasting adds a response that is stored if the seconds are above zero, and otherwise has no freshness.
func (c *cases) lasting(rule int, name string, fresh int64, lines ...string) *response {
	if fresh > 0 {
		return c.stored(rule, name, fresh, lines...)
	}
	return c.refused(rule, name, "no-freshness", lines...)
}

func (v *response) with(config storableConfig) *response {
	v.Config = &config
	return v
}

func (v *response) status(status int, withdraws bool) *response {
	v.Status, v.Withdraws = status, withdraws
	return v
}

func (v *response) windows(stale, staleIfError int64) *response {
	v.Stale, v.StaleIfError = stale, staleIfError
	return v
}

// TestStorable compares vectors/storable.json with the verdicts of the rules.
func TestStorable(t *testing.T) {
	c := new(cases)
	for _, family := range []func(){
		c.seconds, c.syntax, c.targeted, c.surrogate, c.statuses, c.refusals, c.selection, c.contents,
		c.lifetimes, c.dates, c.missingFiles, c.ages, c.staleWindows, c.tags, c.precedence, c.storedFields, c.validators, c.bypasses, c.parameters,
	} {
		family()
	}
	if n := len(c.Responses) + len(c.Fields) + len(c.Requests); n < 400 {
		t.Errorf("%d vectors, want at least 400", n)
	}
	path := filepath.Join("vectors", "storable.json")
	text := storableText(t, c.storableFile)
	checkNames(t, path, text)
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(stored), string(text)); d != "" {
		t.Errorf("%s differs from the rules (-file +rules); run go test ./spec -run %s -update:\n%s", path, t.Name(), d)
	}
}

// storableText writes a vector on each line.
func storableText(t *testing.T, f storableFile) []byte {
	t.Helper()
	var b bytes.Buffer
	separator := "{"
	write := func(name string, count int, vector func(int) any) {
		fmt.Fprintf(&b, "%s\n  %q: [", separator, name)
		for i := range count {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n    ")
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(vector(i)); err != nil {
				t.Fatal(err)
			}
			b.Truncate(b.Len() - 1) // the newline
		}
		b.WriteString("\n  ]")
		separator = ","
	}
	write("responses", len(f.Responses), func(i int) any { return f.Responses[i] })
	write("fields", len(f.Fields), func(i int) any { return f.Fields[i] })
	write("requests", len(f.Requests), func(i int) any { return f.Requests[i] })
	b.WriteString("\n}\n")
	return b.Bytes()
}
