package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/internal/testbed"
)

// reload replaces the file of a running server.
func (s *fieldServer) reload(file string) {
	s.Helper()
	s.isrReload(file)
}

// isrReload is reload, and returns what isr reload says.
func (s *fieldServer) isrReload(file string) string {
	s.Helper()
	s.write("isr.yaml", s.complete(file))
	return s.isr("reload")
}

// After a reload, the admin API and its messages know the new hosts.
func TestReloadOfHosts(t *testing.T) {
	const rest = "\ndefaults: {revalidate: 1h}"
	s := startFields(t, "listen: [{address: FREE}]\nhosts: [old.test]"+rest, nil, nil)
	file := strings.Replace(s.file, "old.test", "new.test", 1)
	expect := func(served, other string) {
		t.Helper()
		s.expect("/", 200, "isr; ", "Host", served)
		v := s.get("/", "Host", other)
		if v.code != http.StatusMisdirectedRequest {
			t.Errorf("%s: %s", other, v)
		}
		s.contains(v.body, "The host "+other+" is not served here. If it should be, add it to hosts in isr.yaml.")
		s.contains(s.log.String(), "if the site has it, add it to hosts in isr.yaml")
		s.isr("regenerate", "http://"+served+"/")
		problem := s.isrFails("regenerate", "http://"+other+"/")
		s.contains(problem, "the host "+other+" is not served; expected one of "+served)
		s.contains(problem, "add it to hosts in isr.yaml")
		s.contains(s.isr("purge", "--prefix", "/blog/"), served+"/blog/")
	}
	expect("old.test", "new.test")
	s.reload(file)
	expect("new.test", "old.test")
}

// A reload changes the digest of the configuration that a server announces.
func TestReloadChangesTheDigest(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\ndefaults: {revalidate: 1h}", nil, nil)
	digest := func() string {
		t.Helper()
		out, _, _ := s.command("doctor") // its exit code depends on the limits of this machine
		found := regexp.MustCompile(`with configuration ([0-9a-f]{12})\n`).FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("no digest in %s", out)
		}
		return found[1]
	}
	first := digest()
	s.reload(s.file)
	if again := digest(); again != first {
		t.Errorf("the same file has the digests %s and %s", first, again)
	}
	s.reload(strings.Replace(s.file, "1h", "2h", 1))
	if other := digest(); other == first {
		t.Errorf("another file has the same digest %s", other)
	}
}

// Hosts that a flag sets are the hosts of --host, also with a file.
func TestHostsOfFlags(t *testing.T) {
	s := newFieldServer(t, nil)
	s.args = []string{"--host", "flag.test"}
	s.start("")
	s.contains(s.get("/", "Host", "other.test").body, "start isr with --host other.test.")
}

// The method PURGE names the tenant as the route of the page does, also after a reload.
func TestPurgeMethodOfTenants(t *testing.T) {
	const file = "listen: [{address: FREE}]\npurge: {method: true, from: [loopback]}\ndefaults: {revalidate: 1h}\nroutes:\n" +
		"  - {match: /a/, tenant_header: X-A}\n  - {match: 'GET /b/', tenant_header: X-B}\n  - {match: /public/}"
	s := startFields(t, file, nil, nil)
	purge := func(path string, code int, text string, headers ...string) {
		t.Helper()
		v := s.do("PURGE", path, headers...)
		if v.code != code || !strings.Contains(v.body, text) {
			t.Errorf("%s %q: got %s; expected %d %q", path, headers, v, code, text)
		}
	}
	purge("/a/1", 200, `acme:`, "X-A", "acme")
	purge("/b/1", 200, `acme:`, "X-B", "acme")
	purge("/b/1", 400, "X-B must name the tenant", "X-A", "acme")
	purge("/public/1", 200, `/public/1`)
	s.reload(strings.Replace(s.file, "X-A", "X-New", 1))
	purge("/a/1", 400, "X-New must name the tenant", "X-A", "acme")
	purge("/a/1", 200, `acme:`, "X-New", "acme")
}

