package model_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// key makes the structs below complete models.
type key struct {
	PK string `theorydb:"pk"`
}

// hidden is embedded without effect.
type hidden struct{ Name string }

// secret is a struct that can only be a model, not a field.
type secret struct {
	key
	Token string `theorydb:"encrypted"`
}

// TestWrongTags has one struct for each mistake, and what the error must name
// besides the field.
func TestWrongTags(t *testing.T) {
	long := strings.Repeat("a", 256)
	tooLong := strings.Repeat("a", 64<<10)
	tests := map[string]struct {
		model any
		field string // empty: the struct as a whole
		words string
	}{
		"must be a struct": {0, "", "must be a struct"},
		"no partition key": {struct{ A string }{}, "", `theorydb:"pk"`},
		"two partition keys": {struct {
			A, B string `theorydb:"pk"`
		}{}, "B", "field A already has the role pk"},
		"two sort keys": {struct {
			key
			A, B string `theorydb:"sk"`
		}{}, "B", "field A already has the role sk"},
		"pk and sk": {struct {
			A string `theorydb:"pk,sk"`
		}{}, "A", "exclude each other"},
		"pk twice": {struct {
			A string `theorydb:"pk,pk"`
		}{}, "A", "twice"},
		"key of bool": {struct {
			A bool `theorydb:"pk"`
		}{}, "A", "not bool"},
		"key of struct": {struct {
			A struct{} `theorydb:"pk"`
		}{}, "A", "not struct {}"},
		"key of list": {struct {
			A []string `theorydb:"pk"`
		}{}, "A", "not []string"},
		"index key of map": {struct {
			key
			A map[string]string `theorydb:"index:I,pk"`
		}{}, "A", "not map"},
		"key of set": {struct {
			key
			A []string `theorydb:"sk,set"`
		}{}, "A", "not []string"},

		"unknown option": {struct {
			key
			A string `theorydb:"omitemtpy"`
		}{}, "A", `"omitemtpy"`},
		"unknown named option": {struct {
			key
			A string `theorydb:"name:a"`
		}{}, "A", `"name:a"`},
		"space": {struct {
			key
			A string `theorydb:"omitempty, ttl"`
		}{}, "A", `" ttl"`},
		"empty attr": {struct {
			key
			A string `theorydb:"attr:"`
		}{}, "A", "attr:s3_key"},
		"skip with more": {struct {
			key
			A string `theorydb:"-,omitempty"`
		}{}, "A", `"-"`},
		"not exported": {struct {
			key
			a string `theorydb:"attr:a"`
		}{}, "a", "not exported"},
		"naming on a field": {struct {
			key
			A string `theorydb:"naming:snake_case"`
		}{}, "A", "_ struct{}"},
		"unknown naming": {struct {
			key
			_ struct{} `theorydb:"naming:kebab-case"`
		}{}, "_", "naming:snake_case"},
		"option of the struct": {struct {
			key
			_ struct{} `theorydb:"omitempty"`
		}{}, "_", "naming:snake_case"},

		"misspelt index word": {struct {
			key
			A string `theorydb:"index:I,hash"`
		}{}, "A", `"hash"`},
		"index without role": {struct {
			key
			A string `theorydb:"index:I"`
		}{}, "A", "index:I,pk"},
		"index with two roles": {struct {
			key
			A string `theorydb:"index:I,pk,sk"`
		}{}, "A", "index:I,pk"},
		"index without name": {struct {
			key
			A string `theorydb:"index:,pk"`
		}{}, "A", "index:ByUser"},
		"index without pk": {struct {
			key
			A string `theorydb:"index:I,sk"`
		}{}, "A", "index:I,pk"},
		"index with two pks": {struct {
			key
			A, B string `theorydb:"index:I,pk"`
		}{}, "B", "already has the pk A"},
		"sparse without index": {struct {
			key
			A string `theorydb:"sparse"`
		}{}, "A", "index:Name,pk,sparse"},
		"lsi with pk": {struct {
			key
			A string `theorydb:"lsi:I,pk"`
		}{}, "A", "lsi:I,sk"},
		"lsi without sk": {struct {
			key
			A string `theorydb:"lsi:I"`
		}{}, "A", "lsi:I,sk"},
		"lsi and no sort key": {struct {
			key
			A string `theorydb:"lsi:I,sk"`
		}{}, "A", "sort key"},
		"index and lsi": {struct {
			key
			A string `theorydb:"sk,index:I,pk"`
			B string `theorydb:"lsi:I,sk"`
		}{}, "B", "keep one"},
		"encrypted key": {struct {
			A string `theorydb:"pk,encrypted"`
		}{}, "A", "remove encrypted"},
		"encrypted index key": {struct {
			key
			A string `theorydb:"index:I,pk,encrypted"`
		}{}, "A", "remove encrypted"},
		"encrypted further down": {struct {
			key
			A secret
		}{}, "Token", "at the top of an item"},

		"ttl of string": {struct {
			key
			A string `theorydb:"ttl"`
		}{}, "A", "not string"},
		"ttl of float": {struct {
			key
			A float64 `theorydb:"ttl"`
		}{}, "A", "not float64"},
		"two ttls": {struct {
			key
			A, B int64 `theorydb:"ttl"`
		}{}, "B", "already has the role ttl"},
		"version of float": {struct {
			key
			A float64 `theorydb:"version"`
		}{}, "A", "not float64"},
		"version of pointer": {struct {
			key
			A *int `theorydb:"version"`
		}{}, "A", "not *int"},
		"created_at of float": {struct {
			key
			A float64 `theorydb:"created_at"`
		}{}, "A", "not float64"},
		"updated_at of bool": {struct {
			key
			A bool `theorydb:"updated_at"`
		}{}, "A", "not bool"},
		"ttl and version": {struct {
			key
			A int64 `theorydb:"ttl,version"`
		}{}, "A", "exclude each other"},
		"encrypted version": {struct {
			key
			A int64 `theorydb:"version,encrypted"`
		}{}, "A", "exclude"},
		"binary version": {struct {
			key
			A string `theorydb:"created_at,binary"`
		}{}, "A", "created_at"},

		"set of string": {struct {
			key
			A string `theorydb:"set"`
		}{}, "A", "not string"},
		"set of structs": {struct {
			key
			A []struct{} `theorydb:"set"`
		}{}, "A", "not struct {}"},
		"set of pointers": {struct {
			key
			A []*string `theorydb:"set"`
		}{}, "A", "not *string"},
		"set of bytes": {struct {
			key
			A []byte `theorydb:"set"`
		}{}, "A", "not uint8"},
		"set of bools": {struct {
			key
			A []bool `theorydb:"set"`
		}{}, "A", "not bool"},
		"set of map to int": {struct {
			key
			A map[string]int `theorydb:"set"`
		}{}, "A", "not map[string]int"},
		"json and set": {struct {
			key
			A []string `theorydb:"json,set"`
		}{}, "A", "exclude each other"},
		"json and binary": {struct {
			key
			A string `theorydb:"json,binary"`
		}{}, "A", "exclude each other"},
		"binary int": {struct {
			key
			A int `theorydb:"binary"`
		}{}, "A", "not int"},
		"binary of no method": {struct {
			key
			A time.Duration `theorydb:"binary"`
		}{}, "A", "MarshalBinary"},

		"two fields, one attribute": {struct {
			key
			A string `theorydb:"attr:x"`
			B string `theorydb:"attr:x"`
		}{}, "B", "attr:"},
		"hidden in the attribute": {struct {
			key
			Other string `theorydb:"attr:pk"`
		}{}, "Other", "key.PK"},
		"attribute of a key": {keyNamed(long), "A", "at most 255"},
		"attribute":          {fieldNamed(tooLong), "A", "65535"},
		"channel": {struct {
			key
			A chan int
		}{}, "A", `theorydb:"-"`},
		"function further down": {struct {
			key
			A []struct{ F func() }
		}{}, "F", `theorydb:"-"`},
		"map with struct keys": {struct {
			key
			A map[struct{}]int
		}{}, "A", "map keys must be"},
		"embedded unexported pointer": {struct {
			key
			*hidden
		}{}, "hidden", "not exported"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := model.NewRegistry()
			for range 2 { // the second time from the cache
				_, err := registry.Model(reflect.TypeOf(test.model))
				wrong, ok := errors.AsType[*model.Error](err)
				if !ok {
					t.Fatalf("got error %v, want an *Error", err)
				}
				if wrong.Field != test.field {
					t.Errorf("the error names the field %q, want %q: %v", wrong.Field, test.field, err)
				}
				if !strings.Contains(err.Error(), test.words) {
					t.Errorf("error %q lacks %q", err, test.words)
				}
			}
		})
	}
}

