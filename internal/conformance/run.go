package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// concurrent is how many cases run at once: most of them wait for responses to expire.
const concurrent = 24

// late is by how much steps may be late in all: a response that is fresh for two seconds is then still fresh.
const late = time.Second

// tries is how often a case runs that busy machines made late.
const tries = 5

// A Suite runs cases. Its origin must be what the cache under test forwards to.
type Suite struct {
	run string // part of all paths, so that a cache that keeps its content can be tested again

	mu    sync.Mutex
	cases map[string]*progress // guarded by mu, by path
}

// progress is what a case has come to.
type progress struct {
	mu       sync.Mutex
	c        Case
	step     int           // guarded by mu: the current one
	requests []http.Header // guarded by mu: what the origin got in this step
}

// New returns a suite. run names this run, and is part of all paths.
func New(run string) *Suite { return &Suite{run: run, cases: make(map[string]*progress)} }

// ServeHTTP is the origin.
func (s *Suite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p := s.cases[strings.TrimSuffix(r.URL.Path, "/other")]
	s.mu.Unlock()
	if p == nil {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	p.mu.Lock()
	step, at := p.c.Steps[p.step], p.step
	header := r.Header.Clone()
	header.Set(":method", r.Method)
	p.requests = append(p.requests, header)
	name := p.c.Name
	p.mu.Unlock()
	if step.Break == "before" {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	if step.Interim != "" {
		setLines(h, step.Interim)
		w.WriteHeader(http.StatusEarlyHints)
		clear(h)
	}
	setLines(h, strings.ReplaceAll(step.Response, "{other}", strings.TrimSuffix(r.URL.Path, "/other")+"/other"))
	h.Set("Conformance-Step", strconv.Itoa(at))
	if step.NotDate {
		h["Date"] = nil
	}
	status := step.Status
	if status == 0 {
		status = http.StatusOK
		if step.From == validated && (header["If-None-Match"] != nil || header["If-Modified-Since"] != nil) {
			status = http.StatusNotModified
		}
	}
	if status == http.StatusNotModified {
		h.Del("Conformance-Step") // it would replace the field of the stored response
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	body := step.bodyAt(name, at)
	if status == http.StatusPartialContent && header["Range"] == nil {
		h.Del("Content-Range") // the cache asks for the whole
		status, body = http.StatusOK, digits
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain")
	}
	if step.Break == "within" {
		if h.Get("Content-Length") == "" {
			h.Set("Content-Length", strconv.Itoa(2*len(body)))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (s Step) bodyAt(name string, at int) string {
	if s.Body != "" {
		return s.Body
	}
	return fmt.Sprintf("%s, step %d\n", name, at)
}

// Run runs cases against the cache at a URL, and returns their results in the same order.
func (s *Suite) Run(ctx context.Context, cache string, cases []Case) []Result {
	results := make([]Result, len(cases))
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: concurrent},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}
	defer client.CloseIdleConnections()
	slots := make(chan struct{}, concurrent)
	// Changes come last: while a cache applies some, it may validate nothing.
	for phase := range 3 {
		var group sync.WaitGroup
		for i, c := range cases {
			if c.phase() != phase {
				continue
			}
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				results[i] = s.runCase(ctx, client, cache, c)
			})
		}
		group.Wait()
	}
	return results
}

// phase is 0 for cases of validation, 2 for those that may change something, and else 1.
func (c Case) phase() int {
	phase := 1
	for _, s := range c.Steps {
		switch {
		case s.Method != "" && s.Method != http.MethodGet && s.Method != http.MethodHead && s.Method != http.MethodOptions:
			return 2
		case s.From == validated:
			phase = 0
		}
	}
	return phase
}

// runCase runs a case again if it did not pass and its steps came late: what had to be fresh may have expired.
func (s *Suite) runCase(ctx context.Context, client *http.Client, cache string, c Case) Result {
	path := "/" + s.run + "/" + strings.NewReplacer("/", "-", " ", "-").Replace(c.Name)
	for try := 1; ; try++ {
		result, delay := s.runSteps(ctx, client, cache, path, c)
		if result.Outcome == Passed || delay < late || try == tries {
			return result
		}
		path += "-again"
	}
}

// runSteps runs a case at a path, until a step shows a problem, and returns by how much its steps came late.
func (s *Suite) runSteps(ctx context.Context, client *http.Client, cache, path string, c Case) (Result, time.Duration) {
	p := &progress{c: c}
	s.mu.Lock()
	s.cases[path] = p
	s.mu.Unlock()
	due := time.Now()
	for i, step := range c.Steps {
		due = due.Add(step.After)
		time.Sleep(step.After)
		p.mu.Lock()
		p.step, p.requests = i, nil
		p.mu.Unlock()
		if problem := p.do(ctx, client, cache+path, step); problem != "" {
			outcome := Failed
			if step.Setup {
				outcome = Inapplicable
			}
			return Result{c, outcome, fmt.Sprintf("step %d: %s", i, problem)}, time.Since(due)
		}
	}
	return Result{Case: c}, time.Since(due)
}

// do makes the request of a step, and returns what is wrong with the response.
func (p *progress) do(ctx context.Context, client *http.Client, url string, step Step) string {
	method := step.Method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, url+step.Query, http.NoBody)
	if err != nil {
		return err.Error()
	}
	setLines(r.Header, step.Request)
	res, err := client.Do(r)
	if err != nil {
		if step.Break != "" && step.From != cached {
			return ""
		}
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil && (step.Break == "" || step.From == cached) {
		return err.Error()
	}
	p.mu.Lock()
	asked, at := p.requests, p.step
	p.mu.Unlock()
	return p.judge(step, at, res, body, asked)
}

// judge returns what is wrong with a response. asked are the requests that the origin got.
func (p *progress) judge(step Step, at int, res *http.Response, body []byte, asked []http.Header) string {
	if step.Break != "" && step.From != cached && res.StatusCode >= 500 {
		return ""
	}
	of, known := at, true
	if text := res.Header.Get("Conformance-Step"); text != "" {
		of, _ = strconv.Atoi(text)
	} else if known = false; len(asked) == 0 {
		of = at - 1
	}
	conditional := false
	for _, h := range asked {
		conditional = conditional || h["If-None-Match"] != nil || h["If-Modified-Since"] != nil
	}
	switch got := from(of, at); {
	case step.From == cached && of >= at:
		return "the response is new, and not the stored one" + statusOf(res)
	case step.From == origin && of < at, step.From == notFresh && of < at && !conditional:
		return "the stored response was used without asking the origin" + statusOf(res)
	case step.From == validated && of >= at:
		return "the response is " + got + ", and not a validated one" + statusOf(res)
	case step.From == validated && !conditional:
		return "the origin got no conditional request"
	}
	if step.WantStatus != 0 && res.StatusCode != step.WantStatus {
		return fmt.Sprintf("status %d, want %d", res.StatusCode, step.WantStatus)
	}
	want := step.WantBody
	if want == nil && known && step.From != anywhere && res.StatusCode == http.StatusOK && res.Request.Method == http.MethodGet && of <= at && p.c.Steps[of].Break == "" {
		text := p.c.Steps[of].bodyAt(p.c.Name, of)
		want = &text
	}
	if want != nil && string(body) != *want {
		return fmt.Sprintf("the body is %.60q, want %.60q", body, *want)
	}
	if problem := judgeHeader(step, res.Header); problem != "" {
		return problem
	}
	if problem := judgeAsked(step, asked); problem != "" {
		return problem
	}
	if step.Check != nil {
		return step.Check(res, body)
	}
	return ""
}

func from(of, at int) string {
	if of < at {
		return "stored"
	}
	return "new"
}

func statusOf(res *http.Response) string {
	return fmt.Sprintf(" (status %d, Cache-Status %q)", res.StatusCode, res.Header.Get("Cache-Status"))
}

func judgeHeader(step Step, h http.Header) string {
	wanted := make(http.Header)
	setLines(wanted, step.Want)
	for name, values := range wanted {
		if got := strings.Join(h[name], ", "); got != strings.Join(values, ", ") {
			return fmt.Sprintf("%s is %q, want %q", name, got, values)
		}
	}
	for name := range strings.FieldsSeq(step.Without) {
		if got := h.Values(name); len(got) > 0 {
			return fmt.Sprintf("%s is %q, want none", name, got)
		}
	}
	if age, err := strconv.Atoi(h.Get("Age")); step.MinAge > 0 && (err != nil || age < step.MinAge) {
		return fmt.Sprintf("Age is %q, want at least %d", h.Get("Age"), step.MinAge)
	}
	return ""
}

func judgeAsked(step Step, asked []http.Header) string {
	for _, h := range asked {
		for line := range strings.Lines(step.AtOrigin) {
			name, value, any := strings.Cut(strings.TrimSpace(line), ": ")
			if got := h.Values(name); len(got) == 0 || any && strings.Join(got, ", ") != value {
				return fmt.Sprintf("the origin got %s %q, want %q", name, got, value)
			}
		}
		for name := range strings.FieldsSeq(step.NotOrigin) {
			if got := h.Values(name); len(got) > 0 {
				return fmt.Sprintf("the origin got %s %q, want none", name, got)
			}
		}
	}
	return ""
}

var date = regexp.MustCompile(`\{now([+-]\d+)?\}`)

// setLines adds lines of header fields.
func setLines(h http.Header, lines string) {
	for line := range strings.Lines(lines) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		if !ok {
			continue
		}
		value = date.ReplaceAllStringFunc(strings.TrimPrefix(value, " "), func(text string) string {
			seconds, _ := strconv.Atoi(strings.Trim(text, "{now}"))
			return time.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
		})
		h.Add(strings.TrimSpace(name), value)
	}
}
