package tabletheory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/examples/facetheory/models"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/core"
)

// The code between lines of dashes is copied from the reference documents. It must
// compile and work as written there. The models of isr-cache-schema.md are package
// models.

// FaceTheoryCacheMetadata and FaceTheoryCacheLease are the rows of the reference.
type (
	FaceTheoryCacheMetadata = models.FaceTheoryCacheMetadata
	FaceTheoryCacheLease    = models.FaceTheoryCacheLease
)

// publishInPlace is recipe A of isr-transaction-recipes.md.
func publishInPlace(db *tabletheory.DB, leaseToken string) error {
	// ----------------------------------------------------------------
	ctx := context.Background()
	nowUnix := time.Now().Unix()

	leaseItem := &models.FaceTheoryCacheLease{
		PK: "TENANT#t1#CACHE#abc",
		SK: "LOCK",
	}

	metaItem := &models.FaceTheoryCacheMetadata{
		PK:                leaseItem.PK,
		SK:                "META",
		S3Key:             "s3://bucket/key.html",
		GeneratedAt:       nowUnix,
		RevalidateSeconds: 60,
		ETag:              "\"abc123\"",
		TTL:               nowUnix + 86400,
	}

	err := db.TransactWrite(ctx, func(tx core.TransactionBuilder) error {
		tx.Put(metaItem)

		tx.Delete(
			leaseItem,
			tabletheory.Condition("lease_token", "=", leaseToken),
			tabletheory.Condition("lease_expires_at", ">", nowUnix),
		)
		return nil
	})
	// ----------------------------------------------------------------
	return err
}

// writeThenRead is the example of ttl-cache-patterns.md. It passes its result to
// found.
func writeThenRead(db *tabletheory.DB, found func(meta FaceTheoryCacheMetadata, isFresh bool)) error {
	// ----------------------------------------------------------------
	nowUnix := time.Now().Unix()

	meta := &FaceTheoryCacheMetadata{
		PK:                "TENANT#t1#CACHE#abc",
		SK:                "META",
		S3Key:             "pages/t1/abc.html",
		GeneratedAt:       nowUnix,
		RevalidateSeconds: 60,              // freshness window
		TTL:               nowUnix + 86400, // GC horizon (1 day)
	}

	if err := db.Model(meta).CreateOrUpdate(); err != nil {
		return err
	}

	var got FaceTheoryCacheMetadata
	if err := db.Model(&FaceTheoryCacheMetadata{}).
		Where("PK", "=", meta.PK).
		Where("SK", "=", "META").
		First(&got); err != nil {
		return err
	}

	freshUntil := got.GeneratedAt + got.RevalidateSeconds
	isFresh := time.Now().Unix() < freshUntil
	// ----------------------------------------------------------------
	found(got, isFresh)
	return nil
}

const (
	referencePage = "TENANT#t1#CACHE#abc"
	ourLease      = "token-of-ours"
)

// old is the META row before the publish.
func old() FaceTheoryCacheMetadata {
	return FaceTheoryCacheMetadata{PK: referencePage, SK: "META", S3Key: "s3://bucket/old.html", GeneratedAt: 1, RevalidateSeconds: 60}
}

