package main

import (
	"context"
	"fmt"

	"github.com/guregu/dynamo/v2"

	"github.com/facetheory/isr/tabletheory"
)

// callRows returns the rows of calls on a client. All sides read and write the same
// item, and query the same partition.
func callRows(client string, api api) ([]row, error) {
	db := tabletheory.New(api)
	table, err := tabletheory.NewTable[metadata](db)
	if err != nil {
		return nil, err
	}
	c := calls{api: api, db: db, table: table, guregu: dynamo.NewFromIface(api).Table(tableName), meta: newMetadata(0)}
	list := []row{
		{"Get", []side{
			read("tabletheory Table", c.getTable), read("tabletheory Model", c.getModel),
			read("attributevalue", c.getAttributeValue), read("guregu/dynamo", c.getGuregu), read("by hand", c.getByHand),
		}},
		{"Put", []side{
			written("tabletheory Table", c.putTable), written("tabletheory Model", c.putModel),
			written("attributevalue", c.putAttributeValue), written("guregu/dynamo", c.putGuregu), written("by hand", c.putByHand),
		}},
		{"Create", []side{
			written("tabletheory Table", c.createTable), written("tabletheory Model", c.createModel),
			written("attributevalue+expression", c.createAttributeValue), written("guregu/dynamo", c.createGuregu), written("by hand", c.createByHand),
		}},
		{fmt.Sprintf("Query of %d", itemsOfQuery), []side{
			read("tabletheory Table", c.queryTable), read("tabletheory Model", c.queryModel),
			read("attributevalue+expression", c.queryAttributeValue), read("guregu/dynamo", c.queryGuregu), read("by hand", c.queryByHand),
		}},
	}
	for i := range list {
		list[i].name += ", " + client
	}
	return list, nil
}

// calls has the calls of all sides, which run one at a time.
type calls struct {
	api    api
	db     *tabletheory.DB
	table  *tabletheory.Table[metadata]
	guregu dynamo.Table
	meta   metadata
}

func read[T any](name string, call func(context.Context) (T, error)) side {
	ctx := context.Background()
	var last T
	return side{
		name,
		func() (err error) { last, err = call(ctx); return err },
		func() any { return last },
	}
}

func written(name string, call func(context.Context) error) side {
	ctx := context.Background()
	return side{name, func() error { return call(ctx) }, func() any { return nil }}
}
