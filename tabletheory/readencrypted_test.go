package tabletheory_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// Patient has encrypted fields.
type Patient struct {
	Ward      string   `theorydb:"pk,index:by-bed,pk"`
	Bed       int64    `theorydb:"sk"`
	Floor     int64    `theorydb:"index:by-bed,sk"`
	Diagnosis string   `theorydb:"encrypted"`
	Drugs     []string `theorydb:"encrypted,omitempty"`
	Visits    int64
}

func (Patient) TableName() string { return os.Getenv("TABLETHEORY_PATIENTS") }

// patients creates a table with these patients for the duration of a test.
func patients(t *testing.T, api *dynamodb.Client, items ...Patient) (table string, db *tabletheory.DB) {
	t.Helper()
	table = createTable(t, api, "TABLETHEORY_PATIENTS", &dynamodb.CreateTableInput{
		KeySchema:            keySchema("ward", "bed"),
		AttributeDefinitions: definitions("ward", "S", "bed", "N", "floor", "N"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("by-bed"), KeySchema: keySchema("ward", "floor"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	})
	keys, err := envelope.OpenKeyFile(filepath.Join(t.TempDir(), "keys"))
	check(t, err)
	db = tabletheory.New(api, tabletheory.WithKeyProvider(keys))
	for _, item := range items {
		check(t, db.Model(&item).CreateOrUpdate())
	}
	return table, db
}

func TestEveryReadDecrypts(t *testing.T) {
	t.Parallel()
	want := Patient{Ward: "a", Bed: 1, Floor: 2, Diagnosis: "flu", Drugs: []string{"tea"}, Visits: 3}
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		_, db := patients(t, api, want)
		query := func() *tabletheory.Query { return db.Model(Patient{}).Where("Ward", "=", "a") }
		var got, found Patient
		var all, page, indexed, scanned, parallel, batch []Patient
		check(t, query().Where("Bed", "=", 1).First(&got))
		check(t, query().Filter("Diagnosis", "EXISTS", nil).First(&found))
		check(t, query().All(&all))
		_, err := query().AllPaginated(&page)
		check(t, err)
		check(t, query().Index("by-bed").All(&indexed))
		check(t, db.Model(Patient{}).Scan(&scanned))
		check(t, db.Model(Patient{}).ParallelScan(&parallel, 2))
		check(t, db.Model(Patient{}).BatchGet([]any{want}, &batch))
		transacted := Patient{Ward: "a", Bed: 1}
		check(t, db.TransactGet(t.Context(), func(tx *tabletheory.TransactionReader) error { tx.Get(&transacted, nil); return nil }))
		table, err := tabletheory.NewTable[Patient](db)
		check(t, err)
		typed, err := table.Get(t.Context(), "a", 1)
		check(t, err)
		yielded, err := collect(table.Scan(t.Context(), nil))
		check(t, err)
		same(t, [][]Patient{{got}, {found}, all, page, indexed, scanned, parallel, batch, {transacted}, {typed}, yielded}, [][]Patient{
			{want}, {want}, {want}, {want}, {want}, {want}, {want}, {want}, {want}, {want}, {want},
		})
	})
}

func TestSelectOfEncryptedFields(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		_, db := patients(t, api, Patient{Ward: "a", Bed: 1, Diagnosis: "flu", Drugs: []string{"tea"}, Visits: 3})
		got := Patient{Ward: "kept", Visits: 9}
		check(t, db.Model(Patient{}).Where("Ward", "=", "a").Where("Bed", "=", 1).Select("Diagnosis").First(&got))
		same(t, got, Patient{Ward: "kept", Visits: 9, Diagnosis: "flu"})
		var all []Patient
		check(t, db.Model(Patient{}).Select("Drugs", "Bed").Scan(&all))
		same(t, all, []Patient{{Bed: 1, Drugs: []string{"tea"}}})
	})
}

func TestEncryptedFieldsCannotBeCompared(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		_, db := patients(t, api)
		query := func() *tabletheory.Query { return db.Model(Patient{}).Where("Ward", "=", "a") }
		var all []Patient
		for name, err := range map[string]error{
			"a filter":           query().Filter("Diagnosis", "=", "flu").All(&all),
			"an alternative":     query().OrFilter("diagnosis", "BEGINS_WITH", "f").All(&all),
			"a group":            query().FilterGroup(func(g *tabletheory.Query) { g.Filter("Drugs", "CONTAINS", "tea") }).All(&all),
			"a filter on a part": query().Filter("Drugs[0]", "EXISTS", nil).All(&all),
			"its type":           query().Filter("Drugs", "ATTRIBUTE_TYPE", "L").All(&all),
			"a key":              query().Where("Diagnosis", "=", "flu").All(&all),
			"a selected part":    query().Select("Drugs[0]").All(&all),
		} {
			if !errors.Is(err, tabletheory.ErrInvalidQuery) || !strings.Contains(err.Error(), "encrypted") && name != "a key" {
				t.Errorf("%s: got error %v, want an ErrInvalidQuery that mentions encryption", name, err)
			}
		}
	})
}

// A value moved to another item does not decrypt there, and the error names the
// item.
func TestReadErrorsNameTamperedItems(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := patients(t, api, Patient{Ward: "a", Bed: 1, Diagnosis: "flu"}, Patient{Ward: "a", Bed: 2, Diagnosis: "cold"})
		item := getRaw(t, api, table, attrs{"ward": str("a"), "bed": num("1")})
		item["bed"] = num("2")
		putRaw(t, api, table, item)
		all := []Patient{{Ward: "kept"}}
		for call, err := range map[string]error{
			"All":    db.Model(Patient{}).Where("Ward", "=", "a").All(&all),
			"Select": db.Model(Patient{}).Select("Diagnosis").Scan(&all),
		} {
			if err == nil || !strings.Contains(err.Error(), "Patient ward=a bed=2") || !strings.Contains(err.Error(), table) {
				t.Errorf("%s: got error %v, want one that names patient a 2 and the table", call, err)
			}
		}
		same(t, all, []Patient{{Ward: "kept"}})
	})
}
