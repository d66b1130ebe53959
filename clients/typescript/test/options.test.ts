/** Options and clocks that would cost a caller its lease, fence or condition are refused before anything is sent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { type Clock, systemClock } from '../src/clock.js';
import {
  createFaceTheoryIsrMetaStore,
  defineModel,
  InvalidInputError,
  LeaseHeldError,
  LeaseManager,
  TheorydbClient,
} from '../src/index.js';
import { settingsOf } from '../src/next/options.js';
import { createPageCache } from '../src/web/index.js';
import { createRuntimeStores } from '../src/web/runtimestores.js';
import { onEngines } from './engines.js';

/** A client whose use fails the test: nothing listens there. */
const ddb = new DynamoDBClient({
  endpoint: 'http://127.0.0.1:1',
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  maxAttempts: 1,
});
const tableName = 't';

/** Wall clocks that do not count epoch milliseconds. */
const wrongClocks: readonly [name: string, now: () => unknown, expected: RegExp][] = [
  ['seconds', () => Math.floor(Date.now() / 1000), /looks like a time in seconds: multiply it by 1,000/],
  ['seconds with a fraction', () => Date.now() / 1000, /in seconds/],
  ["the peer's test", () => 1000, /in seconds/],
  ['microseconds', () => Date.now() * 1000, /finer than milliseconds/],
  ['nanoseconds', () => Date.now() * 1e6, /finer than milliseconds/],
  ['a monotonic clock', () => performance.now(), /epoch milliseconds/],
  ['zero', () => 0, /epoch milliseconds/],
  ['a negative time', () => -Date.now(), /epoch milliseconds/],
  ['NaN', () => Number.NaN, /epoch milliseconds/],
  ['infinity', () => Number.POSITIVE_INFINITY, /epoch milliseconds/],
  ['a Date', () => new Date(), /got a Date/],
  ['text', () => new Date().toISOString(), /epoch milliseconds/],
  ['a bigint', () => BigInt(Date.now()), /epoch milliseconds/],
  ['nothing', () => undefined, /got undefined/],
];

for (const [name, wrong, expected] of wrongClocks) {
  test(`a wall clock in other units is refused: ${name}`, () => {
    const now = wrong as () => number;
    const clock: Clock = { ...systemClock(), now };
    const refused = (make: () => unknown) =>
      assert.throws(make, (error: Error) => {
        assert.ok(error instanceof InvalidInputError, String(error));
        assert.match(error.message, expected);
        return true;
      });
    for (const options of [{ now }, { clock }]) {
      refused(() => new LeaseManager(ddb, tableName, options));
      refused(() => createFaceTheoryIsrMetaStore({ ddb, tableName, ...options }));
    }
    refused(() => new TheorydbClient(ddb, { now }));
  });
}

test('a clock must be a function', () => {
  assert.throws(() => new LeaseManager(ddb, tableName, { now: 1_800_000_000_000 as never }), /now must be a function/);
});

onEngines('a clock that changes its unit later takes no lease', async (table) => {
  const held = new LeaseManager(table.ddb, table.tableName);
  await held.acquire('job', { leaseSeconds: 3600 });
  let now = Date.now;
  const other = new LeaseManager(table.ddb, table.tableName, { now: () => now() });
  await assert.rejects(other.acquire('job', { leaseSeconds: 30 }), LeaseHeldError);
  for (const wrong of [() => Date.now() / 1000, () => Date.now() * 1000]) {
    now = wrong;
    await assert.rejects(other.acquire('job', { leaseSeconds: 30 }), InvalidInputError);
  }
});

onEngines('a token must be a text', async (table) => {
  for (const newToken of [() => '', () => undefined, async () => 'token']) {
    const manager = new LeaseManager(table.ddb, table.tableName, { newToken: newToken as never });
    await assert.rejects(manager.acquire('job', { leaseSeconds: 30 }), /newToken must return a text/);
  }
});

