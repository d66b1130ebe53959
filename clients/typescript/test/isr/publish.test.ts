/** Publishing, history, rollback and pins. */

import assert from 'node:assert/strict';

import {
  ConditionFailedError,
  InvalidInputError,
  LeaseLostError,
  MovedError,
  NoVersionError,
  PinnedError,
  PurgedError,
} from '../../src/errors.js';
import {
  type FaceTheoryIsrMetaStore,
  FOREVER_MS,
  hashedPartition,
  type NextEntry,
  type Publishing,
} from '../../src/isr/index.js';
import { onEngines } from '../engines.js';
import { generation, itemAt, itemsOf, put, StoppedClock, storeOn } from './table.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);

/** Publishes over what there is. */
async function publish(store: FaceTheoryIsrMetaStore, next: NextEntry, how?: Publishing) {
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  return store.publish(lease, lease.record, next, how);
}

onEngines("the reference's call publishes what all can read", async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const lease = await store.tryAcquireLease({ cacheKey, leaseOwner: 'my-app-instance', leaseDurationMs: 30_000 });
  assert.ok(lease);
  await store.commitGeneration({
    cacheKey,
    leaseOwner: 'my-app-instance',
    leaseToken: lease.leaseToken,
    htmlPointer: 'pages/news.html',
    generatedAtMs: 1_800_000_000_100,
    revalidateSeconds: 60,
    etag: '"abc"',
    ttlUnixSeconds: 1_800_086_400,
  });
  const { isr, ...row } = (await itemAt(table, pk, 'META')) ?? {};
  assert.deepEqual(row, {
    pk: { S: pk },
    sk: { S: 'META' },
    s3_key: { S: 'pages/news.html' },
    generated_at: { N: '1800000000' },
    revalidate_seconds: { N: '60' },
    etag: { S: '"abc"' },
    ttl: { N: '1800086400' },
  });
  assert.equal(isr?.M?.['v']?.N, '1800000000600');
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  const found = await store.get({ cacheKey });
  assert.deepEqual([found?.htmlPointer, found?.state, found?.foreign], ['pages/news.html', 'fresh', true]);
  clock.set(1_800_000_060_000);
  assert.equal((await store.get({ cacheKey }))?.state, 'expired');
});

onEngines('a commit that describes its body is an entry of ours', async (table) => {
  const store = storeOn(table, { metaTtlSeconds: 3600, clock: new StoppedClock() });
  await put(table, { pk: { S: 'PURGE' }, sk: { S: 'SEQ' }, seq: { N: '7' }, mark_lifetime: { N: '2592000' } });
  const { leaseToken } = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const published = await store.commitGeneration({
    cacheKey,
    leaseToken,
    htmlPointer: 'pages/news.html',
    generatedAtMs: 1_800_000_000_100,
    revalidateSeconds: 60,
    staleSeconds: 600,
    contentSha256: 'ab'.repeat(32),
    contentLength: 5,
    headers: { 'Content-Type': ['text/html'] },
    tags: ['news'],
  });
  const { state, ...found } = (await store.get({ cacheKey })) ?? {};
  assert.deepEqual(found, published);
  assert.deepEqual(
    [state, published.foreign, published.purgeSeq, published.key, published.ttlUnixSeconds],
    ['fresh', false, 7, cacheKey, 1_800_000_000 + 3600 + 86_400],
  );
  assert.deepEqual(published.headers, { 'content-type': ['text/html'] });
});

onEngines('what describes a page needs what describes its body', async (table) => {
  const store = storeOn(table);
  const { leaseToken } = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const commit = { cacheKey, leaseToken, htmlPointer: 'x', generatedAtMs: Date.now(), revalidateSeconds: 60 };
  await assert.rejects(store.commitGeneration({ ...commit, tags: ['news'] }), InvalidInputError);
  await assert.rejects(store.commitGeneration({ ...commit, history: true }), InvalidInputError);
  const described = { ...commit, contentSha256: 'ab', contentLength: 5 };
  await assert.rejects(storeOn(table).commitGeneration(described), InvalidInputError, 'a purge could be lost');
  await storeOn(table).commitGeneration(commit);
  assert.equal((await store.get({ cacheKey }))?.htmlPointer, 'x');
});

