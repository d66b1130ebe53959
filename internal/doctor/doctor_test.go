package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/doctor"
	"github.com/facetheory/isr/store"
)

// run executes checks, and returns the report as people read it.
func run(t *testing.T, checks ...doctor.Check) (string, *doctor.Report) {
	t.Helper()
	r := doctor.Run(t.Context(), 0, doctor.NewRedactor(), checks...)
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String(), r
}

// mustFind checks that a report has a finding of a severity with all texts.
func mustFind(t *testing.T, severity doctor.Severity, check doctor.Check, texts ...string) {
	t.Helper()
	text, r := run(t, check)
	for _, f := range r.Findings {
		all := f.What + "\n" + strings.Join(f.Evidence, "\n") + "\n" + f.Do
		if f.Severity == severity && !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(all, want) }) {
			return
		}
	}
	t.Errorf("no finding of severity %s has %q:\n%s", severity, texts, text)
}

// A set-up in which all is well has no warnings.
func TestSoundSetUp(t *testing.T) {
	t.Parallel()
	api, name := table(t)
	origin := site(t, func(h http.Header) { h.Set("Cache-Control", "s-maxage=60") })
	bucket, bodies := s3Of(t, new(bucketServer))
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	nodes := []store.Node{{Name: "web-1", Release: "v1", Config: "abc", SeenAt: time.Now()}, {Name: "web-2", Release: "v1", Config: "abc", SeenAt: time.Now()}}
	text, r := run(t,
		doctor.OriginCheck(origin), doctor.Clocks([]doctor.Clock{origin.ClockOf(origin.URLs[0])}, time.Now),
		doctor.Table(api, name), doctor.Bucket(bucket, bodies, "pages"), doctor.Disk(doctor.Folder{Path: folder}), doctor.Fleet(list(nodes, nil), time.Now),
		doctor.Limits(doctor.Process{Files: 65536, Connections: 272, Memory: 256 << 20, MemoryNeed: 640 << 20, MemoryLimit: 1 << 30}),
		doctor.Proxies(doctor.Process{Running: true, Requests: 100, Peers: []doctor.Peer{{Address: "10.0.0.1", Trusted: true, Requests: 100, Forwarding: 100}}}),
	)
	if r.Count(doctor.Fault)+r.Count(doctor.Warning) != 0 {
		t.Error(text)
	}
	for _, check := range []string{"origin", "clock", "table", "bucket", "disk", "fleet", "limits", "proxies"} {
		if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Check == check && f.Severity == doctor.OK }) {
			t.Errorf("no ok for %s:\n%s", check, text)
		}
	}
}

