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

// A mutant is a bug inside package isr or a package below it, where no wrapper can inject it.
type mutant struct {
	name    string // the value of ISR_MUTANT that enables it
	profile string // the profile that reveals it
	edits   []edited
}

// An edited text must occur in its file, whose path is that below the module, exactly once.
type edited struct{ file, text, mutated string }

// mutants are compiled into one program by TestMutants; each is enabled by its name.
func mutants() []mutant {
	return []mutant{
		{"META is not read again under the lease", "lagging", []edited{
			{"internal/fill/fill.go", "rec, err := s.read(held)", "rec, err := s.rec, error(nil)\n\tif !mutated(\"META is not read again under the lease\") {\n\t\trec, err = s.read(held)\n\t}"},
		}},
		{"the floor is raised before SEQ is read", "log", []edited{
			{"internal/changelog/follower.go", "type Options struct {\n", "type Options struct {\n\tMutantRaise func()\n"},
			{"internal/changelog/follower.go", "func (f *Follower) begin(ctx context.Context) error {\n", "func (f *Follower) begin(ctx context.Context) error {\n\tif mutated(\"the floor is raised before SEQ is read\") {\n\t\tf.o.MutantRaise()\n\t}\n"},
			{"follow.go", "changelog.Options{\n", "changelog.Options{\n\t\tMutantRaise: func() { c.node.Flush(time.Now()) },\n"},
			{"follow.go", "\tc.node.Flush(time.Now())\n\tselect", "\tif !mutated(\"the floor is raised before SEQ is read\") {\n\t\tc.node.Flush(time.Now())\n\t}\n\tselect"},
		}},
		{"visitors that cannot wait for the store render alone", "network", []edited{
			{"internal/fill/engine.go", "import (\n", "import (\n\t\"github.com/facetheory/isr/internal/singleflight\"\n"},
			{"internal/fill/engine.go", "\treturn all.Join(", "\tif all == e.Unpublished && mutated(\"visitors that cannot wait for the store render alone\") {\n\t\tall = singleflight.New[*Flight](func() {}, func() {})\n\t}\n\treturn all.Join("},
		}},
		{"a reload throws bodies away", "rollbacks", []edited{
			{"internal/nodecache/memory.go", "return p, otter.CancelOp\n\t})\n\tif dropped", "return p, func() otter.ComputeOp {\n\t\tif mutated(\"a reload throws bodies away\") {\n\t\t\treturn otter.InvalidateOp\n\t\t}\n\t\treturn otter.CancelOp\n\t}()\n\t})\n\tif dropped"},
		}},
		{"a process that was frozen serves what it had", "freezes", []edited{
			{"internal/changelog/lag.go", "\tif bound == 0 {", "\tif bound == 0 || mutated(\"a process that was frozen serves what it had\") {"},
		}},
		{"a lease is kept while the bucket hangs", "hanging", []edited{
			{"internal/fill/fill.go", "s.renderTime()+storeTime", "func() time.Duration {\n\t\tif mutated(\"a lease is kept while the bucket hangs\") {\n\t\t\treturn 24 * time.Hour\n\t\t}\n\t\treturn s.renderTime() + storeTime\n\t}()"},
			{"internal/guard/bodies.go", "BodyTime(int64(len(body))))\n", "func() time.Duration {\n\t\tif mutated(\"a lease is kept while the bucket hangs\") {\n\t\t\treturn 24 * time.Hour\n\t\t}\n\t\treturn BodyTime(int64(len(body)))\n\t}())\n"},
		}},
		{"a page keeps the purge state of the first version of the table", "purges", []edited{
			{"internal/marks/marks.go", "known.version != version ||", "known.version != version && !mutated(\"a page keeps the purge state of the first version of the table\") ||"},
		}},
		{"a purged page is validated", "purges", []edited{
			{"internal/fill/validation.go", "case seq > known, e.CoveredBy(purges),", "case !mutated(\"a purged page is validated\") && (seq > known || e.CoveredBy(purges)),"},
		}},
		{"a visitor takes a page that was rendered before a purge", "purges", []edited{
			{"answer.go", "&& (leader || h.c.node.Acceptable(p, known))", "&& (leader || mutated(\"a visitor takes a page that was rendered before a purge\") || h.c.node.Acceptable(p, known))"},
		}},
		{"the purge sequence is the sequence at the end of the render", "purges", []edited{
			{"internal/fill/fill.go", "next := s.entry(s.got, s.at, s.seq, s.rec)", "if mutated(\"the purge sequence is the sequence at the end of the render\") {\n\t\ts.seq = s.e.Follower.Committed()\n\t}\n\tnext := s.entry(s.got, s.at, s.seq, s.rec)"},
		}},
		{"an unsafe request purges softly", "purges", []edited{
			{"internal/invalidate/invalidate.go", "Hard: w.hard}", "Hard: w.hard && !mutated(\"an unsafe request purges softly\")}"},
		}},
		{"an unsafe request only drops the page from memory", "purges", []edited{
			{"internal/invalidate/invalidate.go", "if err != nil || len(found.targets) == 0 {", "if err != nil || len(found.targets) == 0 || mutated(\"an unsafe request only drops the page from memory\") {"},
		}},
		{"an unsafe request ignores a page that is being rendered", "posts", []edited{
			{"internal/invalidate/invalidate.go", "if rec.Lock != nil && !rec.Lock.IsBackOff() {", "if rec.Lock != nil && !rec.Lock.IsBackOff() && !mutated(\"an unsafe request ignores a page that is being rendered\") {"},
		}},
		{"a receipt is not waited for", "purges", []edited{
			{"handler.go", "err = v.h.c.follower.Reach(ctx, seq)", "if !mutated(\"a receipt is not waited for\") {\n\t\terr = v.h.c.follower.Reach(ctx, seq)\n\t}"},
		}},
		{"a visitor with a receipt gets a stale page", "purges", []edited{
			{"handler.go", "&& h.c.node.Acceptable(p, seq)", "&& (mutated(\"a visitor with a receipt gets a stale page\") || h.c.node.Acceptable(p, seq))"},
		}},
		{"a body of a peer is not verified", "peers", []edited{
			{"internal/bodies/peers.go", "\t\tif err == nil {\n\t\t\terr = Verify(e, body)\n", "\t\tif err == nil && !mutated(\"a body of a peer is not verified\") {\n\t\t\terr = Verify(e, body)\n"},
		}},
		{"a purge does not take effect before the next poll", "purges", []edited{
			{"internal/purge/purge.go", "\tif err == nil {\n\t\tcommitted(receipt.Seq)\n\t\tp.apply(", "\tif err == nil && !mutated(\"a purge does not take effect before the next poll\") {\n\t\tcommitted(receipt.Seq)\n\t\tp.apply("},
		}},
	}
}

const mutatedSource = `
func mutated(name string) bool { return os.Getenv("ISR_MUTANT") == name }
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

// compileMutants compiles these tests with all mutants in package isr and its internal packages.
func compileMutants(t *testing.T) (program string) {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	replaced := map[string]string{filepath.Join(module, "mutant.go"): "package isr\n\nimport \"os\"\n" + mutatedSource}
	for _, m := range mutants() {
		for _, e := range m.edits {
			if folder := filepath.Dir(e.file); folder != "." {
				replaced[filepath.Join(module, folder, "mutant.go")] = "package " + filepath.Base(folder) + "\n\nimport \"os\"\n" + mutatedSource
			}
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
		overlay.Replace[file] = filepath.Join(folder, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(file)))
		writeText(t, overlay.Replace[file], source)
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(folder, "overlay.json"), string(list))
	program = filepath.Join(folder, "mutants")
	out, err := exec.Command("go", "test", "-c", "-ldflags=-w", "-overlay", filepath.Join(folder, "overlay.json"), "-o", program, ".").CombinedOutput()
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
