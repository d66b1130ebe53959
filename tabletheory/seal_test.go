package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// patient has encrypted fields of several kinds.
type patient struct {
	Clinic string `theorydb:"pk"`
	Number int64  `theorydb:"sk"`
	Ward   string

	Name     string            `theorydb:"encrypted"`
	Findings map[string]string `theorydb:"encrypted,omitempty"`
	Allergy  *string           `theorydb:"encrypted"`
}

func (patient) TableName() string { return os.Getenv("TABLETHEORY_PATIENTS") }

func patientTable(t *testing.T, api *dynamodb.Client) string {
	t.Helper()
	return createTable(t, api, "TABLETHEORY_PATIENTS", &dynamodb.CreateTableInput{
		KeySchema:            keySchema("clinic", "number"),
		AttributeDefinitions: definitions("clinic", "S", "number", "N"),
	})
}

func ada() patient {
	return patient{Clinic: "north", Number: 7, Ward: "B", Name: "Ada Lovelace", Findings: map[string]string{"blood": "type 0"}}
}

// patientOf begins the read of one patient.
func patientOf(db *tabletheory.DB, number int64) *tabletheory.Query {
	return db.Model(&patient{}).Where("Clinic", "=", "north").Where("Number", "=", number)
}

// countedKeys counts the data keys that a key file made and opened. It is not
// safe for concurrent use.
type countedKeys struct {
	*envelope.KeyFile
	made, opened int
}

func newKeys(t *testing.T) *countedKeys {
	t.Helper()
	file, err := envelope.OpenKeyFile(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	return &countedKeys{KeyFile: file}
}

func (c *countedKeys) NewDataKey(ctx context.Context) (plain, sealed []byte, err error) {
	c.made++
	return c.KeyFile.NewDataKey(ctx)
}

func (c *countedKeys) OpenDataKey(ctx context.Context, sealed []byte) ([]byte, error) {
	c.opened++
	return c.KeyFile.OpenDataKey(ctx, sealed)
}

// isEnvelope reports whether a stored attribute is encrypted.
func isEnvelope(av types.AttributeValue) bool {
	m, ok := av.(*types.AttributeValueMemberM)
	return ok && len(m.Value) == 4 && m.Value["edk"] != nil && m.Value["ct"] != nil
}

// Every write encrypts, with one data key.
func TestWritesEncrypt(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := patientTable(t, api)
		for about, write := range map[string]func(*tabletheory.DB, patient) error{
			"Create":         func(db *tabletheory.DB, p patient) error { return db.Model(&p).Create() },
			"CreateOrUpdate": func(db *tabletheory.DB, p patient) error { return db.Model(&p).CreateOrUpdate() },
			"Update":         func(db *tabletheory.DB, p patient) error { return db.Model(&p).Update() },
			"UpdateBuilder": func(db *tabletheory.DB, p patient) error {
				return db.Model(&p).UpdateBuilder().Set("Ward", p.Ward).Set("Name", p.Name).Set("Findings", p.Findings).Set("Allergy", p.Allergy).Execute()
			},
			"BatchCreate": func(db *tabletheory.DB, p patient) error { return db.Model(&patient{}).BatchCreate([]patient{p}) },
			"BatchWrite":  func(db *tabletheory.DB, p patient) error { return db.Model(&patient{}).BatchWrite([]any{p}, nil) },
			"TransactWrite": func(db *tabletheory.DB, p patient) error {
				return db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
					tx.Put(&p)
					return nil
				})
			},
		} {
			keys, p := newKeys(t), ada()
			db := tabletheory.New(api, tabletheory.WithKeyProvider(keys))
			if err := db.Model(&p).Delete(); err != nil {
				t.Fatal(err)
			}
			if err := write(db, p); err != nil {
				t.Errorf("%s: %v", about, err)
				continue
			}
			if keys.made != 1 || keys.opened != 0 {
				t.Errorf("%s made %d data keys, and opened %d; want 1 and 0", about, keys.made, keys.opened)
			}
			stored := getRaw(t, api, table, attrs{"clinic": str("north"), "number": num("7")})
			for _, name := range []string{"name", "findings", "allergy"} {
				if !isEnvelope(stored[name]) {
					t.Errorf("%s stores %s as %#v", about, name, stored[name])
				}
			}
			if diff := cmp.Diff(str("B"), stored["ward"], cmp.AllowUnexported(types.AttributeValueMemberS{})); diff != "" {
				t.Errorf("%s: plain attributes: %s", about, diff)
			}
			var back patient
			if err := patientOf(db, 7).First(&back); err != nil {
				t.Errorf("%s: %v", about, err)
			}
			if diff := cmp.Diff(ada(), back); diff != "" {
				t.Errorf("%s: another value was read: %s", about, diff)
			}
		}
	})
}