// With --watch a changed file is reloaded, also one that is replaced by renaming. A broken one is refused, and what was
// configured before stays.
func TestWatch(t *testing.T) {
	s := newFieldServer(t, nil)
	s.args = []string{"--watch"}
	s.start("listen: [{address: FREE}]\nroutes: [{match: /, set_headers: {X-Rules: first}}]")
	rules := func(want string) func() bool {
		return func() bool { return s.get("/"+want).header.Get("X-Rules") == want }
	}
	replace := func(text string) {
		t.Helper()
		s.write("isr.yaml.next", text)
		if err := os.Rename(filepath.Join(s.dir, "isr.yaml.next"), filepath.Join(s.dir, "isr.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	replace(strings.Replace(s.file, "first", "second", 1))
	s.until("the file that was renamed to be loaded", rules("second"))
	replace("listen: nothing")
	s.until("the broken file to be refused", func() bool { return strings.Contains(s.log.String(), "failed to reload configuration") })
	if !rules("second")() {
		t.Error("a broken file has changed the configuration")
	}
	s.write("isr.yaml", strings.Replace(s.file, "first", "third", 1))
	s.until("the file that was written to be loaded", rules("third"))
}

// A reload changes the level and the format of the log.
func TestReloadOfLog(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\nlog: {level: info}", nil, nil)
	s.reload(strings.Replace(s.file, "level: info", "level: info, format: json", 1))
	s.contains(s.log.String(), `"level":"INFO","msg":"reloaded configuration"`)
	s.reload(strings.Replace(s.file, "level: info", "level: error", 1))
	if n := strings.Count(s.log.String(), "reloaded configuration"); n != 1 {
		t.Errorf("the log has %d reloads, want the one at the level info: %s", n, s.log)
	}
}

// refuse replaces the file of a running server, which refuses it and serves on with the old one. It puts the old file back.
func (s *fieldServer) refuse(file, reason string) {
	s.Helper()
	s.write("isr.yaml", s.complete(file))
	s.contains(s.isrFails("reload"), reason)
	s.write("isr.yaml", s.file)
}

// A reload changes the size of the page cache, but does not begin or end to have one.
func TestReloadOfMemory(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\nmemory: 64MiB\nmetrics: {address: 127.0.0.1:0}", nil, nil)
	limit := func() float64 {
		found := regexp.MustCompile(`(?m)^isr_memory_limit_bytes (\S+)$`).FindStringSubmatch(s.get(s.logged(`metrics on (http://[^"\s]+)`)).body)
		if found == nil {
			t.Fatal("there is no metric isr_memory_limit_bytes")
		}
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := limit()
	s.reload(strings.Replace(s.file, "64MiB", "8MiB", 1))
	s.until("the limit is smaller", func() bool { return limit()*8 == before })
	s.refuse(strings.Replace(s.file, "64MiB", "0", 1), "memory (from 8MiB to 0); nothing has changed")
}

// A reload changes the size of the embedded store.
func TestReloadOfDisk(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\nstore: {data: DIR/data, disk: 1GiB}\ndefaults: {revalidate: 1h}", answer(200, strings.Repeat("a", 512<<10)), nil)
	n := 0
	next := func() string {
		n++
		return s.get(fmt.Sprint("/", n)).status
	}
	for range 8 {
		s.contains(next(), stored)
	}
	s.reload(strings.Replace(s.file, "1GiB", "1MiB", 1))
	s.until("the store is full", func() bool { return strings.Contains(next(), "detail=no-room") })
}

// A reload changes the caches in front: purges are delivered to the new one.
func TestReloadOfDownstream(t *testing.T) {
	purged := make(chan string, 16)
	edge := func(name string) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			purged <- name + " " + r.URL.Path
			w.Header().Set("X-Purged", "1")
		}))
		t.Cleanup(server.Close)
		return server
	}
	old, next := edge("old"), edge("new")
	s := startFields(t, "listen: [{address: FREE}]\ndownstream: {edge: {to: 'varnish:"+old.URL+"'}}", nil, nil)
	s.isr("purge", "--hard", s.url+"/a")
	if got := <-purged; got != "old /a" {
		t.Errorf("purged %s", got)
	}
	s.contains(s.isrReload(strings.Replace(s.file, old.URL, next.URL, 1)), "changed: downstream")
	s.isr("purge", "--hard", s.url+"/b")
	if got := <-purged; got != "new /b" {
		t.Errorf("purged %s", got)
	}
	s.reload(regexp.MustCompile(`downstream: .*`).ReplaceAllString(s.file, ""))
	s.isr("purge", "--hard", s.url+"/c")
	if jobs := s.isr("outbox"); jobs != "" {
		t.Errorf("without a cache in front there are deliveries: %s", jobs)
	}
}

