package tabletheory_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/tabletheory"
)

// Programs in several languages share the rows of the reference documents. The items
// in this file are those that the AWS SDKs of these languages send for the reference
// models: marshall of @aws-sdk/util-dynamodb and TypeSerializer of boto3.

func null() types.AttributeValue { return &types.AttributeValueMemberNULL{Value: true} }

// metaBy returns equivalent META rows by their writers.
func metaBy(t *testing.T, meta FaceTheoryCacheMetadata) map[string]attrs {
	t.Helper()
	own, err := tabletheory.New(nil).MarshalItem(t.Context(), meta)
	check(t, err)
	sdk, err := attributevalue.MarshalMapWithOptions(meta, byJSONTags)
	check(t, err)
	// From a model without omitempty.
	zeroes := attrs{
		"pk": str(meta.PK), "sk": str(meta.SK), "s3_key": str(meta.S3Key), "etag": str(meta.ETag),
		"generated_at": integer(meta.GeneratedAt), "revalidate_seconds": integer(meta.RevalidateSeconds), "ttl": integer(meta.TTL),
	}
	return map[string]attrs{"tabletheory": own, "attributevalue": sdk, "without omitempty": zeroes}
}

func byJSONTags(o *attributevalue.EncoderOptions) { o.TagKey = "json" }

func TestReadRowsOfOtherWriters(t *testing.T) {
	t.Parallel()
	full := FaceTheoryCacheMetadata{
		PK: "TENANT#t1#CACHE#ü", SK: "META", S3Key: "pages/t1/ü.html",
		GeneratedAt: 1795000000, RevalidateSeconds: 60, ETag: `W/"ü"`, TTL: 1795086400,
	}
	least := FaceTheoryCacheMetadata{PK: full.PK, SK: "META", S3Key: full.S3Key, GeneratedAt: 1795000000, RevalidateSeconds: 60}

	fulls := metaBy(t, full)
	fulls["JavaScript"] = attrs{
		"pk": str(full.PK), "sk": str("META"), "s3_key": str(full.S3Key), "generated_at": num("1795000000"),
		"revalidate_seconds": num("60"), "etag": str(full.ETag), "ttl": num("1795086400"),
		"a_field_of_theirs": &types.AttributeValueMemberM{Value: attrs{"x": &types.AttributeValueMemberL{Value: []types.AttributeValue{null()}}}},
	}
	fulls["Python, of Decimals"] = attrs{
		"pk": str(full.PK), "sk": str("META"), "s3_key": str(full.S3Key), "generated_at": num("1.795E+9"),
		"revalidate_seconds": num("60.0"), "etag": str(full.ETag), "ttl": num("1795086400.00"),
	}
	leasts := metaBy(t, least)
	leasts["JavaScript, undefined left out"] = attrs{
		"pk": str(full.PK), "sk": str("META"), "s3_key": str(full.S3Key), "generated_at": num("1795000000"), "revalidate_seconds": num("60"),
	}
	leasts["JavaScript, null"] = attrs{
		"pk": str(full.PK), "sk": str("META"), "s3_key": str(full.S3Key), "generated_at": num("1795000000"),
		"revalidate_seconds": num("60"), "etag": null(), "ttl": null(),
	}
	leasts["Python, None"] = leasts["JavaScript, null"]

	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		for name, item := range fulls {
			t.Run("full/"+name, func(t *testing.T) { readsAs(t, api, table, item, full) })
		}
		for name, item := range leasts {
			t.Run("least/"+name, func(t *testing.T) { readsAs(t, api, table, item, least) })
		}
	})
}

// readsAs checks that every way of reading an item returns want.
func readsAs(t *testing.T, api *dynamodb.Client, table string, item attrs, want FaceTheoryCacheMetadata) {
	t.Helper()
	putRaw(t, api, table, item)
	db := tabletheory.New(api)

	got := FaceTheoryCacheMetadata{ETag: "of another item"}
	check(t, db.Model(got).Where("PK", "=", want.PK).Where("SK", "=", "META").First(&got))
	same(t, got, want)

	var all []FaceTheoryCacheMetadata
	check(t, db.Model(got).Where("PK", "=", want.PK).All(&all))
	same(t, all, []FaceTheoryCacheMetadata{want})

	check(t, db.Model(got).BatchGet([]any{want}, &all))
	same(t, all, []FaceTheoryCacheMetadata{want})

	one := FaceTheoryCacheMetadata{PK: want.PK, SK: "META"}
	check(t, db.TransactGet(t.Context(), func(tx *tabletheory.TransactionReader) error { tx.Get(&one, nil); return nil }))
	same(t, one, want)
}

