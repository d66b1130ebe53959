//go:build linux || darwin

package leases

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	isrprocess "github.com/facetheory/isr/e2e/internal/process"
)

// configVariable is the environment variable that makes this test binary run as a worker
// process.
const configVariable = "ISR_LEASES_ORDER"

// A workerConfig is the configuration of a worker process.
type workerConfig struct {
	Name      string        `json:"name"`
	Endpoint  string        `json:"endpoint"`
	Table     string        `json:"table"`
	FirstPage int           `json:"firstPage"`
	Workers   int           `json:"workers"`
	For       time.Duration `json:"for"` // nanoseconds
}

func TestMain(m *testing.M) {
	text, ordered := os.LookupEnv(configVariable)
	if !ordered {
		os.Exit(isrprocess.Main(m))
	}
	var o workerConfig
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", configVariable, err)
		os.Exit(2)
	}
	o.runWorkers(os.Stdout)
}

// runWorkers runs the workers and writes their events to out. Each call is written in one system
// call before it is made, so a kill loses at most the answers to the last calls.
func (o workerConfig) runWorkers(out io.Writer) {
	var mu sync.Mutex
	report := func(e event) {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err) // events consist of JSON types only
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := out.Write(append(line, '\n')); err != nil {
			os.Exit(1) // the parent has exited
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.For)
	defer cancel()
	var number atomic.Int64
	var group sync.WaitGroup
	for i := range o.Workers {
		w := newWorker(fmt.Sprintf("%s-w%d", o.Name, i), o.Endpoint, o.Table, rand.Uint64())
		w.firstPage, w.number, w.report, w.hasty = o.FirstPage, &number, report, 3
		group.Go(func() { w.work(ctx) })
	}
	group.Wait()
}

func newWorker(name, endpoint, table string, seed uint64) *worker {
	client, writes := newClient(endpoint)
	return &worker{
		name: name, api: client, table: table, clock: machineClock,
		random: rand.New(rand.NewPCG(seed, 0)), writes: writes, number: new(atomic.Int64),
	}
}

// A process is a running worker process and the events that it has written.
type process struct {
	cmd    *exec.Cmd
	seen   chan struct{} // closed once it has written enoughEvents
	done   chan struct{} // closed after exit, once events and err are set
	events []event
	died   instant
	err    error
}

// enoughEvents is after how many events a process may be killed. To find an order of few calls of which
// many are unanswered, as on a slow engine, takes too long.
const enoughEvents = 300

func start(o workerConfig) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), configVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker process: %w", err)
	}
	p := &process{cmd: cmd, seen: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.events, p.err = readEvents(out, p.seen)
		p.err = errors.Join(p.err, cmd.Wait())
		p.died = machineClock()
	}()
	return p, nil
}

// readEvents reads events until EOF. It drops an incomplete last line, which a kill may leave:
// its call was not made yet, or is taken as unanswered. It closes enough after enoughEvents.
func readEvents(from io.Reader, enough chan<- struct{}) ([]event, error) {
	var events []event
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return events, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return events, fmt.Errorf("decode event %q of worker process: %w", line, err)
		}
		if events = append(events, e); len(events) == enoughEvents {
			close(enough)
		}
	}
}

// kill sends SIGKILL and waits for the process to exit.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have exited
	<-p.done
}
