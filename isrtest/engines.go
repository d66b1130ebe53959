package isrtest

import (
	"os"
	"testing"
)

// Engine returns the address of a real server to test against, from the
// environment variable env. what names the server in messages, such as
// "S3 server". The script ./test starts the servers and sets the variables.
//
// If the variable is not set, Engine skips the test and logs why. In CI (CI=true)
// it fails the test, so that a missing server cannot pass unnoticed.
func Engine(t testing.TB, env, what string) string {
	t.Helper()
	address := os.Getenv(env)
	if address != "" {
		return address
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no %s to test against: %s is not set; ./test starts one and sets it", what, env)
	}
	t.Skipf("no %s to test against: %s is not set; ./test starts one and sets it", what, env)
	return ""
}
