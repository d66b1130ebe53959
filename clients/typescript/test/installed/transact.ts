// Recipe A of the reference documents: publish META and release LOCK, by the token of the lease.
import assert from 'node:assert/strict';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { ConditionFailedError, type ItemOf, LeaseManager, TheorydbClient } from '@facetheory/tabletheory';
import { faceTheoryCacheLeaseModel, faceTheoryCacheMetadataModel } from './models.js';

const ddb = new DynamoDBClient();
const client = new TheorydbClient(ddb).register(faceTheoryCacheMetadataModel, faceTheoryCacheLeaseModel);

async function publish(leaseToken: string, etag: string | undefined): Promise<void> {
  const nowUnix = Math.floor(Date.now() / 1000);
  const [s3_key, revalidate_seconds, ttl] = ['s3://bucket/key.html', 60, nowUnix + 86400];

  // The text of the reference, indented.
  await client.transactWrite([
    {
      kind: 'put',
      model: 'FaceTheoryCacheMetadata',
      item: { pk, sk: 'META', s3_key, generated_at: nowUnix, revalidate_seconds, etag, ttl },
    },
    {
      kind: 'delete',
      model: 'FaceTheoryCacheLease',
      key: { pk, sk: 'LOCK' },
      conditionExpression: '#tok = :tok AND #exp > :now',
      expressionAttributeNames: { '#tok': 'lease_token', '#exp': 'lease_expires_at' },
      expressionAttributeValues: {
        ':tok': { S: leaseToken },
        ':now': { N: String(nowUnix) },
      },
    },
  ]);
}

const pk = 'TENANT#t1#CACHE#abc';
const leases = new LeaseManager(ddb, process.env.FACETHEORY_CACHE_TABLE_NAME!);
const lease = await leases.acquire({ pk, sk: 'LOCK' }, { leaseSeconds: 30 });
await assert.rejects(publish('another token', '"abc123"'), ConditionFailedError);
await publish(lease.token, '"abc123"');

const meta: ItemOf<typeof faceTheoryCacheMetadataModel> = await client.get('FaceTheoryCacheMetadata', { pk, sk: 'META' });
const etag: string | undefined = meta.etag;
assert.equal(etag, '"abc123"');
assert.equal(await client.getOrNull('FaceTheoryCacheLease', { pk, sk: 'LOCK' }), null);

// @ts-expect-error The model has no attribute of that name.
assert.equal(meta.s3key, undefined);
// @ts-expect-error There is no model of that name.
await assert.rejects(client.get('FaceTheoryCache', { pk, sk: 'META' }));

console.log('published');
