package console_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/console"
)

func handler(t *testing.T) http.Handler {
	t.Helper()
	h, err := console.Handler()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// get returns the response to a GET with pairs of header fields.
func get(t *testing.T, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler(t).ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var asset = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)

func TestViewsAreOneDocument(t *testing.T) {
	want := body(t, get(t, "/"))
	for _, view := range []string{"/pages", "/page?key=example.com/", "/purges", "/audit", "/nodes", "/quarantine"} {
		r := get(t, view)
		if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "no-cache" || body(t, r) != want {
			t.Errorf("%s: %d, Cache-Control %q, or another document", view, r.StatusCode, r.Header.Get("Cache-Control"))
		}
	}
	if strings.Contains(want, "{{") {
		t.Error("the document has a placeholder that was not replaced")
	}
	r := get(t, "/", "If-None-Match", get(t, "/").Header.Get("ETag"))
	if r.StatusCode != http.StatusNotModified {
		t.Errorf("a conditional request got %d, want 304", r.StatusCode)
	}
}

func TestAssetsAreImmutable(t *testing.T) {
	assets := asset.FindAllStringSubmatch(body(t, get(t, "/")), -1)
	if len(assets) < 20 {
		t.Fatalf("the document names %d assets, want all modules", len(assets))
	}
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, match := range assets {
		r := get(t, match[1])
		if r.StatusCode != 200 {
			t.Errorf("%s: %d", match[1], r.StatusCode)
		}
		if got := r.Header.Get("Content-Type"); got != kinds[filepath.Ext(match[1])] {
			t.Errorf("%s: Content-Type %q", match[1], got)
		}
		if got := r.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s: Cache-Control %q", match[1], got)
		}
	}
}

func TestCompression(t *testing.T) {
	plain := get(t, "/")
	small := get(t, "/", "Accept-Encoding", "gzip")
	if plain.Header.Get("Content-Encoding") != "" || small.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("Content-Encoding is %q without Accept-Encoding and %q with gzip", plain.Header.Get("Content-Encoding"), small.Header.Get("Content-Encoding"))
	}
	if plain.Header.Get("ETag") == small.Header.Get("ETag") || plain.Header.Get("Vary") != "Accept-Encoding" {
		t.Error("the codings share an ETag, or Vary is missing")
	}
	if got := get(t, "/", "Accept-Encoding", "gzip;q=0").Header.Get("Content-Encoding"); got != "" {
		t.Errorf("gzip;q=0 got the coding %q", got)
	}
	unzipped, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil || string(text) != body(t, plain) {
		t.Errorf("the gzipped document differs (error %v)", err)
	}
}

func TestPolicyAllowsOnlyOwnFiles(t *testing.T) {
	r := get(t, "/")
	policy := r.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "style-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	for _, never := range []string{"unsafe", "*", "http:", "https:"} {
		if strings.Contains(policy, never) {
			t.Errorf("the policy %q has %q", policy, never)
		}
	}
	document := body(t, r)
	inline := regexp.MustCompile(`(?s)<script(?: type="\w+")?>(.*?)</script>`).FindAllStringSubmatch(document, -1)
	if len(inline) != 1 {
		t.Fatalf("the document has %d inline scripts, want the import map alone", len(inline))
	}
	sum := sha256.Sum256([]byte(inline[0][1]))
	if !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Error("the policy lacks the hash of the import map")
	}
	if regexp.MustCompile(`<style|\sstyle=|\son\w+=`).MatchString(document) {
		t.Error("the document has inline styles or handlers")
	}
}

func TestRefusals(t *testing.T) {
	for _, path := range []string{"/nothing", "/assets/0000000000000000/main.js", "/lib/packages.json", "/index.html", "/pages/"} {
		if r := get(t, path); r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d, want 404 with a policy", path, r.StatusCode)
		}
	}
	w := httptest.NewRecorder()
	handler(t).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST got %d and Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// TestLibrariesAreThoseOfTheirPackages compares the libraries with the digests of the files in
// the npm packages, and with the packages where e2e/browser has installed them.
func TestLibrariesAreThoseOfTheirPackages(t *testing.T) {
	var list struct {
		Packages []struct{ Name, Version, License string }
		Files    []struct{ File, Package, Path, SHA256 string }
	}
	text, err := os.ReadFile("static/lib/packages.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"packages.json": true}
	for _, f := range list.Files {
		listed[f.File] = true
		if got := digest(t, filepath.Join("static/lib", f.File)); got != f.SHA256 {
			t.Errorf("%s has the digest %s, want %s of the package %s", f.File, got, f.SHA256, f.Package)
		}
		installed := filepath.Join("../../e2e/browser/node_modules", f.Package)
		if _, err := os.Stat(installed); err == nil {
			if got := digest(t, filepath.Join(installed, f.Path)); got != f.SHA256 {
				t.Errorf("%s of the installed package %s has the digest %s, want %s", f.Path, f.Package, got, f.SHA256)
			}
		}
	}
	files, err := os.ReadDir("static/lib")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[f.Name()] {
			t.Errorf("static/lib/%s is not listed in packages.json", f.Name())
		}
	}
	for _, p := range list.Packages {
		if p.License != "MIT" && p.License != "Apache-2.0" {
			t.Errorf("the package %s has the license %q", p.Name, p.License)
		}
	}
	lock, err := os.ReadFile("../../e2e/browser/package.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Packages {
		if !strings.Contains(string(lock), `"`+p.Name+`": "`+p.Version+`"`) {
			t.Errorf("e2e/browser/package.json does not install %s %s, with which the files are compared", p.Name, p.Version)
		}
	}
}

func digest(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// TestModulesNeverMakeMarkup checks that no module turns text into markup or code: Trusted
// Types would refuse it in the browsers that know them.
func TestModulesNeverMakeMarkup(t *testing.T) {
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\(|new Function|setAttribute\('style`)
	var checked int
	for _, pattern := range []string{"static/*.js", "static/views/*.js"} {
		modules, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range modules {
			text, err := os.ReadFile(module)
			if err != nil {
				t.Fatal(err)
			}
			checked++
			if found := never.Find(text); found != nil {
				t.Errorf("%s uses %s", module, found)
			}
			if lines := strings.Count(string(text), "\n"); lines >= 400 {
				t.Errorf("%s has %d lines", module, lines)
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d modules checked, want all", checked)
	}
}
