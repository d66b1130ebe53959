package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Schema returns the JSON Schema (draft 2020-12) of a configuration file, for editors. It
// describes the types and bounds of fields; [Parse] also checks how they go together.
func Schema() []byte {
	s := schemaOf(typeOf[File]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Configuration of isr serve"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // of maps of texts, which are always encoded
	}
	return append(text, '\n')
}

// schema is a JSON Schema. Its names are sorted as it is encoded.
type schema = map[string]any

func schemaOf(t reflect.Type) schema {
	properties := schema{}
	var required []string
	for _, f := range fieldsOf(t) {
		properties[f.name] = f.schema()
		if f.required {
			required = append(required, f.name)
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	}
	return s
}

func (f *field) schema() schema {
	s := f.typeSchema()
	s["description"] = f.help
	if f.def != "" {
		s["default"] = f.defaultValue()
	}
	return s
}

// defaultValue returns the default as a value of JSON.
func (f *field) defaultValue() any {
	switch f.typ.Kind() {
	case reflect.Int, reflect.Float64, reflect.Bool:
		if f.typ != typeOf[Percent]() {
			return json.RawMessage(f.def)
		}
	}
	return f.def
}

// variableSchema is the schema of a value with a variable of the environment.
func variableSchema() schema { return schema{"type": "string", "pattern": `\$\{`} }

func (f *field) typeSchema() schema {
	section, many := isSection(f.typ)
	switch {
	case section != nil && !many:
		return schemaOf(section)
	case section != nil && f.typ.Kind() == reflect.Slice:
		return bounded(schema{"type": "array", "items": schemaOf(section)}, "maxItems", f.max)
	case section != nil:
		return bounded(schema{"type": "object", "additionalProperties": schemaOf(section)}, "maxProperties", f.max)
	}
	secret := func() schema {
		file := schema{"type": "object", "properties": schema{"file": schema{"type": "string"}}, "required": []string{"file"}, "additionalProperties": false}
		return schema{"anyOf": []schema{file, {"type": "string", "pattern": wholeVariable.String()}}}
	}
	texts := func() schema {
		list := bounded(schema{"type": "array", "items": f.textSchema()}, "maxItems", f.max)
		return schema{"anyOf": []schema{f.textSchema(), list}}
	}
	switch f.typ {
	case typeOf[Secret]():
		return secret()
	case typeOf[[]Secret]():
		return schema{"anyOf": []schema{secret(), bounded(schema{"type": "array", "items": secret()}, "maxItems", f.max)}}
	case typeOf[[]string]():
		return texts()
	case typeOf[[]int]():
		number := field{typ: typeOf[int](), min: f.min, max: f.max}
		return schema{"type": "array", "items": number.scalarSchema()}
	case typeOf[Keys]():
		classes := schema{"type": []string{"array", "string", "null"}, "items": schema{"type": []string{"string", "number"}}}
		named := bounded(schema{"type": "object", "additionalProperties": classes}, "maxProperties", f.max)
		return schema{"anyOf": append(texts()["anyOf"].([]schema), named)}
	case typeOf[map[string]string]():
		return bounded(schema{"type": "object", "additionalProperties": schema{"type": []string{"string", "number"}}}, "maxProperties", f.max)
	}
	return f.scalarSchema()
}

// textSchema is the schema of a text. Numbers are texts too where one is expected.
func (f *field) textSchema() schema {
	if len(f.enum) > 0 {
		return schema{"anyOf": []schema{{"enum": f.enum}, variableSchema()}}
	}
	return schema{"type": []string{"string", "number"}}
}

func (f *field) scalarSchema() schema {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	const duration = `(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+)`
	units := map[reflect.Type]string{
		typeOf[time.Duration](): "^" + duration + "$",
		typeOf[Window]():        "^(" + duration + "|auto " + duration + " to " + duration + ")$",
		typeOf[Percent]():       `^[0-9]+(\.[0-9]+)? ?%$`,
		typeOf[Size]():          `^[0-9]+ ?([KMGTP]iB|[KMG]B|B)?$`,
	}
	switch pattern := units[t]; {
	case pattern != "":
		return schema{"type": []string{"string", "integer"}, "pattern": pattern + `|\$\{`}
	case t.Kind() == reflect.Bool:
		return schema{"anyOf": []schema{{"type": "boolean"}, variableSchema()}}
	case t.Kind() == reflect.Int:
		return schema{"anyOf": []schema{bounded(bounded(schema{"type": "integer"}, "minimum", f.min), "maximum", f.max), variableSchema()}}
	case t.Kind() == reflect.Float64:
		return schema{"anyOf": []schema{bounded(bounded(schema{"type": "number"}, "minimum", f.min), "maximum", f.max), variableSchema()}}
	}
	return f.textSchema()
}

// bounded adds a numeric bound to a schema.
func bounded(s schema, name, bound string) schema {
	if _, err := strconv.ParseFloat(bound, 64); err == nil {
		s[name] = json.RawMessage(strings.TrimSpace(bound))
	}
	return s
}
