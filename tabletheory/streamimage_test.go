package tabletheory_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

// streamed has an attribute of each type.
type streamed struct {
	ID      string `theorydb:"pk"`
	Number  tabletheory.Number
	Binary  []byte
	Flag    bool
	Texts   []string             `theorydb:"set"`
	Numbers []tabletheory.Number `theorydb:"set"`
	Blobs   [][]byte             `theorydb:"set"`
	List    []any
	Map     map[string]any
	Null    *string
	Raw     types.AttributeValue
}

func (streamed) TableName() string { return "streamed" }

// TestUnmarshalStreamImage: the images of a record as Lambda sends it.
func TestUnmarshalStreamImage(t *testing.T) {
	t.Parallel()
	var record events.DynamoDBEventRecord
	err := json.Unmarshal([]byte(`{"eventName": "MODIFY", "dynamodb": {"NewImage": {
		"id": {"S": "a"}, "number": {"N": "9007199254740993"}, "binary": {"B": "AAH/"}, "flag": {"BOOL": true},
		"texts": {"SS": ["x", "y"]}, "numbers": {"NS": ["1", "9007199254740993"]}, "blobs": {"BS": ["AA=="]},
		"list": {"L": [{"N": "9007199254740993"}, {"NULL": true}, {"L": [{"S": "deep"}]}]},
		"map": {"M": {"a": {"M": {"b": {"N": "1"}}}}}, "null": {"NULL": true}, "raw": {"M": {"x": {"B": "AA=="}}}
	}}}`), &record)
	check(t, err)
	var got streamed
	check(t, tabletheory.New(nil).UnmarshalStreamImage(t.Context(), record.Change.NewImage, &got))
	want := streamed{
		ID: "a", Number: "9007199254740993", Binary: []byte{0, 1, 255}, Flag: true,
		Texts: []string{"x", "y"}, Numbers: []tabletheory.Number{"1", "9007199254740993"}, Blobs: [][]byte{{0}},
		List: []any{tabletheory.Number("9007199254740993"), nil, []any{"deep"}},
		Map:  map[string]any{"a": map[string]any{"b": tabletheory.Number("1")}},
		Raw:  &types.AttributeValueMemberM{Value: attrs{"x": binary(0)}},
	}
	if diff := cmp.Diff(want, got, ignoreSDK); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An image of another type fails like an item, the zero value of an attribute is NULL, and
// encrypted attributes are decrypted.
func TestStreamImages(t *testing.T) {
	t.Parallel()
	keys, err := envelope.OpenKeyFile(filepath.Join(t.TempDir(), "keys"))
	check(t, err)
	db := tabletheory.New(nil, tabletheory.WithKeyProvider(keys))
	var got streamed
	check(t, db.UnmarshalStreamImage(t.Context(), map[string]events.DynamoDBAttributeValue{
		"id": events.NewStringAttribute("a"), "number": {}, "binary": events.NewBinaryAttribute(nil),
	}, &got))
	same(t, got, streamed{ID: "a", Number: "", Binary: []byte{}})
	err = db.UnmarshalStreamImage(t.Context(), map[string]events.DynamoDBAttributeValue{"flag": events.NewStringAttribute("a")}, &got)
	if err == nil || got.ID != "a" {
		t.Errorf("an attribute of another type: %v, %+v; want an error, and dest unchanged", err, got)
	}

	item, err := db.MarshalItem(t.Context(), letter{ID: "1", Text: "secret"})
	check(t, err)
	sealed := item["text"].(*types.AttributeValueMemberM).Value
	image := map[string]events.DynamoDBAttributeValue{"id": events.NewStringAttribute("1")}
	members := map[string]events.DynamoDBAttributeValue{}
	for name, av := range sealed {
		switch av := av.(type) {
		case *types.AttributeValueMemberN:
			members[name] = events.NewNumberAttribute(av.Value)
		case *types.AttributeValueMemberB:
			members[name] = events.NewBinaryAttribute(av.Value)
		}
	}
	image["text"] = events.NewMapAttribute(members)
	var opened letter
	check(t, db.UnmarshalStreamImage(t.Context(), image, &opened))
	same(t, opened, letter{ID: "1", Text: "secret"})
}
