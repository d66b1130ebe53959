package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport runs the real "go test -json" on a module that has one of everything.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":            "module example.com/m\n\ngo 1.26\n",
		"good/good_test.go": "package good\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Log(\"quiet\") }) }\n",
		"bad/bad_test.go": "package bad\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Error(\"wrong\") }\n\n" +
			"func TestS(t *testing.T) { t.Log(\"first\"); t.Skip(\"no engine\") }\n\nfunc TestT(t *testing.T) { t.Skip(\"no engine\") }\n",
		"exit/exit_test.go":     "package exit\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestE(t *testing.T) { println(\"going\"); os.Exit(3) }\n",
		"build/build_test.go":   "package build\n\nvar x int = \"text\"\n",
		"untested/untested.go":  "package untested\n",
		"panics/panics_test.go": "package panics\n\nimport \"testing\"\n\nfunc TestP(t *testing.T) { panic(\"oh\") }\n",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	command := exec.Command("go", "test", "-json", "./...")
	command.Dir = dir
	events, err := command.Output()
	if err == nil {
		t.Fatal("go test says that all is well")
	}

	var out bytes.Buffer
	r := newReport(&out)
	if err := r.readAll(bytes.NewReader(append([]byte("warning: not an event\n"), events...))); err != nil {
		t.Fatal(err)
	}
	var counts, skips bytes.Buffer
	if err := r.writeCounts(&counts); err != nil {
		t.Fatal(err)
	}
	if err := r.writeSkips(&skips); err != nil {
		t.Fatal(err)
	}
	// Passed are TestA and its subtest; failed are TestB, TestP and the packages
	// that ended early and that did not build.
	if got := counts.String(); got != "2 4 2\n" {
		t.Errorf("counted %q, want 2 4 2", got)
	}
	if got := skips.String(); got != "2 tests skipped: no engine\n" {
		t.Errorf("skips: %q", got)
	}
	for _, want := range []string{
		"warning: not an event", "ok    example.com/m/good", "FAIL  example.com/m/bad", "wrong", "going", "panic: oh", "build_test.go:3",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "quiet") || strings.Contains(out.String(), "untested") {
		t.Error("the report has what nobody needs")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
