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

// Children of these tests are this test binary, told what to do by variables.
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
	case "holder":
		holdOpen(path)
	case "full":
		fillDisk(path)
	case "stranger":
		openUnprivileged(path)
	case "cramped":
		openOnFullDisk(path)
	}
}

// child starts this binary in a role, in the folder dir, with further
// variables. It is killed at the end of the test, if it still runs.
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

// mustOpen is Open for children, which end with its error.
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
