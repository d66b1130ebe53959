package expression_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/expression"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// TestPlaceholders: each attribute and each value has one placeholder, also
// beyond the preallocated ones.
func TestPlaceholders(t *testing.T) {
	type document struct {
		ID    string         `theorydb:"pk"`
		Parts map[string]any // its keys are arbitrary
	}
	m, err := model.NewRegistry().Model(reflect.TypeFor[document]())
	if err != nil {
		t.Fatal(err)
	}
	const count = 25
	var b expression.Builder
	for range 2 {
		for i := range count {
			path, err := m.Path(fmt.Sprintf("Parts.p%d", i))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := b.Path(path), fmt.Sprintf("#_0.#_%d", i+1); got != want {
				t.Errorf("the path to part %d is %s, want %s", i, got, want)
			}
		}
	}
	if n := len(b.Names()); n != count+1 {
		t.Errorf("there are %d names, want %d", n, count+1)
	}
	for i := range count {
		if got, want := b.Names()[fmt.Sprintf("#_%d", i+1)], fmt.Sprintf("p%d", i); got != want {
			t.Errorf("#_%d stands for %s, want %s", i+1, got, want)
		}
		av := &types.AttributeValueMemberS{Value: "v"}
		if got, want := b.Value(av), fmt.Sprintf(":_%d", i); got != want || b.Values()[want] != av {
			t.Errorf("value %d is %s, %v; want %s", i, got, b.Values()[want], want)
		}
	}
}
