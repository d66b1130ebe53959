package model_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// metadata is the model of the reference document.
type metadata struct {
	PK string `theorydb:"pk,attr:pk" dynamodbav:"pk"`
	SK string `theorydb:"sk,attr:sk" dynamodbav:"sk"`

	S3Key             string `theorydb:"attr:s3_key" dynamodbav:"s3_key"`
	GeneratedAt       int64  `theorydb:"attr:generated_at" dynamodbav:"generated_at"`
	RevalidateSeconds int64  `theorydb:"attr:revalidate_seconds" dynamodbav:"revalidate_seconds"`
	ETag              string `theorydb:"attr:etag,omitempty" dynamodbav:"etag,omitempty"`

	TTL int64 `theorydb:"ttl,attr:ttl,omitempty" dynamodbav:"ttl,omitempty"`
}

func (metadata) TableName() string { return "isr" }

var meta = metadata{
	PK: "TENANT#t1#CACHE#abc", SK: "META", S3Key: "s3://bucket/key.html",
	GeneratedAt: 1_800_000_000, RevalidateSeconds: 60, ETag: `"abc123"`, TTL: 1_800_086_400,
}

// mustModel compiles the model of a type.
func mustModel[T any](t testing.TB) *model.Model {
	t.Helper()
	m, err := model.NewRegistry().Model(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// equalItems compares items, ignoring the unexported fields of attribute values.
func equalItems(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("items differ (-want +got):\n%s", diff)
	}
}

var unexported = cmpopts.IgnoreUnexported(
	types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
	types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberL{},
	types.AttributeValueMemberM{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{},
	types.AttributeValueMemberBS{},
)

func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func n(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }

// mapOf returns an M of alternating names and values.
func mapOf(entries ...any) types.AttributeValue {
	m := model.Item{}
	for i := 0; i < len(entries); i += 2 {
		m[entries[i].(string)] = entries[i+1].(types.AttributeValue)
	}
	return &types.AttributeValueMemberM{Value: m}
}

func list(elements ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: append([]types.AttributeValue{}, elements...)}
}

func TestModelOfTheReference(t *testing.T) {
	m := mustModel[metadata](t)
	item, err := m.Encode(reflect.ValueOf(meta))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{
		"pk": s("TENANT#t1#CACHE#abc"), "sk": s("META"), "s3_key": s("s3://bucket/key.html"),
		"generated_at": n("1800000000"), "revalidate_seconds": n("60"), "etag": s(`"abc123"`), "ttl": n("1800086400"),
	})
	var got metadata
	if err := m.Decode(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	if got != meta {
		t.Errorf("decoded %+v, want %+v", got, meta)
	}
	key, err := m.EncodeKey(reflect.ValueOf(&meta).Elem())
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, key, model.Item{"pk": s("TENANT#t1#CACHE#abc"), "sk": s("META")})
	equalItems(t, m.KeyOf(item), key)
	if m.TTL.Name != "TTL" || m.Hash.Key != "S" || m.Range.Attribute != "sk" {
		t.Errorf("the roles are ttl %v, pk %v, sk %v", m.TTL, m.Hash, m.Range)
	}
}

func TestOmittedFields(t *testing.T) {
	m := mustModel[metadata](t)
	item, err := m.Encode(reflect.ValueOf(metadata{PK: "a", SK: "b"}))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{
		"pk": s("a"), "sk": s("b"), "s3_key": s(""), "generated_at": n("0"), "revalidate_seconds": n("0"),
	})
	field, _ := m.Field("etag")
	if av, omitted, err := field.Encode(reflect.ValueOf(metadata{})); av != nil || !omitted || err != nil {
		t.Errorf("empty omitempty field: got %v, %v, %v, want it omitted", av, omitted, err)
	}
}

func TestEmptyKeysAreErrors(t *testing.T) {
	m := mustModel[metadata](t)
	_, whole := m.Encode(reflect.ValueOf(metadata{SK: "b"}))
	_, key := m.EncodeKey(reflect.ValueOf(metadata{PK: "a"}))
	for field, err := range map[string]error{"metadata.PK": whole, "metadata.SK": key} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("an empty key: %v, want an error that names %s", err, field)
		}
	}
}

