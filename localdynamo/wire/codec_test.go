package wire

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/localdynamo"
)

// sdkFolder returns the folder of the SDK's sources, with its snapshots of complete
// requests and responses and its lists of required members.
func sdkFolder(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/dynamodb").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func table(t testing.TB) map[string]*operation {
	t.Helper()
	table, err := operations(plans{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestOperationsAreComplete: each of AWS's operations is either in the table, if the
// engine has it, or in the list of unsupported operations.
func TestOperationsAreComplete(t *testing.T) {
	t.Parallel()
	table, unsupported := table(t), unsupported()
	client, db := reflect.TypeFor[*dynamodb.Client](), reflect.TypeFor[*localdynamo.DB]()
	for m := range client.Methods() {
		if m.Name == "Options" {
			continue
		}
		_, has := db.MethodByName(m.Name)
		_, out := unsupported[m.Name]
		switch in := table[m.Name] != nil; {
		case has && !in:
			t.Errorf("the engine has %s; add it to the table in operations.go", m.Name)
		case !has && !out:
			t.Errorf("%s is neither a method of the engine nor in the list of unsupported operations", m.Name)
		case in && out:
			t.Errorf("%s is both in the table and in the list of unsupported operations", m.Name)
		}
	}
}

// snapshot returns the JSON body in one of the SDK's snapshots.
func snapshot(t *testing.T, folder, operation, kind string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, kind+"_snapshot", operation+"."+kind+".snap"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(b), "\n{")
	if !found {
		return ""
	}
	return "{" + body
}

// TestSDKSnapshots: the SDK's complete requests and responses round-trip through the
// codec.
func TestSDKSnapshots(t *testing.T) {
	t.Parallel()
	folder := sdkFolder(t)
	for name, o := range table(t) {
		for kind, p := range map[string]*plan{"request": o.in, "response": o.out} {
			body := snapshot(t, folder, name, kind)
			if body == "" {
				if kind == "response" {
					t.Errorf("%s: no body in the snapshot of the %s", name, kind)
				}
				continue
			}
			of := o.inType
			if kind == "response" {
				of = o.outType
			}
			v := reflect.New(of).Elem()
			var d decoder
			if err := d.begin([]byte(body)); err != nil {
				t.Fatal(err)
			}
			if err := p.decode(&d, v); err != nil || d.deferred != nil {
				t.Errorf("%s %s: %v, %v", name, kind, err, d.deferred)
				continue
			}
			if diff := cmp.Diff(parse(t, body), parse(t, string(p.encode(nil, v)))); diff != "" {
				t.Errorf("%s %s does not round-trip (- SDK, + ours):\n%s", name, kind, diff)
			}
		}
	}
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// TestRequiredMembersMatchSDK: requiredMembers matches the SDK's validators for all
// structs that a request can contain.
func TestRequiredMembersMatchSDK(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(sdkFolder(t), "validators.go"))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for _, f := range regexp.MustCompile(`(?ms)^func validate\w+\(v \*(?:types\.)?(\w+)\) error \{(.*?)^\}`).FindAllStringSubmatch(string(source), -1) {
		for _, member := range regexp.MustCompile(`NewErrParamRequired\("(\w+)"\)`).FindAllStringSubmatch(f[2], -1) {
			want[f[1]] = append(want[f[1]], member[1])
		}
	}
	structs := plans{}
	table, err := operations(structs)
	if err != nil {
		t.Fatal(err)
	}
	inputs := make(map[*plan]bool)
	for _, o := range table {
		o.in.reach(inputs)
	}
	checked := 0
	for of, p := range structs {
		if !inputs[p] || p.members == nil {
			continue
		}
		var got []string
		for _, f := range p.members.list {
			if f.required {
				got = append(got, f.name)
			}
		}
		slices.Sort(got)
		slices.Sort(want[of.Name()])
		if !slices.Equal(got, want[of.Name()]) {
			t.Errorf("%s: required members are %v, the SDK's are %v", of.Name(), got, want[of.Name()])
		}
		checked += len(got)
	}
	if checked < 40 {
		t.Errorf("found only %d required members; the format of the SDK's validators.go may have changed", checked)
	}
}

func (p *plan) reach(seen map[*plan]bool) {
	if p == nil || seen[p] {
		return
	}
	seen[p] = true
	p.elem.reach(seen)
	if p.members != nil {
		for _, f := range p.members.list {
			f.plan.reach(seen)
		}
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "a", "12345678", "123456789", "\x00\x01\x1f ", `"`, `\`, "1234567\"", "12345678\"", "1234567\\", "\t\n\r", "\x7f", "é", "1234567é",
		"one\ntwo \"three\"\tfour\\ and more", "日本語 12345678 日本語", "\u2028\u2029", "😀", "a\x80b", "\xff\xfe", "\xed\xa0\x80", "</script>&",
	} {
		encoded := appendString([]byte("x"), s)[1:]
		var got string
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Errorf("%q became %s: %v", s, encoded, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); got != want && !strings.Contains(s, "\xed\xa0\x80") && !strings.Contains(s, "\xff\xfe") {
			t.Errorf("%q became %s, which is %q", s, encoded, got)
		}
	}
}

func TestAppendFloat(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", 0.5: "0.5", 12.5: "12.5", 40000: "40000.0", 1e300: "1e+300"} {
		if got := string(appendFloat(nil, f)); got != want {
			t.Errorf("%v became %s, want %s", f, got, want)
		}
	}
}
