package languages

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// secret is the model of encryption.mjs and encryption.py.
type secret struct {
	PK    string   `theorydb:"pk,attr:pk"`
	SK    string   `theorydb:"sk,attr:sk"`
	Text  string   `theorydb:"attr:text,encrypted"`
	Count int64    `theorydb:"attr:count,encrypted"`
	Tags  []string `theorydb:"attr:tags,set,encrypted"`
	Lines []string `theorydb:"attr:lines,encrypted"`
	Raw   []byte   `theorydb:"attr:raw,encrypted"`
	table string
}

func (s secret) TableName() string { return s.table }

func secretBy(language, table string) secret {
	return secret{
		PK: "secrets", SK: language, Text: "Ünï€😀 by " + language, Count: -1200,
		Tags: []string{"a", "b", "😀", "ﬁ"}, Lines: []string{"x", ""}, Raw: []byte{0, 255}, table: table,
	}
}

// TestEncryptedAttributes: what each language encrypts, with a master key of its own in one
// key file, all languages decrypt.
func TestEncryptedAttributes(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine) {
		c := &crew{engine: e, api: e.client()}
		c.newTable(t)
		file := filepath.Join(t.TempDir(), "keys")
		keys, err := envelope.OpenKeyFile(file)
		if err != nil {
			t.Fatal(err)
		}
		db := tabletheory.New(c.api, tabletheory.WithKeyProvider(keys)).WithContext(t.Context())
		written := secretBy("go", c.table)
		if err := db.Model(&written).Create(); err != nil {
			t.Fatal(err)
		}
		programs := map[string][]string{
			"typescript": {"node", "--no-warnings", installed(t, "encryption.mjs")},
			"python":     {isrtest.Engine(t, "ISR_TEST_PYTHON", "python with boto3"), "-B", "encryption.py"},
		}
		for _, program := range programs {
			c.run(t, program, "write", file)
		}

		var found []secret
		if err := db.Model(secret{table: c.table}).Where("PK", "=", "secrets").ConsistentRead().All(&found); err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i].table = c.table
		}
		want := []secret{secretBy("go", c.table), secretBy("python", c.table), secretBy("typescript", c.table)}
		if d := cmp.Diff(want, found, cmp.AllowUnexported(secret{})); d != "" {
			t.Errorf("read in Go (-want +got):\n%s", d)
		}
		var text string
		for _, s := range want {
			text += fmt.Sprintf(`[%q,%q,-1200,["a","b","😀","ﬁ"],["x",""],[0,255]]`+"\n", s.SK, s.Text)
		}
		for language, program := range programs {
			if d := cmp.Diff(text, c.run(t, program, "read", file)); d != "" {
				t.Errorf("read in %s (-want +got):\n%s", language, d)
			}
		}
	})
}

// run runs a program with a command on the crew's table and returns its output.
func (c *crew) run(t *testing.T, program []string, command, keys string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program[0], append(program[1:], command, keys, c.table)...)
	cmd.Env = append(c.environment(), "PYTHONPATH="+absolute(t, "../../clients/python"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program[len(program)-1]), command, err, stderrOf(err))
	}
	return string(out)
}