func keyNamed(name string) any { return structOf(reflect.StructTag(`theorydb:"pk,attr:` + name + `"`)) }

func fieldNamed(name string) any { return structOf(reflect.StructTag(`theorydb:"attr:` + name + `"`)) }

// structOf returns a struct with one field A.
func structOf(tag reflect.StructTag) any {
	return reflect.Zero(reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[string](), Tag: tag}})).Interface()
}

func TestNaming(t *testing.T) {
	type names struct {
		key
		CreatedAt, S3Key, UserID, HTTPServer, ETag, ID, A, Snake_Case, IPv4, SHA256Sum, Ünder string
		Named                                                                                 string `theorydb:"attr:Named_AsIs"`
		Nested                                                                                struct{ InnerField string }
	}
	type camel struct{ names }
	type snake struct {
		_ struct{} `theorydb:"naming:snake_case"`
		names
		Own struct {
			_          struct{} `theorydb:"naming:camelCase"`
			InnerField string
		}
	}
	for name, test := range map[string]struct {
		model *model.Model
		want  []string
	}{
		"camelCase": {mustModel[camel](t), []string{
			"pk", "createdAt", "s3Key", "userId", "httpServer", "eTag", "id", "a", "snakeCase", "iPv4", "sha256Sum", "ünder", "Named_AsIs", "nested",
		}},
		"snake_case": {mustModel[snake](t), []string{
			"pk", "created_at", "s3_key", "user_id", "http_server", "e_tag", "id", "a", "snake_case", "i_pv4", "sha256_sum", "ünder", "Named_AsIs", "nested", "own",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range test.model.Fields {
				got = append(got, f.Attribute)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("the attributes are\n%q, want\n%q", got, test.want)
			}
		})
	}
	type embedding struct {
		PK string `theorydb:"pk,attr:id_"` // hides the field of the embedded struct
		snake
	}
	if f, _ := mustModel[embedding](t).Field("CreatedAt"); f.Attribute != "created_at" {
		t.Errorf("CreatedAt of the embedded struct is %s, want the naming of the embedded struct", f.Attribute)
	}
	for path, want := range map[string]string{"Nested.InnerField": "inner_field", "Own.InnerField": "innerField"} {
		p, err := mustModel[snake](t).Path(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Steps[1].Name; got != want {
			t.Errorf("%s is the attribute %q, want %q", path, got, want)
		}
	}
}

func TestRoles(t *testing.T) {
	type order struct {
		Account  string    `theorydb:"pk,attr:account,index:ByState,sk"`
		ID       int64     `theorydb:"sk"`
		State    string    `theorydb:"index:ByState,pk,sparse,lsi:State,sk"`
		Reviewer *string   `theorydb:"index:ByReviewer,pk"`
		Blob     []byte    `theorydb:"attr:blob,encrypted"`
		Revision int       `theorydb:"version"`
		Made     time.Time `theorydb:"created_at"`
		Changed  int64     `theorydb:"updated_at"`
		Expires  time.Time `theorydb:"ttl"`
		Skipped  chan int  `theorydb:"-"`
	}
	m := mustModel[order](t)
	for role, names := range map[string][2]string{
		"pk": {m.Hash.Name, "Account"}, "sk": {m.Range.Name, "ID"}, "version": {m.Version.Name, "Revision"},
		"created_at": {m.CreatedAt.Name, "Made"}, "updated_at": {m.UpdatedAt.Name, "Changed"}, "ttl": {m.TTL.Name, "Expires"},
		"encrypted": {m.Encrypted[0].Name, "Blob"}, "type of sk": {string(m.Range.Key), "N"},
	} {
		if names[0] != names[1] {
			t.Errorf("%s is %s, want %s", role, names[0], names[1])
		}
	}
	byState, _ := m.Index("ByState")
	local, _ := m.Index("State")
	if byState == nil || !byState.Sparse || byState.Local || byState.Hash.Name != "State" || byState.Range.Name != "Account" {
		t.Errorf("the index ByState is %+v", byState)
	}
	if local == nil || !local.Local || local.Hash != m.Hash || local.Range.Name != "State" {
		t.Errorf("the index State is %+v", local)
	}
	item, err := m.Encode(reflect.ValueOf(order{Account: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, attribute := range []string{"state", "reviewer", "expires"} {
		if av, ok := item[attribute]; ok {
			t.Errorf("%s is %v, want it omitted", attribute, av)
		}
	}
	if _, ok := item["id"]; !ok {
		t.Error("the sort key 0 is omitted")
	}
}

// Plain and Deep are embedded in the following test.
type (
	Plain struct{ Name, Plain string } // has a field with its own name
	Deep  struct {
		Plain
		Name string
	}
)

func TestEmbeddedStructs(t *testing.T) {
	type row struct {
		key
		*Deep
		Whole     Plain `theorydb:"attr:whole"`
		time.Time       // not promoted: it has no exported fields
	}
	type whole struct {
		key
		Plain `theorydb:"attr:inner"`
	}
	m := mustModel[row](t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := row{key{"a"}, &Deep{Plain{"hidden", "plain"}, "name"}, Plain{"x", "y"}, at}
	item, err := m.Encode(reflect.ValueOf(want))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{
		"pk": s("a"), "name": s("name"), "plain": s("plain"), "time": s("2026-01-01T00:00:00Z"),
		"whole": mapOf("name", s("x"), "plain", s("y")),
	})
	var got row
	if err := m.Decode(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	want.Plain.Name = "" // it is hidden
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
	item, err = m.Encode(reflect.ValueOf(row{key: key{"a"}}))
	if _, ok := item["name"]; ok || err != nil {
		t.Errorf("without the embedded struct the item is %v, %v", item, err)
	}
	item, err = mustModel[whole](t).Encode(reflect.ValueOf(whole{key{"a"}, Plain{"x", "y"}}))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{"pk": s("a"), "inner": mapOf("name", s("x"), "plain", s("y"))})
}
