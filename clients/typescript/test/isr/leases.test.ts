/** Leases of pages: acquisition, loss, and the errors that other processes get. */

import assert from 'node:assert/strict';

import {
  InvalidInputError,
  LeaseHeldError,
  LeaseLostError,
  MovedError,
  RequestInProgressError,
} from '../../src/errors.js';
import { hashedPartition, type Lease } from '../../src/isr/index.js';
import { earlyClock } from '../clocks.js';
import { onEngines } from '../engines.js';
import { generation, itemAt, put, StoppedClock, storeOn } from './table.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);

onEngines('a lease is exclusive, and the error names the holder', async (table) => {
  const clock = new StoppedClock();
  const a = storeOn(table, { clock, leaseOwner: 'node-a' });
  const b = storeOn(table, { clock, leaseOwner: 'node-b' });
  const lease = await a.tryAcquireLease({ cacheKey, leaseDurationMs: 30_000 });
  assert.equal(lease?.leaseExpiresAtMs, 1_800_000_031_000);
  assert.equal(await b.tryAcquireLease({ cacheKey, leaseDurationMs: 30_000 }), null);
  await assert.rejects(b.acquireLease({ cacheKey, leaseDurationMs: 30_000 }), (error) => {
    assert.ok(error instanceof LeaseHeldError);
    assert.deepEqual([error.owner, error.expiresAt, error.failures], ['node-a', 1_800_000_031, 0]);
    return true;
  });
  clock.set(1_800_000_031_000);
  assert.ok(await b.tryAcquireLease({ cacheKey, leaseDurationMs: 30_000 }));
  await assert.rejects(a.refreshLease(lease), LeaseLostError);
  await a.releaseLease(lease); // no error, and node-b keeps its lease
  assert.equal((await itemAt(table, pk, 'LOCK'))?.['lease_owner']?.S, 'node-b');
});

onEngines('an acquisition uses nowMs', async (table) => {
  const now = 1_800_000_000_600;
  const clock = new StoppedClock(now);
  const [a, b] = [storeOn(table, { clock }), storeOn(table, { clock })];
  const lease = await a.acquireLease({ cacheKey, leaseDurationMs: 30_000, nowMs: now + 5_000 });
  assert.equal(lease.leaseExpiresAtMs, 1_800_000_036_000);
  assert.equal((await itemAt(table, pk, 'LOCK'))?.['lease_expires_at']?.N, '1800000036');
  const acquisition = { cacheKey, leaseDurationMs: 30_000 };
  clock.set(1_800_000_036_000);
  assert.equal(await b.tryAcquireLease({ ...acquisition, nowMs: 1_800_000_035_999 }), null);
  clock.set(now);
  const later = { nowMs: 1_800_000_036_000 };
  const request = { idempotencyKey: 'r', requestHash: 'h' };
  assert.equal(await b.tryAcquireLease({ ...acquisition, ...request }), null);
  const next = await b.acquireLease({ ...acquisition, ...request, ...later });
  assert.equal(next.leaseExpiresAtMs, 1_800_000_066_000);
  assert.equal((await b.refreshLease(next)).leaseExpiresAtMs, 1_800_000_031_000, "by the store's clock");
  await b.releaseLease(next);
  const third = await b.withLease({ ...acquisition, nowMs: now - 10_000 }, async (held) => held.leaseExpiresAtMs);
  assert.equal(third, 1_800_000_021_000);
});

onEngines('an invalid nowMs, or one far from the clock, is rejected before anything is sent', async (table) => {
  const now = 1_800_000_000_600;
  const store = storeOn(table, { clock: new StoppedClock(now) });
  const acquisition = { cacheKey, leaseDurationMs: 30_000 };
  for (const nowMs of [
    Number.NaN,
    -1,
    Infinity,
    now / 1000,
    now + 3_600_001,
    now - 3_600_001,
    '5' as never,
    null as never,
  ]) {
    await assert.rejects(store.tryAcquireLease({ ...acquisition, nowMs }), InvalidInputError, String(nowMs));
  }
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  assert.ok(await store.tryAcquireLease({ ...acquisition, nowMs: now + 3_600_000 }));
});

