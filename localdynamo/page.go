package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// maxPage is how many bytes of items one Query or Scan reads: it stops with
// the item that reaches it.
const maxPage = 1 << 20

// page collects the items of one Query or Scan.
type page struct {
	table      *table
	filter     *expr.Condition
	projection *expr.Projection
	countOnly  bool
	limit      int // items to look at; 0 is no limit
	within     func(value.Item) bool

	items   []map[string]types.AttributeValue
	count   int // items that passed the filter
	scanned int // items looked at
	bytes   int // of those
	last    map[string]types.AttributeValue
	fault   error
}

// read fills the page from the keys in [lo, hi).
func (p *page) read(r store.Reader, lo, hi []byte, reverse bool) error {
	r.Range(p.table.space(), lo, hi, reverse, func(_, bytes []byte) bool {
		item := value.View(bytes)
		if p.within != nil && !p.within(item) {
			return true
		}
		if p.fault = p.add(item); p.fault != nil {
			return false
		}
		if (p.limit == 0 || p.scanned < p.limit) && p.bytes < maxPage {
			return true
		}
		// The last key is given even if nothing follows: AWS does not look.
		p.last, p.fault = p.table.keyFields(copyOf(item))
		return false
	})
	return p.fault
}

// copyOf makes an item outlive the transaction it was read in.
func copyOf(view value.Item) value.Item {
	return value.Item([]byte(view))
}

func (p *page) add(view value.Item) error {
	p.scanned++
	p.bytes += view.Size()
	s := &stored{item: view}
	if !p.filter.Match(s) || s.fault != nil {
		return s.fault
	}
	p.count++
	if p.countOnly {
		return nil
	}
	s.item = copyOf(view)
	if p.projection != nil {
		p.items = append(p.items, p.projection.Of(s))
		return s.fault
	}
	fields, err := decode(s.item)
	p.items = append(p.items, fields)
	return err
}

// selection checks Select against the projection and reports whether only a
// count is wanted.
func selection(mode types.Select, projection *string) (countOnly bool, err error) {
	switch mode {
	case "":
		return false, nil
	case types.SelectSpecificAttributes:
		if projection == nil {
			return false, invalid("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
		}
		return false, nil
	case types.SelectAllAttributes:
		if projection != nil {
			return false, invalid("Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES")
		}
		return false, nil
	case types.SelectCount:
		if projection != nil {
			return false, invalid("Cannot specify the ProjectionExpression when choosing to get only the Count")
		}
		return true, nil
	case types.SelectAllProjectedAttributes:
		return false, invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return false, invalid("Select must be ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES, COUNT, or SPECIFIC_ATTRIBUTES")
}

func checkLimit(limit *int32) (int, error) {
	if limit == nil {
		return 0, nil
	}
	if *limit < 1 {
		return 0, invalid("Limit must be greater than or equal to 1")
	}
	return int(*limit), nil
}

func checkNoIndex(name *string) error {
	if name == nil {
		return nil
	}
	return invalid("The table does not have the specified index: %s", *name)
}

// startAfter checks an ExclusiveStartKey; nil stays nil.
func (t *table) startAfter(given map[string]types.AttributeValue) ([]byte, error) {
	if given == nil {
		return nil, nil
	}
	_, key, err := t.keyOf(given)
	if message, ok := validationMessage(err); ok {
		return nil, invalid("The provided starting key is invalid: %s", message)
	}
	return key, err
}
