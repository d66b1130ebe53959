package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

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
		"isr.yaml:9:17: admin.token.file: read secret: open missing/token: no such file or directory (relative to ",
		"isr.yaml:10:14: access_log.path: the folder " + folder + "/logs does not exist",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
	if strings.Count(err.Error(), "isr.yaml:") != 4 {
		t.Errorf("more than four errors:\n%v", err)
	}
}
