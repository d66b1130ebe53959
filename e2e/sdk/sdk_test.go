package sdk

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// scriptTime bounds a script in another language on a busy machine.
const scriptTime = 3 * time.Minute

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// TestSDK runs each SDK against a server that accepts any credentials, and one that verifies
// signatures.
func TestSDK(t *testing.T) {
	t.Parallel()
	binary := process.Binary(t, "../..")
	t.Run("any credentials", func(t *testing.T) {
		t.Parallel()
		s := serve(t, binary, "made", "up")
		s.run(t)
		t.Run("command", func(t *testing.T) { s.commandLine(t, "testdata/command.txtar") })
	})
	t.Run("verified", func(t *testing.T) {
		t.Parallel()
		s := serve(t, binary, "made", "up", "ISR_DYNAMODB_ACCESS_KEY=made", "ISR_DYNAMODB_SECRET_KEY=up")
		s.verified = true
		s.run(t)
		t.Run("command", func(t *testing.T) { s.commandLine(t, "testdata/verified.txtar") })
	})
}

// A server is a running isr dynamodb and the credentials to use.
type server struct {
	url, access, secret string
	verified            bool // the server verifies signatures
}

// serve starts isr dynamodb, configured by env, and stops it at the end of the test.
func serve(t *testing.T, binary, access, secret string, env ...string) *server {
	t.Helper()
	cmd := exec.Command(binary, "dynamodb", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = append([]string{}, env...) // without the test's own environment
	_, url := process.Serve(t, cmd, regexp.MustCompile(`msg="serving DynamoDB on (http://[^"]+)"`))
	return &server{url: url, access: access, secret: secret}
}

// run runs the tests that exist in every language.
func (s *server) run(t *testing.T) {
	t.Run("go", s.golang)
	t.Run("javascript", func(t *testing.T) {
		t.Parallel()
		folder := isrtest.Engine(t, "ISR_TEST_SDK_JAVASCRIPT", "AWS SDK for JavaScript")
		s.script(t, folder, "node", "--no-warnings", "--test", "--test-reporter=spec", "sdk.test.mjs")
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		python := filepath.Join(isrtest.Engine(t, "ISR_TEST_SDK_PYTHON", "boto3"), "python")
		s.script(t, "python", python, "-B", "-W", "error::ResourceWarning", "test_sdk.py", "--verbose")
	})
}

// script runs a script in its folder, and logs its output if it fails.
func (s *server) script(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = s.environment(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// environment returns the environment of a program: the server, and what it needs of this
// machine.
func (s *server) environment(t *testing.T) []string {
	t.Helper()
	env := []string{
		"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"),
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.url,
		"AWS_REGION=eu-nowhere-1", "AWS_DEFAULT_REGION=eu-nowhere-1", // some SDKs read one, some the other
		"AWS_ACCESS_KEY_ID=" + s.access, "AWS_SECRET_ACCESS_KEY=" + s.secret,
	}
	if s.verified {
		env = append(env, "ISR_TEST_VERIFIED=1")
	}
	return env
}

// commandLine runs a script of aws commands.
func (s *server) commandLine(t *testing.T, file string) {
	bin := isrtest.Engine(t, "ISR_TEST_SDK_PYTHON", "aws command")
	testscript.Run(t, testscript.Params{
		Files: []string{file},
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, s.environment(t)...)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
	})
}
