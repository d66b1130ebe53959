package tabletheory

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// check returns an error if the table cannot be changed into the specified one.
// It ignores missing global indexes.
func (w *provisioner) check(table *types.TableDescription) error {
	if found := describeSchema(table.KeySchema, table.AttributeDefinitions); found != w.key.String() {
		return fmt.Errorf("its keys are %s: expected %v; keys cannot be changed: use another table or another model", found, w.key)
	}
	for _, index := range w.indexes {
		found, ok := findIndex(table, index.name)
		switch {
		case !ok && index.local:
			return fmt.Errorf("it lacks the local index %s, which can only be created with a table: create another table with all models that share it", index.name)
		case ok:
			if err := index.check(found); err != nil {
				return err
			}
		}
	}
	return nil
}

// foundIndex is an index of an existing table.
type foundIndex struct {
	spec       string // in the form of indexSpec.String
	projection *types.Projection
}

func findIndex(table *types.TableDescription, name string) (foundIndex, bool) {
	for _, index := range table.GlobalSecondaryIndexes {
		if aws.ToString(index.IndexName) == name {
			return foundIndex{"global, with the keys " + describeSchema(index.KeySchema, table.AttributeDefinitions), index.Projection}, true
		}
	}
	for _, index := range table.LocalSecondaryIndexes {
		if aws.ToString(index.IndexName) == name {
			return foundIndex{"local, with the keys " + describeSchema(index.KeySchema, table.AttributeDefinitions), index.Projection}, true
		}
	}
	return foundIndex{}, false
}

// check returns an error if an existing index with this name differs.
func (i indexSpec) check(found foundIndex) error {
	if found.spec != i.String() {
		return fmt.Errorf("its index %s is %s: expected %v; rename one of them", i.name, found.spec, i)
	}
	if found.projection == nil || found.projection.ProjectionType != types.ProjectionTypeAll {
		projection := types.ProjectionType("nothing")
		if found.projection != nil {
			projection = found.projection.ProjectionType
		}
		return fmt.Errorf("its index %s projects %s: expected ALL attributes; delete the index, or rename this one", i.name, projection)
	}
	return nil
}
