package tabletheory_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// Point is stored as the string "x;y", by a converter.
type Point struct{ X, Y int }

func withPoints() tabletheory.Option {
	return tabletheory.WithConverter(
		func(p Point) (types.AttributeValue, error) {
			return &types.AttributeValueMemberS{Value: fmt.Sprintf("%d;%d", p.X, p.Y)}, nil
		},
		func(av types.AttributeValue) (Point, error) {
			var p Point
			s, ok := av.(*types.AttributeValueMemberS)
			if !ok {
				return p, errors.New("a point is S")
			}
			_, err := fmt.Sscanf(s.Value, "%d;%d", &p.X, &p.Y)
			return p, err
		},
	)
}

// Everything has a field for each kind of value.
type Everything struct {
	ID Point `theorydb:"pk"`

	Int      int64
	Uint     uint64
	Float    float64
	Text     string
	Bytes    []byte
	Array    [16]byte
	Bool     bool
	Nil      *string
	At       time.Time
	Expires  time.Time `theorydb:"ttl"`
	Wait     time.Duration
	Big      *big.Int
	Exact    tabletheory.Number
	Address  netip.Addr
	List     [][]string
	Map      map[string]map[int]bool
	Any      any
	Names    []string            `theorydb:"set"`
	Numbers  map[int]struct{}    `theorydb:"set"`
	Binaries [][]byte            `theorydb:"set"`
	NoSet    map[string]struct{} `theorydb:"set"`
	Document []Point             `theorydb:"json"`
	Binary   string              `theorydb:"binary"`
	Points   map[string]*Point
	Raw      types.AttributeValue
}

func (Everything) TableName() string { return os.Getenv("TABLETHEORY_EVERYTHING") }

func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		createTable(t, api, "TABLETHEORY_EVERYTHING", &dynamodb.CreateTableInput{
			KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
		})
		db := tabletheory.New(api, withPoints())
		ten, _ := new(big.Int).SetString("12345678901234567890123456789012345678", 10)
		want := Everything{
			ID: Point{1, 2}, Int: math.MinInt64, Uint: math.MaxUint64, Float: 1.5e-100, Text: "héllo\x00", Bytes: []byte{},
			Array: [16]byte{15: 1}, Bool: true, At: time.Unix(1, 5).UTC(), Expires: time.Unix(4_000_000_000, 0).UTC(),
			Wait: time.Hour, Big: ten, Exact: "0.1", Address: netip.MustParseAddr("10.0.0.1"),
			List: [][]string{{"a", "a"}, {}, nil}, Map: map[string]map[int]bool{"a": {-1: true}, "b": {}},
			Any: map[string]any{"x": []any{tabletheory.Number("1"), "y", nil, []byte{0}}}, Names: []string{"one"},
			Numbers: map[int]struct{}{1: {}, 10: {}, -3: {}}, Binaries: [][]byte{{0, 255}}, Document: []Point{{3, 4}},
			Binary: "\xff\xfe", Points: map[string]*Point{"a": {5, 6}, "nil": nil}, Raw: &types.AttributeValueMemberN{Value: "7"},
		}
		if err := db.Model(&want).Create(); err != nil {
			t.Fatal(err)
		}
		var got Everything
		if err := db.Model(&Everything{}).Where("ID", "=", Point{1, 2}).First(&got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read\n%+v, want\n%+v", got, want)
		}
	})
}

func TestConverterOfAnInterface(t *testing.T) {
	t.Parallel()
	type shape interface{ Area() float64 }
	errNoShape := errors.New("no shape")
	db := tabletheory.New(nil, tabletheory.WithConverter(
		func(s shape) (types.AttributeValue, error) {
			if s == nil {
				return nil, errNoShape
			}
			return &types.AttributeValueMemberNULL{Value: true}, nil
		},
		func(types.AttributeValue) (shape, error) { return nil, nil },
	))
	type drawing struct {
		shapes
		Shape shape
	}
	if err := db.Model(&drawing{shapes: shapes{ID: "a"}}).Create(); !errors.Is(err, errNoShape) {
		t.Errorf("got error %v, want the error of the converter", err)
	}
}

// shapes is the key of a model.
type shapes struct {
	ID string `theorydb:"pk"`
}

func (shapes) TableName() string { return os.Getenv("TABLETHEORY_SHAPES") }
