package localdynamo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of secondary indexes.
const (
	maxGlobal    = 20  // global indexes per table
	maxLocal     = 5   // local indexes per table
	maxIncluded  = 20  // NonKeyAttributes per index
	maxProjected = 100 // NonKeyAttributes of all indexes of a table
)

// indexRequest is the definition of an index in a request.
type indexRequest struct {
	name       *string
	schema     []types.KeySchemaElement
	projection *types.Projection
	throughput *types.ProvisionedThroughput
	warm       *types.WarmThroughput
	global     bool
}

func localRequest(l *types.LocalSecondaryIndex) *indexRequest {
	return &indexRequest{name: l.IndexName, schema: l.KeySchema, projection: l.Projection}
}

func globalRequest(g *types.GlobalSecondaryIndex) *indexRequest {
	return &indexRequest{g.IndexName, g.KeySchema, g.Projection, g.ProvisionedThroughput, g.WarmThroughput, true}
}

// setIndexes adds the indexes of a new table. checkFields has passed for each.
func (t *table) setIndexes(global []types.GlobalSecondaryIndex, local []types.LocalSecondaryIndex, definitions []types.AttributeDefinition) error {
	switch {
	case local != nil && len(local) == 0:
		return invalid("One or more parameter values were invalid: List of LocalSecondaryIndexes is empty")
	case len(local) > 0 && t.Range == nil:
		return invalid("One or more parameter values were invalid: Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	case global != nil && len(global) == 0:
		return invalid("One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty")
	}
	if err := checkIndexCounts(len(global), len(local)); err != nil { // before they are compared with each other
		return err
	}
	requests := make([]*indexRequest, 0, len(global)+len(local))
	for _, l := range local {
		requests = append(requests, localRequest(&l))
	}
	for _, g := range global {
		requests = append(requests, globalRequest(&g))
	}
	for _, request := range requests {
		if _, err := t.addIndex(request, definitions); err != nil {
			return err
		}
	}
	return t.checkIndexLimits()
}

// checkFields checks each member of the request separately. member is its path.
func (in *indexRequest) checkFields(member string) error {
	faults := []error{
		checkName(member+".indexName", in.name),
		checkKeyFields(member+".keySchema", in.schema),
		checkProjectionFields(member+".projection", in.projection),
		checkUnitFields(member+".provisionedThroughput", in.throughput),
	}
	if !in.global && len(in.schema) > 2 {
		faults = append(faults, errConstraint(showKeys(in.schema), member+".keySchema", "Member must have length less than or equal to 2"))
	}
	return joinFaults(faults...)
}

// checkProjectionFields checks each member of a projection separately. member
// is its path in the request.
func checkProjectionFields(member string, in *types.Projection) error {
	if in == nil {
		return errNull(member)
	}
	var faults []error
	switch in.ProjectionType {
	case "", types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude:
	default:
		faults = append(faults, errConstraint(string(in.ProjectionType), member+".projectionType", "Member must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]"))
	}
	switch n := len(in.NonKeyAttributes); {
	case in.NonKeyAttributes != nil && n == 0:
		faults = append(faults, errConstraint("[]", member+".nonKeyAttributes", "Member must have length greater than or equal to 1"))
	case n > maxIncluded:
		faults = append(faults, errConstraint("["+strings.Join(in.NonKeyAttributes, ", ")+"]", member+".nonKeyAttributes", fmt.Sprintf("Member must have length less than or equal to %d", maxIncluded)))
	}
	for i, name := range in.NonKeyAttributes {
		faults = append(faults, checkKeyName(fmt.Sprintf("%s.nonKeyAttributes.%d.member", member, i+1), &name))
	}
	return joinFaults(faults...)
}

// addIndex adds the requested index to the definition. checkFields has passed.
func (t *table) addIndex(in *indexRequest, definitions []types.AttributeDefinition) (*index, error) {
	ix := &index{Name: *in.name, Global: in.global}
	var err error
	if ix.keySchema, err = keysOf(in.schema, definitions, in.global); err != nil {
		return nil, err
	}
	if err := t.checkLocal(ix); err != nil {
		return nil, err
	}
	if err := ix.setProjection(in.projection); err != nil {
		return nil, err
	}
	if t.index(ix.Name) != nil {
		return nil, invalid("One or more parameter values were invalid: Duplicate index name: %s", ix.Name)
	}
	if err := t.setIndexThroughput(ix, in.throughput); err != nil {
		return nil, err
	}
	if err := t.setWarm(&ix.Warm, in.warm, "index "+ix.Name, t.leastWarm(ix.Read, ix.Write)); err != nil {
		return nil, err
	}
	t.LastID++
	ix.ID = t.LastID
	t.Indexes = append(slices.Clip(t.Indexes), ix)
	return ix, nil
}

// checkLocal refuses a local index that does not share the table's hash key.
func (t *table) checkLocal(ix *index) error {
	switch {
	case ix.Global:
		return nil
	case ix.Range == nil:
		return invalid("One or more parameter values were invalid: Index KeySchema does not have a range key for index: %s", ix.Name)
	case ix.Hash != t.Hash:
		return invalid("One or more parameter values were invalid: Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. index hash key: %s, table hash key: %s", ix.Name, ix.Hash.Name, t.Hash.Name)
	}
	return nil
}

func (ix *index) setProjection(in *types.Projection) error {
	include := in.ProjectionType == types.ProjectionTypeInclude
	switch {
	case in.ProjectionType == "":
		return invalid("One or more parameter values were invalid: Unknown ProjectionType: null")
	case include && in.NonKeyAttributes == nil:
		return invalid("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case !include && in.NonKeyAttributes != nil:
		return invalid("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", in.ProjectionType)
	}
	for i, name := range in.NonKeyAttributes {
		if slices.Contains(in.NonKeyAttributes[:i], name) {
			return invalid("One or more parameter values were invalid: Duplicate attribute name in NonKeyAttributes: %s", name)
		}
	}
	ix.Projection, ix.Include = in.ProjectionType, slices.Clone(in.NonKeyAttributes)
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
	ix.Read, ix.Write = *in.ReadCapacityUnits, *in.WriteCapacityUnits
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
	if err := checkIndexCounts(global, len(t.Indexes)-global); err != nil {
		return err
	}
	if included > maxProjected {
		return invalid("One or more parameter values were invalid: Number of projected attributes exceeds per-table limit of %d", maxProjected)
	}
	return nil
}

func checkIndexCounts(global, local int) error {
	switch {
	case global > maxGlobal:
		return invalid("One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobal)
	case local > maxLocal:
		return invalid("One or more parameter values were invalid: Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocal)
	}
	return nil
}
