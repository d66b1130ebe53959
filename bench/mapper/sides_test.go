package main

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// All sides of a row have the same result.
func TestSidesHaveTheSameResult(t *testing.T) {
	all, err := rows()
	if err != nil {
		t.Fatal(err)
	}
	options := cmp.Options{
		cmpopts.IgnoreUnexported(
			types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{},
			types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.AttributeValueMemberSS{},
		),
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			var want any
			for i, s := range r.sides {
				if err := s.run(); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
				if i == 0 {
					want = s.result()
				} else if diff := cmp.Diff(want, s.result(), options); diff != "" {
					t.Errorf("%s differs from %s (-%s +%s)\n%s", s.name, r.sides[0].name, r.sides[0].name, s.name, diff)
				}
			}
		})
	}
}
