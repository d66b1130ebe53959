// An adapter like the one of FaceTheory, which imports the store from the subpath of TableTheory 2.
import assert from 'node:assert/strict';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { hasTheorydbErrorCode } from '@theory-cloud/tabletheory-ts';
import {
  createFaceTheoryIsrMetaStore,
  defineFaceTheoryCacheLeaseModel,
  defineFaceTheoryCacheMetadataModel,
  type FaceTheoryIsrMeta,
  type FaceTheoryIsrMetaStore,
  type FaceTheoryIsrMetaStoreConfig,
} from '@theory-cloud/tabletheory-ts/facetheory';
import { type Lease, LeaseManager } from '@theory-cloud/tabletheory-ts/lease';

interface Acquisition {
  cacheKey: string;
  leaseOwner: string;
  nowMs: number;
  leaseDurationMs: number;
}

function recordOf(cacheKey: string, meta: FaceTheoryIsrMeta | null) {
  return {
    cacheKey,
    htmlPointer: meta?.htmlPointer ?? null,
    generatedAt: Number(meta?.generatedAtMs ?? 0),
    revalidateSeconds: Number(meta?.revalidateSeconds ?? 7),
    etag: typeof meta?.etag === 'string' ? meta.etag : null,
  };
}

class Adapter {
  constructor(private readonly inner: FaceTheoryIsrMetaStore) {}

  async get(cacheKey: string) {
    const meta = await this.inner.get({ cacheKey });
    return meta ? recordOf(cacheKey, meta) : null;
  }

  async acquire({ cacheKey, leaseOwner, nowMs, leaseDurationMs }: Acquisition) {
    const record = recordOf(cacheKey, await this.inner.get({ cacheKey }));
    const lease = await this.inner.tryAcquireLease({ cacheKey, leaseOwner, nowMs, leaseDurationMs });
    return { record, leaseToken: lease?.leaseToken ?? null, leaseExpiresAt: lease?.leaseExpiresAtMs ?? 0 };
  }

  async commit(cacheKey: string, leaseToken: string, htmlPointer: string, generatedAtMs: number, etag?: string) {
    const content = { htmlPointer, generatedAtMs, revalidateSeconds: 9, ...(etag === undefined ? {} : { etag }) };
    await this.inner.commitGeneration({ cacheKey, leaseOwner: 'me', leaseToken, nowMs: Date.now(), ...content });
  }

  async release(cacheKey: string, leaseToken: string) {
    await this.inner.releaseLease({ cacheKey, leaseOwner: 'me', leaseToken });
  }
}

const ddb = new DynamoDBClient();
const tableName = process.env.FACETHEORY_CACHE_TABLE_NAME!;
const config: FaceTheoryIsrMetaStoreConfig = { ddb, tableName, partition: 'raw' };
const adapter = new Adapter(createFaceTheoryIsrMetaStore(config));
const other = new Adapter(createFaceTheoryIsrMetaStore({ ddb, tableName, pkPrefix: 'CACHE#' }));
const asked = { cacheKey: '/adapted', leaseOwner: 'me', nowMs: Date.now(), leaseDurationMs: 30_000 };

assert.equal(await adapter.get('/adapted'), null);
const first = await adapter.acquire(asked);
assert.ok(first.leaseToken && first.leaseExpiresAt > asked.nowMs);
assert.deepEqual(first.record, { cacheKey: '/adapted', htmlPointer: null, generatedAt: 0, revalidateSeconds: 7, etag: null });
assert.equal((await other.acquire(asked)).leaseToken, null, 'both notations name the same row');

const generatedAt = Math.floor(asked.nowMs / 1000) * 1000;
await assert.rejects(adapter.commit('/adapted', 'not the token', 'p', generatedAt), (error) => {
  return hasTheorydbErrorCode(error, 'ErrLeaseNotOwned');
});
await adapter.commit('/adapted', first.leaseToken, 's3/key.html', generatedAt, '"e"');
const published = { cacheKey: '/adapted', htmlPointer: 's3/key.html', generatedAt, revalidateSeconds: 9, etag: '"e"' };
assert.deepEqual(await other.get('/adapted'), published);

const second = await other.acquire(asked);
assert.deepEqual(second.record, published);
assert.ok(second.leaseToken, 'the publish released the lease');
await other.commit('/adapted', second.leaseToken, 's3/other.html', generatedAt);
assert.equal((await adapter.get('/adapted'))?.etag, null);
const third = await adapter.acquire(asked);
await adapter.release('/adapted', third.leaseToken ?? '');
assert.ok((await other.acquire(asked)).leaseToken, 'the lease was released');

// The lease itself, as the subpath /lease has it.
const leases = new LeaseManager(ddb, tableName);
const held: Lease = await leases.acquire(leases.lockKey('CACHE#/leased', 'LOCK'), { leaseSeconds: 30 });
const refreshed: Lease = await leases.refresh(held, { leaseSeconds: 60 });
assert.equal(refreshed.token, held.token);
assert.ok(refreshed.expiresAt > held.expiresAt);
await assert.rejects(leases.acquire({ pk: 'CACHE#/leased', sk: 'LOCK' }, { leaseSeconds: 30 }), (error) => {
  return hasTheorydbErrorCode(error, 'ErrLeaseHeld') && !hasTheorydbErrorCode(error, 'ErrLeaseNotOwned');
});
await leases.release(refreshed);

assert.equal(defineFaceTheoryCacheMetadataModel(tableName).tableName, tableName);
assert.equal(defineFaceTheoryCacheLeaseModel(tableName).name, 'FaceTheoryCacheLease');
console.log('adapted');
