package localdynamo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// UpdateTable changes the billing mode, the provisioned units of a table and its
// global indexes, deletion protection and the table class, and adds or deletes
// one global index. It also stores on-demand limits and the encryption key,
// which have no effect here. Changes take effect at once, except for a new index:
// it is CREATING, and the table UPDATING, until a background task has backfilled
// it. Until then the index cannot be read, and the table cannot be deleted or
// updated (*types.ResourceInUseException), except to delete that index. Adding
// or deleting two indexes at a time is a *types.LimitExceededException.
func (db *DB) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	in = orEmpty(in)
	name, err := tableName(in.TableName)
	if err != nil {
		return nil, err
	}
	if err := checkUpdateFields(in); err != nil {
		return nil, err
	}
	now := db.now().Truncate(time.Millisecond)
	var t *table
	var held map[string]tally
	indexes := 0 // before
	err = db.submit(ctx, func(tx *transaction) error {
		var err error
		if t, err = tx.tableForUpdate(name); err != nil {
			return err
		}
		before := slices.Clone(t.Indexes)
		indexes = len(before)
		if err := t.update(in, now); err != nil {
			return err
		}
		for _, ix := range before {
			if t.index(ix.Name) == nil {
				if err := tx.abandon(ix.space(t)); err != nil {
					return err
				}
			}
		}
		if ix := t.backfillingIndex(); ix != nil {
			tx.updateTally(ix.space(t), "", "")
		}
		if held, err = tx.readTallies(t); err != nil {
			return err
		}
		return tx.putTable(t)
	})
	if err != nil {
		return nil, err
	}
	if t.backfillingIndex() != nil {
		db.backfillWake.wake()
	}
	if len(t.Indexes) < indexes {
		db.removalWake.wake()
	}
	return &dynamodb.UpdateTableOutput{TableDescription: t.description(held)}, nil
}

// checkUpdateFields checks the request as far as possible without the table.
func checkUpdateFields(in *dynamodb.UpdateTableInput) error {
	if err := checkSupported(unsupportedInUpdate(in)); err != nil {
		return err
	}
	faults := []error{
		checkDefinitionFields(in.AttributeDefinitions), checkBilling(in.BillingMode),
		checkUnitFields("provisionedThroughput", in.ProvisionedThroughput), checkClass(in.TableClass),
		checkOnDemandFields("onDemandThroughput", in.OnDemandThroughput), checkEncryptionFields(in.SSESpecification),
	}
	for i := range in.GlobalSecondaryIndexUpdates {
		faults = append(faults, checkIndexUpdateFields(fmt.Sprintf("globalSecondaryIndexUpdates.%d.member", i+1), &in.GlobalSecondaryIndexUpdates[i]))
	}
	if err := joinFaults(faults...); err != nil {
		return err
	}
	if err := checkStream(in.StreamSpecification); err != nil {
		return err
	}
	if in.StreamSpecification != nil {
		return invalid("Table has no stream to disable")
	}
	if in.BillingMode == "" && in.ProvisionedThroughput == nil && in.DeletionProtectionEnabled == nil && in.TableClass == "" &&
		len(in.GlobalSecondaryIndexUpdates) == 0 && in.SSESpecification == nil && in.OnDemandThroughput == nil && in.WarmThroughput == nil {
		return invalid("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required")
	}
	return checkIndexUpdates(in.GlobalSecondaryIndexUpdates)
}

func unsupportedInUpdate(in *dynamodb.UpdateTableInput) string {
	switch {
	case in.StreamSpecification != nil && aws.ToBool(in.StreamSpecification.StreamEnabled):
		return "streams"
	case len(in.VectorIndexUpdates) > 0:
		return "vector indexes"
	case len(in.ReplicaUpdates) > 0, len(in.GlobalTableWitnessUpdates) > 0, in.MultiRegionConsistency != "",
		in.GlobalTableSettingsReplicationMode != "", in.DisassociationProtectionEnabled != nil:
		return "global tables"
	}
	return ""
}

// checkIndexUpdateFields checks each member of an index update separately.
// member is its path in the request.
func checkIndexUpdateFields(member string, u *types.GlobalSecondaryIndexUpdate) error {
	var faults []error
	if u.Update != nil {
		faults = append(faults, checkName(member+".update.indexName", u.Update.IndexName), checkUnitFields(member+".update.provisionedThroughput", u.Update.ProvisionedThroughput))
	}
	if u.Create != nil {
		faults = append(faults, createRequest(u.Create).checkFields(member+".create"))
	}
	if u.Delete != nil {
		faults = append(faults, checkName(member+".delete.indexName", u.Delete.IndexName))
	}
	return joinFaults(faults...)
}

