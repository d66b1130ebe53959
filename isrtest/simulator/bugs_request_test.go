package simulator_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// requestBugs break requests with an idempotency key.
func requestBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a request is ended without its attempt token", API: edit(editedAPI{request: withoutCondition})},
		{Name: "a request is claimed regardless of its state", API: edit(editedAPI{claim: unconditional, hidden: "REQ#"})},
		{Name: "a publish does not complete its request", API: edit(editedAPI{drop: func(action types.TransactWriteItem, rows []string) bool {
			return slices.Contains(rows, "META") && strings.HasPrefix(sortKey(keyOf(action)), "REQ#")
		}})},
		{Name: "a request has no ttl", API: edit(editedAPI{claim: func(u *types.Update) {
			expression := aws.ToString(u.UpdateExpression)
			for name, attribute := range u.ExpressionAttributeNames {
				if attribute == "ttl" {
					expression = withoutAssignment(expression, name)
				}
			}
			u.UpdateExpression = &expression
			u.ExpressionAttributeNames, u.ExpressionAttributeValues = used(expression+" "+aws.ToString(u.ConditionExpression), u.ExpressionAttributeNames, u.ExpressionAttributeValues)
		}})},
		{Name: "a request is not recorded", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return forgetful{inner} }},
		{Name: "the inputs of a request are ignored", Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore { return careless{inner} }},
	}
}

// withoutAssignment removes the assignment of an attribute from a SET clause.
func withoutAssignment(expression, name string) string {
	clause, rest, hasMore := strings.Cut(strings.TrimPrefix(expression, "SET "), " REMOVE ")
	var kept []string
	for assignment := range strings.SplitSeq(clause, ", ") {
		if !strings.HasPrefix(assignment, name+" ") {
			kept = append(kept, assignment)
		}
	}
	expression = "SET " + strings.Join(kept, ", ")
	if hasMore {
		expression += " REMOVE " + rest
	}
	return expression
}

// forgetful acquires leases without claims.
type forgetful struct{ store.MetaStore }

func (s forgetful) Acquire(ctx context.Context, pk string, d time.Duration, _ *store.Claim) (store.Lease, error) {
	return s.MetaStore.Acquire(ctx, pk, d, nil)
}

// careless gives all requests with one key the same inputs.
type careless struct{ store.MetaStore }

func (careless) RequestRecord(context.Context, string, string) (store.RequestRecord, bool, error) {
	return store.RequestRecord{}, false, nil
}

func (s careless) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	if claim != nil {
		alike := *claim
		alike.Hash = "alike"
		claim = &alike
	}
	return s.MetaStore.Acquire(ctx, pk, d, claim)
}
