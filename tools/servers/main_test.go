package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs main itself where a test starts this binary again, and servers where it is
// started as isr or versitygw.
func TestMain(m *testing.M) {
	switch os.Getenv("SERVERS_TEST") {
	case "":
		os.Exit(m.Run())
	case "broken":
		if filepath.Base(os.Args[0]) == "isr" {
			fmt.Fprintln(os.Stderr, "the disk is full")
			os.Exit(1)
		}
	}
	if len(os.Args) == 3 {
		main()
		return
	}
	at := slices.IndexFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "127.0.0.1:") })
	l, err := net.Listen("tcp", os.Args[at])
	if err != nil {
		panic(err)
	}
	for err == nil {
		_, err = l.Accept()
	}
}

// newTools returns a folder .tools in which isr and versitygw are installed.
func newTools(t *testing.T) string {
	t.Helper()
	tools := t.TempDir()
	if err := os.Mkdir(filepath.Join(tools, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"isr", "versitygw"} {
		if err := os.Symlink(os.Args[0], filepath.Join(tools, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return tools
}

// started runs a command that runs servers, and returns the settings that it prints.
func started(t *testing.T, cmd *exec.Cmd) (settings map[string]string) {
	t.Helper()
	cmd.Env = append(os.Environ(), "SERVERS_TEST=works", "PATH=") // without Java
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	settings = make(map[string]string)
	for lines := bufio.NewScanner(out); settings["ISR_TEST_ENGINES"] == "" && lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		settings[name] = value
	}
	for _, name := range []string{"ISR_TEST_S3", "ISR_TEST_ENGINES"} {
		if !answers(settings[name]) {
			t.Errorf("nothing listens at %s, %q", name, settings[name])
		}
	}
	return settings
}

// answers reports whether a server listens at an address in a setting.
func answers(setting string) bool {
	conn, err := net.Dial("tcp", regexp.MustCompile(`127\.0\.0\.1:\d+|$`).FindString(setting))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// left returns what is left in a folder .tools after the end.
func left(t *testing.T, tools string, settings map[string]string) (found []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(tools, "servers.*"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range settings {
		if strings.Contains(value, "127.0.0.1:") && answers(value) {
			found = append(found, name)
		}
	}
	return found
}

func TestServers(t *testing.T) {
	tools := newTools(t)
	cmd := exec.Command(os.Args[0], tools, t.TempDir())
	settings := started(t, cmd)
	if settings["ISR_TEST_DYNAMODB"] != "" || settings["ISR_TEST_S3_ACCESS_KEY"] != access {
		t.Errorf("settings %v; want no setting of DynamoDB Local, which is not installed, and the settings of S3", settings)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want success", err)
	}
	found := left(t, tools, settings)
	for _, folder := range []string{tools, memory(tools)} {
		tables, err := filepath.Glob(filepath.Join(folder, tablesOf(cmd.Process.Pid)))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, tables...)
	}
	if len(found) > 0 {
		t.Errorf("after the end there are still %v", found)
	}
}

// Servers end although nothing told them to: ./test was killed.
func TestParentIsKilled(t *testing.T) {
	tools := newTools(t)
	cmd := exec.Command("/bin/sh", "-c", `"$0" "$@"; :`, os.Args[0], tools, t.TempDir())
	settings := started(t, cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); len(left(t, tools, settings)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("five minutes after the parent was killed there are still %v", left(t, tools, settings))
		}
	}
}

func TestServerFails(t *testing.T) {
	tools := newTools(t)
	cmd := exec.Command(os.Args[0], tools, t.TempDir())
	cmd.Env = append(os.Environ(), "SERVERS_TEST=broken", "PATH=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil || len(out) > 0 {
		t.Errorf("%v, and it printed %q; want an error and no settings", err, out)
	}
	if text := stderr.String(); !strings.Contains(text, "isr-dynamodb exited (exit status 1)") || !strings.Contains(text, "the disk is full") {
		t.Errorf("the error is %q; want the server and its log", text)
	}
	if found := left(t, tools, nil); len(found) > 0 {
		t.Errorf("after the end there are still %v", found)
	}
}