// checkIndexUpdates requires that each update holds exactly one action, that no
// two are for the same index, and that at most one creates or deletes an index.
// checkIndexUpdateFields has passed.
func checkIndexUpdates(updates []types.GlobalSecondaryIndexUpdate) error {
	seen := make(map[string]bool, len(updates))
	structural := 0
	for i := range updates {
		name, err := updatedIndex(&updates[i])
		if err != nil {
			return err
		}
		if updates[i].Update == nil {
			structural++
		}
		if seen[name] {
			return invalid("One or more parameter values were invalid: Only one global secondary index update per index is allowed simultaneously. Index: %s", name)
		}
		seen[name] = true
	}
	if structural > 1 {
		return errOneIndexAtATime()
	}
	return nil
}

// updatedIndex returns the name of the index that an update changes.
func updatedIndex(u *types.GlobalSecondaryIndexUpdate) (string, error) {
	var names []string
	if u.Create != nil {
		names = append(names, *u.Create.IndexName)
	}
	if u.Update != nil {
		names = append(names, *u.Update.IndexName)
	}
	if u.Delete != nil {
		names = append(names, *u.Delete.IndexName)
	}
	if len(names) != 1 {
		return "", invalid("One or more parameter values were invalid: One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Delete must not be null, and the others must be")
	}
	return names[0], nil
}

func createRequest(in *types.CreateGlobalSecondaryIndexAction) *indexRequest {
	return &indexRequest{in.IndexName, in.KeySchema, in.Projection, in.ProvisionedThroughput, in.WarmThroughput, true}
}

func errOneIndexAtATime() error {
	return &types.LimitExceededException{Message: aws.String("Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")}
}

// update applies a request to t. After an error, t must be discarded.
func (t *table) update(in *dynamodb.UpdateTableInput, now time.Time) error {
	if err := t.checkNotBackfilling(in); err != nil {
		return err
	}
	if err := t.changeBilling(in, now); err != nil {
		return err
	}
	if err := t.setOnDemandLimits(in.OnDemandThroughput); err != nil {
		return err
	}
	if err := t.setWarm(&t.Warm, in.WarmThroughput, "table", t.leastWarm(t.Read, t.Write)); err != nil {
		return err
	}
	t.setEncryption(in.SSESpecification)
	if in.DeletionProtectionEnabled != nil {
		t.Deletion = *in.DeletionProtectionEnabled
	}
	if in.TableClass != "" && in.TableClass != t.Class {
		t.Class, t.Classed = in.TableClass, now
	}
	for i := range in.GlobalSecondaryIndexUpdates {
		if err := t.updateIndex(&in.GlobalSecondaryIndexUpdates[i], in.AttributeDefinitions); err != nil {
			return err
		}
	}
	return t.checkIndexUnits()
}

// checkNotBackfilling refuses an update while an index is being backfilled,
// unless the update only deletes that index.
func (t *table) checkNotBackfilling(in *dynamodb.UpdateTableInput) error {
	busy := t.backfillingIndex()
	if busy == nil {
		return nil
	}
	for _, u := range in.GlobalSecondaryIndexUpdates {
		if u.Update == nil && (u.Delete == nil || *u.Delete.IndexName != busy.Name) {
			return errOneIndexAtATime()
		}
	}
	deletes := len(in.GlobalSecondaryIndexUpdates) == 1 && in.GlobalSecondaryIndexUpdates[0].Delete != nil
	if !deletes || in.BillingMode != "" || in.ProvisionedThroughput != nil || in.DeletionProtectionEnabled != nil || in.TableClass != "" {
		return errBeingUpdated(t.Name)
	}
	return nil
}

// changeBilling sets the billing mode and the table's units.
func (t *table) changeBilling(in *dynamodb.UpdateTableInput, now time.Time) error {
	mode := in.BillingMode
	if mode == "" {
		if in.ProvisionedThroughput == nil {
			return nil
		}
		mode = t.Billing
	}
	if mode == types.BillingModePayPerRequest {
		return t.switchToOnDemand(in.ProvisionedThroughput, now)
	}
	return t.changeProvisioned(in.ProvisionedThroughput)
}

// switchToOnDemand makes the table and its indexes PAY_PER_REQUEST.
func (t *table) switchToOnDemand(in *types.ProvisionedThroughput, now time.Time) error {
	before := t.Billing
	if err := t.setOnDemand(in); err != nil || before == t.Billing {
		return err
	}
	t.OnDemand = now
	for i, ix := range t.Indexes {
		onDemand := *ix
		onDemand.Read, onDemand.Write = 0, 0
		t.Indexes[i] = &onDemand
	}
	return nil
}

