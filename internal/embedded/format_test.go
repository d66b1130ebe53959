package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/embedded"
)

// TestFormatStamp: a folder names its format and the oldest version that may write it. A version that is older
// refuses, says what to do, and leaves the folder as it is.
func TestFormatStamp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stamp, want string }{
		"none":                   {"", ""},
		"ours":                   {`{"format": 1, "oldest_format": 1, "oldest_version": "0.1.0", "writer": "0.1.0"}`, ""},
		"newer, and we may":      {`{"format": 7, "oldest_format": 1, "oldest_version": "0.1.0", "writer": "9.2.0"}`, ""},
		"newer, and we must not": {`{"format": 7, "oldest_format": 6, "oldest_version": "9.1.0", "writer": "9.2.0"}`, "run isr 9.1.0 or newer"},
		"no format":              {`{}`, "does not name a format"},
		"no JSON":                {"\x00", "does not name a format"},
		"too long":               {strings.Repeat(" ", 5000), "expected at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "format.json")
			if c.stamp != "" {
				if err := os.WriteFile(path, []byte(c.stamp), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			db, err := embedded.OpenEngine(dir)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v", err)
			}
			if refused := errors.Is(err, embedded.ErrFormat); refused != (name == "newer, and we must not") {
				t.Errorf("ErrFormat: %v", err)
			}
			stamp, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.stamp != "" && string(stamp) != c.stamp || c.stamp == "" && !strings.Contains(string(stamp), `"oldest_version": "0.1.0"`) {
				t.Errorf("the stamp is %s", stamp)
			}
			if _, err := os.Stat(embedded.EngineFile(dir)); (err == nil) != (c.want == "") {
				t.Errorf("the engine's file: %v", err)
			}
		})
	}
}
