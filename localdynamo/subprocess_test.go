//go:build linux || darwin

package localdynamo_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/facetheory/isr/localdynamo"
)

// Child processes run this test binary. Environment variables select their role.
const (
	roleVariable = "LOCALDYNAMO_TEST_ROLE"
	pathVariable = "LOCALDYNAMO_TEST_PATH"
	seedVariable = "LOCALDYNAMO_TEST_SEED"
)

func TestMain(m *testing.M) {
	path := os.Getenv(pathVariable)
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "writer":
		writeUntilKilled(path, os.Getenv(seedVariable))
	case "traced":
		writeTraced(path, os.Getenv(seedVariable))
	case "holder":
		holdOpen(path)
	case "fill-disk":
		fillDisk(path)
	case "unprivileged":
		openUnprivileged(path)
	case "full-disk":
		openOnFullDisk(path)
	}
}

// child starts this binary in a role, in the folder dir, with additional
// environment variables. It is killed at the end of the test.
func child(t *testing.T, role, dir, path string, variables ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Env = append(cmd.Env, variables...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// mustOpen is Open for child processes. On an error it exits the process.
func mustOpen(path string) *localdynamo.DB {
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err != nil {
		fatal(err)
	}
	return db
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
