/** Publishing, history, rollback and pins. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { DeleteItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';

import {
  ConditionFailedError,
  InvalidInputError,
  LeaseLostError,
  MalformedRowError,
  MovedError,
  NoVersionError,
  PinnedError,
  PurgedError,
} from '../../src/errors.js';
import {
  type FaceTheoryIsrMetaStore,
  FOREVER_MS,
  freshness,
  hashedPartition,
  type NextEntry,
  type Publishing,
  servableOnFailure,
} from '../../src/isr/index.js';
import { onEngines } from '../engines.js';
import { generation, itemAt, itemsOf, put, StoppedClock, storeOn } from './table.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);

/** Publishes over the current entry. */
async function publish(store: FaceTheoryIsrMetaStore, next: NextEntry, how?: Publishing) {
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  return store.publish(lease, lease.record, next, how);
}

onEngines("the reference's commitGeneration publishes a row that every reader accepts", async (table) => {
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

onEngines('a commit with a content hash publishes full metadata', async (table) => {
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
    [state, published.foreign, published.purgeSeq, published.key, published.ttlUnixSeconds, published.generatedAtMs],
    ['fresh', false, 7, cacheKey, 1_800_000_000 + 3600 + 86_400, 1_800_000_000_100],
  );
  assert.deepEqual(published.headers, { 'content-type': ['text/html'] });
});

onEngines('a commit with metadata needs the content hash and length', async (table) => {
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

onEngines('a commit with an invalid or expired token is a lost lease', async (table) => {
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

onEngines('a publish never overwrites an entry that it did not read', async (table) => {
  const store = storeOn(table);
  const first = await publish(store, generation('g1', Date.now()));
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const row = (await itemAt(table, pk, 'META')) ?? {};
  await put(table, { ...row, s3_key: { S: 'another/service' } });
  await assert.rejects(store.publish(lease, lease.record, generation('g2', Date.now())), MovedError);
  const record = await store.read({ cacheKey });
  assert.deepEqual([record.entry?.foreign, record.entry?.htmlPointer], [true, 'another/service']);
  const published = await store.publish(lease, record, generation('g3', Date.now()));
  assert.equal(published.version, first.version + 1, 'versions are never reused');
});

onEngines('a publish fails if the entry was pinned since the read', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()));
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  await store.pin({ cacheKey, untilMs: FOREVER_MS });
  await assert.rejects(store.publish(lease, lease.record, generation('g2', Date.now())), MovedError);
});

onEngines('a publish keeps unknown attributes', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()));
  const row = (await itemAt(table, pk, 'META')) ?? {};
  await put(table, { ...row, colour: { S: 'red' } });
  await publish(store, generation('g2', Date.now(), { etag: '' }));
  const after = await itemAt(table, pk, 'META');
  assert.deepEqual([after?.['colour'], after?.['etag']], [{ S: 'red' }, undefined]);
});

onEngines('versions are kept, superseded and pruned, and ids are unique', async (table) => {
  const store = storeOn(table);
  const ids = ['20260101T000000.000000Z-a', '20260102T000000.000000Z-b', '20260103T000000.000000Z-c'];
  for (const id of ids) await publish(store, generation(id, Date.now()), { history: true, keep: 2 });
  const kept = (await store.versions({ cacheKey })).map((v) => v.generationId);
  assert.deepEqual(kept, [ids[2], ids[1]]);
  const rows = (await itemsOf(table)).filter((row) => row['sk']?.S?.startsWith('VER#'));
  assert.deepEqual(rows.map((row) => row['ttl'] !== undefined).sort(), [false, true]);
  await assert.rejects(publish(store, generation(ids[1] ?? '', Date.now()), { history: true }), ConditionFailedError);
});

onEngines('a regeneration that began before a rollback does not undo it', async (table) => {
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
  assert.deepEqual(await store.changes(before.seq), [reloaded(before.seq + 1, '')]);
  const rows = await itemsOf(table);
  const ttlOf = (id: string) => rows.find((row) => row['sk']?.S === `VER#${id}`)?.['ttl'];
  assert.equal(ttlOf('g1'), undefined);
  assert.ok(ttlOf('g2'));
  await assert.rejects(publish(store, generation('g4', Date.now())), PinnedError);
});