onEngines('a commit by a token that is not valid is a lost lease', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const { leaseToken } = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const commit = { cacheKey, leaseToken, htmlPointer: 'x', generatedAtMs: 1_800_000_000_000, revalidateSeconds: 60 };
  await assert.rejects(store.commitGeneration({ ...commit, leaseToken: 'guessed' }), LeaseLostError);
  clock.advance(31_000);
  await assert.rejects(store.commitGeneration(commit), LeaseLostError);
  await assert.rejects(storeOn(table, { clock }).commitGeneration(commit), LeaseLostError);
  assert.equal(await itemAt(table, pk, 'META'), undefined);
});

onEngines('a publish never overwrites what it did not read', async (table) => {
  const store = storeOn(table);
  const first = await publish(store, generation('g1', Date.now()));
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const row = (await itemAt(table, pk, 'META')) ?? {};
  await put(table, { ...row, s3_key: { S: 'another/service' } });
  await assert.rejects(store.publish(lease, lease.record, generation('g2', Date.now())), MovedError);
  const record = await store.read({ cacheKey });
  assert.deepEqual([record.entry?.foreign, record.entry?.htmlPointer], [true, 'another/service']);
  const published = await store.publish(lease, record, generation('g3', Date.now()));
  assert.equal(published.version, first.version + 1, 'no version ever returns');
});

onEngines('a publish loses to whatever was written of the same content meanwhile', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()));
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  await store.pin({ cacheKey, untilMs: FOREVER_MS });
  await assert.rejects(store.publish(lease, lease.record, generation('g2', Date.now())), MovedError);
});

onEngines('attributes of others survive', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()));
  const row = (await itemAt(table, pk, 'META')) ?? {};
  await put(table, { ...row, colour: { S: 'red' } });
  await publish(store, generation('g2', Date.now(), { etag: '' }));
  const after = await itemAt(table, pk, 'META');
  assert.deepEqual([after?.['colour'], after?.['etag']], [{ S: 'red' }, undefined]);
});

onEngines('versions are kept, superseded and forgotten, and an id is used once', async (table) => {
  const store = storeOn(table);
  const ids = ['20260101T000000.000000Z-a', '20260102T000000.000000Z-b', '20260103T000000.000000Z-c'];
  for (const id of ids) await publish(store, generation(id, Date.now()), { history: true, keep: 2 });
  const kept = (await store.versions({ cacheKey })).map((v) => v.generationId);
  assert.deepEqual(kept, [ids[2], ids[1]]);
  const rows = (await itemsOf(table)).filter((row) => row['sk']?.S?.startsWith('VER#'));
  assert.deepEqual(rows.map((row) => row['ttl'] !== undefined).sort(), [false, true]);
  await assert.rejects(publish(store, generation(ids[1] ?? '', Date.now()), { history: true }), ConditionFailedError);
});

onEngines('a rollback is not undone by a regeneration that began before it', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()), { history: true });
  await publish(store, generation('g2', Date.now()), { history: true });
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const before = await store.sequence();
  const entry = await store.rollback({ cacheKey, to: 'g1', pinnedUntilMs: Date.now() + 3_600_000 });
  assert.deepEqual([entry.generationId, entry.purgeSeq], ['g1', before.seq]);
  await assert.rejects(store.publish(lease, lease.record, generation('g3', Date.now())), MovedError);
  await store.releaseLease(lease);
  const { state, ...found } = (await store.get({ cacheKey })) ?? {};
  assert.deepEqual([found, state], [entry, 'fresh']);
  assert.deepEqual(await store.changes(before.seq), [{ seq: before.seq + 1, reload: [{ tenant: '', key: cacheKey }] }]);
  const rows = await itemsOf(table);
  const ttlOf = (id: string) => rows.find((row) => row['sk']?.S === `VER#${id}`)?.['ttl'];
  assert.equal(ttlOf('g1'), undefined);
  assert.ok(ttlOf('g2'));
  await assert.rejects(publish(store, generation('g4', Date.now())), PinnedError);
});