onEngines('a refresh extends the lease, and an expired lease stays expired', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 10_000 });
  clock.advance(9_000);
  assert.equal((await store.refreshLease(lease)).leaseExpiresAtMs, 1_800_000_020_000);
  assert.equal(lease.leaseExpiresAtMs, 1_800_000_020_000);
  clock.advance(11_000);
  await assert.rejects(store.refreshLease(lease), LeaseLostError);
  clock.set(1_800_000_000_000);
  await assert.rejects(store.refreshLease(lease), LeaseLostError, 'setting the clock back does not revive a lease');
});

onEngines('another process can use a lease by its token', async (table) => {
  const clock = new StoppedClock();
  const { leaseToken } = await storeOn(table, { clock }).acquireLease({ cacheKey, leaseDurationMs: 10_000 });
  const other = storeOn(table, { clock });
  await assert.rejects(other.refreshLease({ cacheKey, leaseToken }), InvalidInputError);
  const refreshed = await other.refreshLease({ cacheKey, leaseToken, leaseDurationMs: 20_000 });
  assert.equal(refreshed.leaseExpiresAtMs, 1_800_000_021_000);
  await other.releaseLease({ cacheKey, leaseToken: 'guessed' });
  assert.ok(await itemAt(table, pk, 'LOCK'), 'a guessed token releases nothing');
  await other.releaseLease({ cacheKey, leaseToken });
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
});

onEngines('backoff blocks all acquisitions and counts failures', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  for (const failures of [0, 1, 2]) {
    const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 10_000 });
    assert.equal(lease.failures, failures);
    await store.backOff(lease, 5_000);
    const { lock } = await store.read({ cacheKey });
    assert.deepEqual([lock?.owner, lock?.failures], ['', failures + 1]);
    assert.equal(await store.tryAcquireLease({ cacheKey, leaseDurationMs: 10_000 }), null);
    clock.advance(6_000);
  }
});

onEngines('breakLease deletes only the lease that was read', async (table) => {
  const store = storeOn(table);
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 10_000 });
  const record = await store.read({ cacheKey });
  await store.refreshLease(lease); // still the same lease
  await store.breakLease({ cacheKey, record });
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  await assert.rejects(store.publish(lease, lease.record, generation('g1', Date.now())), LeaseLostError);
  await assert.rejects(store.breakLease({ cacheKey, record }), MovedError);
  await store.breakLease({ cacheKey, record: await store.read({ cacheKey }) }); // no lease: no error
});

onEngines('withLease releases the lease after success and failure', async (table) => {
  const store = storeOn(table);
  const rows: unknown[] = [];
  const result = await store.withLease({ cacheKey, leaseDurationMs: 30_000 }, async (lease, signal) => {
    assert.equal(signal.aborted, false);
    rows.push((await itemAt(table, pk, 'LOCK'))?.['lease_token']?.S === lease.leaseToken);
    return 'done';
  });
  assert.deepEqual([result, rows], ['done', [true]]);
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  const failing = store.withLease({ cacheKey, leaseDurationMs: 30_000 }, () => Promise.reject(new Error('no origin')));
  await assert.rejects(failing, { message: 'no origin' });
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
});

onEngines('withLease extends the lease, and reports its loss', async (table) => {
  const store = storeOn(table, { clock: earlyClock() });
  const other = storeOn(table);
  await store.withLease({ cacheKey, leaseDurationMs: 30_000 }, async (lease) => {
    const first = lease.leaseExpiresAtMs;
    await until(() => lease.leaseExpiresAtMs > first);
  });
  const work = store.withLease({ cacheKey, leaseDurationMs: 30_000 }, async (_, signal) => {
    await other.breakLease({ cacheKey, record: await other.read({ cacheKey }) });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    assert.ok(signal.reason instanceof LeaseLostError);
    return 'ignored by the work';
  });
  await assert.rejects(work, LeaseLostError);
});

onEngines('a job that fails after losing its lease reports both errors', async (table) => {
  const store = storeOn(table, { clock: earlyClock() });
  const other = storeOn(table);
  const fault = new Error('the origin failed');
  const work = store.withLease({ cacheKey, leaseDurationMs: 30_000 }, async (_, signal) => {
    await other.breakLease({ cacheKey, record: await other.read({ cacheKey }) });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    throw fault;
  });
  await assert.rejects(work, (error: unknown) => {
    assert.ok(error instanceof LeaseLostError);
    assert.ok(error.cause instanceof AggregateError);
    assert.equal(error.cause.errors[0], fault);
    assert.match(String(error.cause.errors[1]), /ConditionalCheckFailed/, 'and why the lease was lost');
    return true;
  });
});