// changeProvisioned makes the table PROVISIONED, or changes its units.
func (t *table) changeProvisioned(in *types.ProvisionedThroughput) error {
	mode, read, write := t.Billing, t.Read, t.Write
	if err := t.setProvisioned(in); err != nil {
		return err
	}
	if mode == types.BillingModePayPerRequest && t.OnDemand.IsZero() {
		t.OnDemand = t.Created // an older version of this package did not store it
	}
	if mode == t.Billing && read == t.Read && write == t.Write {
		return errSameUnits("table", read, write)
	}
	return nil
}

func errSameUnits(what string, read, write int64) error {
	return invalid("The provisioned throughput for the %s will not change. The requested value equals the current value. Current ReadCapacityUnits provisioned for the %[1]s: %[2]d. Requested ReadCapacityUnits: %[2]d. Current WriteCapacityUnits provisioned for the %[1]s: %[3]d. Requested WriteCapacityUnits: %[3]d.", what, read, write)
}

// updateIndex applies one index update. checkIndexUpdates has passed.
func (t *table) updateIndex(u *types.GlobalSecondaryIndexUpdate, definitions []types.AttributeDefinition) error {
	switch {
	case u.Create != nil:
		return t.createIndex(createRequest(u.Create), definitions)
	case u.Delete != nil:
		at := t.globalIndexPosition(*u.Delete.IndexName)
		if at < 0 {
			return errNotFound()
		}
		t.Indexes = slices.Delete(t.Indexes, at, at+1)
		return nil
	}
	at := t.globalIndexPosition(*u.Update.IndexName)
	if at < 0 {
		return invalid("The table does not have the specified index: %s", *u.Update.IndexName)
	}
	warm := *t.Indexes[at]
	if err := t.setWarm(&warm.Warm, u.Update.WarmThroughput, "index "+warm.Name, t.leastWarm(warm.Read, warm.Write)); err != nil {
		return err
	}
	t.Indexes[at] = &warm
	if u.Update.ProvisionedThroughput == nil && (u.Update.OnDemandThroughput != nil || u.Update.WarmThroughput != nil) {
		return nil // the on-demand limits of an index are not stored
	}
	return t.provisionIndex(at, u.Update.ProvisionedThroughput)
}

// globalIndexPosition returns the position of a global index in t.Indexes, or -1.
func (t *table) globalIndexPosition(name string) int {
	return slices.IndexFunc(t.Indexes, func(ix *index) bool { return ix.Global && ix.Name == name })
}

// createIndex adds an index that has yet to be backfilled. As on AWS,
// definitions must include its key attributes, even those that are keys of the
// table or another index, and may repeat other key attributes if the types agree.
func (t *table) createIndex(in *indexRequest, definitions []types.AttributeDefinition) error {
	for _, old := range t.definitions() {
		for _, d := range definitions {
			if *d.AttributeName == *old.AttributeName && d.AttributeType != old.AttributeType {
				return invalid("One or more parameter values were invalid: the attribute %s is a key of type %s, and cannot be redefined as %s", *d.AttributeName, old.AttributeType, d.AttributeType)
			}
		}
	}
	ix, err := t.addIndex(in, definitions)
	if err != nil {
		return err
	}
	ix.Filling = true
	used := t.definitions()
	for _, d := range definitions {
		if !slices.ContainsFunc(used, func(u types.AttributeDefinition) bool { return *u.AttributeName == *d.AttributeName }) {
			return errUnusedDefinitions(definitions, used)
		}
	}
	return t.checkIndexLimits()
}

func (t *table) provisionIndex(at int, in *types.ProvisionedThroughput) error {
	old, ix := t.Indexes[at], *t.Indexes[at]
	if err := t.setIndexThroughput(&ix, in); err != nil {
		return err
	}
	if in == nil || ix.Read == old.Read && ix.Write == old.Write {
		return errSameUnits("index "+ix.Name, ix.Read, ix.Write)
	}
	t.Indexes[at] = &ix
	return nil
}

// checkIndexUnits refuses a PROVISIONED table whose indexes have no units.
func (t *table) checkIndexUnits() error {
	for _, ix := range t.Indexes {
		if ix.Global && t.Billing == types.BillingModeProvisioned && ix.Read == 0 {
			return t.setIndexThroughput(ix, nil)
		}
	}
	return nil
}
