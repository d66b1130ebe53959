package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// An item collection is all items with one hash key, in a table with local
// indexes. AWS limits it to 10 GB and reports its size on request. Here it has
// no limit, and the reported size is always 0 to 1 GB.

func checkMetricsMode(mode types.ReturnItemCollectionMetrics) error {
	switch mode {
	case "", types.ReturnItemCollectionMetricsNone, types.ReturnItemCollectionMetricsSize:
		return nil
	}
	return errConstraint(string(mode), "returnItemCollectionMetrics", "Member must satisfy enum value set: [SIZE, NONE]")
}

// collection returns the item collection metrics of a write, or nil if they were
// not requested or the table has no local index.
func (m *mutation) collection(mode types.ReturnItemCollectionMetrics) (*types.ItemCollectionMetrics, error) {
	if mode != types.ReturnItemCollectionMetricsSize || !m.table.hasLocalIndex() {
		return nil, nil
	}
	hash := m.fields[m.table.Hash.Name]
	if m.verb == verbPut {
		var err error
		if hash, err = value.View(m.item).Lookup(m.table.Hash.Name); err != nil {
			return nil, corrupt(err)
		}
	}
	return &types.ItemCollectionMetrics{
		ItemCollectionKey:   map[string]types.AttributeValue{m.table.Hash.Name: hash},
		SizeEstimateRangeGB: []float64{0, 1},
	}, nil
}

func (t *table) hasLocalIndex() bool {
	for _, ix := range t.Indexes {
		if !ix.Global {
			return true
		}
	}
	return false
}

// collections returns the metrics of several writes by table, or nil.
func collections(mode types.ReturnItemCollectionMetrics, mutations []*mutation) (map[string][]types.ItemCollectionMetrics, error) {
	var out map[string][]types.ItemCollectionMetrics
	for _, m := range mutations {
		if m.verb == verbCheck {
			continue
		}
		c, err := m.collection(mode)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		if out == nil {
			out = make(map[string][]types.ItemCollectionMetrics)
		}
		out[m.table.Name] = append(out[m.table.Name], *c)
	}
	return out, nil
}
