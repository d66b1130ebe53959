package httpcache

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of fields of the three languages instead of checking them")

// A fieldRow is an entry of spec/responses.json; see section "Responses" of spec/README.md.
type fieldRow struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	Source string `json:"source"`
}

func readFields(t *testing.T) []fieldRow {
	t.Helper()
	text, err := os.ReadFile("../../spec/responses.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Comment string     `json:"comment"`
		Fields  []fieldRow `json:"fields"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatalf("spec/responses.json: %v", err)
	}
	return file.Fields
}

// fieldNames returns the names of one kind, sorted by bytes.
func fieldNames(rows []fieldRow, kind string) []string {
	var names []string
	for _, r := range rows {
		if r.Kind == kind {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestFieldsGenerated compares the lists of the three languages with spec/responses.json.
func TestFieldsGenerated(t *testing.T) {
	rows := readFields(t)
	for path, text := range map[string][]byte{
		"fields.go": fieldsInGo(t, rows),
		"../../clients/typescript/src/web/fields.ts":      fieldsInTypeScript(rows),
		"../../clients/python/theorydb_py/web/_fields.py": fieldsInPython(rows),
	} {
		if *update {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if stored, err := os.ReadFile(path); err != nil || !bytes.Equal(stored, text) {
			t.Errorf("%s is not what spec/responses.json says (%v); run go test ./internal/httpcache -run TestFieldsGenerated -update", path, err)
		}
	}
}

// TestFieldRows checks that each entry has what readers need, that no entry makes another one superfluous, and that
// each is found.
func TestFieldRows(t *testing.T) {
	rows := readFields(t)
	for i, r := range rows {
		if r.Name != strings.ToLower(r.Name) || r.Reason == "" || r.Source == "" || r.Kind != "exact" && r.Kind != "prefix" {
			t.Errorf("%+v is no name in lower case with a kind, a reason and a source", r)
		}
		for j, other := range rows {
			if i != j && (other.Name == r.Name || other.Kind == "prefix" && strings.HasPrefix(r.Name, other.Name)) {
				t.Errorf("%s is superfluous beside %s", r.Name, other.Name)
			}
		}
		name := r.Name
		if r.Kind == "prefix" {
			name += "x"
		}
		if Replayed(textproto.CanonicalMIMEHeaderKey(name)) {
			t.Errorf("%s is replayed", name)
		}
	}
	for _, name := range []string{"Content-Type", "X-Cached", "Ages", "X-Runtime-Version", "Sec-Websocket"} {
		if !Replayed(name) {
			t.Errorf("%s is not replayed", name)
		}
	}
}

const generatedFields = "Code generated from spec/responses.json by go test ./internal/httpcache -run TestFieldsGenerated -update; DO NOT EDIT."

func fieldsInGo(t *testing.T, rows []fieldRow) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage httpcache\n\nimport \"strings\"\n\n", generatedFields)
	b.WriteString("// ofOneAnswer reports whether spec/responses.json lists a field, named in canonical form.\nfunc ofOneAnswer(name string) bool {\nswitch name {\ncase ")
	for i, name := range fieldNames(rows, "exact") {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "%q", textproto.CanonicalMIMEHeaderKey(name))
	}
	b.WriteString(":\nreturn true\n}\nfor _, prefix := range []string{\n")
	for _, name := range fieldNames(rows, "prefix") {
		fmt.Fprintf(&b, "%q,\n", textproto.CanonicalMIMEHeaderKey(name))
	}
	b.WriteString("} {\nif strings.HasPrefix(name, prefix) {\nreturn true\n}\n}\nreturn false\n}\n")
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func fieldsInTypeScript(rows []fieldRow) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\n/** The names of fields of a response that are not stored. */\nexport const exactFields: ReadonlySet<string> = new Set([\n", generatedFields)
	for _, name := range fieldNames(rows, "exact") {
		fmt.Fprintf(&b, "  '%s',\n", name)
	}
	b.WriteString("]);\n\n/** How the names of further such ones begin. */\nexport const prefixedFields: readonly string[] = [\n")
	for _, name := range fieldNames(rows, "prefix") {
		fmt.Fprintf(&b, "  '%s',\n", name)
	}
	b.WriteString("];\n")
	return b.Bytes()
}

func fieldsInPython(rows []fieldRow) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\"\"\"The fields of responses that are not stored.\"\"\"\n\nFIELDS = frozenset(\n    [\n", generatedFields)
	for _, name := range fieldNames(rows, "exact") {
		fmt.Fprintf(&b, "        %q,\n", name)
	}
	b.WriteString("    ]\n)\nFIELD_PREFIXES = (\n")
	for _, name := range fieldNames(rows, "prefix") {
		fmt.Fprintf(&b, "    %q,\n", name)
	}
	b.WriteString(")\n")
	return b.Bytes()
}
