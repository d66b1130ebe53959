package spec_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/tabletheory"
)

// A contractVector is one call of contract.md.
type contractVector struct {
	Name      string            `json:"name"`
	Now       int64             `json:"now_ms,omitempty"`
	Before    []item            `json:"before"`
	Do        string            `json:"do"`
	Arguments contractArguments `json:"arguments"`
	Result    json.RawMessage   `json:"result,omitempty"`
	Error     string            `json:"error,omitempty"`
	After     []item            `json:"after"`
}

type contractArguments struct {
	Key         item          `json:"key,omitempty"`
	Keys        []item        `json:"keys,omitempty"`
	Item        item          `json:"item,omitempty"`
	Version     *int64        `json:"expected_version,omitempty"`
	Set         item          `json:"set,omitempty"`
	Remove      []string      `json:"remove,omitempty"`
	Add         item          `json:"add,omitempty"`
	IfNotExists item          `json:"if_not_exists,omitempty"`
	Append      item          `json:"append,omitempty"`
	Delete      item          `json:"delete,omitempty"`
	Index       string        `json:"index,omitempty"`
	Partition   *attribute    `json:"partition,omitempty"`
	Sort        *contractSort `json:"sort,omitempty"`
	Filter      *contractRule `json:"filter,omitempty"`
	Fields      []string      `json:"fields,omitempty"`
	Limit       int           `json:"limit,omitempty"`
	Segments    int           `json:"segments,omitempty"`
	Descending  bool          `json:"descending,omitempty"`
	Consistent  *bool         `json:"consistent_read,omitempty"`
}

type contractSort struct {
	Operator string      `json:"operator"`
	Values   []attribute `json:"values"`
}

// A contractRule is a comparison, or a group of rules.
type contractRule struct {
	Attribute string         `json:"attribute,omitempty"`
	Operator  string         `json:"operator,omitempty"`
	Values    []attribute    `json:"values,omitempty"`
	And       []contractRule `json:"and,omitempty"`
	Or        []contractRule `json:"or,omitempty"`
	Not       *contractRule  `json:"not,omitempty"`
}

// contractItem is the model of all contract vectors.
type contractItem struct {
	PK      string    `theorydb:"pk,attr:pk"`
	SK      string    `theorydb:"sk,attr:sk,index:by-name,sk"`
	Name    string    `theorydb:"attr:name,omitempty,index:by-name,pk,sparse"`
	Count   *int64    `theorydb:"attr:count,omitempty"`
	Tags    []string  `theorydb:"attr:tags,set,omitempty"`
	Lines   []string  `theorydb:"attr:lines,omitempty"`
	Version int64     `theorydb:"attr:version,version,omitempty"`
	Created time.Time `theorydb:"attr:created_at,created_at,omitempty"`
	Updated int64     `theorydb:"attr:updated_at,updated_at,omitempty"`
	Secret  string    `theorydb:"attr:secret,encrypted,omitempty"`
	Codes   []string  `theorydb:"attr:codes,encrypted,omitempty"`
}

func (contractItem) TableName() string { return tableName }

func TestContract(t *testing.T) {
	type file struct {
		Calls []contractVector `json:"calls"`
	}
	for _, name := range []string{"reads", "writes", "encryption"} {
		t.Run(name, func(t *testing.T) {
			run(t, "contract/"+name+".json", func(f *file) {
				for i := range f.Calls {
					f.Calls[i].answer(t)
				}
			})
		})
	}
}

// isElsewhere reports whether tabletheory lacks the call, so that its answer is
// written by hand and checked by the clients only.
func (v *contractVector) isElsewhere() bool { return v.Arguments.Filter.negates() }

func (r *contractRule) negates() bool {
	return r != nil && (r.Not != nil ||
		slices.ContainsFunc(r.And, func(r contractRule) bool { return r.negates() }) ||
		slices.ContainsFunc(r.Or, func(r contractRule) bool { return r.negates() }))
}

func (v *contractVector) answer(t *testing.T) {
	t.Helper()
	if v.isElsewhere() {
		return
	}
	c := newContract(t, v)
	result, err := c.call(v.Do, &v.Arguments)
	v.Error, v.Result = contractError(t, v, err), nil
	if err == nil && result != nil {
		if v.Result, err = json.Marshal(result); err != nil {
			t.Fatal(err)
		}
	}
	v.After = c.all()
}

// contractError returns the name of an error in contract.md.
func contractError(t *testing.T, v *contractVector, err error) string {
	t.Helper()
	failed, isCondition := errors.AsType[*tabletheory.ConditionError](err)
	switch {
	case err == nil:
		return ""
	case isCondition && v.Do == "update" && failed.Item == nil:
		return "ItemNotFound"
	case errors.Is(err, tabletheory.ErrItemNotFound):
		return "ItemNotFound"
	case errors.Is(err, tabletheory.ErrVersionConflict) && v.Do != "create":
		return "VersionConflict"
	case errors.Is(err, tabletheory.ErrConditionFailed):
		return "ConditionFailed"
	case errors.Is(err, tabletheory.ErrInvalidQuery) && v.Arguments.Consistent != nil:
		return "InvalidInput" // a consistent read of a global index
	case errors.Is(err, tabletheory.ErrInvalidQuery):
		return "InvalidQuery"
	}
	return nameOf(t, err)
}

