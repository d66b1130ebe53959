package aws

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// TestDocumentation runs the commands of docs/aws.md for the small installation, and the commands of the stack
// of CloudFront, as they are written: by the aws command against moto. The page is served by a server with
// the environment of the task definition that the stack has made, on the table, the bucket and the queue
// that it has made, all in moto.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	all := blocks(t)
	first, rest := split(t, all, "curl -so")
	u.run(t, first...)
	local := u.serve(t, u.environment(t))
	u.prelude += fmt.Sprintf("curl() { command curl -H 'Host: www.example.com' \"${@/https:\\/\\/www.example.com/%s}\"; }\n", strings.ReplaceAll(local, "/", `\/`))
	out := u.run(t, rest[:2]...)
	for _, want := range []string{"fwd=", "isr; hit", "www.example.com/"} {
		if !strings.Contains(strings.ToLower(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	u.run(t, rest[2])
	await(t, "the purge", func() bool {
		// moto changes an item one attribute at a time: a command that reads the item then fails, as for a malformed row.
		out, err := u.try(t, `isr get --table isr --bucket "$BUCKET" www.example.com/`)
		return err == nil && strings.Contains(out, "purged")
	})
	if out := u.run(t, rest[3]); !strings.Contains(out, "pinned") || !strings.Contains(out, "purged") {
		t.Errorf("changes by hand: %s", out)
	}
	_, edge := split(t, all, "isr-edge")
	u.run(t, edge[0])
}

var block = regexp.MustCompile("(?s)\n```\n(.*?)```")

// blocks returns the blocks of code of docs/aws.md.
func blocks(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range block.FindAllStringSubmatch(string(text), -1) {
		all = append(all, match[1])
	}
	return all
}

// split returns the blocks before the first with a text, and those from it on.
func split(t *testing.T, all []string, text string) (before, from []string) {
	t.Helper()
	for i := range all {
		if strings.Contains(all[i], text) {
			return all[:i], all[i:]
		}
	}
	t.Fatalf("docs/aws.md has no block with %q", text)
	return nil, nil
}

// A user types commands into a shell, whose variables stay.
type user struct {
	home, moto, prelude string
}

func newUser(t *testing.T) *user {
	t.Helper()
	python := isrtest.Engine(t, "ISR_TEST_AWS", "moto")
	commands := isrtest.Engine(t, "ISR_TEST_SDK_PYTHON", "aws command")
	u := &user{home: t.TempDir()}
	if err := os.WriteFile(u.home+"/variables", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"isr": process.Binary(t, "../.."), "aws": commands + "/aws"} {
		if err := os.Symlink(file, filepath.Join(u.home, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(python, "python"), "../../deploy/checks/motoserver.py")
	cmd.Env = append(os.Environ(), "MOTO_ACM_VALIDATION_WAIT=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("moto: %v", err)
	}
	u.moto = strings.TrimSpace(line)
	// For queues the aws command does not heed AWS_ENDPOINT_URL.
	u.prelude = "aws() { if [ \"$1\" = sqs ]; then command aws --endpoint-url \"$AWS_ENDPOINT_URL\" \"$@\"; else command aws \"$@\"; fi; }\n"
	return u
}

func (u *user) settings() []string {
	return []string{
		"HOME=" + u.home, "PATH=" + u.home + ":" + os.Getenv("PATH"), "AWS_ENDPOINT_URL=" + u.moto, "AWS_REGION=eu-west-1", "AWS_DEFAULT_REGION=eu-west-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "ISR_STORE_TIMEOUT=10s",
	}
}

// run runs blocks of commands in bash, each of which must succeed, and returns their output.
func (u *user) run(t *testing.T, blocks ...string) string {
	t.Helper()
	out, err := u.try(t, blocks...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try runs blocks of commands in bash until one fails, and returns their output.
func (u *user) try(t *testing.T, blocks ...string) (string, error) {
	t.Helper()
	script := "set -eo pipefail\n. ~/variables\n" + u.prelude + strings.Join(blocks, "\n") + "\ndeclare -p | grep -E '^declare -- [A-Z]+=' | grep -v BASH >~/next\nmv ~/next ~/variables\n"
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = "../..", u.settings()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w:\n%s\n%s", err, script, out)
	}
	return string(out), nil
}

// environment returns the environment of the task definition of the servers.
func (u *user) environment(t *testing.T) (env []string) {
	t.Helper()
	var pairs []struct{ Name, Value string }
	text := u.run(t, `aws ecs describe-task-definition --task-definition isr-server --query 'taskDefinition.containerDefinitions[0].environment' --output json`)
	if err := json.Unmarshal([]byte(text), &pairs); err != nil || len(pairs) < 10 {
		t.Fatalf("the environment %s: %v", text, err)
	}
	for _, p := range pairs {
		env = append(env, p.Name+"="+p.Value)
	}
	text = u.run(t, `aws ecs describe-task-definition --task-definition isr-server --query 'taskDefinition.containerDefinitions[0].secrets' --output json`)
	var secrets []struct{ Name, ValueFrom string }
	if err := json.Unmarshal([]byte(text), &secrets); err != nil || len(secrets) != 2 {
		t.Fatalf("the secrets %s: %v", text, err)
	}
	for _, s := range secrets {
		value := u.run(t, "aws secretsmanager get-secret-value --secret-id '"+s.ValueFrom+"' --query SecretString --output text")
		env = append(env, s.Name+"="+strings.TrimSpace(value))
	}
	return env
}

// serve starts a server as ECS would, except addresses that this machine does not have, and returns its URL.
func (u *user) serve(t *testing.T, env []string) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		_, _ = fmt.Fprint(w, "a page")
	}))
	t.Cleanup(site.Close)
	for i, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		switch name {
		case "ISR_ORIGIN":
			value = site.URL
		case "ISR_PEER": // of a private network, which this machine may lack
			value = ""
		case "ISR_LISTEN", "ISR_HEALTH", "ISR_ADMIN":
			value = "127.0.0.1:0"
		case "ISR_DATA":
			value = u.home
		case "ISR_PURGE_QUEUE":
			queue, err := url.Parse(value)
			if err != nil {
				t.Fatal(err)
			}
			value = u.moto + queue.Path
		case "ISR_DRAIN":
			value = "0s"
		}
		env[i] = name + "=" + value
	}
	cmd := exec.Command(process.Binary(t, "../.."), "serve")
	cmd.Dir, cmd.Env = u.home, append(u.settings(), env...)
	p, _ := process.Serve(t, cmd, regexp.MustCompile(`msg="health on (http://[^ "]+)`))
	var address string
	p.Await(t, "its address", time.Minute, func() bool {
		if found := announced.FindStringSubmatch(p.Log()); found != nil {
			address = found[1]
		}
		return address != ""
	})
	return address
}
