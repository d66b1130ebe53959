package localdynamo

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/answer"
	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// maxOperands bounds the operands that the filter of one Query or Scan evaluates,
// over all items: the item that reaches it is the last. ScanFilter and QueryFilter may
// have any number of operands; an expression reaches it only on tens of thousands of
// tiny items.
const maxOperands = 20_000_000

// maxPage bounds the bytes of items that one Query or Scan reads. The item that
// reaches it is the last.
const maxPage = 1 << 20

// page is one page of a Query or Scan: its parameters, then its results.
type page struct {
	source
	filter     *expr.Condition
	projection *expr.Projection
	countOnly  bool
	consistent bool                            // affects only the reported capacity
	limit      int                             // maximum of scanned; 0 is no limit
	start      map[string]types.AttributeValue // canonical ExclusiveStartKey; nil starts at the beginning
	fetchWhole bool                            // read items from the table: the local index lacks attributes
	atMostOne  bool                            // the key condition matches at most one item, so there is no next page

	meter         *answer.Meter
	items         []map[string]types.AttributeValue
	count         int     // items that passed the filter
	scanned       int     // items read
	bytes         int     // size of the items read
	fetchUnits    float64 // capacity of reads from the table, for fetchWhole
	lastEvaluated map[string]types.AttributeValue
	err           error
}

// readPage fills the page from the keys in [lo, hi).
func (db *DB) readPage(ctx context.Context, p *page, lo, hi []byte, reverse bool) error {
	empty := *p
	largest := maxPage + value.MaxItemSize
	if p.limit > 0 {
		largest = min(largest, p.limit*value.MaxItemSize)
	}
	return db.viewForAnswer(ctx, func() int { return largest }, func(r store.Reader, meter *answer.Meter) error {
		*p = empty
		p.meter = meter
		return p.read(r, lo, hi, reverse)
	})
}

// read fills the page from the keys in [lo, hi).
func (p *page) read(r store.Reader, lo, hi []byte, reverse bool) error {
	if !p.countOnly {
		p.items = []map[string]types.AttributeValue{} // clients expect a list, even if it is empty
	}
	r.Range(p.space(), lo, hi, reverse, func(_, bytes []byte) bool {
		item := value.View(bytes)
		if p.err = p.add(r, item); p.err != nil {
			return false
		}
		if (p.limit == 0 || p.scanned < p.limit) && p.bytes < maxPage && p.scanned*p.filter.Operands() < maxOperands {
			return true
		}
		if p.atMostOne {
			return false
		}
		// Like AWS, return a last key without checking whether an item follows.
		p.lastEvaluated, p.err = p.cursorOf(copyOf(item))
		return false
	})
	if p.err == nil && p.scanned == 0 {
		return p.table.checkExists(r)
	}
	return p.err
}

// copyOf returns a copy that is valid after the store's transaction.
func copyOf(view value.Item) value.Item {
	return value.Item([]byte(view))
}

func (p *page) add(r store.Reader, view value.Item) error {
	p.scanned++
	p.bytes += view.Size()
	// The filter applies to the index entry, even if the whole item is returned.
	s := &document{item: view}
	passed := p.filter.Match(s)
	if s.err != nil {
		return s.err
	}
	if p.fetchWhole {
		var err error
		if view, err = p.wholeItem(r, view); err != nil {
			return err
		}
		p.fetchUnits += readUnits(view.Size(), p.consistent) // counted even if the filter rejects it
	}
	if !passed {
		return nil
	}
	p.count++
	if p.countOnly {
		return nil
	}
	fields, err := projected(copyOf(view), p.projection)
	if err != nil {
		return err
	}
	p.items = append(p.items, fields)
	return addItem(p.meter, fields, len(view))
}

// usage returns the capacity of the page: reads of the source and, for
// fetchWhole, of the table.
func (p *page) usage() usage {
	u := usage{Table: p.table.Name}
	units := readUnits(p.bytes, p.consistent)
	if p.index == nil {
		u.Units = units
		return u
	}
	u.Units = p.fetchUnits
	u.addIndex(p.index, units)
	return u
}

// readParams holds the parameters that Query and Scan share.
type readParams struct {
	query        bool                            // Query's error texts, which differ from Scan's
	start        map[string]types.AttributeValue // ExclusiveStartKey
	table, index *string
	selected     types.Select
	projection   *string
	attributes   []string // AttributesToGet, instead of projection
	consistent   *bool
	limit        *int32
	capacity     types.ReturnConsumedCapacity
}

// checkFields checks the parameters that do not depend on the table.
func (p *page) checkFields(in *readParams) error {
	if err := checkTableName(in.table); err != nil {
		return err
	}
	if in.index != nil {
		if err := checkName("indexName", in.index); err != nil {
			return err
		}
	}
	if err := checkCapacityMode(in.capacity); err != nil {
		return err
	}
	var err error
	if p.limit, err = in.checkLimit(); err != nil {
		return err
	}
	p.consistent = aws.ToBool(in.consistent)
	p.countOnly = in.selected == types.SelectCount
	if err = in.checkSelect(); in.query {
		err = withErrorCount(err)
	}
	if err != nil || in.start == nil {
		return err
	}
	p.start, err = value.NormalizeItem(in.start)
	return asInvalid(err)
}

// attributesParameter returns the name of the parameter that selects attributes, or
// "".
func (in *readParams) attributesParameter() string {
	switch {
	case in.projection != nil:
		return projectionParameter
	case in.attributes != nil:
		return "AttributesToGet"
	}
	return ""
}

// checkSelect checks Select against the projection.
func (in *readParams) checkSelect() error {
	if !slices.Contains(in.selected.Values(), in.selected) && in.selected != "" {
		return invalid("1 validation error detected: Value '%s' at 'select' failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]", in.selected)
	}
	parameter := in.attributesParameter()
	switch {
	case in.selected == "":
		return nil
	case in.selected == types.SelectSpecificAttributes && parameter == "":
		return invalid("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case in.selected == types.SelectSpecificAttributes:
		return nil
	case in.selected == types.SelectCount && parameter != "":
		return invalid("Cannot specify the %s when choosing to get only the Count", parameter)
	case parameter != "":
		return invalid("Cannot specify the %s when choosing to get %s", parameter, in.selected)
	case in.selected == types.SelectAllProjectedAttributes && in.index == nil:
		return invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// setSource sets the table or index to read. The projection must be set.
func (p *page) setSource(s source, in *readParams) error {
	p.source = s
	if s.index == nil {
		return nil
	}
	if s.global() && p.consistent {
		return invalid("Consistent reads are not supported on global secondary indexes")
	}
	all := in.selected == types.SelectAllAttributes && s.index.Projection != types.ProjectionTypeAll
	if all && s.global() {
		return invalid("One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", s.index.Name)
	}
	missing := s.unprojected(p.projection.Roots())
	if len(missing) > 0 && s.global() {
		return invalid("One or more parameter values were invalid: Global secondary index %s does not project [%s]", s.index.Name, strings.Join(missing, ", "))
	}
	p.fetchWhole = all || len(missing) > 0
	return nil
}

// checkLimit returns the Limit parameter, or 0 if there is none.
func (in *readParams) checkLimit() (int, error) {
	switch {
	case in.limit == nil:
		return 0, nil
	case *in.limit >= 1:
		return int(*in.limit), nil
	case in.query:
		return 0, invalid("1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
	}
	return 0, invalid("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *in.limit)
}