onEngines('a rollback defaults to the previous generation and pins it', async (table) => {
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

onEngines('concurrent rollbacks all succeed, unless they pass an outdated record', async (table) => {
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

onEngines('a pin holds until it is removed, but not against a hard purge', async (table) => {
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
  assert.equal(typeof unpinned.ttlUnixSeconds, 'number');
  assert.equal(unpinned.pinnedUntilMs, 1_800_086_400_000, 'it ended now');
});

onEngines('unpin keeps the end of the pin until the next publish', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  await publish(store, generation('g1', clock.now()));
  assert.equal((await store.unpin({ cacheKey })).pinnedUntilMs, undefined, 'not pinned');
  const until = 1_800_000_030_000;
  await store.pin({ cacheKey, untilMs: until });
  clock.advance(60_000);
  assert.equal((await store.unpin({ cacheKey })).pinnedUntilMs, until, 'it had ended before');
  const record = await store.read({ cacheKey });
  clock.advance(86_400_000);
  assert.ok(record.entry);
  assert.equal(freshness(record.entry, record.purge, clock.now()), 'expired');
  assert.equal(servableOnFailure(record.entry, record.purge, clock.now()), true, 'it was pinned');
  const purged = { ...record.purge, seq: 9, hardSeq: 9 };
  assert.equal(servableOnFailure(record.entry, purged, clock.now()), false);
  assert.equal(servableOnFailure(record.entry, { ...record.purge, markLifetimeSeconds: 1 }, clock.now()), false);
  const entry = await publish(store, generation('g2', clock.now()));
  assert.equal(entry.pinnedUntilMs, undefined);
  assert.equal(servableOnFailure(entry, record.purge, clock.now() + 86_400_000), false);
});

onEngines('unpin of an unpinned page still logs a reload', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()));
  await store.unpin({ cacheKey });
  assert.deepEqual(await store.changes(0), [reloaded(1, '')]);
});

onEngines('a publish that ends a pin is logged in the same transaction; others are not logged', async (table) => {
  const store = storeOn(table, { tenant: 'acme' });
  await publish(store, generation('g1', Date.now()));
  assert.deepEqual(await store.changes(0), []);
  await store.pin({ cacheKey, untilMs: FOREVER_MS });
  const sent: unknown[] = [];
  const ddb = table.connect();
  ddb.middlewareStack.add(
    (next) => async (args) => {
      sent.push(args.input);
      return next(args);
    },
    { step: 'initialize' },
  );
  const other = storeOn(table, { ddb, tenant: 'acme' });
  await publish(other, generation('g2', Date.now()), { unpin: true });
  const transactions = sent.filter((input) => (input as { TransactItems?: unknown[] }).TransactItems);
  assert.equal(transactions.length, 1);
  assert.deepEqual(await store.changes(1), [reloaded(2, 'acme')]);
  await publish(store, generation('g3', Date.now()), { unpin: true });
  assert.deepEqual(await store.changes(2), [], 'there was no pin');
});

/** A purge mark with sequence 9. */
function markRow(sk: string, value: string, more: Record<string, { N: string }>) {
  return { pk: { S: 'PURGE' }, sk: { S: sk }, value: { S: value }, seq: { N: '9' }, at: { N: '1800000000' }, ...more };
}

const hash = (text: string) => createHash('sha256').update(text).digest('hex');
const hard = { hard_seq: { N: '9' } };

/** Marks, and whether they hard purge the generations of the test (tenant acme, time 1800000000). */
const marks: [name: string, row: ReturnType<typeof markRow>, covers: boolean][] = [
  ['a hard purge of a tag', markRow(`MARK#acme#tag#${hash('news')}`, 'news', hard), true],
  ['a soft purge of a tag', markRow(`MARK#acme#tag#${hash('news')}`, 'news', {}), false],
  ['a hard purge of another tag', markRow(`MARK#acme#tag#${hash('sport')}`, 'sport', hard), false],
  [
    'a purge whose time has come',
    markRow(`MARK#acme#tag#${hash('news')}`, 'news', { expire_seq: { N: '9' }, expire_at: { N: '1800000000' } }),
    true,
  ],
  [
    'a purge whose time has not come',
    markRow(`MARK#acme#tag#${hash('news')}`, 'news', { expire_seq: { N: '9' }, expire_at: { N: '1800000001' } }),
    false,
  ],
  ['a prefix', markRow('MARK#acme#prefix#x', 'example.com/n', hard), true],
  ['another prefix', markRow('MARK#acme#prefix#x', 'example.com/x', hard), false],
  ['the tenant', markRow('MARK#acme#tenant#x', 'acme', hard), true],
  ['the site', markRow('MARK##site#x', 'site', hard), true],
  ['another tenant', markRow('MARK#acme2#tenant#x', 'acme2', hard), false],
  ['a kind of a later version, before tag', markRow('MARK#acme#aa#x', 'x', hard), true],
  ['a kind of a later version, after tag', markRow('MARK#acme#tags#x', 'x', hard), true],
];

