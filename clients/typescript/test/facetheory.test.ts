/** What programs that were written for TableTheory meet: subpaths, codes of errors, partition keys, release states. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createFaceTheoryIsrMetaStore, defineFaceTheoryCacheLeaseModel, rawPartition } from '../src/facetheory.js';
import {
  ConditionFailedError,
  defineModel,
  hasTheorydbErrorCode,
  InvalidInputError,
  InvalidKeyError,
  InvalidModelError,
  ItemNotFoundError,
  isTheorydbError,
  LeaseHeldError,
  LeaseLostError,
  MovedError,
  TheorydbClient,
  theorydbErrorCodes,
  VersionConflictError,
} from '../src/index.js';
import { LeaseManager } from '../src/leases/index.js';
import { transitionReleaseState } from '../src/releasestate.js';
import { createRuntimeStores } from '../src/web/runtimestores.js';
import { onEngines, type TestTable } from './engines.js';
import { generation, itemsOf } from './isr/table.js';

test('errors have the codes of TableTheory beside their own', () => {
  const held = new LeaseHeldError('held', { owner: '', expiresAt: 0, failures: 0 });
  const found = [held, new LeaseLostError(''), new VersionConflictError(''), new MovedError('')].map(
    theorydbErrorCodes,
  );
  assert.deepEqual(found, [
    ['LeaseHeld', 'ErrLeaseHeld'],
    ['LeaseLost', 'ErrLeaseNotOwned'],
    ['VersionConflict', 'ErrVersionConflict', 'ErrConditionFailed'],
    ['Moved'],
  ]);
  assert.ok(hasTheorydbErrorCode(new ItemNotFoundError(''), 'ErrItemNotFound'));
  assert.ok(hasTheorydbErrorCode(new ConditionFailedError(''), 'ConditionFailed'));
  assert.ok(!hasTheorydbErrorCode(new ConditionFailedError(''), 'ErrVersionConflict'));
  for (const value of [new Error('ErrLeaseHeld'), { code: 'ErrLeaseHeld' }, undefined, null, 'ErrLeaseHeld']) {
    assert.deepEqual([isTheorydbError(value), theorydbErrorCodes(value)], [false, []]);
  }
});

/** Runs work with the partition of the environment. */
async function withVariable(value: string, work: () => unknown): Promise<void> {
  const before = process.env['FACETHEORY_CACHE_PARTITION'];
  process.env['FACETHEORY_CACHE_PARTITION'] = value;
  try {
    await work();
  } finally {
    if (before === undefined) delete process.env['FACETHEORY_CACHE_PARTITION'];
    else process.env['FACETHEORY_CACHE_PARTITION'] = before;
  }
}

/** The partition keys of the leases that a page has in a table. */
async function partitions(table: TestTable): Promise<string[]> {
  return (await itemsOf(table)).map((item) => item['pk']?.S ?? '').sort();
}