// Each broken set-up is found, with what to do about it.
func TestBrokenSetUps(t *testing.T) {
	t.Parallel()
	limits := func(p doctor.Process) doctor.Check { return doctor.Limits(p) }
	proxies := func(p doctor.Process) doctor.Check {
		p.Running, p.Requests = true, 100
		return doctor.Proxies(p)
	}
	node := func(name, release, config string) store.Node {
		return store.Node{Name: name, Release: release, Config: config, SeenAt: time.Now()}
	}
	for name, test := range map[string]struct {
		check    func(t *testing.T) doctor.Check
		severity doctor.Severity
		want     []string
	}{
		"two versions": {func(*testing.T) doctor.Check {
			return doctor.Fleet(list([]store.Node{node("web-1", "v1", "a"), node("web-2", "v2", "a"), node("web-3", "v2", "a")}, nil), time.Now)
		}, doctor.Warning, []string{"the 3 nodes run 2 versions", "v1: web-1", "v2: web-2, web-3", "finish the deployment"}},
		"two configurations": {func(*testing.T) doctor.Check {
			return doctor.Fleet(list([]store.Node{node("web-1", "v1", "a"), node("web-2", "v1", "")}, nil), time.Now)
		}, doctor.Warning, []string{"2 configurations", "a: web-1", "(not announced): web-2", "isr reload"}},
		"node with a fast clock": {func(*testing.T) doctor.Check {
			n := node("web-1", "v1", "a")
			n.SeenAt = time.Now().Add(90 * time.Second)
			return doctor.Fleet(list([]store.Node{n}, nil), time.Now)
		}, doctor.Fault, []string{"behind the node web-1"}},
		"no nodes": {func(*testing.T) doctor.Check { return doctor.Fleet(list(nil, nil), time.Now) }, doctor.Note, []string{"no server is running"}},
		"nodes unknown": {func(*testing.T) doctor.Check {
			return doctor.Fleet(list(nil, errors.New("no table")), time.Now)
		}, doctor.Warning, []string{"cannot be listed", "no table"}},

		"untrusted proxy": {func(*testing.T) doctor.Check {
			return proxies(doctor.Process{Peers: []doctor.Peer{{Address: "10.1.2.3", Requests: 90, Forwarding: 90, Fields: []string{"X-Forwarded-For"}}, {Address: "192.0.2.1", Requests: 10}}})
		}, doctor.Warning, []string{"a proxy that is not trusted", "10.1.2.3: 90 of 100 sampled requests, 90 of them with X-Forwarded-For", "trusted_proxies: [10.1.2.3]", "--trusted-proxy 10.1.2.3"}},
		"visitors who forge": {func(*testing.T) doctor.Check {
			return proxies(doctor.Process{Peers: []doctor.Peer{{Address: "192.0.2.1", Requests: 99}, {Address: "192.0.2.2", Requests: 1, Forwarding: 1}}})
		}, doctor.Note, []string{"1 of 100 sampled requests"}},
		"one peer": {func(*testing.T) doctor.Check {
			return proxies(doctor.Process{Peers: []doctor.Peer{{Address: "203.0.113.9", Requests: 100}}})
		}, doctor.Warning, []string{"all requests come from one peer", "203.0.113.9"}},
		"trust in everyone": {func(*testing.T) doctor.Check {
			return proxies(doctor.Process{Listeners: []doctor.Listener{{Address: ":80", Trusted: []string{"private", "0.0.0.0/0"}}}})
		}, doctor.Fault, []string{":80 trusts all addresses (0.0.0.0/0)"}},
		"trust too wide": {func(*testing.T) doctor.Check {
			return proxies(doctor.Process{Listeners: []doctor.Listener{{Address: ":80", Trusted: []string{"10.0.0.0/8", "52.0.0.0/6"}}}})
		}, doctor.Warning, []string{"52.0.0.0/6"}},

		"few files": {func(*testing.T) doctor.Check {
			return limits(doctor.Process{Running: true, Files: 256, Connections: 272})
		}, doctor.Fault, []string{"256 open files, fewer than the connections to the origins", "LimitNOFILE=65536"}},
		"fewer files": {func(*testing.T) doctor.Check {
			return limits(doctor.Process{Files: 1024, Connections: 272})
		}, doctor.Warning, []string{"which leaves 624 for visitors"}},
		"files in use": {func(*testing.T) doctor.Check {
			return limits(doctor.Process{Running: true, Files: 65536, OpenFiles: 65000})
		}, doctor.Fault, []string{"65000 of 65536 files are open"}},
		"memory beyond the container": {func(*testing.T) doctor.Check {
			return limits(doctor.Process{Memory: 1 << 30, MemoryNeed: 1792 << 20, MemoryLimit: 512 << 20})
		}, doctor.Fault, []string{"will be killed", "memory: 292MiB"}},
		"memory close to the container": {func(*testing.T) doctor.Check {
			return limits(doctor.Process{Memory: 256 << 20, MemoryNeed: 640 << 20, MemoryLimit: 512 << 20})
		}, doctor.Warning, []string{"may use 512 MiB of memory, but may need 640 MiB", "memory: 204MiB"}},

		"no folder": {func(t *testing.T) doctor.Check {
			return doctor.Disk(doctor.Folder{Path: filepath.Join(t.TempDir(), "none")})
		}, doctor.Warning, []string{"does not exist", "--data DIR"}},
		"a file": {func(t *testing.T) doctor.Check {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return doctor.Disk(doctor.Folder{Path: path})
		}, doctor.Fault, []string{"is not a folder"}},
		"unwritable folder": {func(*testing.T) doctor.Check { return doctor.Disk(doctor.Folder{Path: "/proc/self"}) }, doctor.Fault, []string{"/proc/self cannot be written"}},
		"open folder": {func(t *testing.T) doctor.Check {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the fault of this test
				t.Fatal(err)
			}
			return doctor.Disk(doctor.Folder{Path: dir})
		}, doctor.Warning, []string{"other users can reach", "chmod 700"}},
		"disk too small": {func(t *testing.T) doctor.Check {
			return doctor.Disk(doctor.Folder{Path: t.TempDir(), Bound: 1 << 60})
		}, doctor.Fault, []string{"more than its disk has", "--disk"}},
		"full disk": {fullDisk, doctor.Fault, []string{"almost full"}},
		"held by a process that hangs": {func(t *testing.T) doctor.Check {
			dir := t.TempDir()
			lock, err := os.Create(filepath.Join(dir, "isr.lock"))
			if err == nil {
				_, err = lock.WriteString("4711\n")
			}
			if err == nil {
				err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.Close() })
			return doctor.Disk(doctor.Folder{Path: dir})
		}, doctor.Fault, []string{"does not answer on its socket", "pid 4711"}},
		"damaged store": {func(t *testing.T) doctor.Check {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "table.db"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			return doctor.Disk(doctor.Folder{Path: dir, Open: func(context.Context) error { return errors.New("invalid database") }})
		}, doctor.Fault, []string{"cannot be opened", "invalid database"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFind(t, test.severity, test.check(t), test.want...)
		})
	}
}