func TestDecodeSelectedKeepsOtherFields(t *testing.T) {
	m := mustModel[metadata](t)
	got := meta
	item := model.Item{"etag": s("new"), "unknown": s("passed over")}
	if err := m.DecodeSelected(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	want := meta
	want.ETag = "new"
	if got != want {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
	if err := m.Decode(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	if got != (metadata{ETag: "new"}) {
		t.Errorf("decoded %+v, want all but etag to be zero", got)
	}
}

func TestDecodeErrorKeepsTheStruct(t *testing.T) {
	type row struct {
		PK string `theorydb:"pk"`
		*Base
		N int
	}
	m := mustModel[row](t)
	held := &Base{Deep: "before"}
	got := row{PK: "before", Base: held, N: 1}
	err := m.Decode(model.Item{"pk": s("after"), "deep": s("after"), "n": s("not a number")}, reflect.ValueOf(&got).Elem())
	if err == nil {
		t.Fatal("a string was decoded into an int")
	}
	if got.PK != "before" || got.Base != held || held.Deep != "before" || got.N != 1 {
		t.Errorf("after an error the struct is %+v with %+v", got, got.Base)
	}
}

// Base is embedded by pointer, which requires an exported type.
type Base struct{ Deep string }

func TestTimes(t *testing.T) {
	type row struct {
		PK  string `theorydb:"pk"`
		At  time.Time
		TTL time.Time `theorydb:"ttl"`
	}
	m := mustModel[row](t)
	at := time.Date(2026, 11, 21, 17, 30, 0, 120, time.FixedZone("CET", 3600))
	item, err := m.Encode(reflect.ValueOf(row{PK: "a", At: at, TTL: at}))
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, model.Item{"pk": s("a"), "at": s("2026-11-21T16:30:00.00000012Z"), "ttl": n("1795278600")})
}

// TestFastPaths round-trips the containers that have special codecs.
func TestFastPaths(t *testing.T) {
	m := mustModel[wide](t)
	value := newWide()
	item, err := m.Encode(reflect.ValueOf(&value).Elem())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := attributevalue.MarshalMap(value)
	if err != nil {
		t.Fatal(err)
	}
	equalItems(t, item, theirs)
	var got wide
	if err := m.Decode(item, reflect.ValueOf(&got).Elem()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, value) {
		t.Errorf("decoded %+v, want %+v", got, value)
	}
	value.Tags[1] = "\xff"
	if _, err := m.Encode(reflect.ValueOf(&value).Elem()); err == nil || !strings.Contains(err.Error(), "Tags[1]") {
		t.Errorf("an invalid string in a list: %v", err)
	}
	for attribute, av := range map[string]types.AttributeValue{"Tags": list(s("a"), n("1")), "Labels": mapOf("a", n("1"))} {
		err := m.Decode(model.Item{attribute: av}, reflect.ValueOf(&got).Elem())
		if err == nil || !strings.Contains(err.Error(), "found N, want S") {
			t.Errorf("%s: %v", attribute, err)
		}
	}
}

// TestConcurrentCompilation compiles and uses recursive models in many
// goroutines on one registry.
func TestConcurrentCompilation(t *testing.T) {
	registry := model.NewRegistry()
	all := []reflect.Type{reflect.TypeFor[nodeModel](), reflect.TypeFor[order](), reflect.TypeFor[document](), reflect.TypeFor[metadata]()}
	var group errgroup.Group
	for i := range 32 {
		group.Go(func() error {
			m, err := registry.Model(all[i%len(all)])
			if err != nil {
				return err
			}
			v := reflect.New(m.Type).Elem()
			if err := m.Decode(model.Item{m.Hash.Attribute: s("a"), "sk": s("b")}, v); err != nil {
				return err
			}
			item, err := m.Encode(v)
			if err != nil {
				return err
			}
			if _, err := registry.EncodeValue([]any{v.Interface(), node{Any: point{}}}); err != nil {
				return err
			}
			return m.Decode(item, v)
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestValueOfAFieldBehindAnEmbeddedPointer(t *testing.T) {
	type row struct {
		PK string `theorydb:"pk"`
		*Base
	}
	f, _ := mustModel[row](t).Field("Deep")
	var value row
	v := reflect.ValueOf(&value).Elem()
	if got := f.Value(v, false); got.IsValid() || value.Base != nil {
		t.Errorf("got field %v in a nil embedded struct", got)
	}
	f.Value(v, true).SetString("x")
	if value.Base == nil || value.Deep != "x" {
		t.Errorf("the struct is %+v", value)
	}
}