onEngines('the partition key is selectable, by option and by environment', async (table) => {
  const { ddb, tableName } = table;
  const cacheKey = '/page';
  const hashed = createFaceTheoryIsrMetaStore({ ddb, tableName });
  const raw = createFaceTheoryIsrMetaStore({ ddb, tableName, partition: 'raw', tenant: 'acme' });
  await hashed.acquireLease({ cacheKey, leaseDurationMs: 60_000 });
  const lease = await raw.acquireLease({ cacheKey, leaseDurationMs: 60_000 });
  const [first, second] = await partitions(table);
  assert.match(first ?? '', /^CACHE#[0-9a-f]{64}$/);
  assert.deepEqual([second, lease.pk], ['TENANT#acme#CACHE#/page', rawPartition(cacheKey, 'acme')]);

  await withVariable('raw', async () => {
    const selected = createFaceTheoryIsrMetaStore({ ddb, tableName });
    assert.equal((await selected.acquireLease({ cacheKey, leaseDurationMs: 60_000 })).pk, 'CACHE#/page');
    const explicit = createFaceTheoryIsrMetaStore({ ddb, tableName, partition: 'hashed' });
    assert.equal(await explicit.tryAcquireLease({ cacheKey, leaseDurationMs: 60_000 }), null, 'the option decides');
    const own = createFaceTheoryIsrMetaStore({ ddb, tableName, pkFromCacheKey: (key) => `OWN#${key}` });
    assert.equal((await own.acquireLease({ cacheKey, leaseDurationMs: 60_000 })).pk, 'OWN#/page');
  });
  const settings = { ddb, tableName, bucket: 'b', partition: 'raw' as const, tenant: 'other' };
  const stores = createRuntimeStores(settings);
  const asked = {
    cacheKey,
    leaseOwner: 'me',
    nowMs: Date.now(),
    leaseDurationMs: 60_000,
    fallbackRevalidateSeconds: 1,
  };
  assert.ok((await stores.metaStore.tryAcquireLease(asked)).acquired);
  assert.ok((await partitions(table)).includes('TENANT#other#CACHE#/page'), 'also the partitions of a cache');
  assert.throws(() => createRuntimeStores({ ...settings, partition: '' as never }), InvalidInputError);
  await withVariable('Raw', () => {
    assert.throws(() => createFaceTheoryIsrMetaStore({ ddb, tableName }), /FACETHEORY_CACHE_PARTITION is "Raw"/);
  });
  await withVariable('', () => createFaceTheoryIsrMetaStore({ ddb, tableName }));
  for (const config of [{ partition: 'sha256' }, { partition: 'raw', pkPrefix: 'CACHE#' }, { partition: null }]) {
    assert.throws(() => createFaceTheoryIsrMetaStore({ ddb, tableName, ...config } as never), InvalidInputError);
  }
});

onEngines('a refresh returns the lease, which further calls take', async (table) => {
  const { ddb, tableName } = table;
  const isr = createFaceTheoryIsrMetaStore({ ddb, tableName });
  const other = createFaceTheoryIsrMetaStore({ ddb, tableName });
  const { leaseToken } = await isr.acquireLease({ cacheKey: '/page', leaseDurationMs: 30_000 });
  const page = { cacheKey: '/page', leaseToken };
  const refreshed = await other.refreshLease({ ...page, leaseDurationMs: 60_000 });
  assert.deepEqual({ ...refreshed, leaseExpiresAtMs: 0 }, { ...page, leaseDurationMs: 60_000, leaseExpiresAtMs: 0 });
  const again = await other.refreshLease(refreshed);
  assert.ok(again.leaseExpiresAtMs >= refreshed.leaseExpiresAtMs);
  await other.releaseLease({ ...again, leaseOwner: 'me' });
  assert.ok(await isr.tryAcquireLease({ cacheKey: '/page', leaseDurationMs: 30_000 }));

  const leases = new LeaseManager(ddb, tableName);
  const lease = await leases.acquire('job', { leaseSeconds: 30 });
  const longer = await leases.refresh(lease, { leaseSeconds: 60 });
  assert.deepEqual([longer.key, longer.token, longer.leaseSeconds], [lease.key, lease.token, 60]);
  assert.throws(() => leases.lockKey('CACHE#1', 'OTHER'), InvalidKeyError);
});

onEngines("nowMs of a commit may differ from the store's clock by an hour", async ({ ddb, tableName }) => {
  const isr = createFaceTheoryIsrMetaStore({ ddb, tableName });
  const { leaseToken } = await isr.acquireLease({ cacheKey: '/page', leaseDurationMs: 30_000 });
  const commit = { cacheKey: '/page', leaseToken, htmlPointer: 'b', generatedAtMs: Date.now(), revalidateSeconds: 60 };
  await assert.rejects(isr.commitGeneration({ ...commit, nowMs: Date.now() / 1000 }), /nowMs/);
  await isr.commitGeneration({ ...commit, nowMs: Date.now() - 60_000 });
});

onEngines('a pin that ends in seconds is refused, because it would pin nothing', async (table) => {
  const isr = createFaceTheoryIsrMetaStore({ ddb: table.ddb, tableName: table.tableName });
  const cacheKey = '/page';
  const lease = await isr.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  await isr.publish(lease, lease.record, generation('g', Date.now()));
  const hour = Math.floor(Date.now() / 1000) + 3600;
  await assert.rejects(isr.pin({ cacheKey, untilMs: hour }), /untilMs must be epoch milliseconds .*seconds/);
  await assert.rejects(
    isr.rollback({ cacheKey, to: 'g', pinnedUntilMs: hour }),
    /pinnedUntilMs must be epoch milliseconds/,
  );
  assert.equal((await isr.pin({ cacheKey, untilMs: hour * 1000 })).pinnedUntilMs, hour * 1000);
});

test('members of models that would be ignored are refused', () => {
  const definition = {
    name: 'Customer',
    table: { name: 't' },
    keys: { partition: { attribute: 'pk', type: 'S' } },
    attributes: [{ attribute: 'pk', type: 'S' }],
  };
  const iban = (more: object) => ({
    attributes: [...definition.attributes, { attribute: 'iban', type: 'S', ...more }],
  });
  const wrong: readonly [object, RegExp][] = [
    [iban({ encryption: {} }), /the attribute iban has no member encryption: its name here is encrypted/],
    [iban({ json: true }), /no member json/],
    [iban({ Optional: true }), /no member Optional: expected attribute, type/],
    [{ write_policy: { mode: 'write_once' } }, /no member write_policy: there are no write-once models/],
    [{ keys: { ...definition.keys, range: definition.keys.partition } }, /keys has no member range/],
    [{ keys: { partition: { attribute: 'pk', type: 'S', order: 1 } } }, /the key pk has no member order/],
    [
      { indexes: [{ name: 'i', type: 'GSI', ...definition.keys, projection: {} }] },
      /the index i has no member projection/,
    ],
  ];
  for (const [more, expected] of wrong) {
    assert.throws(
      () => defineModel({ ...definition, ...more } as never),
      (error: Error) => {
        assert.ok(error instanceof InvalidModelError, String(error));
        assert.match(error.message, expected);
        return true;
      },
    );
  }
});

/** A registry of releases: the state of an environment, its events, and messages to send. */
function registry({ ddb, tableName }: TestTable) {
  const table = { name: tableName };
  const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;
  const keyed = [
    { attribute: 'pk', type: 'S' },
    { attribute: 'sk', type: 'S' },
  ] as const;
  const release = { attribute: 'release', type: 'S' } as const;
  const state = defineModel({
    name: 'State',
    table,
    keys,
    attributes: [
      ...keyed,
      release,
      { attribute: 'note', type: 'S', optional: true },
      { attribute: 'version', type: 'N', roles: ['version'] },
    ],
  });
  const event = defineModel({ name: 'Event', table, keys, attributes: [...keyed, release] });
  const client = new TheorydbClient(ddb, { models: [state, event] });
  const actualKey = { pk: 'production', sk: 'STATE' };
  const move = (release: string, n: number, more: object = {}) =>
    transitionReleaseState(client, {
      actualModel: 'State',
      actualKey,
      set: { release },
      eventModel: 'Event',
      eventItem: { pk: 'production', sk: `EVENT#${n}`, release },
      ...more,
    });
  const read = () => client.getOrNull('State', actualKey);
  return { client, move, read };
}

onEngines('a transition of a release changes the row and adds its event, or neither', async (table) => {
  const { client, move, read } = registry(table);
  await assert.rejects(move('r1', 1, { expectedVersion: 1 }), VersionConflictError);
  await assert.rejects(move('r1', 1, { set: { note: 'n' } }), ConditionFailedError, 'the row would be incomplete');
  assert.equal(await read(), null);
  await move('r1', 1);
  assert.deepEqual(await read(), { pk: 'production', sk: 'STATE', release: 'r1', version: 1 });
  await assert.rejects(move('r2', 1), ConditionFailedError, 'the event exists');
  await assert.rejects(move('r2', 2, { expectedVersion: 7 }), VersionConflictError);
  assert.deepEqual(
    [(await read())?.release, await client.getOrNull('Event', { pk: 'production', sk: 'EVENT#2' })],
    ['r1', null],
  );
  const outboxItem = { pk: 'outbox', sk: '2', release: 'r2' };
  await move('r2', 2, { expectedVersion: 1, outboxModel: 'Event', outboxItem });
  await assert.rejects(move('r3', 3, { outboxModel: 'Event', outboxItem }), ConditionFailedError);
  await move('r2', 3, { set: { note: 'slow' } });
  assert.deepEqual(await read(), { pk: 'production', sk: 'STATE', release: 'r2', note: 'slow', version: 3 });
  assert.deepEqual(await client.getOrNull('Event', { pk: 'outbox', sk: '2' }), outboxItem);
});

onEngines('a transition that could not be checked is refused', async (table) => {
  const { client, move, read } = registry(table);
  for (const more of [
    { set: {} },
    { set: { version: 2 } },
    { actualKey: {} },
    { outboxModel: 'Event' },
    { expected: 1 },
  ]) {
    await assert.rejects(move('r1', 1, more), InvalidInputError);
  }
  for (const more of [{ versionAttribute: 'revision' }, { actualModel: 'Event' }, { actualModel: 'Other' }]) {
    await assert.rejects(move('r1', 1, more), InvalidModelError);
  }
  await assert.rejects(transitionReleaseState(client, undefined as never), InvalidInputError);
  assert.equal(await read(), null);
});

onEngines('the models of the rows read what the store writes', async ({ ddb, tableName }) => {
  const isr = createFaceTheoryIsrMetaStore({ ddb, tableName, partition: 'raw' });
  const lease = await isr.acquireLease({ cacheKey: '/page', leaseDurationMs: 30_000 });
  const client = new TheorydbClient(ddb, { models: [defineFaceTheoryCacheLeaseModel(tableName)] });
  const row = await client.get('FaceTheoryCacheLease', { pk: 'CACHE#/page', sk: 'LOCK' });
  assert.deepEqual([row.lease_token, row.lease_expires_at], [lease.leaseToken, lease.leaseExpiresAtMs / 1000]);
});