// Other mappers read our rows: attributevalue, which is equivalent to the SDKs
// of the other languages.
func TestOtherMappersReadOurRows(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		db := tabletheory.New(api)
		for _, meta := range []FaceTheoryCacheMetadata{
			{PK: "p", SK: "META", S3Key: "k", GeneratedAt: 1795000000, RevalidateSeconds: 60, ETag: `"e"`, TTL: 1795086400},
			{PK: "p", SK: "META"},
		} {
			check(t, db.Model(&meta).CreateOrUpdate())
			stored := getRaw(t, api, table, attrs{"pk": str("p"), "sk": str("META")})
			want, err := attributevalue.MarshalMapWithOptions(meta, byJSONTags)
			check(t, err)
			if diff := cmp.Diff(want, stored, ignoreSDK); diff != "" {
				t.Errorf("(-attributevalue +tabletheory)\n%s", diff)
			}
			var got FaceTheoryCacheMetadata
			check(t, attributevalue.UnmarshalMapWithOptions(stored, &got, func(o *attributevalue.DecoderOptions) { o.TagKey = "json" }))
			same(t, got, meta)
		}
	})
}

// A lease acquired by a program in another language is held.
func TestLeasesOfOtherWritersAreHeld(t *testing.T) {
	t.Parallel()
	engineCases(t, map[string]func(expires int64) types.AttributeValue{
		"JavaScript": func(expires int64) types.AttributeValue { return integer(expires + 3600) },
		"Python":     func(int64) types.AttributeValue { return null() },
	}, func(t *testing.T, api *dynamodb.Client, ttl func(expires int64) types.AttributeValue) {
		table := cacheTable(t, api)
		expires := time.Now().Unix() + 30 // cases wait for their turn
		putRaw(t, api, table, attrs{
			"pk": str(referencePage), "sk": str("LOCK"), "lease_token": str(ourLease), "lease_expires_at": integer(expires), "ttl": ttl(expires),
		})
		check(t, publishInPlace(tabletheory.New(api), ourLease))
		if left := getRaw(t, api, table, attrs{"pk": str(referencePage), "sk": str("LOCK")}); left != nil {
			t.Errorf("the lease still exists: %v", left)
		}
	})
}

// Event has values that languages encode differently.
type Event struct {
	ID string `theorydb:"pk"`

	At      time.Time
	Until   *time.Time
	Kinds   []string `theorydb:"set,omitempty"`
	Payload []byte
	Weight  float64
	Count   int64
	Open    bool
	Notes   []string
	Labels  map[string]string
	Place   Address
}

func (Event) TableName() string { return "events" }

func TestReadValuesOfOtherWriters(t *testing.T) {
	t.Parallel()
	want := Event{
		ID: "1", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kinds: []string{"a", "b"}, Payload: []byte{0, 255}, Weight: 0.5, Count: 20,
		Open: true, Notes: []string{"x", ""}, Labels: map[string]string{"k": "v"}, Place: Address{Street: "1 Loop"},
	}
	db := tabletheory.New(nil)
	own, err := db.MarshalItem(t.Context(), want)
	check(t, err)
	list := func(values ...types.AttributeValue) types.AttributeValue {
		return &types.AttributeValueMemberL{Value: values}
	}
	for name, item := range map[string]attrs{
		"tabletheory": own,
		"JavaScript": {
			"id": str("1"), "at": str("2026-01-02T03:04:05.000Z"), // Date.toISOString; undefined is left out
			"kinds": &types.AttributeValueMemberSS{Value: []string{"a", "b"}}, "payload": &types.AttributeValueMemberB{Value: []byte{0, 255}},
			"weight": num("0.5"), "count": num("20"), "open": &types.AttributeValueMemberBOOL{Value: true}, "notes": list(str("x"), str("")),
			"labels": &types.AttributeValueMemberM{Value: attrs{"k": str("v")}}, "place": &types.AttributeValueMemberM{Value: attrs{"street": str("1 Loop")}},
		},
		"JavaScript, arrays": {
			"id": str("1"), "at": num("1767323045"), "until": null(), // seconds of Date.now()
			"kinds": list(str("a"), str("b")), "payload": &types.AttributeValueMemberB{Value: []byte{0, 255}},
			"weight": num("5e-1"), "count": num("2e1"), "open": &types.AttributeValueMemberBOOL{Value: true}, "notes": list(str("x"), null()),
			"labels": &types.AttributeValueMemberM{Value: attrs{"k": str("v")}}, "place": &types.AttributeValueMemberM{Value: attrs{"street": str("1 Loop"), "city": null()}},
		},
		"Python": {
			"id": str("1"), "at": str("2026-01-02T04:04:05+01:00"), "until": null(), // datetime.isoformat
			"kinds": &types.AttributeValueMemberSS{Value: []string{"a", "b"}}, "payload": &types.AttributeValueMemberB{Value: []byte{0, 255}},
			"weight": num("0.50"), "count": num("20"), "open": &types.AttributeValueMemberBOOL{Value: true}, "notes": list(str("x"), str("")),
			"labels": &types.AttributeValueMemberM{Value: attrs{"k": str("v")}}, "place": &types.AttributeValueMemberM{Value: attrs{"street": str("1 Loop"), "city": null()}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got Event
			check(t, db.UnmarshalItem(t.Context(), item, &got))
			same(t, got, want)
		})
	}
}
