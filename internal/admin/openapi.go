package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (a *API) showDocument() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/openapi.json", name: "showDocument", limit: lookTime,
		summary: "This document.",
	}, func(*http.Request, struct{}) (json.RawMessage, error) { return a.document, nil })
}

// object is a JSON object of the document.
type object = map[string]any

// document describes operations in OpenAPI 3.1. The schemas of inputs and outputs are
// generated from the Go types.
func document(operations []operation, version string) ([]byte, error) {
	if version == "" {
		version = "unknown"
	}
	schemas := make(object)
	errorSchema := schema(reflect.TypeFor[failure](), schemas)
	paths := make(object)
	for _, op := range operations {
		path, ok := paths[op.path].(object)
		if !ok {
			path = make(object)
			paths[op.path] = path
		}
		path[strings.ToLower(op.method)] = op.describe(schemas, errorSchema)
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "isr admin API", "version": version, "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Inspect and change the stored pages of a site. Errors are objects with a single field, error.",
		},
		"paths":    paths,
		"security": []object{{"token": []string{}}},
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "Not needed on the socket in the data folder."}},
		},
	})
}

func (op operation) describe(schemas, errorSchema object) object {
	kind := "application/json"
	description := "Success."
	if op.lines {
		kind = "application/x-ndjson"
		description = "One line of JSON for each. If an error ends the list early, the last line has the field error."
	}
	if op.kind != "" {
		kind = op.kind
	}
	responses := object{"200": object{"description": description, "content": object{kind: object{"schema": schema(op.output, schemas)}}}}
	for _, status := range op.statuses() {
		responses[strconv.Itoa(status)] = object{
			"description": http.StatusText(status), "content": object{"application/json": object{"schema": errorSchema}},
		}
	}
	d := object{"operationId": op.name, "summary": op.summary, "responses": responses}
	if op.details != "" {
		d["description"] = op.details
	}
	if op.public {
		d["security"] = []object{{}, {"token": []string{}}}
	}
	parameters := headerParameters(op.headers)
	if op.hasBody() {
		d["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": schema(op.input, schemas)}}}
	} else {
		parameters = append(parameters, queryParameters(op.input)...)
	}
	if len(parameters) > 0 {
		d["parameters"] = parameters
	}
	return d
}

// statuses returns the error statuses of an operation.
func (op operation) statuses() []int {
	all := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	if op.hasBody() {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return append(all, op.problems...)
}

func headerParameters(headers map[string]string) []object {
	var all []object
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		all = append(all, object{"name": name, "in": "header", "required": false, "description": headers[name], "schema": object{"type": "string"}})
	}
	return all
}

func queryParameters(input reflect.Type) []object {
	var all []object
	for f := range fields(input) {
		all = append(all, object{"name": f.name, "in": "query", "required": false, "description": f.doc, "schema": schema(f.kind, nil)})
	}
	return all
}

// schema returns the JSON Schema of a type. Structs are added to schemas and returned as
// references.
func schema(t reflect.Type, schemas object) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schema(t.Elem(), schemas)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": schema(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schema(t.Elem(), schemas)}
	case reflect.Struct:
		return structure(t, schemas)
	}
	panic(fmt.Sprintf("admin: no schema for type %s", t)) // a programming error, which every test finds
}

func structure(t reflect.Type, schemas object) object {
	properties, required := make(object), []string{}
	for f := range fields(t) {
		p := maps.Clone(schema(f.kind, schemas))
		if f.doc != "" {
			p["description"] = f.doc
		}
		properties[f.name] = p
		if !f.optional {
			required = append(required, f.name)
		}
	}
	slices.Sort(required)
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	schemas[name] = object{"type": "object", "properties": properties, "required": required}
	return object{"$ref": "#/components/schemas/" + name}
}

// A field is a field of a struct in JSON.
type field struct {
	name, doc string
	kind      reflect.Type
	optional  bool
}

func fields(t reflect.Type) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if !yield(field{name: name, doc: f.Tag.Get("doc"), kind: f.Type, optional: options != ""}) {
				return
			}
		}
	}
}
