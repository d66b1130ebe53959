// The meta store of the reference documents, as written there.
import assert from 'node:assert/strict';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createFaceTheoryIsrMetaStore } from '@facetheory/tabletheory';

const ddb = new DynamoDBClient({ region: process.env.AWS_REGION ?? 'us-east-1' });
const isr = createFaceTheoryIsrMetaStore({
  ddb,
  tableName: process.env.FACETHEORY_CACHE_TABLE_NAME!,
});

async function regenerate(cacheKey: string, s3Key: string, etag: string) {
  const lease = await isr.tryAcquireLease({
    cacheKey,
    leaseOwner: 'my-app-instance', // optional (for app logs)
    leaseDurationMs: 30_000,
  });
  if (!lease) return; // another contender is regenerating

  await isr.commitGeneration({
    cacheKey,
    leaseOwner: 'my-app-instance', // optional (for app logs)
    leaseToken: lease.leaseToken,
    htmlPointer: s3Key,
    generatedAtMs: Date.now(),
    revalidateSeconds: 60,
    etag,
  });
}

const cacheKey = 'example.com/reference';
await regenerate(cacheKey, 'bodies/1.html', '"1"');
const entry = await isr.get({ cacheKey });
assert.equal(entry?.state, 'fresh');

const lease = await isr.tryAcquireLease({ cacheKey, leaseDurationMs: 30_000 });
assert.equal(await isr.tryAcquireLease({ cacheKey, leaseDurationMs: 30_000 }), null);
await isr.releaseLease({ cacheKey, leaseToken: lease!.leaseToken });

console.log('fresh');
