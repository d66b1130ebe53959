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

// orderVariable makes this test binary a process of workers instead.
const orderVariable = "ISR_LEASES_ORDER"

// An order is what a process is told.
type order struct {
	Name     string        `json:"name"`
	Endpoint string        `json:"endpoint"`
	Table    string        `json:"table"`
	Workers  int           `json:"workers"`
	For      time.Duration `json:"for"` // nanoseconds
}

func TestMain(m *testing.M) {
	text, ordered := os.LookupEnv(orderVariable)
	if !ordered {
		os.Exit(isrprocess.Main(m))
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", orderVariable, err)
		os.Exit(2)
	}
	o.carryOut(os.Stdout)
}

// carryOut has the workers work, and writes what they report. A line is written, in
// one system call, before its call is made: what a kill leaves unwritten is at most
// the answers to the last calls.
func (o order) carryOut(out io.Writer) {
	var mu sync.Mutex
	report := func(e event) {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err) // events have nothing that JSON has not
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := out.Write(append(line, '\n')); err != nil {
			os.Exit(1) // nobody listens
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.For)
	defer cancel()
	var number atomic.Int64
	var group sync.WaitGroup
	for i := range o.Workers {
		w := newWorker(fmt.Sprintf("%s-w%d", o.Name, i), o.Endpoint, o.Table, rand.Uint64())
		w.number, w.report, w.hasty = &number, report, 3
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

// A process is one that was given an order, and what it has reported.
type process struct {
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended, and events and err are set
	events []event
	died   instant
	err    error
}

func start(o order) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a process of workers: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.events, p.err = readEvents(out)
		p.err = errors.Join(p.err, cmd.Wait())
		p.died = machineClock()
	}()
	return p, nil
}

// readEvents reads to the end. A kill may cut the last line short, which is none
// then: nobody has acted on it.
func readEvents(from io.Reader) ([]event, error) {
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
			return events, fmt.Errorf("a process of workers wrote %q: %w", line, err)
		}
		events = append(events, e)
	}
}

// kill is kill -9. It waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}
