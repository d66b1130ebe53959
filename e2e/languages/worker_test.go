package languages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/isrtest"
)

// patience is how long a test waits for an answer on a busy machine.
const patience = 5 * time.Minute

// A language is one that workers are written in.
type language struct {
	name string
	// command returns the command that starts a worker, without its environment.
	command func(t *testing.T) *exec.Cmd
}

// languages returns all languages. A test is skipped if a requirement of one is missing.
func languages() []language {
	return []language{
		{"go", func(*testing.T) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = []string{workerVariable + "=1"}
			return cmd
		}},
		{"typescript", func(t *testing.T) *exec.Cmd {
			return exec.Command("node", "--no-warnings", installed(t, "worker.mjs"))
		}},
		{"python", func(t *testing.T) *exec.Cmd {
			cmd := exec.Command(isrtest.Engine(t, "ISR_TEST_PYTHON", "python with boto3"), "-B", "worker.py")
			cmd.Env = []string{"PYTHONPATH=" + absolute(t, "../../clients/python")}
			return cmd
		}},
	}
}

// installed returns a program in JavaScript, in a folder where the TypeScript client is
// installed.
func installed(t *testing.T, name string) (script string) {
	t.Helper()
	dir, _ := clientFolder(t)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(dir, name)
	write(t, script, string(text))
	return script
}

// clientFolder returns a folder in which the TypeScript client and the SDK that it was
// developed with are installed, so that both resolve by name, and the SDK only once.
func clientFolder(t *testing.T) (dir, client string) {
	t.Helper()
	client = isrtest.Engine(t, "ISR_TEST_TYPESCRIPT", "built TypeScript client")
	if _, err := os.Stat(filepath.Join(client, "dist", "index.js")); err != nil {
		t.Fatalf("the TypeScript client in %s is not built: run npm ci and npm run build there: %v", client, err)
	}
	dir = t.TempDir()
	for name, target := range map[string]string{
		"node_modules/@aws-sdk":                filepath.Join(client, "node_modules", "@aws-sdk"),
		"node_modules/@facetheory/tabletheory": client,
	} {
		link := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(absolute(t, target), link); err != nil {
			t.Fatal(err)
		}
	}
	return dir, client
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A worker is a process that executes commands. Its methods may be called concurrently; it
// answers in the order of the commands.
type worker struct {
	language string
	owner    string // the owner in its leases
	cmd      *exec.Cmd
	stderr   bytes.Buffer // read only after exit
	ended    chan struct{}

	mu      sync.Mutex
	in      io.Writer            // guarded by mu
	last    int                  // id of the last command; guarded by mu
	waiting map[int]chan<- reply // guarded by mu
}

// start starts a worker, which runs until the end of the test.
func (l language) start(t *testing.T, owner string, env []string) *worker {
	t.Helper()
	w := &worker{language: l.name, owner: owner, cmd: l.command(t), ended: make(chan struct{}), waiting: make(map[int]chan<- reply)}
	w.cmd.Env = append(w.cmd.Env, env...)
	w.cmd.Stderr = &w.stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatalf("start the worker in %s: %v", l.name, err)
	}
	w.in = in
	go w.listen(out)
	t.Cleanup(func() {
		w.kill()
		for _, bad := range []string{"panic", "DATA RACE", "Traceback", "Unhandled"} {
			if strings.Contains(w.stderr.String(), bad) {
				t.Errorf("the worker in %s: %s", w.language, bad)
			}
		}
		if t.Failed() && w.stderr.Len() > 0 {
			t.Logf("the worker in %s wrote:\n%s", w.language, &w.stderr)
		}
	})
	return w
}

// listen delivers answers to their waiters until EOF.
func (w *worker) listen(out io.Reader) {
	defer close(w.ended)
	var nonsense []byte
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			nonsense = line
			break // waiters fail once ended is closed
		}
		w.mu.Lock()
		waiting := w.waiting[r.ID]
		delete(w.waiting, r.ID)
		w.mu.Unlock()
		if waiting != nil {
			waiting <- r
		}
	}
	_ = w.cmd.Process.Kill() // it has exited, or wrote an invalid line
	_ = w.cmd.Wait()
	w.stderr.Write(nonsense) // complete after the exit
}

// kill sends SIGKILL and waits for the process to exit.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // it may have exited
	<-w.ended
}

// send sends a command. The channel delivers its answer.
func (w *worker) send(t *testing.T, c command) <-chan reply {
	t.Helper()
	answer := make(chan reply, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	c.ID, c.Owner = w.last, w.owner
	w.waiting[c.ID] = answer
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("send to the worker in %s: %s: %v", w.language, c.Do, err)
	}
	return answer
}

// await waits for an answer, which may be an error.
func (w *worker) await(t *testing.T, c command, answer <-chan reply) reply {
	t.Helper()
	select {
	case r := <-answer:
		return r
	case <-w.ended:
		t.Fatalf("the worker in %s exited before it answered %s:\n%s", w.language, c.Do, &w.stderr)
	case <-time.After(patience):
		t.Fatalf("timed out after %s waiting for the worker in %s to answer %s", patience, w.language, c.Do)
	}
	return reply{}
}

// try sends a command and waits for its answer.
func (w *worker) try(t *testing.T, c command) reply {
	t.Helper()
	return w.await(t, c, w.send(t, c))
}

// refuses expects an error of this name.
func (w *worker) refuses(t *testing.T, name string, c command) refusal {
	t.Helper()
	r := w.try(t, c)
	if r.Error != name {
		t.Errorf("%s: %s %s: %s %s %s; want %s", w.language, c.Do, c.Key, r.Error, r.Message, r.OK, name)
	}
	return r.refusal
}

// does expects success of a command without a result.
func (w *worker) does(t *testing.T, c command) { ask[any](t, w, c) }

// ask expects success, and returns the result.
func ask[T any](t *testing.T, w *worker, c command) T {
	t.Helper()
	return answered[T](t, w, c, w.try(t, c))
}

func answered[T any](t *testing.T, w *worker, c command, r reply) (ok T) {
	t.Helper()
	if r.Error != "" {
		t.Fatalf("%s: %s %s: %s: %s", w.language, c.Do, c.Key, r.Error, r.Message)
	}
	if err := json.Unmarshal(r.OK, &ok); err != nil {
		t.Fatalf("%s: the answer to %s is %s: %v", w.language, c.Do, r.OK, err)
	}
	return ok
}
