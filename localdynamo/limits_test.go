package localdynamo_test

import (
	"testing"

	"github.com/facetheory/isr/localdynamo"
)

func TestDescribeLimits(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	out, err := db.DescribeLimits(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, [...]int64{*out.AccountMaxReadCapacityUnits, *out.AccountMaxWriteCapacityUnits, *out.TableMaxReadCapacityUnits, *out.TableMaxWriteCapacityUnits},
		[...]int64{80_000, 80_000, 40_000, 40_000})
}

func TestDescribeEndpoints(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	out, err := db.DescribeEndpoints(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, len(out.Endpoints), 1)
	equal(t, *out.Endpoints[0].Address, "localhost")
}
