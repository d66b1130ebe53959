package peer

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTunedPeersRenderTheirFiles(t *testing.T) {
	placeholder := regexp.MustCompile(`\b(DIR|ADDRESS|ORIGIN|ORIGIN_HOST|ORIGIN_PORT|LISTEN_HOST|LISTEN_PORT)\b`)
	for name, want := range map[string][]string{
		"isr":                   {"--memory 32MiB", "--origin http://127.0.0.1:9000", "--listen 127.0.0.1:8080"},
		"nginx":                 {"listen 127.0.0.1:8080 reuseport", "server 127.0.0.1:9000;", "keepalive 128;", "access_log off;"},
		"Varnish":               {"-a 127.0.0.1:8080", `.host = "127.0.0.1"; .port = "9000";`, "-s default=file,"},
		"Apache Traffic Server": {"8080:ip-in=127.0.0.1", "map / http://127.0.0.1:9000/", "ram_cache.size INT 33554432"},
	} {
		at := Place{Dir: t.TempDir(), Address: "127.0.0.1:8080", Origin: "127.0.0.1:9000", ISR: "/bin/isr"}
		command, err := tuned(t, name).command(at)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := strings.Join(command, " ") + "\n" + files(t, at.Dir)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in:\n%s", name, w, text)
			}
		}
		if left := placeholder.FindString(text); left != "" {
			t.Errorf("%s: %s is left in:\n%s", name, left, text)
		}
	}
}

func tuned(t *testing.T, name string) Peer {
	t.Helper()
	for _, p := range Tuned(Settings{Memory: 32, OnDisk: true}) {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no peer %s", name)
	return Peer{}
}

// files returns the text of all files in a folder.
func files(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestMissingProgramIsNamedWithItsPackage(t *testing.T) {
	p := Peer{Name: "x", program: "isr-no-such-program", debian: "the-package"}
	_, err := p.Start(t.Context(), Place{Dir: t.TempDir()}, "/", 200)
	var missing *NotInstalledError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get install the-package") {
		t.Errorf("error %v, want one that names the package", err)
	}
}
