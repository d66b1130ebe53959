package sites

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A visitor requests pages from one address. It keeps cookies only if given a jar, and does not
// follow redirects.
type visitor struct {
	address string
	client  *http.Client
	accept  string // the header Accept of its requests; empty if there is none
}

func newVisitor(address string) *visitor {
	return &visitor{address: address, client: &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// newBrowser returns a visitor that keeps cookies.
func newBrowser(t *testing.T, address string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := newVisitor(address)
	v.client.Jar = jar
	return v
}

// An answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration // to the last byte
}

// A field is the request headers; nil if there are none.
type field map[string]string

func (v *visitor) get(t *testing.T, path string, h field) answer {
	t.Helper()
	return v.do(t, http.MethodGet, path, h, "")
}

// post sends a form.
func (v *visitor) post(t *testing.T, path string, h field, form url.Values) answer {
	t.Helper()
	all := field{"Content-Type": "application/x-www-form-urlencoded"}
	for name, value := range h {
		all[name] = value
	}
	return v.do(t, http.MethodPost, path, all, form.Encode())
}

func (v *visitor) do(t *testing.T, method, path string, h field, body string) answer {
	t.Helper()
	a, err := v.ask(t, method, path, h, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// ask is do for goroutines other than the test's own.
func (v *visitor) ask(t *testing.T, method, path string, h field, body string) (answer, error) {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, v.address+path, content)
	if err != nil {
		return answer{}, err
	}
	if v.accept != "" {
		r.Header.Set("Accept", v.accept)
	}
	for name, value := range h {
		r.Header.Set(name, value)
	}
	began := time.Now()
	res, err := v.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }() // read only
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{res.StatusCode, res.Header, string(got), time.Since(began)}, nil
}

// cacheStatus returns the Cache-Status header.
func (a answer) cacheStatus() string { return a.header.Get("Cache-Status") }

func (a answer) hit() bool { return strings.HasPrefix(a.cacheStatus(), "isr; hit") }

func (a answer) stale() bool { return a.hit() && strings.Contains(a.cacheStatus(), "detail=stale") }

func (a answer) stored() bool { return strings.Contains(a.cacheStatus(), "stored") }

// rendered returns the time that a page of either site shows, in a format that sorts as text.
func (a answer) rendered() string { return a.element("rendered") }

// element returns the text of the element with an id.
func (a answer) element(id string) string {
	found := regexp.MustCompile(`id="` + id + `"[^>]*>([^<]*)<`).FindStringSubmatch(a.body)
	if found == nil {
		return ""
	}
	return found[1]
}
