package wellknown

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of the three languages instead of checking them")

// A file is spec/requests.json; see section "Requests" of spec/README.md.
type file struct {
	Comment    string     `json:"comment"`
	Cookies    []row      `json:"cookies"`
	Parameters []row      `json:"parameters"`
	LeftOut    []excluded `json:"left_out"`
}

type row struct {
	Name          string `json:"name"`
	Kind          string `json:"kind"`
	Reason        string `json:"reason"`
	Documentation string `json:"documentation"`
}

type excluded struct {
	Name          string `json:"name"`
	Where         string `json:"where"`
	Reason        string `json:"reason"`
	Documentation string `json:"documentation"`
}

func read(t *testing.T) file {
	t.Helper()
	text, err := os.ReadFile("../../spec/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		t.Fatalf("spec/requests.json: %v", err)
	}
	return f
}

// named returns the names of one kind, sorted by bytes.
func named(rows []row, kind string) []row {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Kind != kind })
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// TestGenerated compares the lists of the three languages with spec/requests.json.
func TestGenerated(t *testing.T) {
	f := read(t)
	for path, text := range map[string][]byte{
		"lists.go": inGo(t, f),
		"../../clients/typescript/src/web/wellknown.ts":      inTypeScript(f),
		"../../clients/python/theorydb_py/web/_wellknown.py": inPython(f),
	} {
		if *update {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		stored, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stored, text) {
			t.Errorf("%s is not what spec/requests.json says; run go test ./internal/wellknown -update", path)
		}
	}
}

const generated = "Code generated from spec/requests.json by go test ./internal/wellknown -update; DO NOT EDIT."

func inGo(t *testing.T, f file) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage wellknown\n", generated)
	for _, l := range []struct {
		name string
		rows []row
	}{{"cookies", f.Cookies}, {"parameters", f.Parameters}} {
		fmt.Fprintf(&b, "\nvar %s = list{\n", l.name)
		for _, kind := range []struct{ field, name string }{{"exact", "exact"}, {"prefixes", "prefix"}} {
			fmt.Fprintf(&b, "%s: []entry{\n", kind.field)
			for _, r := range named(l.rows, kind.name) {
				fmt.Fprintf(&b, "{%q, %q},\n", r.Name, r.Reason)
			}
			b.WriteString("},\n")
		}
		b.WriteString("}\n")
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func inTypeScript(f file) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n", generated)
	for _, l := range []struct {
		name, comment string
		rows          []row
	}{
		{"Cookies", "cookies that pages do not depend on", f.Cookies},
		{"Parameters", "query parameters that only record where a visitor came from", f.Parameters},
	} {
		fmt.Fprintf(&b, "\n/** The names of %s. */\n%s\n", l.comment, array("export const exact"+l.name+": ReadonlySet<string> = new Set(", named(l.rows, "exact"), ");"))
		fmt.Fprintf(&b, "\n/** How the names of further such ones begin. */\n%s\n", array("export const prefixed"+l.name+": readonly string[] = ", named(l.rows, "prefix"), ";"))
	}
	return b.Bytes()
}

// array returns a statement with names as the formatter of the client in TypeScript prints it: on
// one line if it fits.
func array(before string, rows []row, after string) string {
	const lineWidth = 120 // of clients/typescript/biome.json
	var names []string
	for _, r := range rows {
		names = append(names, "'"+r.Name+"'")
	}
	if line := before + "[" + strings.Join(names, ", ") + "]" + after; len(line) <= lineWidth {
		return line
	}
	return before + "[\n  " + strings.Join(names, ",\n  ") + ",\n]" + after
}

func inPython(f file) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\"\"\"Cookies and query parameters that pages do not depend on.\"\"\"\n", generated)
	for _, l := range []struct {
		name string
		rows []row
	}{{"COOKIES", f.Cookies}, {"PARAMETERS", f.Parameters}} {
		fmt.Fprintf(&b, "\n%s = frozenset(\n    [\n", l.name)
		for _, r := range named(l.rows, "exact") {
			fmt.Fprintf(&b, "        %q,\n", r.Name)
		}
		fmt.Fprintf(&b, "    ]\n)\n%s_PREFIXES = (\n", strings.TrimSuffix(l.name, "S"))
		for _, r := range named(l.rows, "prefix") {
			fmt.Fprintf(&b, "    %q,\n", r.Name)
		}
		b.WriteString(")\n")
	}
	return b.Bytes()
}

// TestEntries checks that each entry has what readers need, that no entry makes another one
// superfluous, and that each name is found.
func TestEntries(t *testing.T) {
	f := read(t)
	for kind, l := range map[string]struct {
		rows []row
		find func(string) string
	}{"cookies": {f.Cookies, Cookie}, "parameters": {f.Parameters, Parameter}} {
		for i, r := range l.rows {
			at := fmt.Sprintf("%s: %q", kind, r.Name)
			checkEntry(t, at, r.Name, r.Reason, r.Documentation)
			if r.Kind != "exact" && r.Kind != "prefix" || r.Kind == "prefix" && len(r.Name) < 3 {
				t.Errorf("%s has the kind %q", at, r.Kind)
			}
			name := r.Name
			if r.Kind == "prefix" {
				name += "x"
			}
			if got := l.find(name); got != r.Reason {
				t.Errorf("%s: found with the reason %q", at, got)
			}
			for j, other := range l.rows {
				if i != j && (other.Name == r.Name || other.Kind == "prefix" && strings.HasPrefix(r.Name, other.Name)) {
					t.Errorf("%s is superfluous beside %q", at, other.Name)
				}
			}
		}
	}
	for _, r := range f.LeftOut {
		checkEntry(t, r.Name, r.Name, r.Reason, r.Documentation)
		find := map[string]func(string) string{"cookie": Cookie, "parameter": Parameter}[r.Where]
		if find == nil {
			t.Errorf("%q is left out of %q", r.Name, r.Where)
		} else if find(r.Name) != "" {
			t.Errorf("the %s %q is in the list although %s", r.Where, r.Name, r.Reason)
		}
	}
}

func checkEntry(t *testing.T, at, name, reason, documentation string) {
	t.Helper()
	if name == "" || strings.ContainsAny(name, "'\"\\*!=;, ") || len(name) > 64 || reason == "" {
		t.Errorf("%s: not a name with a reason", at)
	}
	if u, err := url.Parse(documentation); err != nil || u.Scheme != "https" || u.Host == "" {
		t.Errorf("%s: %q is no address of a documentation", at, documentation)
	}
}

func TestOthersAreNotFound(t *testing.T) {
	for _, name := range []string{"", "_", "_g", "session", "AWSALBX", "AWSAL", "zzz", "\xff", "~", "A", "BIGipServe", "utm", "page", "id", "q"} {
		if Cookie(name) != "" || Parameter(name) != "" {
			t.Errorf("%q is ignored", name)
		}
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Cookie("_ga_XYZ"); Cookie("session"); Parameter("utm_source") }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
