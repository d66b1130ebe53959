package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reload replaces the file of a running server.
func (s *fieldServer) reload(file string) {
	s.Helper()
	s.write("isr.yaml", s.complete(file))
	s.isr("reload")
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
