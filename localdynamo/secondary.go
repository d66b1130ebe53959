package localdynamo

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of secondary indexes.
const (
	maxGlobal    = 20  // of one table
	maxLocal     = 5   // of one table
	maxIncluded  = 20  // attributes that one index includes
	maxProjected = 100 // attributes that the indexes of one table include
)

// indexRequest is an index as it was asked for.
type indexRequest struct {
	name       *string
	schema     []types.KeySchemaElement
	projection *types.Projection
	throughput *types.ProvisionedThroughput
	global     bool
}

// setIndexes gives a new table its indexes.
func (t *table) setIndexes(global []types.GlobalSecondaryIndex, local []types.LocalSecondaryIndex, definitions []types.AttributeDefinition) error {
	requests := make([]indexRequest, 0, len(global)+len(local))
	for _, g := range global {
		requests = append(requests, indexRequest{g.IndexName, g.KeySchema, g.Projection, g.ProvisionedThroughput, true})
	}
	for _, l := range local {
		requests = append(requests, indexRequest{name: l.IndexName, schema: l.KeySchema, projection: l.Projection})
	}
	switch {
	case global != nil && len(global) == 0:
		return invalid("One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty")
	case local != nil && len(local) == 0:
		return invalid("One or more parameter values were invalid: List of LocalSecondaryIndexes is empty")
	}
	for i := range requests {
		if err := t.addIndex(&requests[i], definitions); err != nil {
			return err
		}
	}
	return t.checkIndexLimits()
}

// addIndex checks a request and adds the index to the definition, empty.
func (t *table) addIndex(in *indexRequest, definitions []types.AttributeDefinition) error {
	if err := checkName("indexName", in.name); err != nil {
		return err
	}
	if t.index(*in.name) != nil {
		return invalid("One or more parameter values were invalid: Duplicate index name: %s", *in.name)
	}
	ix := &index{Name: *in.name, Global: in.global}
	var err error
	if ix.keySchema, err = keysOf(in.schema, definitions); err != nil {
		return err
	}
	if err := t.checkLocal(ix); err != nil {
		return err
	}
	if err := ix.setProjection(in.projection); err != nil {
		return err
	}
	if err := t.setIndexThroughput(ix, in.throughput); err != nil {
		return err
	}
	t.LastID++
	ix.ID = t.LastID
	t.Indexes = append(slices.Clip(t.Indexes), ix)
	return nil
}

// checkLocal refuses a local index that does not share the table's hash key.
func (t *table) checkLocal(ix *index) error {
	switch {
	case ix.Global:
		return nil
	case t.Range == nil:
		return invalid("One or more parameter values were invalid: Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	case ix.Range == nil:
		return invalid("One or more parameter values were invalid: Index KeySchema does not have a range key for index: %s", ix.Name)
	case ix.Hash != t.Hash:
		return invalid("One or more parameter values were invalid: Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. index hash key: %s, table hash key: %s", ix.Name, ix.Hash.Name, t.Hash.Name)
	}
	return nil
}

func (ix *index) setProjection(in *types.Projection) error {
	if in == nil || in.ProjectionType == "" {
		return invalid("One or more parameter values were invalid: Unknown ProjectionType: null")
	}
	switch in.ProjectionType {
	case types.ProjectionTypeAll, types.ProjectionTypeKeysOnly:
		if in.NonKeyAttributes != nil {
			return invalid("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", in.ProjectionType)
		}
	case types.ProjectionTypeInclude:
		if err := checkIncluded(in.NonKeyAttributes); err != nil {
			return err
		}
	default:
		return invalid("1 validation error detected: Value '%s' at 'projection.projectionType' failed to satisfy constraint: Member must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]", in.ProjectionType)
	}
	ix.Projection, ix.Include = in.ProjectionType, slices.Clone(in.NonKeyAttributes)
	return nil
}

func checkIncluded(names []string) error {
	if len(names) == 0 {
		return invalid("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	}
	if len(names) > maxIncluded {
		return invalid("1 validation error detected: Value at 'projection.nonKeyAttributes' failed to satisfy constraint: Member must have length less than or equal to %d", maxIncluded)
	}
	for i, name := range names {
		if name == "" || len(name) > maxKeyName {
			return errKeyName()
		}
		if slices.Contains(names[:i], name) {
			return invalid("One or more parameter values were invalid: Duplicate attribute name in NonKeyAttributes: %s", name)
		}
	}
	return nil
}

func (t *table) setIndexThroughput(ix *index, in *types.ProvisionedThroughput) error {
	switch {
	case !ix.Global:
		return nil
	case t.Billing == types.BillingModePayPerRequest && in != nil:
		return invalid("One or more parameter values were invalid: ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", ix.Name)
	case t.Billing == types.BillingModePayPerRequest:
		return nil
	case in == nil:
		return invalid("One or more parameter values were invalid: ProvisionedThroughput must be specified for index: %s", ix.Name)
	}
	ix.Read, ix.Write = aws.ToInt64(in.ReadCapacityUnits), aws.ToInt64(in.WriteCapacityUnits)
	if ix.Read < 1 || ix.Write < 1 {
		return invalid("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits of index %s must be at least 1", ix.Name)
	}
	return nil
}

func (t *table) checkIndexLimits() error {
	global, included := 0, 0
	for _, ix := range t.Indexes {
		if ix.Global {
			global++
		}
		included += len(ix.Include)
	}
	switch {
	case global > maxGlobal:
		return invalid("One or more parameter values were invalid: Number of GlobalSecondaryIndexes exceeds per-table limit of %d", maxGlobal)
	case len(t.Indexes)-global > maxLocal:
		return invalid("One or more parameter values were invalid: Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocal)
	case included > maxProjected:
		return invalid("One or more parameter values were invalid: Number of projected attributes exceeds per-table limit of %d", maxProjected)
	}
	return nil
}

// checkDefinitions refuses definitions that no key uses.
func (t *table) checkDefinitions(definitions []types.AttributeDefinition) error {
	used := t.definitions()
	if len(definitions) == len(used) {
		return nil
	}
	if len(t.Indexes) == 0 {
		return invalid("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	list := func(in []types.AttributeDefinition) string {
		names := make([]string, len(in))
		for i := range in {
			names[i] = aws.ToString(in[i].AttributeName)
		}
		return strings.Join(names, ", ")
	}
	return invalid("One or more parameter values were invalid: Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]", list(definitions), list(used))
}
