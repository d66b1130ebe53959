package dynamostore

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A damagedItem is the error of an engine that has met an item whose bytes are not what was written.
type damagedItem interface {
	error
	// DamagedItem returns the table and the primary key of the item; a nil key if it is unknown.
	DamagedItem() (table string, key map[string]types.AttributeValue)
}

// maxRepairs bounds the damaged rows that one call replaces.
const maxRepairs = 256

// A repairingAPI replaces damaged rows of pages, and repeats the call that has met one:
//
//	LOCK, META, VER#, REQ#, QUARANTINE ──► deleted: the page counts as missing, and is rendered again
//	PURGE                              ──► a hard purge of now: no generation of before is served again
//	VARIANT#                           ──► the variant is purged hard, and lists itself when it is rendered again
//
// Other rows are left as they are, such as marks and the log, because a purge could be lost with
// them: the call fails with the error of the engine, which names the remedy.
type repairingAPI struct {
	API
	store *Store
}

// repaired calls do until it meets no damaged row of a page.
func repaired[Out any](ctx context.Context, a repairingAPI, do func() (Out, error)) (out Out, err error) {
	for range maxRepairs {
		out, err = do()
		damaged, ok := errors.AsType[damagedItem](err)
		if !ok || !a.repair(ctx, damaged) {
			return out, err
		}
	}
	return out, err
}

// repair replaces a damaged row. It returns false if the row is not of a page, or remains.
func (a repairingAPI) repair(ctx context.Context, damaged damagedItem) bool {
	table, key := damaged.DamagedItem()
	found := row(key)
	pk, sk := found.text(attrPK), found.text(attrSK)
	if table != a.store.table || !isPagePartition(pk) {
		return false
	}
	var replacement map[string]types.AttributeValue
	var err error
	switch digest, isVariant := strings.CutPrefix(sk, variantPrefix); {
	case sk == skPurge:
		replacement, err = a.purgeOfNow(ctx, pk)
	case isVariant:
		err = a.purgeVariant(ctx, pk, digest)
	case sk == skLock, sk == skMeta, sk == skQuarantine, strings.HasPrefix(sk, versionPrefix), strings.HasPrefix(sk, requestPrefix):
	default:
		return false
	}
	replaced := false
	if err == nil {
		replaced, err = a.store.config.Replace(ctx, table, key, replacement)
	}
	if err != nil {
		a.store.config.Logger.Error("damaged row of a page cannot be replaced", "pk", pk, "sk", sk, "damage", damaged, "error", err)
		return false
	}
	if replaced { // otherwise another call has been faster
		a.store.config.Logger.Error("replaced a damaged row of a page, which counts as missing; check the disk, and run isr check", slog.String("pk", pk), slog.String("sk", sk))
	}
	return true
}

// isPagePartition reports whether a partition key belongs to a page, of either Partition of package
// store.
func isPagePartition(pk string) bool {
	if tenant, ok := strings.CutPrefix(pk, "TENANT#"); ok {
		_, pk, _ = strings.Cut(tenant, "#")
	}
	return strings.HasPrefix(pk, "CACHE#")
}

// purgeOfNow returns a PURGE row that covers all generations of a page so far.
func (a repairingAPI) purgeOfNow(ctx context.Context, pk string) (map[string]types.AttributeValue, error) {
	out, err := a.API.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &a.store.table, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{attrPK: stringOf(pkPurgeLog), attrSK: stringOf(skSequence)},
	})
	if err != nil {
		return nil, err
	}
	var seen sequenceRow
	if out.Item != nil {
		if err := a.store.decode(ctx, out.Item, &seen); err != nil {
			return nil, err
		}
	}
	now := a.store.config.Now()
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	lifetime := max(seen.MarkLifetime.duration(), a.store.config.MarkLifetime)
	return map[string]types.AttributeValue{
		attrPK: stringOf(pk), attrSK: stringOf(skPurge),
		attrSeq: number(int64(seen.Seq)), "hard_seq": number(int64(seen.Seq)), attrAt: number(now.Unix()),
		attrTTL: number(now.Add(lifetime + time.Second).Unix()),
	}, nil
}

// purgeVariant purges a variant that is not listed any more, so that later purges of its page need not
// find it. digest is the digest of its key's text, which its partition key has; partitions that are not
// hashed have none.
func (a repairingAPI) purgeVariant(ctx context.Context, pk, digest string) error {
	own := strings.LastIndexByte(pk, '#') + 1
	if _, err := hex.DecodeString(digest); err != nil || len(pk)-own != len(digest) {
		return nil //nolint:nilerr // not ours: the row names no partition
	}
	purge, err := a.purgeOfNow(ctx, pk[:own]+digest)
	if err != nil {
		return err
	}
	_, err = a.API.PutItem(ctx, &dynamodb.PutItemInput{TableName: &a.store.table, Item: purge})
	return err
}

func (a repairingAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.GetItemOutput, error) { return a.API.GetItem(ctx, in, o...) })
}

func (a repairingAPI) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.PutItemOutput, error) { return a.API.PutItem(ctx, in, o...) })
}

func (a repairingAPI) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.UpdateItemOutput, error) { return a.API.UpdateItem(ctx, in, o...) })
}

func (a repairingAPI) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.DeleteItemOutput, error) { return a.API.DeleteItem(ctx, in, o...) })
}

func (a repairingAPI) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.QueryOutput, error) { return a.API.Query(ctx, in, o...) })
}

func (a repairingAPI) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.ScanOutput, error) { return a.API.Scan(ctx, in, o...) })
}

func (a repairingAPI) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.BatchGetItemOutput, error) { return a.API.BatchGetItem(ctx, in, o...) })
}

func (a repairingAPI) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.BatchWriteItemOutput, error) { return a.API.BatchWriteItem(ctx, in, o...) })
}

func (a repairingAPI) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.TransactGetItemsOutput, error) { return a.API.TransactGetItems(ctx, in, o...) })
}

func (a repairingAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return repaired(ctx, a, func() (*dynamodb.TransactWriteItemsOutput, error) { return a.API.TransactWriteItems(ctx, in, o...) })
}
