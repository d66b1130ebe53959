package tabletheory

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// check refuses a table that cannot become what is wanted. Global indexes that
// are missing are not its business.
func (w *wantedTable) check(table *types.TableDescription) error {
	if found := describeSchema(table.KeySchema, table.AttributeDefinitions); found != w.key.String() {
		return fmt.Errorf("its keys are %s: expected %v; keys cannot be changed: use another table, or another model", found, w.key)
	}
	for _, index := range w.indexes {
		found, ok := findIndex(table, index.name)
		switch {
		case !ok && index.local:
			return fmt.Errorf("it lacks the local index %s, which can be made together with a table only: make another table, with all models that share it", index.name)
		case ok:
			if err := index.check(found); err != nil {
				return err
			}
		}
	}
	return nil
}

// foundIndex is an index that a table has.
type foundIndex struct {
	shape      string // in the words of indexShape.String
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

// check refuses an index of the right name that is of another shape.
func (i indexShape) check(found foundIndex) error {
	if found.shape != i.String() {
		return fmt.Errorf("its index %s is %s: expected %v; give one of them another name", i.name, found.shape, i)
	}
	if found.projection == nil || found.projection.ProjectionType != types.ProjectionTypeAll {
		projection := types.ProjectionType("nothing")
		if found.projection != nil {
			projection = found.projection.ProjectionType
		}
		return fmt.Errorf("its index %s holds %s: expected ALL attributes; delete the index, or give this one another name", i.name, projection)
	}
	return nil
}