// A reload begins and ends to accept webhooks, and takes a secret that was replaced in its file.
func TestReloadOfHooks(t *testing.T) {
	const plain = "listen: [{address: FREE}]\nadmin: {address: 127.0.0.1:0}\ndefaults: {revalidate: 1h, stale: 1h}\n"
	s := startFields(t, plain, nil, nil)
	s.write("token", testToken)
	admin := s.logged(`admin API on (http://[^"]+)`)
	with := s.file + "triggers: {hooks: {cms: {provider: generic, secrets: {file: DIR/token}, targets: [all]}}}"
	s.expect("/", 200, stored)
	if v := s.hook(admin, testToken, "{}"); v.code == 200 {
		t.Errorf("a hook that is not there: %s", v)
	}
	s.reload(with)
	if v := s.hook(admin, testToken, "{}"); v.code != 200 {
		t.Errorf("the hook of the new file: %s", v)
	}
	s.contains(s.state(), "stale")
	s.write("token", "the-secret-of-tomorrow")
	s.reload(with)
	for secret, code := range map[string]int{testToken: 401, "the-secret-of-tomorrow": 200} {
		if v := s.hook(admin, secret, "{}"); v.code != code {
			t.Errorf("%s after it was replaced: %s", secret, v)
		}
	}
	s.reload(strings.Replace(with, "triggers: {", "triggers: {public: true, ", 1))
	if v := s.hook(s.url, "the-secret-of-tomorrow", "{}"); v.code != 200 {
		t.Errorf("the hook at the public address: %s", v)
	}
	s.reload(s.file)
	if v := s.hook(admin, "the-secret-of-tomorrow", "{}"); v.code == 200 {
		t.Errorf("a hook that is gone: %s", v)
	}
}

// A reload begins to receive messages of a queue. A file whose queue cannot be used changes nothing.
func TestReloadOfQueue(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s := startFields(t, "listen: [{address: FREE}]\nhosts: ['*']\ndefaults: {revalidate: 1h, stale: 1h}\n", nil, func(s *fieldServer) {
		newQueue(s, `{"targets": [{"url": "example.com/"}]}`)
	})
	s.expect("/", 200, stored, "Host", "example.com")
	s.reload(s.file + "triggers: {queue: {url: 'QUEUE'}}")
	s.until("the page is purged", func() bool { return strings.Contains(s.isr("get", "http://example.com/"), "stale") })
}

// The audit log names what a reload has changed, and never a secret.
func TestReloadIsAudited(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\nadmin: {address: 127.0.0.1:0}\nmemory: 64MiB", nil, nil)
	s.write("token", testToken)
	s.reload(strings.Replace(s.file, "64MiB", "8MiB", 1) + "draft: {secrets: [{file: DIR/token}]}")
	s.contains(s.log.String(), `changed="[draft.secrets memory]"`)
	s.contains(s.log.String(), `audit.action=reloadConfiguration audit.target="the configuration file: draft.secrets, memory" audit.result=ok`)
	if strings.Contains(s.log.String(), testToken) {
		t.Errorf("the log has the secret: %s", s.log)
	}
}

// visit sends requests by new connections and by a kept one until end is called, which fails if one was refused or cut off.
func (s *fieldServer) visit() (end func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var visiting sync.WaitGroup
	for _, kept := range []bool{true, false} {
		transport := &http.Transport{DisableKeepAlives: !kept}
		client := &http.Client{Transport: transport}
		visiting.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				r, _ := http.NewRequest(http.MethodPost, s.url+"/", strings.NewReader("x")) // is not repeated
				res, err := client.Do(r)
				if err != nil {
					s.Errorf("a visitor (connections are kept: %v) got %v", kept, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	return func() {
		cancel()
		visiting.Wait()
	}
}

// A reload opens listeners, changes them at their addresses, and closes them. No visitor of an address that stays notices. One that
// cannot be opened refuses the file.
func TestReloadOfListeners(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\ndefaults: {revalidate: 1h}", func(_ *countedSite, _ int, w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"])
	}, nil)
	end := s.visit()
	first := s.file
	address := strings.TrimPrefix(s.url, "http://")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.refuse(strings.Replace(first, address+"}", address+", h2c: true}, {address: '"+taken.Addr().String()+"'}", 1), "cannot listen on "+taken.Addr().String())
	s.contains(s.isr("reload"), "nothing has changed")
	added, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s.reload(strings.Replace(first, address+"}", address+", trusted_proxies: [loopback]}, {address: '"+added+"'}", 1))
	s.expect("http://"+added+"/", 200, "isr; ")
	if v := s.do(http.MethodPost, "/", "X-Forwarded-For", "192.0.2.7"); !strings.Contains(v.body, "192.0.2.7") {
		t.Errorf("the client that a trusted proxy names: %s", v)
	}
	for _, scheme := range []string{"https", "http"} {
		s.reload(first + "public_scheme: " + scheme)
		s.contains(s.expect("/by/"+scheme, 200, "isr; fwd=").body, "["+scheme+"]")
	}
	s.until("the listener that is gone is closed", func() bool {
		_, err := s.try(http.MethodGet, "http://"+added+"/")
		return err != nil
	})
	end()
}

