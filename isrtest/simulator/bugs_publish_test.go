package simulator_test

import (
	"context"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/isrtest/simulator"
	"github.com/facetheory/isr/store"
)

// publishBugs break the transaction that makes a page current.
func publishBugs() []simulator.Bug {
	return []simulator.Bug{
		{Name: "a publish without the fence", API: edit(editedAPI{meta: unconditional})},
		{Name: "a publish does not check the lease's expiry", Profile: "freezes", API: edit(editedAPI{lock: func(action *types.TransactWriteItem) {
			relock(action, "lease_token = :x", isText)
		}})},
		{Name: "a publish does not check the lease's token", API: edit(editedAPI{lock: func(action *types.TransactWriteItem) {
			relock(action, "lease_expires_at > :x", isNumber)
		}})},
		{Name: "a publish keeps the lease", API: edit(editedAPI{lock: func(action *types.TransactWriteItem) {
			d := action.Delete
			*action = types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
				TableName: d.TableName, Key: d.Key, ConditionExpression: d.ConditionExpression,
				ExpressionAttributeNames: d.ExpressionAttributeNames, ExpressionAttributeValues: d.ExpressionAttributeValues,
			}}
		}})},
		versioned("versions start at 1 if there is no entry", func(v int64) int64 {
			if v > 1e9 { // it derives from a time
				return 1
			}
			return v
		}),
		versioned("every second version is that before it", func(v int64) int64 { return v &^ 1 }),
		{Name: "a publish deletes attributes of other services", API: edit(editedAPI{meta: func(u *types.Update) {
			expression := aws.ToString(u.UpdateExpression)
			if strings.Contains(expression, "REMOVE ") {
				expression = strings.Replace(expression, "REMOVE ", "REMOVE note, ", 1)
			} else {
				expression += " REMOVE note"
			}
			u.UpdateExpression = &expression
		}})},
	}
}

// relock replaces the condition of the deletion of LOCK with one on a value of the original.
func relock(action *types.TransactWriteItem, expression string, isValue func(types.AttributeValue) bool) {
	d := *action.Delete
	c := condition{values: d.ExpressionAttributeValues}.term(expression, isValue)
	d.ConditionExpression, d.ExpressionAttributeNames, d.ExpressionAttributeValues = c.expression, c.names, c.values
	action.Delete = &d
}

// versioned gives generations a wrong version, and reports it to the cache.
func versioned(name string, alter func(int64) int64) simulator.Bug {
	return simulator.Bug{
		Name: name,
		API: edit(editedAPI{meta: func(u *types.Update) {
			withMap(u, func(m item) { setVersion(m, alter(version(m))) })
		}}),
		Meta: func(inner store.MetaStore, _ store.BodyStore) store.MetaStore {
			return &numberingStore{MetaStore: inner, alter: alter}
		},
	}
}

// A numberingStore reports a different version to the cache than the store wrote.
type numberingStore struct {
	store.MetaStore
	alter func(int64) int64
}

func (s *numberingStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	got, err := s.MetaStore.Publish(ctx, l, read, next, how)
	got.Version = s.alter(got.Version)
	return got, err
}

func version(m item) int64 {
	n, ok := m["v"].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	v, _ := strconv.ParseInt(n.Value, 10, 64) // written by the store, so it parses
	return v
}

func setVersion(m item, v int64) {
	m["v"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(v, 10)}
}