for (const [name, row, covers] of marks) {
  onEngines(`rollback and pin respect purge marks: ${name}`, async (table) => {
    const store = storeOn(table, { clock: new StoppedClock(), tenant: 'acme' });
    const tags = { tags: ['news'] };
    await publish(store, generation('g1', 1_800_000_000_000, tags), { history: true });
    await publish(store, generation('g2', 1_800_000_000_000, tags), { history: true });
    await put(table, row);
    if (covers) {
      await assert.rejects(store.rollback({ cacheKey, to: 'g1' }), PurgedError);
      await assert.rejects(store.pin({ cacheKey, untilMs: FOREVER_MS }), PurgedError);
      assert.equal((await store.read({ cacheKey })).entry?.generationId, 'g2');
      await store.unpin({ cacheKey }); // always allowed
    } else {
      await store.pin({ cacheKey, untilMs: FOREVER_MS });
      assert.equal((await store.rollback({ cacheKey, to: 'g1' })).generationId, 'g1');
    }
  });
}

onEngines('a malformed mark fails a rollback, and so do marks that may have expired', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  await publish(store, generation('g1', clock.now(), { tags: ['news'] }), { history: true });
  await publish(store, generation('g2', clock.now()), { history: true });
  const { seq: _, ...malformed } = markRow(`MARK##tag#${hash('news')}`, 'news', hard);
  await put(table, malformed);
  await assert.rejects(store.rollback({ cacheKey, to: 'g1' }), MalformedRowError);
  await table.ddb.send(
    new DeleteItemCommand({ TableName: table.tableName, Key: { pk: malformed.pk, sk: malformed.sk } }),
  );
  await put(table, { pk: { S: 'PURGE' }, sk: { S: 'SEQ' }, seq: { N: '9' }, mark_lifetime: { N: '172800' } });
  clock.advance(86_400_000);
  await assert.rejects(store.rollback({ cacheKey, to: 'g1' }), PurgedError);
  clock.advance(-1_000);
  assert.equal((await store.rollback({ cacheKey, to: 'g1' })).generationId, 'g1');
});

onEngines('a withdrawn generation cannot become current again', async (table) => {
  const store = storeOn(table);
  await publish(store, generation('g1', Date.now()), { history: true });
  await publish(store, generation('g2', Date.now()), { history: true });
  await table.ddb.send(
    new UpdateItemCommand({
      TableName: table.tableName,
      Key: { pk: { S: pk }, sk: { S: 'META' } },
      UpdateExpression: 'SET isr.withdrawn = :true',
      ExpressionAttributeValues: { ':true': { BOOL: true } },
    }),
  );
  assert.equal((await store.get({ cacheKey }))?.state, 'missing');
  await assert.rejects(store.pin({ cacheKey, untilMs: FOREVER_MS }), NoVersionError);
  await assert.rejects(store.unpin({ cacheKey }), NoVersionError);
  assert.equal((await store.rollback({ cacheKey, to: 'g1' })).generationId, 'g1');
  assert.equal((await store.get({ cacheKey }))?.state, 'fresh');
});

onEngines('a hard purged or missing generation cannot be restored', async (table) => {
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

onEngines('log targets carry the tenant', async (table) => {
  const store = storeOn(table, { tenant: 'acme' });
  await publish(store, generation('g1', Date.now()));
  await store.pin({ cacheKey, untilMs: FOREVER_MS });
  assert.deepEqual((await store.changes(0))[0]?.reload, [{ tenant: 'acme', key: cacheKey }]);
  assert.ok(await itemAt(table, hashedPartition(cacheKey, 'acme'), 'META'));
});

onEngines('leases and records of another page or store are rejected', async (table) => {
  const store = storeOn(table);
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  const elsewhere = await store.read({ cacheKey: 'example.com/other' });
  await assert.rejects(store.publish(lease, elsewhere, generation('g1', Date.now())), InvalidInputError);
  await assert.rejects(storeOn(table).publish(lease, lease.record, generation('g1', Date.now())), InvalidInputError);
  assert.equal(await itemAt(table, pk, 'META'), undefined);
});

/** The change of a page, as it is read from the log. */
function reloaded(seq: number, tenant: string) {
  return { seq, reload: [{ tenant, key: cacheKey }], marks: [], confirm: false };
}