onEngines('a rollback goes to the generation before and pins it, unless it is told otherwise', async (table) => {
  const store = storeOn(table);
  for (const id of ['g1', 'g2', 'g3']) {
    await publish(store, generation(id, Date.now()), { history: true });
  }
  const back = await store.rollback({ cacheKey });
  assert.deepEqual([back.generationId, back.pinnedUntilMs], ['g2', FOREVER_MS]);
  const loose = await store.rollback({ cacheKey, to: 'g3', pinnedUntilMs: 0 });
  assert.deepEqual([loose.generationId, loose.pinnedUntilMs], ['g3', undefined]);
  await store.rollback({ cacheKey, to: 'g1' });
  await assert.rejects(store.rollback({ cacheKey }), NoVersionError);
});

onEngines('those who roll back at the same time all do, unless they name what they read', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()), { history: true });
  await publish(store, generation('g2', Date.now()), { history: true });
  const record = await store.read({ cacheKey });
  const both = await Promise.all([
    store.rollback({ cacheKey, to: 'g1' }),
    store.pin({ cacheKey, untilMs: FOREVER_MS }),
  ]);
  assert.equal(new Set(both.map((entry) => entry.version)).size, 2);
  await assert.rejects(store.rollback({ cacheKey, to: 'g1', record }), MovedError);
});

onEngines('a pin holds until it is ended, and a purge reaches it', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock, metaTtlSeconds: 3600 });
  await publish(store, generation('g1', clock.now()));
  const pinned = await store.pin({ cacheKey, untilMs: FOREVER_MS });
  assert.deepEqual([pinned.pinnedUntilMs, pinned.ttlUnixSeconds], [FOREVER_MS, undefined]);
  clock.advance(86_400_000);
  assert.equal((await store.get({ cacheKey }))?.state, 'fresh');
  await assert.rejects(publish(store, generation('g2', clock.now())), PinnedError);
  const purge = { pk: { S: pk }, sk: { S: 'PURGE' }, seq: { N: '9' }, hard_seq: { N: '9' }, at: { N: '1800000000' } };
  await put(table, purge);
  assert.equal((await store.get({ cacheKey }))?.state, 'purged');
  await assert.rejects(store.pin({ cacheKey, untilMs: FOREVER_MS }), PurgedError);
  const unpinned = await store.unpin({ cacheKey });
  assert.deepEqual([unpinned.pinnedUntilMs, typeof unpinned.ttlUnixSeconds], [undefined, 'number']);
});

onEngines('what was purged for good, or is not kept, does not come back', async (table) => {
  const store = storeOn(table);
  await assert.rejects(store.rollback({ cacheKey, to: 'g1' }), NoVersionError);
  await assert.rejects(store.pin({ cacheKey, untilMs: FOREVER_MS }), NoVersionError);
  await publish(store, generation('g1', Date.now()), { history: true });
  await publish(store, generation('g2', Date.now()), { history: true });
  await put(table, {
    pk: { S: pk },
    sk: { S: 'PURGE' },
    seq: { N: '9' },
    hard_seq: { N: '9' },
    at: { N: '1800000000' },
  });
  await assert.rejects(store.rollback({ cacheKey, to: 'g1' }), PurgedError);
  assert.equal((await store.read({ cacheKey })).entry?.generationId, 'g2');
});

onEngines('a page of a tenant is named by the tenant in the log', async (table) => {
  const store = storeOn(table, { tenant: 'acme' });
  await publish(store, generation('g1', Date.now()));
  await store.pin({ cacheKey, untilMs: FOREVER_MS });
  assert.deepEqual((await store.changes(0))[0]?.reload, [{ tenant: 'acme', key: cacheKey }]);
  assert.ok(await itemAt(table, hashedPartition(cacheKey, 'acme'), 'META'));
});

onEngines('leases and records of another page or store are refused', async (table) => {
  const store = storeOn(table);
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const elsewhere = await store.read({ cacheKey: 'example.com/other' });
  await assert.rejects(store.publish(lease, elsewhere, generation('g1', Date.now())), InvalidInputError);
  await assert.rejects(storeOn(table).publish(lease, lease.record, generation('g1', Date.now())), InvalidInputError);
  assert.equal(await itemAt(table, pk, 'META'), undefined);
});
