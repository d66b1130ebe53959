package model_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// wide is a struct of 30 fields of mixed types.
type wide struct {
	PK string `theorydb:"pk,attr:PK"`
	SK string `theorydb:"sk,attr:SK"`

	Name    string `theorydb:"attr:Name"`
	Email   string `theorydb:"attr:Email"`
	Phone   string `theorydb:"attr:Phone"`
	Street  string `theorydb:"attr:Street"`
	City    string `theorydb:"attr:City"`
	Country string `theorydb:"attr:Country"`
	Note    string `theorydb:"attr:Note,omitempty" dynamodbav:",omitempty"`

	Age      int     `theorydb:"attr:Age"`
	Visits   int64   `theorydb:"attr:Visits"`
	Version  int64   `theorydb:"attr:Version"`
	Level    uint8   `theorydb:"attr:Level"`
	Flags    uint32  `theorydb:"attr:Flags"`
	Balance  float64 `theorydb:"attr:Balance"`
	Score    float64 `theorydb:"attr:Score"`
	Latitude float32 `theorydb:"attr:Latitude"`

	Active   bool `theorydb:"attr:Active"`
	Verified bool `theorydb:"attr:Verified"`
	Deleted  bool `theorydb:"attr:Deleted"`

	Created time.Time     `theorydb:"attr:Created"`
	Updated time.Time     `theorydb:"attr:Updated"`
	Timeout time.Duration `theorydb:"attr:Timeout"`

	Avatar   []byte            `theorydb:"attr:Avatar"`
	Tags     []string          `theorydb:"attr:Tags"`
	Roles    []string          `theorydb:"attr:Roles,set" dynamodbav:",stringset"`
	Counts   []int             `theorydb:"attr:Counts"`
	Labels   map[string]string `theorydb:"attr:Labels"`
	Referrer *string           `theorydb:"attr:Referrer"`
	Home     address           `theorydb:"attr:Home"`
}

type address struct {
	Street string `theorydb:"attr:Street"`
	City   string `theorydb:"attr:City"`
	Number int    `theorydb:"attr:Number"`
}

func newWide() wide {
	referrer := "https://example.org/"
	return wide{
		PK: "USER#42", SK: "PROFILE", Name: "Ada Lovelace", Email: "ada@example.org", Phone: "+44 20 7946 0000",
		Street: "12 St James's Square", City: "London", Country: "GB",
		Age: 36, Visits: 123456, Version: 7, Level: 3, Flags: 1 << 20, Balance: 1234.56, Score: 0.875, Latitude: 51.5072,
		Active: true, Verified: true,
		Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Updated: time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC), Timeout: time.Minute,
		Avatar: []byte("\x89PNG\r\n\x1a\n0123456789"), Tags: []string{"a", "b", "c"}, Roles: []string{"admin", "author"},
		Counts: []int{1, 20, 300}, Labels: map[string]string{"team": "engine", "site": "north"}, Referrer: &referrer,
		Home: address{"12 St James's Square", "London", 12},
	}
}

func BenchmarkEncode(b *testing.B) {
	b.Run("META", func(b *testing.B) { benchmarkEncode(b, meta) })
	b.Run("30fields", func(b *testing.B) { benchmarkEncode(b, newWide()) })
}

func BenchmarkDecode(b *testing.B) {
	b.Run("META", func(b *testing.B) { benchmarkDecode(b, meta) })
	b.Run("30fields", func(b *testing.B) { benchmarkDecode(b, newWide()) })
}

// benchmarkEncode compares with attributevalue in one run.
func benchmarkEncode[T any](b *testing.B, value T) {
	b.Run("attributevalue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := attributevalue.MarshalMap(&value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tabletheory", func(b *testing.B) {
		b.ReportAllocs()
		m := mustModel[T](b)
		for b.Loop() {
			if _, err := m.Encode(reflect.ValueOf(&value).Elem()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchmarkDecode[T any](b *testing.B, value T) {
	item, err := attributevalue.MarshalMap(&value)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("attributevalue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var got T
			if err := attributevalue.UnmarshalMap(item, &got); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tabletheory", func(b *testing.B) {
		b.ReportAllocs()
		m := mustModel[T](b)
		for b.Loop() {
			var got T
			if err := m.Decode(model.Item(item), reflect.ValueOf(&got).Elem()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
