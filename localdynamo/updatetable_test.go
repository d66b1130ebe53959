package localdynamo_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

type indexUpdate = types.GlobalSecondaryIndexUpdate

func updateTable(t *testing.T, db *localdynamo.DB, in *dynamodb.UpdateTableInput) (*types.TableDescription, error) {
	t.Helper()
	if in.TableName == nil {
		in.TableName = things
	}
	out, err := db.UpdateTable(t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.TableDescription, nil
}

// addIndex returns an update that creates a global index with projection ALL,
// named after its keys.
func addIndex(names ...string) indexUpdate {
	return indexUpdate{Create: &types.CreateGlobalSecondaryIndexAction{
		IndexName: aws.String("by-" + names[0]), KeySchema: keys(names...), Projection: everything,
	}}
}

func dropIndex(name string) indexUpdate {
	return indexUpdate{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &name}}
}

func provisionIndex(name string, read, write int64) indexUpdate {
	return indexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: &name, ProvisionedThroughput: units(read, write)}}
}

func TestUpdateBilling(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	db := open(t, localdynamo.Options{Now: func() time.Time { return now }})
	createIndexed(t, db)
	games := aws.String("games")
	created := now
	now = now.Add(time.Hour)

	_, err := updateTable(t, db, &dynamodb.UpdateTableInput{TableName: games, BillingMode: types.BillingModeProvisioned})
	wantInvalid(t, err, "must both be specified")
	_, err = updateTable(t, db, &dynamodb.UpdateTableInput{TableName: games, BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: units(5, 6)})
	wantInvalid(t, err, "must be specified for index: top")
	d, err := updateTable(t, db, &dynamodb.UpdateTableInput{
		TableName: games, BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: units(5, 6),
		GlobalSecondaryIndexUpdates: []indexUpdate{provisionIndex("top", 7, 8)},
	})
	if err != nil {
		t.Fatal(err)
	}
	index := d.GlobalSecondaryIndexes[0].ProvisionedThroughput
	equal(t, [...]int64{*d.ProvisionedThroughput.ReadCapacityUnits, *d.ProvisionedThroughput.WriteCapacityUnits, *index.ReadCapacityUnits, *index.WriteCapacityUnits}, [...]int64{5, 6, 7, 8})
	equal(t, d.TableStatus, types.TableStatusActive)
	equal(t, d.BillingModeSummary.BillingMode, types.BillingModeProvisioned)
	equal(t, d.BillingModeSummary.LastUpdateToPayPerRequestDateTime.Unix(), created.Unix())

	for words, in := range map[string]*dynamodb.UpdateTableInput{
		"throughput for the table will not change":     {ProvisionedThroughput: units(5, 6)},
		"throughput for the index top will not change": {GlobalSecondaryIndexUpdates: []indexUpdate{provisionIndex("top", 7, 8)}},
		"Value '0' at": {ProvisionedThroughput: units(0, 6)},
		"does not have the specified index: bottom": {GlobalSecondaryIndexUpdates: []indexUpdate{provisionIndex("bottom", 7, 8)}},
		"does not have the specified index: recent": {GlobalSecondaryIndexUpdates: []indexUpdate{provisionIndex("recent", 7, 8)}},
		"Neither ReadCapacityUnits":                 {BillingMode: types.BillingModePayPerRequest, ProvisionedThroughput: units(1, 1)},
	} {
		in.TableName = games
		_, err := updateTable(t, db, in)
		wantInvalid(t, err, words)
	}

	d, err = updateTable(t, db, &dynamodb.UpdateTableInput{TableName: games, BillingMode: types.BillingModePayPerRequest})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, *d.ProvisionedThroughput.ReadCapacityUnits, int64(0))
	equal(t, *d.GlobalSecondaryIndexes[0].ProvisionedThroughput.WriteCapacityUnits, int64(0))
	equal(t, d.BillingModeSummary.LastUpdateToPayPerRequestDateTime.Unix(), now.Unix())
}

func TestUpdateClass(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	if c := describe(t, db, "things").TableClassSummary; c != nil {
		t.Errorf("got class %v before it was set", c)
	}
	d, err := updateTable(t, db, &dynamodb.UpdateTableInput{TableClass: types.TableClassStandardInfrequentAccess})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, d.TableClassSummary.TableClass, types.TableClassStandardInfrequentAccess)
	if d.TableClassSummary.LastUpdateDateTime == nil {
		t.Error("the time of the change is missing")
	}
}

func TestUpdateTableRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for words, in := range map[string]*dynamodb.UpdateTableInput{
		"At least one of":                {AttributeDefinitions: defs("pk")},
		"streams":                        {StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true)}},
		"no stream to disable":           {StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)}},
		"global tables":                  {ReplicaUpdates: []types.ReplicationGroupUpdate{{}}},
		"vector indexes":                 {VectorIndexUpdates: []types.VectorIndexUpdate{{}}},
		"[PROVISIONED, PAY_PER_REQUEST]": {BillingMode: "FREE"},
		"must not be null, and":          {GlobalSecondaryIndexUpdates: []indexUpdate{{}}},
		"member.delete.indexName'":       {GlobalSecondaryIndexUpdates: []indexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{}}}},
		"member.create.indexName'":       {GlobalSecondaryIndexUpdates: []indexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{}}}},
		"member.update.indexName'":       {GlobalSecondaryIndexUpdates: []indexUpdate{{Update: &types.UpdateGlobalSecondaryIndexAction{}}}},
		"update per index is allowed":    {GlobalSecondaryIndexUpdates: []indexUpdate{addIndex("a"), provisionIndex("by-a", 1, 1)}, AttributeDefinitions: defs("a")},
		"Keys: [a]":                      {GlobalSecondaryIndexUpdates: []indexUpdate{addIndex("a")}},
		"Keys: [pk]":                     {GlobalSecondaryIndexUpdates: []indexUpdate{addIndex("pk")}, AttributeDefinitions: defs("sk")},
		"cannot be redefined as N":       {GlobalSecondaryIndexUpdates: []indexUpdate{addIndex("a")}, AttributeDefinitions: defs("a", "pk:N")},
		"keys used: [a, pk, sk]":         {GlobalSecondaryIndexUpdates: []indexUpdate{addIndex("a")}, AttributeDefinitions: defs("a", "z")},
	} {
		_, err := updateTable(t, db, in)
		wantInvalid(t, err, words)
	}
	var limit *types.LimitExceededException
	for _, updates := range [][]indexUpdate{{addIndex("a"), addIndex("b")}, {addIndex("a"), dropIndex("by-b")}} {
		_, err := updateTable(t, db, &dynamodb.UpdateTableInput{GlobalSecondaryIndexUpdates: updates, AttributeDefinitions: defs("a", "b")})
		if !errors.As(err, &limit) {
			t.Errorf("two indexes at a time: %v", err)
		}
	}
	_, err := updateTable(t, db, &dynamodb.UpdateTableInput{GlobalSecondaryIndexUpdates: []indexUpdate{dropIndex("by-none")}})
	wantNotFound(t, err)
	_, err = updateTable(t, db, &dynamodb.UpdateTableInput{TableName: aws.String("no-table"), BillingMode: types.BillingModePayPerRequest})
	wantNotFound(t, err)
	equal(t, len(describe(t, db, "things").GlobalSecondaryIndexes), 0)
}
