package simulator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A mutant is a bug inside package isr, where no wrapper can inject it.
type mutant struct {
	name    string // the value of ISR_MUTANT that enables it
	profile string // the profile that reveals it
	edits   []edited
}

// An edited text must occur in its file exactly once.
type edited struct{ file, text, mutated string }

// mutants are compiled into one program by TestMutants; each is enabled by its name. mutantSource has
// the functions that they call.
func mutants() []mutant {
	return []mutant{
		{"META is not read again under the lease", "lagging", []edited{
			{"regenerate.go", "rec, err := s.read(held)", "rec, err := s.mutantRead(held)"},
			{"body.go", "\ts.f.found(rec)\n", "\ts.f.found(rec)\n\tmutantSeen.Store(s, rec)\n"},
		}},
		{"the floor is raised before SEQ is read", "log", []edited{
			{"follower.go", "func (f *follower) begin(ctx context.Context) error {\n", "func (f *follower) begin(ctx context.Context) error {\n\tf.mutantRaise(true)\n"},
			{"follower.go", "\tf.c.floor.raise(time.Now())\n\tselect", "\tf.mutantRaise(false)\n\tselect"},
		}},
		{"visitors that cannot wait for the store render alone", "network", []edited{
			{"cache.go", "c.unstored.join(", "c.mutantUnstored().join("},
		}},
		{"a reload throws bodies away", "rollbacks", []edited{
			{"memory.go", "return p, otter.CancelOp\n\t})\n}\n\n// A reading", "return p, mutantDrop()\n\t})\n}\n\n// A reading"},
		}},
		{"a process that was frozen serves what it had", "freezes", []edited{
			{"staleness.go", "\tif s.bound == 0 {", "\tif s.bound == 0 || mutated(\"a process that was frozen serves what it had\") {"},
		}},
		{"a lease is kept while the bucket hangs", "hanging", []edited{
			{"regenerate.go", "s.c.cfg.RenderTimeout+storeTime", "mutantTime(s.c.cfg.RenderTimeout+storeTime)"},
			{"storebreaker.go", "bodyTime(int64(len(body)))", "mutantTime(bodyTime(int64(len(body))))"},
		}},
	}
}

const mutantSource = `package isr

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/store"
)

func mutated(name string) bool { return os.Getenv("ISR_MUTANT") == name }

var mutantSeen sync.Map // of store.Record by *search

func (s *search) mutantRead(ctx context.Context) (store.Record, error) {
	if rec, ok := mutantSeen.Load(s); ok && mutated("META is not read again under the lease") {
		return rec.(store.Record), nil
	}
	return s.read(ctx)
}

func (f *follower) mutantRaise(before bool) {
	if before == mutated("the floor is raised before SEQ is read") {
		f.c.floor.raise(time.Now())
	}
}

func (c *Cache) mutantUnstored() *flights {
	if mutated("visitors that cannot wait for the store render alone") {
		alone := newFlights()
		return &alone
	}
	return &c.unstored
}

func mutantDrop() otter.ComputeOp {
	if mutated("a reload throws bodies away") {
		return otter.InvalidateOp
	}
	return otter.CancelOp
}

func mutantTime(d time.Duration) time.Duration {
	if mutated("a lease is kept while the bucket hangs") {
		return 24 * time.Hour
	}
	return d
}
`

// TestMutants: an invariant catches every mutant.
func TestMutants(t *testing.T) {
	program := compileMutants(t)
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			run := exec.Command(program, "-test.run", "^TestSimulation$", "-kind", m.profile, "-seeds", fmt.Sprint(maxBugSeeds))
			run.Env = append(os.Environ(), "ISR_MUTANT="+m.name)
			out, err := run.CombinedOutput()
			violation := regexp.MustCompile(`seed \d+ \(.*\), step .*`).Find(out)
			if err == nil || violation == nil {
				t.Fatalf("no invariant caught it within %d seeds: %v\n%s", maxBugSeeds, err, out)
			}
			t.Logf("caught by %s", violation)
		})
	}
}

// compileMutants compiles these tests with all mutants in package isr.
func compileMutants(t *testing.T) (program string) {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	replaced := map[string]string{filepath.Join(module, "mutant.go"): mutantSource}
	for _, m := range mutants() {
		for _, e := range m.edits {
			file := filepath.Join(module, e.file)
			source, known := replaced[file]
			if !known {
				source = readText(t, file)
			}
			if n := strings.Count(source, e.text); n != 1 {
				t.Fatalf("%s: %s contains the text to replace %d times, want once:\n%s", m.name, e.file, n, e.text)
			}
			replaced[file] = strings.Replace(source, e.text, e.mutated, 1)
		}
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for file, source := range replaced {
		overlay.Replace[file] = filepath.Join(folder, filepath.Base(file))
		writeText(t, overlay.Replace[file], source)
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(folder, "overlay.json"), string(list))
	program = filepath.Join(folder, "mutants")
	out, err := exec.Command("go", "test", "-c", "-overlay", filepath.Join(folder, "overlay.json"), "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("compiling the mutants: %v\n%s", err, out)
	}
	return program
}

func readText(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeText(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