// fullDisk is a small file system, which only root can mount; other users skip the test.
func fullDisk(t *testing.T) doctor.Check {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		t.Skipf("mounting a file system of 1 MiB needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	return doctor.Disk(doctor.Folder{Path: dir})
}

func list(nodes []store.Node, err error) func(context.Context) ([]store.Node, error) {
	return func(context.Context) ([]store.Node, error) { return nodes, err }
}

// A check that hangs or finds a thousand things takes nothing from the others.
func TestChecksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hanging := doctor.Check{Name: "hangs", Run: func(context.Context) []doctor.Finding { <-release; return nil }}
		slow := doctor.Check{Name: "slow", Run: func(ctx context.Context) []doctor.Finding {
			<-ctx.Done()
			return []doctor.Finding{{Severity: doctor.OK, What: "what it had by then"}}
		}}
		many := doctor.Check{Name: "many", Run: func(context.Context) []doctor.Finding {
			all := make([]doctor.Finding, 1000)
			for i := range all {
				all[i] = doctor.Finding{Severity: doctor.Note, What: fmt.Sprint(i), Evidence: make([]string, 100)}
			}
			return all
		}}
		began := time.Now()
		r := doctor.Run(t.Context(), 10*time.Second, doctor.NewRedactor(), hanging, slow, many)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		if f := r.Findings[0]; f.Check != "hangs" || f.Severity != doctor.Warning || !strings.Contains(f.What, "no result within 10s") {
			t.Errorf("%+v", f)
		}
		if f := r.Findings[1]; f.Check != "slow" || f.What != "what it had by then" {
			t.Errorf("%+v", f)
		}
		if last := r.Findings[len(r.Findings)-1]; len(r.Findings) != 2+51 || last.What != "950 more findings are left out" || len(r.Findings[2].Evidence) != 9 {
			t.Errorf("%d findings, %d lines of evidence, last %+v", len(r.Findings), len(r.Findings[2].Evidence), last)
		}
		close(release)
	})
}

// Nothing secret is in a report, as text or as JSON.
func TestReportsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter2-from-the-file", "canary-of-alice"}
	planted := map[string]string{
		"a secret of the file":   "the token hunter2-from-the-file was refused",
		"a canary":               "the page has canary-of-alice",
		"credentials of a URL":   `Get "https://admin:S3cretS3cret@origin.example/x": EOF`,
		"a token of a query":     "GET https://example.com/?page=2&access_token=S3cretS3cret&x=1",
		"a signed URL":           "https://b.s3.amazonaws.com/k?X-Amz-Signature=S3cretS3cret&X-Amz-Credential=S3cretS3cret%2F2026",
		"a long value":           "https://example.com/?q=S3cretS3cretS3cretS3cret",
		"a header":               "Authorization: Token S3cretS3cret",
		"a cookie":               "Set-Cookie: session=S3cretS3cret; Path=/",
		"a bearer token":         "sent bearer S3cretS3cret to it",
		"an access key":          "the key AKIAS3CRETS3CRETS3CR was not found",
		"a role's session":       "User: arn:aws:sts::123456789012:assumed-role/isr/S3cretS3cret is not authorized",
		"an account":             "on resource: arn:aws:dynamodb:eu-west-1:123456789012:table/pages",
		"a web token":            "id eyJhbGciOiJIUzI1NiJ9.S3cretS3cret.x_y-z",
		"terminal escapes":       "\x1b]0;S3cret\x07 title",
		"a line that forges one": "x\nfault table",
	}
	r := new(doctor.Report)
	redact := doctor.NewRedactor(append(secrets, "", "abc")...)
	for name, text := range planted {
		r.Add(redact, doctor.Finding{Check: "origin", Severity: doctor.Fault, What: text, Evidence: []string{name + ": " + text}, Do: text})
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	all := b.String() + string(encoded)
	for _, secret := range append(secrets, "S3cretS3cret", "AKIA", "123456789012", "\x1b", "\nfault table") {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in the report:\n%s", secret, &b)
		}
	}
	for _, kept := range []string{"page=2", "x=1", "origin.example", "table/pages", "X-Amz-Signature"} {
		if !strings.Contains(all, kept) {
			t.Errorf("%q is not in the report:\n%s", kept, &b)
		}
	}
	if long := redact.Text(strings.Repeat("ä", 10_000)); len(long) > 700 {
		t.Errorf("a text has %d bytes", len(long))
	}
}

// site starts an origin whose pages have a header.
func site(t *testing.T, set func(http.Header)) doctor.Origin {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		w.Header().Set("Content-Type", "text/html")
		set(w.Header())
		_, _ = fmt.Fprint(w, "<p>page</p>")
	}))
	t.Cleanup(server.Close)
	return doctor.Origin{Name: "site", URLs: []string{server.URL}, Path: "/", Health: "/healthz"}
}