// A reload begins to encrypt at an address, and ends it.
func TestReloadOfTLS(t *testing.T) {
	s := startFields(t, "hosts: [127.0.0.1]\nlisten: [{address: FREE}]", nil, tlsFiles)
	address := strings.TrimPrefix(s.url, "http://")
	s.reload(strings.Replace(s.file, address+"}", address+", tls: [{cert: DIR/crt, key: DIR/key}]}", 1))
	s.client.CloseIdleConnections()
	s.expect("https://"+address+"/", 200, "isr; fwd=")
	s.contains(s.origin.last().Header.Get("X-Forwarded-Proto"), "https")
	s.refuse(strings.Replace(s.file, address+"}", address+", tls: [{cert: DIR/none, key: DIR/key}]}", 1), "none")
	s.expect("https://"+address+"/more", 200, "isr; fwd=")
	s.reload(s.file)
	s.client.CloseIdleConnections()
	s.expect("/again", 200, "isr; fwd=")
}

// A reload begins to obtain certificates, and obtains them in another way.
func TestReloadOfACME(t *testing.T) {
	a := new(authority)
	s := startFields(t, "hosts: [a.test]\nlisten: [{address: FREE}]", nil, a.start)
	with := strings.Replace(s.file, "listen: [", "listen: [{address: 127.0.0.1:0, acme: true}, ", 1) +
		"acme: {email: ops@example.com, agree: true, directory: 'AUTHORITY/directory', ca_file: DIR/ca}"
	contacted := func(email string) func() bool {
		return func() bool {
			var account struct{ Contact []string }
			a.await(s, "/account").decode(s, &account)
			return len(account.Contact) == 1 && account.Contact[0] == "mailto:"+email
		}
	}
	s.reload(with)
	s.until("an account is asked for", contacted("ops@example.com"))
	s.reload(strings.Replace(with, "ops@example.com", "new@example.com", 1))
	s.until("another account is asked for", contacted("new@example.com"))
	s.reload(s.file)
	s.expect("/", 200, "isr; fwd=", "Host", "a.test")
}

// A reload moves the health and the metrics to other addresses.
func TestReloadOfAddresses(t *testing.T) {
	s := startFields(t, "listen: [{address: FREE}]\nhealth: {address: FREE}\nmetrics: {address: FREE}", nil, nil)
	urls := []string{s.logged(`health on (http://[^"\s]+)`), s.logged(`metrics on (http://[^"\s]+)`)}
	s.until("the server is ready", func() bool { return s.get(urls[0]).code == 200 })
	next := s.file
	for _, u := range urls {
		address := regexp.MustCompile(`127.0.0.1:\d+`).FindString(u)
		other, err := testbed.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		next = strings.Replace(next, address, other, 1)
	}
	s.reload(strings.Replace(next, "health: {", "health: {path: /-/ready, ", 1))
	if v := s.get("/-/ready"); v.code != 200 || !strings.Contains(v.body, `"ready"`) {
		t.Errorf("the new health path: %s", v)
	}
	for _, u := range urls {
		at := regexp.MustCompile(`127.0.0.1:\d+`)
		key := map[bool]string{true: "health: {path: /-/ready, address: ", false: "metrics: {address: "}[strings.HasSuffix(u, "/readyz")]
		_, rest, _ := strings.Cut(s.complete(strings.Replace(next, "health: {", "health: {path: /-/ready, ", 1)), key)
		if v := s.get(at.ReplaceAllString(u, at.FindString(rest))); v.code != 200 {
			t.Errorf("%s at the new address: %s", u, v)
		}
		s.until("the old address is closed", func() bool {
			_, err := s.try(http.MethodGet, u)
			return err != nil
		})
	}
}