const song = defineModel({
  name: 'Song',
  table: { name: tableName },
  keys: { partition: { attribute: 'pk', type: 'S' } },
  attributes: [
    { attribute: 'pk', type: 'S' },
    { attribute: 'year', type: 'N', optional: true },
  ],
});

const meta = (option: object = {}) => createFaceTheoryIsrMetaStore({ ddb, tableName, ...option });
const leases = new LeaseManager(ddb, tableName);
const stores = { ddb, tableName, bucket: 'b' };
const client = new TheorydbClient(ddb, { models: [song] });
const key = { pk: 'a' };
const page = { cacheKey: 'example.com/' };
const foreign = { key: { pk: 'p', sk: 'LOCK' }, token: 't', expiresAt: 0, leaseSeconds: 1 };
const committed = { ...page, leaseToken: 't', htmlPointer: 'b', generatedAtMs: Date.now(), revalidateSeconds: 1 };
const put = (option: object) => ({ kind: 'put' as const, model: 'Song' as const, item: key, ...option });
const remove = (option: object) => ({ kind: 'delete' as const, model: 'Song' as const, key, ...option });
const update = (option: object) => ({
  kind: 'update' as const,
  model: 'Song' as const,
  item: key,
  fields: [],
  ...option,
});

/** Calls with an option that does not exist, and the text of the refusal. */
const unknownOptions: readonly [name: string, call: (option: object) => unknown, option: object, expected: RegExp][] = [
  ['LeaseManager', (o) => new LeaseManager(ddb, tableName, o), { token: () => 'a' }, /no option token: .* newToken/],
  ['LeaseManager', (o) => new LeaseManager(ddb, tableName, o), { leaseToken: () => 'a' }, /newToken/],
  ['LeaseManager', (o) => new LeaseManager(ddb, tableName, o), { pkAttr: 'PK' }, /spec\/schema.md/],
  ['LeaseManager', (o) => new LeaseManager(ddb, tableName, o), { ttlBufferSeconds: 1 }, /an hour after/],
  ['LeaseManager', (o) => new LeaseManager(ddb, tableName, o), { clok: 1 }, /no option clok: expected now, clock/],
  ['LeaseManager', (o) => new LeaseManager(ddb, tableName, o), { __proto__: null, toString: 1 }, /no option toString/],
  [
    'createPageCache',
    (o) => createPageCache({ ...stores, hosts: ['a'], ...o }),
    { ignoreCookie: ['b'] },
    /no option ignoreCookie: exp/,
  ],
  [
    'createRuntimeStores',
    (o) => createRuntimeStores({ ...stores, ...o }),
    { tennant: 'a' },
    /no option tennant: expected tab/,
  ],
  [
    'createCacheHandler',
    (o) => settingsOf({ ...stores, ...o }, {}),
    { tennant: 'a' },
    /createCacheHandler has no option tennant/,
  ],
  ['the meta store', (o) => meta(o), { leaseToken: () => 'a' }, /newToken/],
  ['the meta store', (o) => meta(o), { leaseTtlBufferSeconds: 1 }, /an hour after/],
  ['the meta store', (o) => meta(o), { client: {} }, /through ddb/],
  ['the meta store', (o) => meta(o), { pkprefix: 'CACHE#' }, /no option pkprefix/],
  ['TheorydbClient', (o) => new TheorydbClient(ddb, o), { sendOptions: {} }, /signal/],
  ['TheorydbClient', (o) => new TheorydbClient(ddb, o), { encrypt: {} }, /no option encrypt/],
  ['acquire', (o) => leases.acquire('job', { leaseSeconds: 1, ...o }), { token: 'a' }, /acquire has no option token/],
  ['hold', (o) => leases.hold('job', { leaseSeconds: 1, ...o }), { seconds: 1 }, /no option seconds/],
  ['withLease', (o) => leases.withLease('job', { leaseSeconds: 1, ...o }, async () => 1), { ms: 1 }, /no option ms/],
  ['refresh', (o) => leases.refresh(foreign, { leaseSeconds: 1, ...o }), { ms: 1 }, /refresh has no option ms/],
  ['release', (o) => leases.release(foreign, o), { force: true }, /release has no option force/],
  ['tryAcquireLease', (o) => meta().tryAcquireLease({ ...page, leaseDurationMs: 1, ...o }), { ttl: 1 }, /option ttl/],
  ['acquireLease', (o) => meta().acquireLease({ ...page, leaseDurationMs: 1, ...o }), { requestID: '1' }, /requestID/],
  ['commitGeneration', (o) => meta().commitGeneration({ ...committed, ...o }), { contentSha265: '' }, /contentSha265/],
  ['rollback', (o) => meta().rollback({ ...page, ...o }), { recrod: {} }, /rollback has no option recrod/],
  ['pin', (o) => meta().pin({ ...page, untilMs: 1, ...o }), { until: 1 }, /pin has no option until/],
  ['unpin', (o) => meta().unpin({ ...page, ...o }), { recrod: {} }, /unpin has no option recrod/],
  ['purge', (o) => meta().purge([{ kind: 'tag', value: 'a' }], o), { Hard: true }, /purge has no option Hard/],
  ['purge', (o) => meta().purge([{ kind: 'tag', value: 'a', ...o }]), { tennant: 'a' }, /target has no option tennant/],
  ['covering', (o) => meta().covering({ ...page, ...o }), { tag: ['a'] }, /covering has no option tag/],
  ['createTable', (o) => client.createTable('Song', o), { billing: 'a' }, /createTable has no option billing/],
  ['ensureTable', (o) => client.ensureTable('Song', o), { billing: 'a' }, /ensureTable has no option billing/],
  ['get', (o) => client.get('Song', key, o), { consistent: false }, /get has no option consistent/],
  ['put', (o) => client.put('Song', key, o), { condition: 'a' }, /put has no option condition/],
  ['put', (o) => client.put('Song', key, o), { ifNotExists: true }, /create requires/],
  ['create', (o) => client.create('Song', key, o), { expression: 'a' }, /create has no option expression/],
  ['update', (o) => client.update('Song', key, ['year'], o), { condition: 'a' }, /update has no option condition/],
  ['upsert', (o) => client.upsert('Song', key, ['year'], o), { condition: 'a' }, /upsert has no option condition/],
  ['delete', (o) => client.delete('Song', key, o), { condition: 'a' }, /delete has no option condition/],
  ['batchGet', (o) => client.batchGet('Song', [key], o), { consistent: false }, /batchGet has no option consistent/],
  ['batchWrite', (o) => client.batchWrite('Song', { puts: [key] }, o), { condition: 'a' }, /no option condition/],
  ['batchWrite', (o) => client.batchWrite('Song', { ...o }), { puts: [key], delete: [key] }, /no option delete/],
  ['transactWrite', (o) => client.transactWrite([put({})], o), { token: 'a' }, /transactWrite has no option token/],
  [
    'a put action',
    (o) => client.transactWrite([put(o)]),
    { condition: 'a' },
    /action 0 .* put, has no option condition/,
  ],
  ['an update action', (o) => client.transactWrite([update(o)]), { updateFn: () => 1 }, /function as changes/],
  ['a delete action', (o) => client.transactWrite([remove(o)]), { condition: 'a' }, /delete, has no option condition/],
];

for (const [name, call, option, expected] of unknownOptions) {
  test(`${name} refuses an unknown option: ${Object.keys(option).join(', ')}`, async () => {
    await assert.rejects(
      async () => call(option),
      (error: Error) => {
        assert.ok(error instanceof InvalidInputError, String(error));
        assert.match(error.message, expected);
        return true;
      },
    );
  });
}

test('options must be objects, and undefined ones are absent', () => {
  for (const options of [null, 'now', 7, [], () => 1]) {
    assert.throws(() => new LeaseManager(ddb, tableName, options as never), /must be an object/);
  }
  assert.ok(new LeaseManager(ddb, tableName, { token: undefined, now: undefined } as never));
});
