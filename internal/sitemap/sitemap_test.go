package sitemap_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/sitemap"
)

// read reads the sitemap at /, whose files are given by their paths. HOST is the host of the site.
func read(t *testing.T, files map[string]string) (urls []string, r *sitemap.Reader, err error) {
	t.Helper()
	var host string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := files[r.URL.Path]
		text = strings.ReplaceAll(text, "HOST", host)
		switch to, redirects := strings.CutPrefix(text, "redirect "); {
		case !found:
			http.NotFound(w, r)
		case redirects:
			http.Redirect(w, r, to, http.StatusFound)
		case strings.HasSuffix(r.URL.Path, ".gz"):
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write([]byte(text))
			_ = z.Close()
			_, _ = w.Write(b.Bytes())
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	defer server.Close()
	host = server.Listener.Addr().String()
	r = &sitemap.Reader{Serves: func(h string) bool { return h == host }}
	for u, failed := range r.URLs(t.Context(), server.URL+"/") {
		if failed != nil {
			return urls, r, failed
		}
		urls = append(urls, strings.TrimPrefix(u, "http://"+host))
	}
	return urls, r, nil
}

const urlset = `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="i">`

func set(locs ...string) string {
	var text strings.Builder
	text.WriteString(urlset)
	for _, loc := range locs {
		text.WriteString("<url><image:image><image:loc>http://HOST/no.png</image:loc></image:image><loc> " + loc + "\n</loc><lastmod>2026-01-01</lastmod></url>")
	}
	return text.String() + "</urlset>"
}

func TestURLs(t *testing.T) {
	index := `<sitemapindex><sitemap><loc>http://HOST/1.xml</loc></sitemap><sitemap><loc>http://HOST/2.xml.gz</loc></sitemap><sitemap><loc>http://127.0.0.1:1/3.xml</loc></sitemap></sitemapindex>`
	for name, test := range map[string]struct {
		files   map[string]string
		want    string
		skipped int
	}{
		"a sitemap":     {map[string]string{"/": set("http://HOST/a?x=1&amp;y=2", "http://HOST/b")}, "/a?x=1&y=2 /b", 0},
		"other hosts":   {map[string]string{"/": set("http://other.example/a", "ftp://HOST/b", "http://u:p@HOST/", "/relative", "http://HOST/"+strings.Repeat("x", 3000), "http://HOST/b")}, "/b", 5},
		"empty":         {map[string]string{"/": set()}, "", 0},
		"an index":      {map[string]string{"/": index, "/1.xml": set("http://HOST/a"), "/2.xml.gz": set("http://HOST/b")}, "/a /b", 1},
		"a text":        {map[string]string{"/": "\ufeffhttp://HOST/a\r\n\nhttp://HOST/b"}, "/a /b", 0},
		"a redirection": {map[string]string{"/": "redirect /to", "/to": set("http://HOST/a")}, "/a", 0},
	} {
		urls, r, err := read(t, test.files)
		if got := strings.Join(urls, " "); err != nil || got != test.want || r.Skipped != test.skipped {
			t.Errorf("%s: %q, %d skipped, %v; want %q", name, got, r.Skipped, err, test.want)
		}
	}
}

func TestRefusedSitemaps(t *testing.T) {
	bomb := strings.Repeat("http://HOST/"+strings.Repeat("x", 2000)+"\n", 30_000)
	many := slices.Repeat([]string{"http://HOST/a"}, 50_001)
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"missing":           {map[string]string{}, "404"},
		"no XML":            {map[string]string{"/": "hello"}, "not a sitemap"},
		"a page":            {map[string]string{"/": "<html><body>Not here</body></html>"}, `a document of "html"`},
		"cut off":           {map[string]string{"/": urlset + "<url><loc>http://HOST/a</loc>"}, "not a sitemap"},
		"an index in one":   {map[string]string{"/": `<sitemapindex><sitemap><loc>http://HOST/1</loc></sitemap></sitemapindex>`, "/1": `<sitemapindex><sitemap><loc>http://HOST/1</loc></sitemap></sitemapindex>`}, "an index within an index"},
		"too many URLs":     {map[string]string{"/": set(many...)}, "more than 50000 URLs"},
		"a bomb":            {map[string]string{"/": `redirect /b.gz`, "/b.gz": bomb}, "more than"},
		"to another host":   {map[string]string{"/": "redirect http://127.0.0.1:1/"}, "another host"},
		"endless redirects": {map[string]string{"/": "redirect /"}, "redirects"},
		"entities":          {map[string]string{"/": `<!DOCTYPE x [<!ENTITY a "aaaa">]><urlset><url><loc>&a;</loc></url></urlset>`}, "not a sitemap"},
	} {
		if _, _, err := read(t, test.files); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.300v, want %q", name, err, test.want)
		}
	}
	if _, _, err := read(t, map[string]string{"/": urlset + "<!-- "}); !errors.Is(err, sitemap.ErrFormat) {
		t.Error(err)
	}
}

// roundTrip is a transport.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// A bodyOf is read only while the context of its request lasts.
type bodyOf struct {
	ctx context.Context //nolint:containedctx // as the body of a response has it
	io.Reader
}

func (b bodyOf) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p[:min(len(p), 512)])
}

// A caller may take longer for the URLs of a file than a request for the file may last.
func TestSlowCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("http://a.example/page\n", 1000)
		r := &sitemap.Reader{Serves: func(string) bool { return true }, Transport: roundTrip(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bodyOf{r.Context(), strings.NewReader(text)})}
		})}
		n := 0
		for _, err := range r.URLs(t.Context(), "http://a.example/sitemap.txt") {
			if err != nil {
				t.Fatalf("after %d URLs: %v", n, err)
			}
			n++
			time.Sleep(time.Minute)
		}
		if n != 1000 {
			t.Errorf("%d URLs", n)
		}
	})
}
