package languages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/facetheory/isr/isrtest"
)

// TestQuickStarts runs the first programs of the clients' READMEs twice each, one after the
// other, on one table.
func TestQuickStarts(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		c := &crew{engine: e, api: e.client()}
		c.newTable(t)
		python, typescript := pythonQuickStart(t), typescriptQuickStart(t)
		for _, program := range [][]string{typescript, python, python, typescript, typescript} {
			cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
			cmd.Env = append(e.environment(), "FACETHEORY_CACHE_TABLE_NAME="+c.table, "PYTHONPATH="+absolute(t, "../../clients/python"))
			said, err := cmd.Output()
			if want := "fresh\nSinnerman 1965\n"; err != nil || string(said) != want {
				t.Errorf("%s: error %v, output %q; want output %q\n%s", program[len(program)-1], err, said, want, stderrOf(err))
			}
		}
	})
}

func pythonQuickStart(t *testing.T) []string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "quickstart.py")
	write(t, script, firstProgram(t, "python"))
	return []string{isrtest.Engine(t, "ISR_TEST_PYTHON", "python with boto3"), "-B", script}
}

func typescriptQuickStart(t *testing.T) []string {
	t.Helper()
	dir, client := clientFolder(t)
	write(t, filepath.Join(dir, "quickstart.mts"), firstProgram(t, "typescript"))
	// The client's own tests check the types.
	tsc := exec.CommandContext(t.Context(), filepath.Join(client, "node_modules", ".bin", "tsc"),
		"--noCheck", "--module", "nodenext", "--target", "es2022", "quickstart.mts")
	tsc.Dir = dir
	if out, err := tsc.CombinedOutput(); err != nil {
		t.Fatalf("compile the quick start: %v\n%s", err, out)
	}
	return []string{"node", "--no-warnings", filepath.Join(dir, "quickstart.mjs")}
}

// firstProgram returns the first code block in the README of a client that is in the client's
// language.
func firstProgram(t *testing.T, client string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join("../../clients", client, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```(?:ts|python)\n(.*?)```").FindSubmatch(readme)
	if found == nil {
		t.Fatalf("the README of %s has no program", client)
	}
	return string(found[1])
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stderrOf returns the standard error of a failed command.
func stderrOf(err error) []byte {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Stderr
	}
	return nil
}
