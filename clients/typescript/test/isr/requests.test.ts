/** Requests with an idempotency key. */

import assert from 'node:assert/strict';

import {
  InvalidInputError,
  LeaseHeldError,
  LeaseLostError,
  RequestCompletedError,
  RequestInProgressError,
  RequestMismatchError,
} from '../../src/errors.js';
import { hashedPartition, hashInputs } from '../../src/isr/index.js';
import { onEngines } from '../engines.js';
import { generation, itemAt, StoppedClock, storeOn } from './table.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);
const inputs = { tenant: '', key: cacheKey };
const claim = { cacheKey, leaseDurationMs: 30_000, idempotencyKey: 'r1', inputs };

onEngines('a request is executed once', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const lease = await store.acquireLease(claim);
  const started = await store.request({ cacheKey, idempotencyKey: 'r1' });
  assert.deepEqual(
    [started?.status, started?.requestHash, started?.inProgressUntilMs],
    ['STARTED', hashInputs(inputs), lease.leaseExpiresAtMs],
  );
  await assert.rejects(storeOn(table, { clock }).acquireLease(claim), (error) => {
    assert.ok(error instanceof RequestInProgressError);
    assert.equal(error.until * 1000, lease.leaseExpiresAtMs);
    return true;
  });
  await store.publish(lease, lease.record, generation('g1', clock.now()));
  await assert.rejects(store.acquireLease(claim), (error) => {
    assert.ok(error instanceof RequestCompletedError);
    assert.deepEqual(error.result, { s3Key: 'bodies/x/g1', generationId: 'g1' });
    return true;
  });
  await assert.rejects(store.acquireLease({ ...claim, inputs: 'other' }), RequestMismatchError);
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined, 'a refused claim leaves no lease');
});

onEngines('a claim without the lease leaves no request record', async (table) => {
  const store = storeOn(table);
  await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
  await assert.rejects(store.acquireLease(claim), LeaseHeldError);
  assert.equal(await store.request({ cacheKey, idempotencyKey: 'r1' }), null);
});

onEngines('the request of a dead worker is taken over, and the dead worker cannot publish', async (table) => {
  const clock = new StoppedClock();
  const dead = storeOn(table, { clock });
  const store = storeOn(table, { clock });
  const late = await dead.acquireLease(claim);
  clock.advance(31_000);
  const lease = await store.acquireLease(claim);
  await assert.rejects(dead.publish(late, late.record, generation('g1', clock.now())), LeaseLostError);
  await dead.endRequest(late, { failure: 'too late' }); // taken over: no effect
  await store.publish(lease, lease.record, generation('g2', clock.now()));
  const request = await store.request({ cacheKey, idempotencyKey: 'r1' });
  assert.deepEqual([request?.status, request?.generationId], ['COMPLETED', 'g2']);
});

onEngines('a refresh keeps the request in progress', async (table) => {
  const clock = new StoppedClock();
  const store = storeOn(table, { clock });
  const lease = await store.acquireLease(claim);
  clock.advance(20_000);
  await store.refreshLease(lease);
  const request = await store.request({ cacheKey, idempotencyKey: 'r1' });
  assert.equal(request?.inProgressUntilMs, lease.leaseExpiresAtMs);
  assert.equal(lease.leaseExpiresAtMs, 1_800_000_051_000);
});

onEngines('a failed request can be retried', async (table) => {
  const store = storeOn(table);
  const failing = store.withLease(claim, () => Promise.reject(new Error('no origin')));
  await assert.rejects(failing, { message: 'no origin' });
  const failed = await store.request({ cacheKey, idempotencyKey: 'r1' });
  assert.deepEqual([failed?.status, failed?.failure], ['FAILED', 'Error: no origin']);
  const entry = await store.withLease(claim, (lease) =>
    store.publish(lease, lease.record, generation('g1', Date.now())),
  );
  assert.equal(entry.generationId, 'g1');
  assert.equal((await store.request({ cacheKey, idempotencyKey: 'r1' }))?.status, 'COMPLETED');
});

onEngines('a request can be completed with the existing entry', async (table) => {
  const store = storeOn(table);
  await store.withLease({ cacheKey, leaseDurationMs: 30_000 }, (lease) =>
    store.publish(lease, lease.record, generation('g1', Date.now())),
  );
  await store.withLease(claim, async (lease) => {
    assert.ok(lease.record.entry);
    await store.endRequest(lease, { result: lease.record.entry });
  });
  const request = await store.request({ cacheKey, idempotencyKey: 'r1' });
  assert.deepEqual([request?.status, request?.htmlPointer], ['COMPLETED', 'bodies/x/g1']);
});

onEngines('a claim needs a key and either inputs or a hash', async (table) => {
  const store = storeOn(table);
  const { inputs: _, ...nameless } = claim;
  await assert.rejects(store.acquireLease(nameless), InvalidInputError);
  await assert.rejects(store.acquireLease({ ...claim, requestHash: 'h' }), InvalidInputError);
  await assert.rejects(store.acquireLease({ cacheKey, leaseDurationMs: 1000, inputs }), InvalidInputError);
});

onEngines('one of many concurrent claims of a request executes it', async (table) => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, async () => {
      try {
        const store = storeOn(table);
        await store.withLease(claim, (lease) => store.publish(lease, lease.record, generation('g1', Date.now())));
        return 'executed';
      } catch (error) {
        return (error as { code?: string }).code;
      }
    }),
  );
  assert.equal(answers.filter((a) => a === 'executed').length, 1, answers.join());
  const others = answers.filter((a) => a !== 'executed');
  assert.ok(
    others.every((a) => a === 'RequestInProgress' || a === 'RequestCompleted' || a === 'LeaseHeld'),
    others.join(),
  );
});
