package localdynamo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// tableSpace holds one definition per table, by name.
const tableSpace = "tables"

// table is a table's definition, as it is stored. It is immutable: a change
// makes a new one.
type table struct {
	Name     string
	ID       int        // names the space of its items, never used twice
	Hash     attribute  // the hash key
	Range    *attribute `json:",omitempty"` // the range key, if there is one
	TTL      string     `json:",omitempty"` // attribute that holds expiry times; "" is off
	Billing  types.BillingMode
	Read     int64 // provisioned units; they limit nothing here
	Write    int64
	Created  time.Time
	Deletion bool `json:",omitempty"` // protection against deletion
}

// attribute is a key attribute.
type attribute struct {
	Name string
	Type types.ScalarAttributeType
}

// catalogue is all tables by name. It is never changed, only replaced.
type catalogue map[string]*table

func readCatalogue(r store.Reader) (catalogue, error) {
	c := catalogue{}
	var err error
	r.Range(tableSpace, nil, nil, false, func(name, stored []byte) bool {
		t := &table{}
		if err = json.Unmarshal(stored, t); err != nil {
			err = fmt.Errorf("%w: definition of table %q: %w", ErrCorrupt, name, err)
			return false
		}
		c[t.Name] = t
		return true
	})
	return c, err
}

// space is where the table's items are, by key.
func (t *table) space() string { return "items/" + strconv.Itoa(t.ID) }

// lookUp finds a table.
func (db *DB) lookUp(name *string) (*table, error) {
	if err := checkTableName(name); err != nil {
		return nil, err
	}
	if t := (*db.tables.Load())[*name]; t != nil {
		return t, nil
	}
	return nil, notFound()
}

func checkTableName(name *string) error {
	if name == nil {
		return invalid("1 validation error detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null")
	}
	ok := len(*name) >= 3 && len(*name) <= 255
	for i := 0; ok && i < len(*name); i++ {
		c := (*name)[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	if !ok {
		return invalid("Invalid table/index name.  Table/index names must be between 3 and 255 characters long, and may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'")
	}
	return nil
}

// CreateTable makes a table with a hash key, or a hash and a range key, of
// types S, N or B. It is ACTIVE at once. Secondary indexes are refused with a
// ValidationException; an existing table is a *types.ResourceInUseException.
func (db *DB) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	t, err := define(in)
	if err != nil {
		return nil, err
	}
	t.Created = db.now().Truncate(time.Millisecond)
	err = db.submit(ctx, func(tx *transaction) error {
		current, err := readCatalogue(tx)
		if err != nil {
			return err
		}
		if current[t.Name] != nil {
			return &types.ResourceInUseException{Message: aws.String("Table already exists: " + t.Name)}
		}
		for _, other := range current {
			t.ID = max(t.ID, other.ID)
		}
		t.ID++
		return db.writeTable(tx, t)
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.CreateTableOutput{TableDescription: t.describe()}, nil
}

// writeTable stores a definition, which becomes visible once it is on disk.
func (db *DB) writeTable(tx *transaction, t *table) error {
	stored, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := tx.Put(tableSpace, []byte(t.Name), stored); err != nil {
		return err
	}
	tx.afterCommit(func() {
		next := maps.Clone(*db.tables.Load())
		next[t.Name] = t
		db.tables.Store(&next)
	})
	return nil
}

// DescribeTable returns a table's definition. ItemCount and TableSizeBytes
// are not kept, and always 0.
func (db *DB) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	t, err := db.lookUp(in.TableName)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeTableOutput{Table: t.describe()}, nil
}

func (t *table) describe() *types.TableDescription {
	d := &types.TableDescription{
		TableName:                 aws.String(t.Name),
		TableArn:                  aws.String("arn:aws:dynamodb:local:000000000000:table/" + t.Name),
		TableId:                   aws.String(fmt.Sprintf("00000000-0000-0000-0000-%012d", t.ID)),
		TableStatus:               types.TableStatusActive,
		CreationDateTime:          aws.Time(t.Created),
		ItemCount:                 aws.Int64(0),
		TableSizeBytes:            aws.Int64(0),
		DeletionProtectionEnabled: aws.Bool(t.Deletion),
		ProvisionedThroughput: &types.ProvisionedThroughputDescription{
			NumberOfDecreasesToday: aws.Int64(0),
			ReadCapacityUnits:      aws.Int64(t.Read),
			WriteCapacityUnits:     aws.Int64(t.Write),
		},
	}
	if t.Billing == types.BillingModePayPerRequest {
		d.BillingModeSummary = &types.BillingModeSummary{BillingMode: t.Billing, LastUpdateToPayPerRequestDateTime: aws.Time(t.Created)}
	}
	add := func(a attribute, kind types.KeyType) {
		d.KeySchema = append(d.KeySchema, types.KeySchemaElement{AttributeName: aws.String(a.Name), KeyType: kind})
		d.AttributeDefinitions = append(d.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(a.Name), AttributeType: a.Type})
	}
	add(t.Hash, types.KeyTypeHash)
	if t.Range != nil {
		add(*t.Range, types.KeyTypeRange)
	}
	return d
}
