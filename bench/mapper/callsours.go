package main

import (
	"context"

	"github.com/facetheory/isr/tabletheory"
)

func (c *calls) getTable(ctx context.Context) (metadata, error) {
	return c.table.Get(ctx, c.meta.PK, c.meta.SK)
}

func (c *calls) getModel(ctx context.Context) (got metadata, err error) {
	err = c.db.WithContext(ctx).Model(&metadata{}).Where("PK", "=", c.meta.PK).Where("SK", "=", c.meta.SK).First(&got)
	return got, err
}

func (c *calls) putTable(ctx context.Context) error { return c.table.Put(ctx, &c.meta) }

func (c *calls) putModel(ctx context.Context) error {
	return c.db.WithContext(ctx).Model(&c.meta).CreateOrUpdate()
}

func (c *calls) createTable(ctx context.Context) error {
	return c.table.Put(ctx, &c.meta, tabletheory.IfNotExists())
}

func (c *calls) createModel(ctx context.Context) error {
	return c.db.WithContext(ctx).Model(&c.meta).Create()
}

func (c *calls) queryTable(ctx context.Context) (all []metadata, err error) {
	for m, err := range c.table.Query(ctx, func(q *tabletheory.Query) { q.Where("PK", "=", c.meta.PK) }) {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (c *calls) queryModel(ctx context.Context) (all []metadata, err error) {
	err = c.db.WithContext(ctx).Model(&metadata{}).Where("PK", "=", c.meta.PK).All(&all)
	return all, err
}
