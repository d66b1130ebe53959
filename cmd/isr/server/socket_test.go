package server

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"testing"
)

func TestSocketPathIsShort(t *testing.T) {
	long := t.TempDir()
	for range 12 {
		long += "/deep-folder"
	}
	if path, err := socketPath(long); err == nil && len(path) > 104 {
		t.Errorf("%s has %d bytes", path, len(path))
	}
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(long)
	if path, err := socketPath(long); err != nil || path != socketName {
		t.Errorf("from within the folder: %q, %v", path, err)
	}
}

// Only the user of the server can connect to its socket, and files that are made at that moment keep
// their modes.
func TestSocketIsPrivate(t *testing.T) {
	for range 50 {
		dir, made := t.TempDir(), make(chan error)
		go func() { made <- os.Mkdir(dir+"/folder", 0o700) }()
		socket, err := ListenSocket(&Folder{path: dir}, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
		if err := errors.Join(err, <-made); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]os.FileMode{socketName: 0o600, "folder": 0o700} {
			if info, err := os.Stat(dir + "/" + name); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if err := socket.server.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
