package localdynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestDifferentialLimits tests every limit with a request at the limit and one
// beyond it. The random tests stay far below the limits.
func TestDifferentialLimits(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tab := p.table(t, shapes[0])
	for _, c := range limits(tab) {
		t.Run(c.name, func(t *testing.T) {
			p.compare(t, c.below)
			p.compare(t, c.beyond)
			refused := replyOf(c.beyond.do(t.Context(), p.ours))
			if _, err := c.below.do(t.Context(), p.ours); err != nil || refused.code == "" {
				t.Errorf("at the limit: %v; beyond: %s", err, refused)
			}
		})
		for _, side := range []operations{p.ours, p.theirs} {
			if err := deleteAllItems(t.Context(), side, tab); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// limit is a request at a limit, which is accepted, and one beyond it, which is
// not.
type limit struct {
	name          string
	below, beyond apiCall
}

func limits(tab *table) []limit {
	out := itemLimits(tab)
	for _, c := range []struct {
		name string
		max  int
		make func(n int) apiCall
	}{
		{"hash key of bytes", 2048, func(n int) apiCall { return tab.put(item{hashName: str(strings.Repeat("k", n)), rangeName: str("s")}) }},
		{"range key of bytes", 1024, func(n int) apiCall { return tab.put(item{hashName: str("p"), rangeName: str(strings.Repeat("k", n))}) }},
		{"nested lists", 31, func(n int) apiCall { return tab.put(addKey(item{"v": nestedLists(n)})) }},
		{"nested lists by an update", 31, func(n int) apiCall {
			return tab.update("SET v = :v", item{":v": nestedLists(n)})
		}},
		{"bytes of an expression", 4096, func(n int) apiCall {
			return tab.update("SET "+strings.Repeat("a", n-len("SET  = :v"))+" = :v", item{":v": str("x")})
		}},
		{"operands of IN", 100, func(n int) apiCall {
			values := item{}
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf(":v%d", i)
				values[names[i]] = num(fmt.Sprint(i))
			}
			return tab.filter("a IN ("+strings.Join(names, ",")+")", values)
		}},
		{"operators", 300, func(n int) apiCall {
			return tab.filter(strings.Repeat("NOT ", (n-1)%2)+"a=b"+strings.Repeat(" OR a=b", (n-1)/2), nil)
		}},
		{"levels of a path", 32, func(n int) apiCall {
			return tab.filter("attribute_exists(a"+strings.Repeat(".a", n-1)+")", nil)
		}},
		{"actions of a transaction", 100, tab.transaction},
		{"requests of a batch", 25, tab.batch},
		{"keys of a batch", 100, tab.batchOfKeys},
	} {
		out = append(out, limit{c.name, c.make(c.max), c.make(c.max + 1)})
	}
	return out
}

// itemLimits tests items of 400 KB: a value of each type whose size AWS documents
// exactly, filled up with a string.
func itemLimits(tab *table) []limit {
	const most = 400 << 10
	var out []limit
	for _, c := range []struct {
		name string
		v    types.AttributeValue
		size int
	}{
		{"S", str("é"), 2},
		{"B", bin("abc"), 3},
		{"BOOL", &types.AttributeValueMemberBOOL{Value: true}, 1},
		{"NULL", &types.AttributeValueMemberNULL{Value: true}, 1},
		{"empty L", &types.AttributeValueMemberL{}, 3},
		{"L", &types.AttributeValueMemberL{Value: []types.AttributeValue{str("ab"), str("")}}, 3 + 2 + 2},
		{"empty M", &types.AttributeValueMemberM{Value: item{}}, 3},
		{"M", &types.AttributeValueMemberM{Value: item{"ab": str("c")}}, 3 + 1 + 3},
		{"SS", &types.AttributeValueMemberSS{Value: []string{"a", "bc"}}, 3},
		{"BS", &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}}, 3},
	} {
		filled := func(n int) apiCall {
			it := addKey(item{"v": c.v})
			pad := n - len(hashName) - 1 - len(rangeName) - 1 - len("v") - c.size - len("pad")
			it["pad"] = str(strings.Repeat("x", pad))
			return tab.put(it)
		}
		out = append(out, limit{"bytes of an item with " + c.name, filled(most), filled(most + 1)})
	}
	return out
}

// addKey adds a key of two bytes to an item.
func addKey(it item) item {
	it[hashName], it[rangeName] = str("p"), str("s")
	return it
}

// nestedLists is a string nested in n lists.
func nestedLists(n int) types.AttributeValue {
	v := str("x")
	for range n {
		v = &types.AttributeValueMemberL{Value: []types.AttributeValue{v}}
	}
	return v
}

func (tab *table) put(it item) apiCall {
	return newCall(operations.PutItem, &dynamodb.PutItemInput{TableName: &tab.name, Item: it})
}

func (tab *table) update(expression string, values item) apiCall {
	return newCall(operations.UpdateItem, &dynamodb.UpdateItemInput{
		TableName: &tab.name, Key: addKey(item{}), UpdateExpression: &expression, ExpressionAttributeValues: values,
	})
}

func (tab *table) filter(expression string, values item) apiCall {
	return scanAll(&dynamodb.ScanInput{TableName: &tab.name, FilterExpression: &expression, ExpressionAttributeValues: values})
}

// keyNumber returns the key of item i.
func keyNumber(i int) item { return item{hashName: str("p"), rangeName: str(fmt.Sprint(i))} }

func (tab *table) transaction(n int) apiCall {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(fmt.Sprintf("%.30s-%d", tab.name, n))}
	for i := range n {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{TableName: &tab.name, Item: keyNumber(i)}})
	}
	return newCall(operations.TransactWriteItems, in)
}

func (tab *table) batch(n int) apiCall {
	var writes []types.WriteRequest
	for i := range n {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: keyNumber(i)}})
	}
	return newCall(operations.BatchWriteItem, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{tab.name: writes}})
}

func (tab *table) batchOfKeys(n int) apiCall {
	keys := types.KeysAndAttributes{}
	for i := range n {
		keys.Keys = append(keys.Keys, keyNumber(i))
	}
	return newCall(operations.BatchGetItem, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{tab.name: keys}})
}
