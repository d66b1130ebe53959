package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

// The keys of session tickets: a key a line, and no error names one.
func TestTicketKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tickets")
	key := strings.Repeat("A", 43) + "="
	for _, c := range []struct {
		text, problem string
		keys          int
	}{
		{"# of November\n" + key + "\n\n " + key + "\r\n", "", 2},
		{strings.Repeat(key+"\n", 16), "", 16},
		{strings.Repeat(key+"\n", 17), "has 17 keys, and at most 16 are used", 0},
		{"\n", "has no key; make one with: openssl rand -base64 32", 0},
		{key + "\nhunter2\n", "line 2 of " + path + " is not a key of 32 bytes in base64", 0},
		{"QUJD\n", "line 1 of", 0},
		{strings.Repeat("\n", 1<<20+1), "is larger than 1MiB", 0},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := config.TLSPolicy{TicketKeys: path}.ReadTicketKeys()
		switch {
		case len(keys) != c.keys || (err == nil) != (c.problem == ""):
			t.Errorf("%.80q: %d keys, %v", c.text, len(keys), err)
		case err != nil && (!strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%.80q: %v", c.text, err)
		}
	}
}

// Check reports files that are missing, at the fields that name them; Parse does not look at them.
func TestCheckFiles(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("FOLDER", folder)
	if err := os.WriteFile(filepath.Join(folder, "key"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `
hosts: [example.com]
listen:
  - address: :443
    tls:
      - {cert: "${FOLDER}/cert", key: "${FOLDER}/key"}
      - {cert: "${FOLDER}/key", key: "${FOLDER}/key"}
    tls_policy: {ticket_keys: "${FOLDER}/key"}
origins: {site: {demo: true}}
admin: {token: {file: missing/token}}
access_log: {path: "${FOLDER}/logs/access.log"}`
	if _, err := config.Parse("isr.yaml", []byte(text), os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	_, err := config.Check("isr.yaml", []byte(text), os.LookupEnv)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"isr.yaml:6:10: listen[0].tls[0].cert: open " + folder + "/cert: no such file",
		"isr.yaml:7:9: listen[0].tls[1]: " + folder + "/key and " + folder + "/key are not a certificate and its key",
		"isr.yaml:8:18: listen[0].tls_policy.ticket_keys: line 1 of " + folder + "/key is not a key of 32 bytes in base64",
		"isr.yaml:10:17: admin.token.file: read secret: open missing/token: no such file or directory (relative to ",
		"isr.yaml:11:14: access_log.path: the folder " + folder + "/logs does not exist",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
	if strings.Count(err.Error(), "isr.yaml:") != 5 {
		t.Errorf("more than five errors:\n%v", err)
	}
}