// contract is a table with the items of a vector, and the calls on it.
type contract struct {
	t     *testing.T
	ctx   context.Context
	local *localdynamo.DB
	db    *tabletheory.DB
	items *tabletheory.Table[contractItem]
}

func newContract(t *testing.T, v *contractVector) *contract {
	t.Helper()
	local := localdynamo.OpenMemory(localdynamo.Options{})
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	})
	db := tabletheory.New(local, tabletheory.WithClock(func() time.Time { return time.UnixMilli(v.Now) }), tabletheory.WithKeyProvider(contractKeys{}))
	if err := db.CreateTable(t.Context(), contractItem{}); err != nil {
		t.Fatal(err)
	}
	for _, i := range v.Before {
		if _, err := local.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: sealMarked(t, i)}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := tabletheory.NewTable[contractItem](db)
	if err != nil {
		t.Fatal(err)
	}
	return &contract{t: t, ctx: t.Context(), local: local, db: db, items: items}
}

// all returns the stored items by key.
func (c *contract) all() []item {
	c.t.Helper()
	out, err := c.local.Scan(c.ctx, &dynamodb.ScanInput{TableName: aws.String(tableName)})
	if err != nil {
		c.t.Fatal(err)
	}
	all := make([]item, 0, len(out.Items))
	for _, i := range out.Items {
		all = append(all, opened(c.t, i, marked))
	}
	sortItems(all)
	return all
}

func sortItems(items []item) {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.text("pk"), b.text("pk")), cmp.Compare(a.text("sk"), b.text("sk")))
	})
}

func (c *contract) call(do string, a *contractArguments) (any, error) {
	switch do {
	case "get", "get_or_none":
		key := c.decode(a.Key)
		found, err := c.items.Consistent().Get(c.ctx, key.PK, key.SK)
		if do == "get_or_none" && errors.Is(err, tabletheory.ErrItemNotFound) {
			return nil, nil
		}
		return c.encode(found, err)
	case "create", "put":
		given := c.decode(a.Item)
		err := c.items.Put(c.ctx, &given, onlyIf(do == "create", tabletheory.IfNotExists())...)
		return c.encode(given, err)
	case "update", "upsert":
		conditions := append(onlyIf(do == "update", tabletheory.IfExists()), c.atVersion(a)...)
		updated, err := c.items.Update(c.ctx, c.decode(a.Key), func(u *tabletheory.UpdateBuilder) { c.change(u, a) }, conditions...)
		return c.encode(updated, err)
	case "delete":
		return nil, c.items.Delete(c.ctx, c.decode(a.Key), c.atVersion(a)...)
	case "batch_get":
		return c.batchGet(a.Keys)
	case "query":
		return c.collect(c.items.Query(c.ctx, func(q *tabletheory.Query) { c.build(q, a) }))
	case "scan":
		return c.scan(a)
	case "pages":
		return c.pages(a)
	}
	c.t.Fatalf("unknown call %q", do)
	return nil, nil
}

func onlyIf(holds bool, p tabletheory.Precondition) []tabletheory.Precondition {
	if !holds {
		return nil
	}
	return []tabletheory.Precondition{p}
}

func (c *contract) atVersion(a *contractArguments) []tabletheory.Precondition {
	if a.Version == nil {
		return nil
	}
	return []tabletheory.Precondition{tabletheory.AtVersion(*a.Version)}
}

func (c *contract) decode(i item) (decoded contractItem) {
	c.t.Helper()
	if err := c.db.UnmarshalItem(c.ctx, sealed(c.t, i), &decoded); err != nil {
		c.t.Fatal(err)
	}
	return decoded
}

// encode returns a result as it is stored; nil after an error.
func (c *contract) encode(i contractItem, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return c.stored(i), nil
}

// stored returns an item as it is stored, but with its attributes decrypted, and without
// the part of its key that a projection left out.
func (c *contract) stored(i contractItem) item {
	c.t.Helper()
	whole := i
	whole.PK, whole.SK = cmp.Or(i.PK, "-"), cmp.Or(i.SK, "-")
	encoded, err := c.db.MarshalItem(c.ctx, &whole)
	if err != nil {
		c.t.Fatal(err)
	}
	stored := opened(c.t, encoded, unmarked)
	if i.PK == "" {
		delete(stored, "pk")
	}
	if i.SK == "" {
		delete(stored, "sk")
	}
	return stored
}

func (c *contract) change(u *tabletheory.UpdateBuilder, a *contractArguments) {
	for name, value := range a.Set {
		u.Set(name, c.value(value))
	}
	for _, name := range a.Remove {
		u.Remove(name)
	}
	for name, value := range a.Add {
		u.Add(name, c.value(value))
	}
	for name, value := range a.IfNotExists {
		u.SetIfNotExists(name, c.value(value))
	}
	for name, value := range a.Append {
		u.AppendToList(name, c.value(value))
	}
	for name, value := range a.Delete {
		u.Delete(name, c.value(value))
	}
}

