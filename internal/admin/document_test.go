package admin

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The document has exactly the routes of the API, no dangling references, and a description
// for every field.
func TestDocumentMatchesRoutes(t *testing.T) {
	a := new(API)
	operations := a.operations()
	text, err := document(operations, "v1")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID, Summary string }
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var documented, served []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			documented = append(documented, strings.ToUpper(method)+" "+path+" "+op.OperationID)
			if op.Summary == "" {
				t.Errorf("%s %s has no summary", method, path)
			}
		}
	}
	names := make(map[string]bool)
	for _, op := range operations {
		served = append(served, op.method+" "+op.path+" "+op.name)
		if names[op.name] || !strings.HasPrefix(op.path, "/-/") && op.path != "/metrics" || op.limit <= 0 {
			t.Errorf("the operation %q at %s is not like the others", op.name, op.path)
		}
		names[op.name] = true
	}
	slices.Sort(documented)
	slices.Sort(served)
	if diff := cmp.Diff(served, documented); diff != "" || doc.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %s; served and documented differ:\n%s", doc.OpenAPI, diff)
	}
	if bytes.Contains(text, []byte("null")) {
		t.Errorf("a list is missing, which OpenAPI wants even if it is empty: %s", text)
	}
	for part := range strings.SplitSeq(string(text), `"$ref":"#/components/schemas/`) {
		name, _, _ := strings.Cut(part, `"`)
		if _, ok := doc.Components.Schemas[name]; !ok && !strings.HasPrefix(part, "{") {
			t.Errorf("the document refers to %s, which it has not", name)
		}
	}
	for name, schema := range doc.Components.Schemas {
		for property, v := range schema.Properties {
			description, _ := v.(map[string]any)["description"].(string)
			reference, _ := v.(map[string]any)["$ref"].(string)
			if description == "" && reference == "" {
				t.Errorf("%s.%s has no description", name, property)
			}
		}
	}
}
