package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/facetheory/isr/internal/testbed"
)

// exampleVisits returns what visitors get from the examples of docs/configuration.md, by
// their titles.
func exampleVisits() map[string][]string {
	return map[string][]string{
		"A Next.js site": {
			"fetch @/blog/hello", `stdout '^200\nisr; fwd=miss; fwd-status=200; stored'`,
			"fetch @/account/", `stdout 'detail=off'`,
		},
		"WordPress, with errors kept from visitors": {
			"fetch @/hello", `stdout '^200\nisr; fwd=miss; fwd-status=200; stored'`,
			"fetch @/wp-admin/", `stdout 'detail=off'`,
		},
		"HTTPS with certificates from Let's Encrypt": {
			"fetch @/hello", `stdout '^200\nisr; fwd=miss; fwd-status=200; stored'`,
			"fetch @/.well-known/acme-challenge/x", `stdout '^404'`,
		},
		"Two sites behind one cache, over HTTPS": {
			"fetch @/hello", `stdout '^200\nisr; fwd=miss; fwd-status=200; stored'`,
			"fetch @/hello", `stdout '^200\nisr; hit'`,
		},
		"A fleet on DynamoDB and S3, with purges": {
			"fetch @/products/7", `stdout '^200\nisr; fwd=miss; fwd-status=200'`,
		},
		"Languages and an experiment in the cache key": {
			"fetch @/hello?page=2&ref=mail", `stdout '^200\nisr; fwd=miss; fwd-status=200; stored'`,
			"fetch @/hello?page=2&ref=other", `stdout '^200\nisr; hit'`,
			"fetch @/api/x", `stdout 'detail=off'`,
		},
		"The demonstration site": {
			"fetch @/", `stdout '^200\nisr; fwd=miss; fwd-status=200; stored'`,
		},
	}
}

// Each example of the documentation runs: with other addresses, and a site and files of the
// test.
func TestExamplesRun(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "a page") }))
	t.Cleanup(site.Close)
	found := 0
	dir := t.TempDir()
	for _, m := range regexp.MustCompile("(?s)### ([^\n]*)\n\n```yaml\n# isr.yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		title, example := m[1], m[2]
		visits, known := exampleVisits()[title]
		if !known {
			t.Errorf("the example %q has no visits in this test", title)
			continue
		}
		found++
		name := strings.ToLower(regexp.MustCompile(`\W+`).ReplaceAllString(title, "-"))
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(exampleScript(t, example, site.URL, visits)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found != len(exampleVisits()) {
		t.Fatalf("found %d of %d examples", found, len(exampleVisits()))
	}
	params := scripts(dir)
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		err := setup(env)
		env.Vars = slices.DeleteFunc(env.Vars, func(v string) bool { return strings.HasPrefix(v, "ISR_ADMIN=") }) // an example sets it
		return err
	}
	testscript.Run(t, params)
}

// exampleScript returns a script that runs an example.
func exampleScript(t *testing.T, example, site string, visits []string) string {
	t.Helper()
	address, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	scheme, dir := "http", t.TempDir()
	crt, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	testbed.WriteCertificate(t, crt, key, 1, "a.test")
	if strings.Contains(example, "tls:") {
		scheme = "https"
	}
	host, port, _ := strings.Cut(address, ":")
	if strings.Contains(example, "acme:") {
		// The authority is down: the listener without TLS is visited, which must not redirect. An address gets no
		// certificate.
		host = "localhost"
		example = strings.NewReplacer(`":443"`, "127.0.0.1:0", `":80"`, address+", redirect_https: false", "/var/lib/isr/acme", "certificates",
			"  agree:", "  challenges: [tls-alpn, http]\n  directory: https://127.0.0.1:1/\n  agree:").Replace(example)
	}
	if !strings.Contains(example, "listen:") {
		example = "listen: [{address: " + address + "}]\n" + example
	}
	example = strings.NewReplacer(
		`":8080"`, address, " :8080", " "+address, " :443", " "+address, "hosts: [", "hosts: ["+host+", ",
		"0.0.0.0:9180", "127.0.0.1:0", `":9181"`, "127.0.0.1:0",
		"/etc/isr/example.com.crt", crt, "/etc/isr/example.com.key", key,
		"/run/secrets/isr-admin", "secret", "/run/secrets/fastly", "secret",
	).Replace(example)
	example = strings.ReplaceAll(example, "http://10.0.0.6:3000", "http://127.0.0.1:1") // it is down
	example = regexp.MustCompile(`http://(127\.0\.0\.1|10\.0\.[01]\.5|site\.internal):\d\d+`).ReplaceAllString(example, site)
	script := "env SHOP_HOOK_SECRET=0123456789abcdef0123456789abcdef\n"
	flags := ""
	if strings.Contains(example, "table:") {
		// There is no DynamoDB here: the site is served without it. Other flags apply.
		script += "env AWS_ACCESS_KEY_ID=a\nenv AWS_SECRET_ACCESS_KEY=b\n"
		flags = " --dynamodb-endpoint http://127.0.0.1:1 --s3-endpoint http://127.0.0.1:1"
	}
	script += "exec isr serve --config isr.yaml" + flags + " &server&\n"
	for _, line := range visits {
		script += strings.Replace(line, "@", scheme+"://"+host+":"+port, 1) + "\n"
	}
	return script + "kill -INT server\nwait server\n! stderr panic\n-- secret --\n0123456789abcdef0123456789abcdef\n-- isr.yaml --\n" + example
}
