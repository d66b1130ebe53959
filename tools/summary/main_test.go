package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain runs main itself where the test starts this binary again.
func TestMain(m *testing.M) {
	if os.Getenv("SUMMARY_TEST") == "" {
		os.Exit(m.Run())
	}
	main()
}

// module has one test of everything.
var module = map[string]string{
	"go.mod":            "module example.com/m\n\ngo 1.26\n",
	"good/good_test.go": "package good\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}) }\n",
	"bad/bad_test.go": "package bad\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Error(\"wrong\") }\n\n" +
		"func TestS(t *testing.T) { t.Log(\"first\"); t.Skip(\"no engine\") }\n\nfunc TestT(t *testing.T) { t.Skip(\"no engine\") }\n",
	"exit/exit_test.go":     "package exit\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestE(t *testing.T) { os.Exit(3) }\n",
	"build/build_test.go":   "package build\n\nvar x int = \"text\"\n",
	"untested/untested.go":  "package untested\n",
	"panics/panics_test.go": "package panics\n\nimport \"testing\"\n\nfunc TestP(t *testing.T) { panic(\"oh\") }\n",
}

// TestSummary summarizes the real report of gotestsum.
func TestSummary(t *testing.T) {
	dir := t.TempDir()
	for name, content := range module {
		write(t, filepath.Join(dir, name), content)
	}
	gotestsum, err := exec.Command("go", "tool", "-n", "gotestsum").Output()
	if err != nil {
		t.Fatal(err)
	}
	report, unrun := filepath.Join(dir, "report.xml"), filepath.Join(dir, "unrun")
	tests := exec.Command(strings.TrimSpace(string(gotestsum)), "--junitfile", report, "--", "./...")
	tests.Dir = dir
	if out, err := tests.CombinedOutput(); err == nil {
		t.Fatalf("gotestsum succeeded:\n%s", out)
	}
	write(t, unrun, "java is missing\n")

	// Passed are TestA and its subtest; failed are TestB, TestE, TestP and the package
	// that does not build.
	want := "could not run:\n  java is missing\n  2 tests skipped: no engine\n2 passed, 4 failed, 2 skipped\n"
	if out, code := summarize(t, "CI=", unrun, report); code != 1 || !strings.HasSuffix(out, want) || !strings.Contains(out, "example.com/m/bad TestB") {
		t.Errorf("status %d, output:\n%s\nwant status 1, and at the end:\n%s", code, out, want)
	}
}

// TestFailures: skipped tests fail in CI only, and nested suites and errors count.
func TestFailures(t *testing.T) {
	unrun := filepath.Join(t.TempDir(), "unrun")
	write(t, unrun, "")
	for _, c := range []struct {
		name, ci, report, last string
		code                   int
	}{
		{"passed", "CI=true", `<testcase name="a"/>`, "1 passed, 0 failed, 0 skipped", 0},
		{"skipped", "CI=", `<testcase name="a"><skipped message="why"/></testcase>`, "0 passed, 0 failed, 1 skipped", 0},
		{"skipped in CI", "CI=true", `<testcase name="a"><skipped message="why"/></testcase>`, "0 passed, 0 failed, 1 skipped", 1},
		{"node", "CI=", `<testsuite><testcase name="a"/><testsuite><testcase name="b"><failure/></testcase></testsuite></testsuite>`, "1 passed, 1 failed, 0 skipped", 1},
		{"pytest", "CI=", `<testsuite><testcase name="a"><error message="setup"/></testcase></testsuite>`, "0 passed, 1 failed, 0 skipped", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := filepath.Join(t.TempDir(), "report.xml")
			write(t, report, "<testsuites>"+c.report+"</testsuites>")
			if out, code := summarize(t, c.ci, unrun, report); code != c.code || !strings.HasSuffix(out, c.last+"\n") {
				t.Errorf("status %d, want %d; output:\n%s\nwant at the end: %s", code, c.code, out, c.last)
			}
		})
	}
}

func summarize(t *testing.T, ci string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SUMMARY_TEST=1", ci)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
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