onEngines('a job that only wraps the loss of its lease adds no error', async (table) => {
  const store = storeOn(table, { clock: earlyClock() });
  const other = storeOn(table);
  let reason: unknown;
  const work = store.withLease({ cacheKey, leaseDurationMs: 30_000 }, async (_, signal) => {
    await other.breakLease({ cacheKey, record: await other.read({ cacheKey }) });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    reason = signal.reason;
    throw new Error('fetch failed', { cause: reason });
  });
  await assert.rejects(work, (error: unknown) => error === reason);
});

onEngines('a publish inside withLease does not count as a lost lease', async (table) => {
  const store = storeOn(table);
  const entry = await store.withLease({ cacheKey, leaseDurationMs: 30_000 }, (lease) =>
    store.publish(lease, lease.record, generation('g1', Date.now())),
  );
  assert.equal(entry.generationId, 'g1');
  assert.equal((await store.get({ cacheKey }))?.state, 'fresh');
});

onEngines('withLease keeps a backoff', async (table) => {
  const store = storeOn(table);
  await store.withLease({ cacheKey, leaseDurationMs: 30_000 }, (lease) => store.backOff(lease, 60_000));
  assert.equal((await store.read({ cacheKey })).lock?.failures, 1);
});

onEngines('one of many contenders holds the lease at a time, and each publish belongs to its holder', async (table) => {
  const contenders = Array.from({ length: 8 }, (_, i) => storeOn(table, { leaseOwner: `node-${i}` }));
  let holders = 0;
  let published = 0;
  const versions: number[] = [];
  const contend = async (store: (typeof contenders)[number], i: number) => {
    while (published < 20) {
      const lease: Lease | null = await store.tryAcquireLease({ cacheKey, leaseDurationMs: 60_000 });
      if (!lease) continue;
      assert.equal(++holders, 1, 'two hold the lease');
      const id = `g${published++}-${i}`;
      holders--; // before the publish, which releases the lease
      versions.push((await store.publish(lease, lease.record, generation(id, Date.now()))).version);
    }
  };
  await Promise.all(contenders.map(contend));
  assert.equal(versions.length, published);
  assert.equal(new Set(versions).size, published, 'each publish has a version of its own');
});

onEngines('a foreign LOCK row without a valid end is free', async (table) => {
  await put(table, { pk: { S: pk }, sk: { S: 'LOCK' }, lease_token: { S: 't' }, lease_expires_at: { S: 'never' } });
  assert.ok(await storeOn(table).tryAcquireLease({ cacheKey, leaseDurationMs: 1_000 }));
});

onEngines('an impossible end, such as one in milliseconds, does not hold the lease', async (table) => {
  const clock = new StoppedClock(1_800_000_000_600);
  const store = storeOn(table, { clock });
  const longest = 1_800_000_000 + 315_446_400;
  const row = { pk: { S: pk }, sk: { S: 'LOCK' }, lease_token: { S: 't' } };
  const request = { key: 'r1', requestHash: 'h' };
  const claim = { cacheKey, leaseDurationMs: 1_000, idempotencyKey: request.key, requestHash: request.requestHash };
  for (const acquisition of [{ cacheKey, leaseDurationMs: 1_000 }, claim]) {
    await put(table, { ...row, lease_expires_at: { N: String(longest) } });
    assert.equal(await store.tryAcquireLease(acquisition), null, 'the longest possible lease is held');
    await put(table, { ...row, lease_expires_at: { N: '1800000030000' } });
    const lease = await store.tryAcquireLease(acquisition);
    assert.ok(lease);
    await store.releaseLease(lease);
  }
});

onEngines('a request in progress with an end in milliseconds can be taken over', async (table) => {
  const store = storeOn(table, { clock: new StoppedClock(1_800_000_000_600) });
  const claim = { cacheKey, leaseDurationMs: 1_000, idempotencyKey: 'r1', requestHash: 'h' };
  const row = { pk: { S: pk }, sk: { S: 'REQ#r1' }, request_hash: { S: 'h' }, status: { S: 'STARTED' } };
  await put(table, { ...row, in_progress_until: { N: '1800000030' } });
  await assert.rejects(store.acquireLease(claim), RequestInProgressError);
  await put(table, { ...row, in_progress_until: { N: '1800000030000' } });
  assert.ok(await store.acquireLease(claim));
});

/** Waits for a condition, at most ten minutes. */
async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 600_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'the condition was not met within ten minutes');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