// Every read decrypts, and opens its data key once.
func TestReadsDecrypt(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		patientTable(t, api)
		keys := newKeys(t)
		db := tabletheory.New(api, tabletheory.WithKeyProvider(keys))
		stored := ada()
		if err := db.Model(&stored).Create(); err != nil {
			t.Fatal(err)
		}
		one := func(dest *patient, err error) (patient, error) { return *dest, err }
		all := func(read func(dest any) error) (patient, error) {
			var list []patient
			if err := read(&list); err != nil || len(list) != 1 {
				return patient{}, errors.Join(err, fmt.Errorf("%d items; want one", len(list)))
			}
			return list[0], nil
		}
		key := patient{Clinic: "north", Number: 7}
		for about, read := range map[string]func(p *patient) (patient, error){
			"First": func(p *patient) (patient, error) { return one(p, patientOf(db, 7).First(p)) },
			"All":   func(*patient) (patient, error) { return all(db.Model(&patient{}).Where("Clinic", "=", "north").All) },
			"Scan":  func(*patient) (patient, error) { return all(db.Model(&patient{}).Scan) },
			"BatchGet": func(*patient) (patient, error) {
				return all(func(dest any) error { return db.Model(&patient{}).BatchGet([]any{key}, dest) })
			},
			"TransactGet": func(p *patient) (patient, error) {
				*p = key
				return one(p, db.TransactGet(t.Context(), func(tx *tabletheory.TransactionReader) error {
					tx.Get(p, nil)
					return nil
				}))
			},
			"ExecuteWithResult": func(p *patient) (patient, error) {
				return one(p, db.Model(&key).UpdateBuilder().Set("Ward", "B").ExecuteWithResult(p))
			},
		} {
			keys.opened = 0
			back, err := read(&patient{})
			if err != nil {
				t.Errorf("%s: %v", about, err)
				continue
			}
			if diff := cmp.Diff(ada(), back); diff != "" {
				t.Errorf("%s reads another value: %s", about, diff)
			}
			if keys.opened != 1 {
				t.Errorf("%s opened %d data keys; want 1", about, keys.opened)
			}
		}
	})
}

// A field written alone has its own data key, also after the master key was
// rotated; all fields can be read.
func TestUpdateOneEncryptedField(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		patientTable(t, api)
		keys := newKeys(t)
		db := tabletheory.New(api, tabletheory.WithKeyProvider(keys))
		p := ada()
		if err := db.Model(&p).Create(); err != nil {
			t.Fatal(err)
		}
		if err := keys.Rotate(); err != nil {
			t.Fatal(err)
		}
		p.Name = "Ada King"
		if err := db.Model(&p).Update("Name"); err != nil {
			t.Fatal(err)
		}
		var back patient
		if err := patientOf(db, 7).First(&back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("another value was read: %s", diff)
		}
		if keys.made != 2 || keys.opened != 2 {
			t.Errorf("%d data keys were made, and %d opened; want 2 and 2", keys.made, keys.opened)
		}
		// The item's key is read for decryption, even if it is not selected.
		var name patient
		if err := patientOf(db, 7).Select("Name").First(&name); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(patient{Name: "Ada King"}, name); diff != "" {
			t.Errorf("selected: %s", diff)
		}
	})
}

// A value that is not encrypted for this item is refused: one in plain, or one
// of another item.
func TestForeignValuesAreRefused(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := patientTable(t, api)
		db := tabletheory.New(api, tabletheory.WithKeyProvider(newKeys(t)))
		p := ada()
		if err := db.Model(&p).Create(); err != nil {
			t.Fatal(err)
		}
		stored := getRaw(t, api, table, attrs{"clinic": str("north"), "number": num("7")})
		moved := maps.Clone(stored)
		moved["number"] = num("8")
		putRaw(t, api, table, moved)
		swapped := maps.Clone(stored)
		swapped["number"], swapped["name"], swapped["allergy"] = num("9"), str("Eve"), &types.AttributeValueMemberNULL{Value: true}
		putRaw(t, api, table, swapped)
		for number, want := range map[int64]error{8: envelope.ErrTampered, 9: envelope.ErrNotEncrypted} {
			back := patient{Ward: "as it was"}
			err := patientOf(db, number).First(&back)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), table) || !strings.Contains(err.Error(), "name") {
				t.Errorf("%d: %v; want %v, and the names of table and attribute", number, err, want)
			}
			if diff := cmp.Diff(patient{Ward: "as it was"}, back); diff != "" {
				t.Errorf("%d: something was read: %s", number, diff)
			}
		}
	})
}

// Models without encrypted fields, and items without values in them, need no
// key.
func TestNothingToEncrypt(t *testing.T) {
	t.Parallel()
	type secretive struct {
		onTable
		ID     string            `theorydb:"pk"`
		Secret map[string]string `theorydb:"encrypted,omitempty"`
	}
	api, keys := localdynamotest.New(t), newKeys(t)
	db := tabletheory.New(api, tabletheory.WithKeyProvider(keys))
	item := secretive{onTable: onTable{"secrets"}, ID: "x"}
	if err := db.CreateTable(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	if err := db.Model(&item).Create(); err != nil {
		t.Fatal(err)
	}
	if err := db.Model(&item).Where("ID", "=", "x").First(&item); err != nil {
		t.Fatal(err)
	}
	if keys.made != 0 || keys.opened != 0 {
		t.Errorf("%d data keys were made, and %d opened", keys.made, keys.opened)
	}
	err := tabletheory.New(api).Model(&item).First(&item)
	if !errors.Is(err, tabletheory.ErrInvalidModel) || !strings.Contains(err.Error(), "pass WithKeyProvider to New") {
		t.Errorf("without a provider: %v; want ErrInvalidModel with advice", err)
	}
}
