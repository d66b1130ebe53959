// Package console is the operator's console in the browser: a single-page application over the
// admin API, without a build step.
//
// The files below static are embedded and served as they are. The browser loads them as ES
// modules, and two as classic scripts, from addresses that contain a hash of all of them, so
// that they can be cached for ever and never mix two versions. static/lib has the libraries,
// byte for byte as their npm packages (packages.json names versions, licenses and digests).
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
)

//go:embed static
var static embed.FS

// views are the addresses of the views. All of them are the same document, whose script shows
// the view of the address.
var views = []string{"/", "/pages", "/page", "/purges", "/audit", "/nodes", "/quarantine"}

// contentTypes has the kinds of files that the console consists of. Others are not served.
var contentTypes = map[string]string{
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".html": "text/html; charset=utf-8",
}

// A file is a response.
type file struct {
	kind           string
	etag           string
	cache          string
	content, small []byte // small is content, gzipped
}

// Handler returns the console. It answers GET and HEAD for the views, and for the files below
// /assets/; everything else is a 404. It needs no authentication, because it contains no data:
// the scripts ask the admin API, which must be on the same origin at /-/.
//
// All responses have a Content-Security-Policy that allows only the console's own files, and
// requires Trusted Types, with which text cannot become markup.
func Handler() (http.Handler, error) {
	files, err := load()
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	assets := "/assets/" + digest(files)
	importmap, err := json.Marshal(map[string]any{"imports": map[string]string{
		"preact": assets + "/lib/preact.mjs",
	}})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	h := handler{files: make(map[string]file), policy: policy(importmap)}
	for name, content := range files {
		if name == "index.html" {
			content = index(content, assets, importmap, files)
			for _, view := range views {
				h.files[view] = newFile(name, "no-cache", content)
			}
			continue
		}
		h.files[assets+"/"+name] = newFile(name, "public, max-age=31536000, immutable", content)
	}
	return h, nil
}

// load reads the embedded files that are served, by their names.
func load() (map[string][]byte, error) {
	files := make(map[string][]byte)
	return files, fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || contentTypes[path.Ext(name)] == "" {
			return err
		}
		files[strings.TrimPrefix(name, "static/")], err = static.ReadFile(name)
		return err
	})
}

// names returns the names of files, sorted.
func names(files map[string][]byte) []string {
	all := make([]string, 0, len(files))
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// digest identifies the contents of all files.
func digest(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range names(files) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// Classic scripts, which the document loads before the modules.
const (
	themeScript = "theme.js"
	chartScript = "lib/uPlot.iife.min.js" // its package has no minified module
)

// index fills in the document. The browser is told of all modules at once, instead of finding
// them one import after another.
func index(content []byte, assets string, importmap []byte, files map[string][]byte) []byte {
	var preload strings.Builder
	for _, name := range names(files) {
		if ext := path.Ext(name); (ext == ".js" || ext == ".mjs") && name != themeScript && name != chartScript {
			fmt.Fprintf(&preload, "<link rel=\"modulepreload\" href=\"%s/%s\">\n", assets, name)
		}
	}
	return []byte(strings.NewReplacer(
		"{{assets}}", assets, "{{importmap}}", string(importmap), "{{preload}}\n", preload.String(),
	).Replace(string(content)))
}

// policy returns the Content-Security-Policy. The import map is the only inline element, and
// is allowed by its hash. Frames show stored pages, which the admin API serves with a policy of
// their own.
func policy(importmap []byte) string {
	sum := sha256.Sum256(importmap)
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		"style-src 'self'",
		"connect-src 'self'",
		"img-src 'self' data:",
		"frame-src 'self'",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
}

func newFile(name, cache string, content []byte) file {
	sum := sha256.Sum256(content)
	var small bytes.Buffer
	w := gzip.NewWriter(&small) // a bytes.Buffer returns no errors
	_, _ = w.Write(content)
	_ = w.Close()
	return file{
		kind: contentTypes[path.Ext(name)], cache: cache, etag: `"` + hex.EncodeToString(sum[:8]) + `"`,
		content: content, small: small.Bytes(),
	}
}

// gzipOnly are the codings that files have.
var gzipOnly = [httpcache.Identity]bool{httpcache.Gzip: true}

// A handler serves the files by their paths.
type handler struct {
	files  map[string]file
	policy string
}

// ServeHTTP serves a file.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", h.policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "the console supports GET and HEAD; the admin API is below /-/", http.StatusMethodNotAllowed)
		return
	}
	f, ok := h.files[r.URL.Path]
	if !ok {
		head.Set("Cache-Control", "no-store")
		http.Error(w, "no such page of the console; it begins at /, and the admin API at /-/", http.StatusNotFound)
		return
	}
	content, etag := f.content, f.etag
	if httpcache.AcceptEncoding(r.Header.Values("Accept-Encoding")).Prefer(gzipOnly) == httpcache.Gzip {
		content, etag = f.small, strings.TrimSuffix(f.etag, `"`)+`-gzip"`
		head.Set("Content-Encoding", "gzip")
	}
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", f.cache)
	head.Set("ETag", etag)
	head.Set("Vary", "Accept-Encoding")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
