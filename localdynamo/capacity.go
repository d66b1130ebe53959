package localdynamo

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bytes per capacity unit.
const (
	readUnit  = 4 << 10
	writeUnit = 1 << 10
)

// readUnits returns the units of reading n bytes: at least one, and half as much
// for an eventually consistent read.
func readUnits(n int, consistent bool) float64 {
	units := float64(max(1, (n+readUnit-1)/readUnit))
	if !consistent {
		units /= 2
	}
	return units
}

// writeUnits returns the units of a write that changes an item's size from
// before to after. The larger size counts.
func writeUnits(before, after int) float64 {
	return float64(max(1, (max(before, after)+writeUnit-1)/writeUnit))
}

// usage is the capacity that a request consumed on one table and its indexes.
type usage struct {
	Table  string
	Units  float64            // of the table itself
	Global map[string]float64 `json:",omitempty"` // of global indexes, by name
	Local  map[string]float64 `json:",omitempty"`
}

func (u *usage) addIndex(ix *index, units float64) {
	side := &u.Local
	if ix.Global {
		side = &u.Global
	}
	if *side == nil {
		*side = make(map[string]float64)
	}
	(*side)[ix.Name] += units
}

// add adds n times other, which is for the same table.
func (u *usage) add(other usage, n float64) {
	u.Units += n * other.Units
	for _, side := range []struct {
		to   *map[string]float64
		from map[string]float64
	}{{&u.Global, other.Global}, {&u.Local, other.Local}} {
		for name, units := range side.from {
			if *side.to == nil {
				*side.to = make(map[string]float64)
			}
			(*side.to)[name] += n * units
		}
	}
}

// total includes the indexes, as on AWS.
func (u *usage) total() float64 {
	n := u.Units
	for _, units := range u.Global {
		n += units
	}
	for _, units := range u.Local {
		n += units
	}
	return n
}

// consumed returns the ConsumedCapacity that mode requests, or nil.
func (u usage) consumed(mode types.ReturnConsumedCapacity) *types.ConsumedCapacity {
	if mode != types.ReturnConsumedCapacityTotal && mode != types.ReturnConsumedCapacityIndexes {
		return nil
	}
	c := &types.ConsumedCapacity{TableName: &u.Table, CapacityUnits: aws.Float64(u.total())}
	if mode == types.ReturnConsumedCapacityIndexes {
		c.Table = &types.Capacity{CapacityUnits: aws.Float64(u.Units)}
		c.GlobalSecondaryIndexes = capacities(u.Global)
		c.LocalSecondaryIndexes = capacities(u.Local)
	}
	return c
}

func capacities(units map[string]float64) map[string]types.Capacity {
	if units == nil {
		return nil
	}
	out := make(map[string]types.Capacity, len(units))
	for name, n := range units {
		out[name] = types.Capacity{CapacityUnits: aws.Float64(n)}
	}
	return out
}

// bill is the usage of a request over several items, merged by table.
type bill []usage

// add adds n times u.
func (b *bill) add(u usage, n float64) {
	i := slices.IndexFunc(*b, func(v usage) bool { return v.Table == u.Table })
	if i < 0 {
		i = len(*b)
		*b = append(*b, usage{Table: u.Table})
	}
	(*b)[i].add(u, n)
}

// consumed returns the ConsumedCapacity of each table, sorted by name.
func (b bill) consumed(mode types.ReturnConsumedCapacity) []types.ConsumedCapacity {
	var out []types.ConsumedCapacity
	for _, u := range b {
		if c := u.consumed(mode); c != nil {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b types.ConsumedCapacity) int { return strings.Compare(*a.TableName, *b.TableName) })
	return out
}

func checkCapacityMode(mode types.ReturnConsumedCapacity) error {
	switch mode {
	case "", types.ReturnConsumedCapacityNone, types.ReturnConsumedCapacityTotal, types.ReturnConsumedCapacityIndexes:
		return nil
	}
	return errConstraint(string(mode), "returnConsumedCapacity", "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]")
}

// Provisioned units that AWS allows a new account. They are not enforced here.
const (
	accountUnits = 80_000
	tableUnits   = 40_000
)

// DescribeLimits returns the quotas of a new AWS account. They are not enforced.
func (db *DB) DescribeLimits(ctx context.Context, _ *dynamodb.DescribeLimitsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return &dynamodb.DescribeLimitsOutput{
		AccountMaxReadCapacityUnits:  aws.Int64(accountUnits),
		AccountMaxWriteCapacityUnits: aws.Int64(accountUnits),
		TableMaxReadCapacityUnits:    aws.Int64(tableUnits),
		TableMaxWriteCapacityUnits:   aws.Int64(tableUnits),
	}, nil
}

// endpointMinutes is how long a client may cache an endpoint, as on AWS.
const endpointMinutes = 1440

// DescribeEndpoints returns "localhost", because an embedded DB has no address.
// A server in front of it should return its own address instead.
func (db *DB) DescribeEndpoints(ctx context.Context, _ *dynamodb.DescribeEndpointsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return &dynamodb.DescribeEndpointsOutput{Endpoints: []types.Endpoint{{Address: aws.String("localhost"), CachePeriodInMinutes: endpointMinutes}}}, nil
}

// transactionCost is the capacity of a transaction: writes when it commits,
// reads when its request token shows that it was committed before. Both count
// twice, as on AWS.
type transactionCost struct {
	Writes bill
	Reads  bill
}

// consumed also sets the read or write units, as AWS does for transactions.
func (p transactionCost) consumed(mode types.ReturnConsumedCapacity, repeated bool) []types.ConsumedCapacity {
	if repeated {
		return withReadUnits(p.Reads.consumed(mode))
	}
	out := p.Writes.consumed(mode)
	for i := range out {
		out[i].WriteCapacityUnits = out[i].CapacityUnits
		eachCapacity(&out[i], func(c *types.Capacity) { c.WriteCapacityUnits = c.CapacityUnits })
	}
	return out
}

func withReadUnits(out []types.ConsumedCapacity) []types.ConsumedCapacity {
	for i := range out {
		out[i].ReadCapacityUnits = out[i].CapacityUnits
		eachCapacity(&out[i], func(c *types.Capacity) { c.ReadCapacityUnits = c.CapacityUnits })
	}
	return out
}

// eachCapacity calls fn for the capacity of the table and of each index.
func eachCapacity(c *types.ConsumedCapacity, fn func(*types.Capacity)) {
	if c.Table != nil {
		fn(c.Table)
	}
	for _, indexes := range []map[string]types.Capacity{c.GlobalSecondaryIndexes, c.LocalSecondaryIndexes} {
		for name, capacity := range indexes {
			fn(&capacity)
			indexes[name] = capacity
		}
	}
}
