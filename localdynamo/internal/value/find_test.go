package value_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// TestFind compares Find with Lookup of each name.
func TestFind(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		fields := map[string]types.AttributeValue{}
		for range random.IntN(40) {
			fields[fmt.Sprintf("a%02d", random.IntN(60))] = &types.AttributeValueMemberS{Value: "x"}
		}
		var names []string
		for range random.IntN(40) {
			names = append(names, fmt.Sprintf("a%02d", random.IntN(60)))
		}
		slices.Sort(names)
		names = slices.Compact(names)
		it := value.View(value.Encode(nil, fields))
		var found, want []string
		if err := it.Find(names, func(name string, v types.AttributeValue) { found = append(found, name) }); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if v, _ := it.Lookup(name); v != nil {
				want = append(want, name)
			}
		}
		if !slices.Equal(found, want) {
			t.Fatalf("%v of %v: found %v, want %v", names, fields, found, want)
		}
	}
}
