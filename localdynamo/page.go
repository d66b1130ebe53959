package localdynamo

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	source
	filter     *expr.Condition
	projection *expr.Projection
	countOnly  bool
	consistent bool                            // what the reads cost
	limit      int                             // items to look at; 0 is no limit
	start      map[string]types.AttributeValue // canonical; nil is the beginning
	fetch      bool                            // the source is a local index, and more is wanted than it holds
	single     bool                            // there is one item at most, and so no next page
	within     func(value.Item) bool

	items   []map[string]types.AttributeValue
	count   int // items that passed the filter
	scanned int // items looked at
	bytes   int // of those
	fetched float64
	last    map[string]types.AttributeValue
	fault   error
}

// read fills the page from the places in [lo, hi).
func (p *page) read(r store.Reader, lo, hi []byte, reverse bool) error {
	if !p.countOnly {
		p.items = []map[string]types.AttributeValue{} // clients count on a list, however empty
	}
	r.Range(p.space(), lo, hi, reverse, func(_, bytes []byte) bool {
		item := value.View(bytes)
		if p.within != nil && !p.within(item) {
			return true
		}
		if p.fault = p.add(r, item); p.fault != nil {
			return false
		}
		if (p.limit == 0 || p.scanned < p.limit) && p.bytes < maxPage {
			return true
		}
		if p.single {
			return false
		}
		// The last key is given even if nothing follows: AWS does not look.
		p.last, p.fault = p.lastKey(copyOf(item))
		return false
	})
	if p.fault == nil && p.scanned == 0 {
		return p.table.checkThere(r)
	}
	return p.fault
}

// copyOf makes an item outlive the transaction it was read in.
func copyOf(view value.Item) value.Item {
	return value.Item([]byte(view))
}

func (p *page) add(r store.Reader, view value.Item) error {
	p.scanned++
	p.bytes += view.Size()
	// The filter sees the entry of an index, even if the item is returned.
	s := &stored{item: view}
	passed := p.filter.Match(s)
	if s.fault != nil {
		return s.fault
	}
	if p.fetch {
		var err error
		if view, err = p.whole(r, view); err != nil {
			return err
		}
		p.fetched += readUnits(view.Size(), p.consistent) // whether it passed or not
	}
	if !passed {
		return nil
	}
	p.count++
	if p.countOnly {
		return nil
	}
	s.item = copyOf(view)
	if p.projection != nil {
		p.items = append(p.items, p.projection.Apply(s))
		return s.fault
	}
	fields, err := decode(s.item)
	p.items = append(p.items, fields)
	return err
}

// usage is what the page cost: what was read of the source, and of the table
// for a local index.
func (p *page) usage() usage {
	u := usage{Table: p.table.Name}
	units := readUnits(p.bytes, p.consistent)
	if p.index == nil {
		u.Units = units
		return u
	}
	u.Units = p.fetched
	u.addIndex(p.index, units)
	return u
}

// reading is what Query and Scan requests have in common.
type reading struct {
	query        bool                            // words some faults otherwise than Scan
	start        map[string]types.AttributeValue // ExclusiveStartKey
	table, index *string
	selected     types.Select
	projection   *string
	attributes   []string // AttributesToGet, in place of projection
	consistent   *bool
	limit        *int32
	capacity     types.ReturnConsumedCapacity
}

// checkFields checks what needs no look at the table.
func (p *page) checkFields(in *reading) error {
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
		err = counted(err)
	}
	if err != nil || in.start == nil {
		return err
	}
	p.start, err = value.NormalizeItem(in.start)
	return asInvalid(err)
}

// chooser names the parameter that chooses attributes, or "".
func (in *reading) chooser() string {
	switch {
	case in.projection != nil:
		return projectionParameter
	case in.attributes != nil:
		return "AttributesToGet"
	}
	return ""
}

// checkSelect checks Select against the projection.
func (in *reading) checkSelect() error {
	if !slices.Contains(in.selected.Values(), in.selected) && in.selected != "" {
		return invalid("1 validation error detected: Value '%s' at 'select' failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]", in.selected)
	}
	chooser := in.chooser()
	switch {
	case in.selected == "":
		return nil
	case in.selected == types.SelectSpecificAttributes && chooser == "":
		return invalid("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case in.selected == types.SelectSpecificAttributes:
		return nil
	case in.selected == types.SelectCount && chooser != "":
		return invalid("Cannot specify the %s when choosing to get only the Count", chooser)
	case chooser != "":
		return invalid("Cannot specify the %s when choosing to get %s", chooser, in.selected)
	case in.selected == types.SelectAllProjectedAttributes && in.index == nil:
		return invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// setSource decides what the page is read from, once the projection is known.
func (p *page) setSource(s source, in *reading) error {
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
	p.fetch = all || len(missing) > 0
	return nil
}

// checkLimit returns the bound of the page, 0 for none.
func (in *reading) checkLimit() (int, error) {
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