func TestReferencePublishesUnderItsLease(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		db := tabletheory.New(api)
		before := time.Now().Unix()
		previous := old()
		check(t, db.Model(&previous).Create())
		check(t, db.Model(&models.FaceTheoryCacheLease{
			PK: referencePage, SK: "LOCK", LeaseToken: ourLease, LeaseExpiresAt: before + 30,
		}).Create())

		check(t, publishInPlace(db, ourLease))

		var meta FaceTheoryCacheMetadata
		check(t, db.Model(meta).Where("PK", "=", referencePage).Where("SK", "=", "META").First(&meta))
		if now := time.Now().Unix(); meta.GeneratedAt < before || meta.GeneratedAt > now {
			t.Errorf("generated_at is %d, want %d to %d", meta.GeneratedAt, before, now)
		}
		if diff := cmp.Diff(attrs{
			"pk": str(referencePage), "sk": str("META"), "s3_key": str("s3://bucket/key.html"), "etag": str(`"abc123"`),
			"generated_at": integer(meta.GeneratedAt), "revalidate_seconds": num("60"), "ttl": integer(meta.GeneratedAt + 86400),
		}, getRaw(t, api, table, attrs{"pk": str(referencePage), "sk": str("META")}), ignoreSDK); diff != "" {
			t.Errorf("META (-want +got)\n%s", diff)
		}
		if lock := getRaw(t, api, table, attrs{"pk": str(referencePage), "sk": str("LOCK")}); lock != nil {
			t.Errorf("the lease still exists: %v", lock)
		}
	})
}

// A writer without the lease changes neither row.
func TestReferenceRefusesWithoutItsLease(t *testing.T) {
	t.Parallel()
	now := time.Now().Unix()
	engineCases(t, map[string]*FaceTheoryCacheLease{
		"stolen":  {PK: referencePage, SK: "LOCK", LeaseToken: "token-of-another", LeaseExpiresAt: now + 30},
		"expired": {PK: referencePage, SK: "LOCK", LeaseToken: ourLease, LeaseExpiresAt: now - 1},
		"gone":    nil,
	}, func(t *testing.T, api *dynamodb.Client, lease *FaceTheoryCacheLease) {
		table := cacheTable(t, api)
		db := tabletheory.New(api)
		previous := old()
		check(t, db.Model(&previous).Create())
		if lease != nil {
			check(t, db.Model(lease).Create())
		}
		lock := getRaw(t, api, table, attrs{"pk": str(referencePage), "sk": str("LOCK")})

		err := publishInPlace(db, ourLease)

		canceled, ok := errors.AsType[*tabletheory.TransactionError](err)
		if !ok || !errors.Is(err, tabletheory.ErrConditionFailed) {
			t.Fatalf("publish: got %v, want a *TransactionError that is ErrConditionFailed", err)
		}
		if len(canceled.Reasons) != 2 || canceled.Reasons[0].Failed() || !canceled.Reasons[1].Failed() {
			t.Errorf("got reasons %+v, want only the reason of the second action", canceled.Reasons)
		}
		var meta FaceTheoryCacheMetadata
		check(t, db.Model(meta).Where("PK", "=", referencePage).Where("SK", "=", "META").First(&meta))
		same(t, meta, old())
		if diff := cmp.Diff(lock, getRaw(t, api, table, attrs{"pk": str(referencePage), "sk": str("LOCK")}), ignoreSDK); diff != "" {
			t.Errorf("the lease has changed (-before +after)\n%s", diff)
		}
	})
}

func TestReferenceWritesAndReads(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		check(t, writeThenRead(tabletheory.New(api), func(meta FaceTheoryCacheMetadata, isFresh bool) {
			same(t, meta, FaceTheoryCacheMetadata{
				PK: referencePage, SK: "META", S3Key: "pages/t1/abc.html",
				GeneratedAt: meta.GeneratedAt, RevalidateSeconds: 60, TTL: meta.GeneratedAt + 86400,
			})
			if !isFresh {
				t.Error("the row just written is not fresh")
			}
		}))
		if _, stored := getRaw(t, api, table, attrs{"pk": str(referencePage), "sk": str("META")})["etag"]; stored {
			t.Error("an empty etag is stored, although it is tagged omitempty")
		}
	})
}

// Without the environment variable no table is used.
func TestReferenceNeedsItsTable(t *testing.T) {
	t.Setenv("FACETHEORY_CACHE_TABLE_NAME", "")
	if err := publishInPlace(tabletheory.New(nil), ourLease); !errors.Is(err, tabletheory.ErrInvalidModel) {
		t.Errorf("publish without a table name: got %v, want ErrInvalidModel", err)
	}
}
