package config_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

const documentation = "../../docs/configuration.md"

// The reference of fields in the documentation is the code's.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "-run TestDocumentation -update -->\n\n"
	before, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no line that ends in %q", documentation, mark)
	}
	checkGolden(t, documentation, before+mark+strings.TrimRight(config.Markdown(), "\n")+"\n")
}

// Each example of the documentation is a valid file.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n# isr.yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 5 {
		t.Fatalf("found %d examples", len(examples))
	}
	for _, example := range examples {
		if _, err := config.Parse("isr.yaml", []byte(example[1]), environment); err != nil {
			t.Errorf("%v\nin\n%s", err, example[1])
		}
	}
}

// The schema is JSON and knows the fields of each section.
func TestSchema(t *testing.T) {
	var s struct {
		Schema     string `json:"$schema"`
		Properties map[string]struct {
			Items struct {
				Properties map[string]struct {
					Description string
					Default     any
				}
				AdditionalProperties *bool
			}
		}
	}
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	routes := s.Properties["routes"].Items
	revalidate, ok := routes.Properties["revalidate"]
	if !ok || revalidate.Description == "" || revalidate.Default != "0s" || routes.AdditionalProperties == nil || *routes.AdditionalProperties {
		t.Errorf("the schema of routes is %+v", routes)
	}
	if s.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("the dialect is %q", s.Schema)
	}
}