// value returns the Go value of an attribute of contractItem.
func (c *contract) value(av types.AttributeValue) any {
	c.t.Helper()
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return av.Value
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(av.Value, 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		return n
	case *types.AttributeValueMemberSS:
		return av.Value
	case *types.AttributeValueMemberL:
		texts := make([]string, 0, len(av.Value))
		for _, element := range av.Value {
			texts = append(texts, fmt.Sprint(c.value(element)))
		}
		return texts
	}
	c.t.Fatalf("the model has no attribute of type %T", av)
	return nil
}

// batchGet puts what tabletheory returns, which leaves out missing items and
// duplicates, in the places of the keys.
func (c *contract) batchGet(keys []item) (any, error) {
	structs := make([]any, 0, len(keys))
	for _, key := range keys {
		structs = append(structs, c.decode(key))
	}
	var found []contractItem
	if err := c.db.WithContext(c.ctx).Model(contractItem{}).ConsistentRead().BatchGet(structs, &found); err != nil {
		return nil, err
	}
	result := make([]item, len(keys))
	for i, key := range keys {
		for _, f := range found {
			if f.PK == key.text("pk") && f.SK == key.text("sk") {
				result[i] = c.stored(f)
			}
		}
	}
	return result, nil
}

func (c *contract) collect(found func(yield func(contractItem, error) bool)) ([]item, error) {
	result := []item{}
	for i, err := range found {
		if err != nil {
			return nil, err
		}
		result = append(result, c.stored(i))
	}
	return result, nil
}

func (c *contract) scan(a *contractArguments) (any, error) {
	if a.Segments == 0 {
		result, err := c.collect(c.items.Scan(c.ctx, func(q *tabletheory.Query) { c.build(q, a) }))
		sortItems(result)
		return result, err
	}
	q := c.db.WithContext(c.ctx).Model(contractItem{})
	c.build(q, a)
	var found []contractItem
	err := q.ParallelScan(&found, a.Segments)
	result := make([]item, 0, len(found))
	for _, i := range found {
		result = append(result, c.stored(i))
	}
	sortItems(result)
	return result, err
}

func (c *contract) pages(a *contractArguments) (any, error) {
	pages := [][]item{}
	for cursor := ""; ; {
		q := c.db.WithContext(c.ctx).Model(contractItem{})
		c.build(q, a)
		if cursor != "" {
			q.Cursor(cursor)
		}
		var found []contractItem
		p, err := q.AllPaginated(&found)
		if err != nil {
			return nil, err
		}
		page := []item{}
		for _, i := range found {
			page = append(page, c.stored(i))
		}
		pages = append(pages, page)
		if cursor = p.NextCursor; cursor == "" {
			return pages, nil
		}
	}
}

// build applies the arguments of a query or a scan.
func (c *contract) build(q *tabletheory.Query, a *contractArguments) {
	partition, sort := "pk", "sk"
	if a.Index != "" {
		q.Index(a.Index)
		partition = "name"
	}
	if a.Partition != nil {
		q.Where(partition, "=", c.value(a.Partition.AttributeValue))
	}
	if a.Sort != nil {
		q.Where(sort, goOperator[a.Sort.Operator], c.operand(a.Sort.Operator, a.Sort.Values))
	}
	if a.Descending {
		q.OrderBy(sort, "DESC")
	}
	if a.Limit > 0 {
		q.Limit(a.Limit)
	}
	if len(a.Fields) > 0 {
		q.Select(a.Fields...)
	}
	if a.Consistent != nil && *a.Consistent || a.Consistent == nil && a.Index == "" {
		q.ConsistentRead()
	}
	if a.Filter != nil {
		c.filter(q, *a.Filter, false)
	}
}

// filter adds a rule to the filters of a query.
func (c *contract) filter(q *tabletheory.Query, r contractRule, isAlternative bool) {
	c.t.Helper()
	switch add := q.FilterGroup; {
	case r.And != nil || r.Or != nil:
		if isAlternative {
			add = q.OrFilterGroup
		}
		add(func(q *tabletheory.Query) {
			for _, part := range r.And {
				c.filter(q, part, false)
			}
			for i, part := range r.Or {
				c.filter(q, part, i > 0)
			}
		})
	case isAlternative:
		q.OrFilter(r.Attribute, goOperator[r.Operator], c.operand(r.Operator, r.Values))
	default:
		q.Filter(r.Attribute, goOperator[r.Operator], c.operand(r.Operator, r.Values))
	}
}

var goOperator = map[string]string{
	"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "between": "BETWEEN", "in": "IN",
	"begins_with": "BEGINS_WITH", "contains": "CONTAINS", "exists": "EXISTS", "not_exists": "NOT_EXISTS",
}

func (c *contract) operand(operator string, values []attribute) any {
	c.t.Helper()
	switch {
	case len(values) == 0:
		return nil
	case operator != "between" && operator != "in":
		return c.value(values[0].AttributeValue)
	}
	all := make([]any, 0, len(values))
	for _, v := range values {
		all = append(all, c.value(v.AttributeValue))
	}
	return all
}
