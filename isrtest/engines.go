package isrtest

import (
	"os"
	"testing"
)

// Engine returns the address of a real server that tests are run against, from
// the environment variable env; what names the server for people, as in
// "S3 server". The script ./test starts the servers and sets the variables.
//
// Without the variable the test is skipped, with a message that says why. In CI
// (CI=true) it fails instead, so that a server that is missing there is never
// taken for one that was tested.
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
