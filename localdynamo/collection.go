package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// An item collection is all items of one hash key, in a table that has local
// indexes. AWS bounds it to 10 GB, and reports its size to whoever asks; here
// it has no bound, and its size is always reported as up to 1 GB.

func checkMetricsMode(mode types.ReturnItemCollectionMetrics) error {
	switch mode {
	case "", types.ReturnItemCollectionMetricsNone, types.ReturnItemCollectionMetricsSize:
		return nil
	}
	return errConstraint(string(mode), "returnItemCollectionMetrics", "Member must satisfy enum value set: [SIZE, NONE]")
}

// collection returns what ReturnItemCollectionMetrics asks for; nil if that is
// nothing, or the table has no local index.
func (m *mutation) collection(mode types.ReturnItemCollectionMetrics) (*types.ItemCollectionMetrics, error) {
	if mode != types.ReturnItemCollectionMetricsSize || !m.table.hasLocalIndex() {
		return nil, nil
	}
	hash := m.fields[m.table.Hash.Name]
	if m.verb == verbPut {
		var err error
		if hash, err = value.View(m.item).Lookup(m.table.Hash.Name); err != nil {
			return nil, damaged(err)
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

// collections returns those of several writes, by table; nil if there are none.
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
