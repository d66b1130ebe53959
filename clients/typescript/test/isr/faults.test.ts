/**
 * Fault pairs: a request that was applied but whose reply is lost, and one that never
 * arrived. With either fault, outcomes are definite and agree with the rows.
 */

import assert from 'node:assert/strict';

import { ConditionalCheckFailedException, type DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { systemClock } from '../../src/clock.js';
import { ConditionFailedError, LeaseLostError, TheorydbError, UnknownOutcomeError } from '../../src/errors.js';
import {
  type FaceTheoryIsrMetaStore,
  type FaceTheoryIsrMetaStoreConfig,
  FOREVER_MS,
  hashedPartition,
} from '../../src/isr/index.js';
import { earlyClock } from '../clocks.js';
import { onEngines, type TestTable } from '../engines.js';
import { before, cancel, type Fault, injectFaults, NoReply, observe, type Plan } from '../faults.js';
import { generation, itemAt, itemsOf, StoppedClock, storeOn } from './table.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);
const acquisition = { cacheKey, leaseDurationMs: 30_000 };
const claim = { ...acquisition, idempotencyKey: 'r1', inputs: 'x' };

/** A store with its own client, whose faults are active after `arm`. */
function faulty(
  table: TestTable,
  plan: Plan,
  config: Partial<FaceTheoryIsrMetaStoreConfig> = {},
): { store: FaceTheoryIsrMetaStore; arm(): void; sent(command: string): number } {
  const ddb = table.connect();
  let sent: ((command: string) => number) | undefined;
  return {
    store: storeOn(table, { ddb, ...config }),
    arm: () => {
      sent = injectFaults(ddb, plan);
    },
    sent: (command) => sent?.(command) ?? 0,
  };
}

/** Applies one fault to each of the first requests of a command. */
function first(command: string, ...faults: Fault[]): Plan {
  return (name, n) => (name === command ? faults[n - 1] : undefined);
}

const pairs: Fault[] = ['reply lost', 'not applied'];

for (const fault of pairs) {
  onEngines(`an acquisition is retried with its token: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, first('PutItem', fault));
    arm();
    const lease = await store.acquireLease(acquisition);
    assert.equal((await itemAt(table, pk, 'LOCK'))?.['lease_token']?.S, lease.leaseToken);
    await store.publish(lease, lease.record, generation('g1', Date.now()));
  });

  onEngines(`an unanswered acquisition leaves no lease: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, (command) => (command === 'PutItem' ? fault : undefined));
    arm();
    await assert.rejects(store.acquireLease(acquisition), NoReply);
    assert.deepEqual(await itemsOf(table), []);
  });

  onEngines(`a claim survives a failed call: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, first('TransactWriteItems', fault));
    arm();
    const lease = await store.acquireLease(claim);
    await store.publish(lease, lease.record, generation('g1', Date.now()));
    assert.equal((await store.request({ cacheKey, idempotencyKey: 'r1' }))?.status, 'COMPLETED');
  });

  onEngines(`an unanswered claim can be retried: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, (command) => (command === 'TransactWriteItems' ? fault : undefined));
    arm();
    await assert.rejects(store.acquireLease(claim), NoReply);
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
    const { status } = (await store.request({ cacheKey, idempotencyKey: 'r1' })) ?? {};
    assert.equal(status, fault === 'reply lost' ? 'FAILED' : undefined);
    assert.ok(await storeOn(table).acquireLease(claim));
  });

  onEngines(`refresh, backoff and release are retried: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, (command, n) => (command !== 'PutItem' && n % 2 === 1 ? fault : undefined));
    const lease = await store.acquireLease(acquisition);
    arm();
    await store.refreshLease(lease);
    await store.backOff(lease, 0);
    assert.equal((await itemAt(table, pk, 'LOCK'))?.['failures']?.N, '1', 'the failure counts once');
    const again = await storeOn(table).acquireLease({ cacheKey: 'other', leaseDurationMs: 30_000 });
    await store.releaseLease(again);
    assert.equal(await itemAt(table, hashedPartition('other'), 'LOCK'), undefined);
  });

  onEngines(`breakLease is retried with its client token: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, first('TransactWriteItems', fault));
    await storeOn(table).acquireLease(acquisition);
    const record = await store.read({ cacheKey });
    arm();
    await store.breakLease({ cacheKey, record });
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  });

  onEngines(`a publish is retried with its client token: ${fault}`, async (table) => {
    const { store, arm, sent } = faulty(table, first('TransactWriteItems', fault, fault));
    const lease = await store.acquireLease(acquisition);
    arm();
    const entry = await store.publish(lease, lease.record, generation('g1', Date.now()), { history: true });
    assert.equal(sent('TransactWriteItems'), 3);
    assert.deepEqual((await store.read({ cacheKey })).entry, entry);
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  });

  onEngines(`a cancelled publish is settled: ${fault}`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    const lease = await store.acquireLease(claim);
    injectFaults(ddb, first('TransactWriteItems', fault));
    const signal = afterFirst(ddb);
    const publishing = store.publish(lease, lease.record, generation('g1', Date.now()), { signal });
    if (fault === 'reply lost') assert.equal((await publishing).generationId, 'g1');
    else await assert.rejects(publishing, { message: 'the caller went away' });
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined, 'the publish can no longer be applied');
    const meta = await itemAt(table, pk, 'META');
    assert.equal(meta?.['isr']?.M?.['generation_id']?.S, fault === 'reply lost' ? 'g1' : undefined);
    const { status } = (await store.request({ cacheKey, idempotencyKey: 'r1' })) ?? {};
    assert.equal(status, fault === 'reply lost' ? 'COMPLETED' : 'STARTED');
    await assert.rejects(store.refreshLease(lease), LeaseLostError);
  });

  for (const history of [false, true]) {
    for (const gone of [false, true]) {
      const how = `${fault}, with${history ? '' : 'out'} history${gone ? ', cancelled' : ''}`;
      onEngines(`a publish followed by another one is settled correctly: ${how}`, async (table) => {
        const ddb = table.connect();
        const store = storeOn(table, { ddb });
        const lease = await store.acquireLease(acquisition);
        const other = storeOn(table);
        injectFaults(ddb, first('TransactWriteItems', fault));
        // Before the retry, or before the lease is released, another process acquires it and publishes.
        before(ddb, gone ? 'DeleteItem' : 'TransactWriteItems', gone ? 1 : 2, async () => {
          await other.breakLease({ cacheKey, record: await other.read({ cacheKey }) });
          const theirs = await other.acquireLease(acquisition);
          await other.publish(theirs, theirs.record, generation('g2', Date.now()));
        });
        const signal = gone ? afterFirst(ddb) : undefined;
        const publishing = store.publish(lease, lease.record, generation('g1', Date.now()), { history, signal });
        if (fault === 'reply lost') assert.equal((await publishing).generationId, 'g1');
        else await assert.rejects(publishing, LeaseLostError);
        assert.equal((await store.read({ cacheKey })).entry?.generationId, 'g2');
      });
    }
  }

  onEngines(`a rollback is retried with its client token: ${fault}`, async (table) => {
    const { store, arm } = faulty(table, first('TransactWriteItems', fault));
    await twoVersions(table);
    arm();
    const entry = await store.rollback({ cacheKey, to: 'g1' });
    assert.deepEqual((await store.read({ cacheKey })).entry, entry);
    assert.deepEqual(await store.sequence(), { seq: 1, markLifetimeSeconds: 0 });
  });

  onEngines(`a cancelled rollback is completed: ${fault}`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    await twoVersions(table);
    injectFaults(ddb, first('TransactWriteItems', fault));
    const entry = await store.rollback({ cacheKey, to: 'g1', signal: afterFirst(ddb) });
    assert.deepEqual((await storeOn(table).read({ cacheKey })).entry, entry);
    assert.equal((await storeOn(table).sequence()).seq, 1);
  });

  onEngines(`a publish over a pin is retried with its client token: ${fault}`, async (table) => {
    const { store, arm, sent } = faulty(table, first('TransactWriteItems', fault, fault));
    await pinned(table);
    const lease = await store.acquireLease(acquisition);
    arm();
    const entry = await store.publish(lease, lease.record, generation('g3', Date.now()), { unpin: true });
    assert.equal(sent('TransactWriteItems'), 3);
    assert.deepEqual((await store.read({ cacheKey })).entry, entry);
    assert.equal((await store.sequence()).seq, 2, 'one change of the log');
  });

  onEngines(`a publish over a pin whose caller went away, ${fault}, is settled`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    await pinned(table);
    const lease = await store.acquireLease(acquisition);
    injectFaults(ddb, first('TransactWriteItems', fault));
    const how = { unpin: true, signal: afterFirst(ddb) };
    const publishing = store.publish(lease, lease.record, generation('g3', Date.now()), how);
    if (fault === 'reply lost') assert.equal((await publishing).generationId, 'g3');
    else await assert.rejects(publishing, { message: 'the caller went away' });
    assert.equal((await storeOn(table).sequence()).seq, fault === 'reply lost' ? 2 : 1);
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  });
}

onEngines('a publish over a pin reads SEQ again, after backoff, when another change was faster', async (table) => {
  const ddb = table.connect();
  const events: string[] = [];
  const clock = { ...systemClock(), sleep: async () => events.push('pause') > 0 };
  const store = storeOn(table, { ddb, clock });
  await pinned(table);
  const lease = await store.acquireLease(acquisition);
  observe(ddb, events);
  before(ddb, 'TransactWriteItems', 1, async () => {
    await publishAt(table, 'other');
    await storeOn(table).pin({ cacheKey: 'other', untilMs: FOREVER_MS });
  });
  await store.publish(lease, lease.record, generation('g3', Date.now()), { unpin: true });
  assert.deepEqual(events, ['GetItem', 'TransactWriteItems', 'pause', 'GetItem', 'TransactWriteItems']);
  assert.equal((await store.sequence()).seq, 3);
});

for (const code of ['TransactionConflict', 'ThrottlingError']) {
  onEngines(`a publish over a pin cancelled with ${code} is retried`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    await pinned(table);
    const lease = await store.acquireLease(acquisition);
    const met = cancel(ddb, code);
    await store.publish(lease, lease.record, generation('g3', Date.now()), { unpin: true });
    assert.equal(met(), 1);
    assert.equal((await store.sequence()).seq, 2);
  });
}

onEngines('an expired client token is not sent again', async (table) => {
  const ddb = table.connect();
  const clock = new StoppedClock(Date.now());
  const store = storeOn(table, { ddb, clock });
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 3_600_000 });
  const tokens: unknown[] = [];
  // The process freezes after the first request, whose reply is lost: its monotonic clock stops.
  const sent = injectFaults(ddb, (command, n, input) => {
    if (command !== 'TransactWriteItems') return undefined;
    tokens.push((input as { ClientRequestToken?: string }).ClientRequestToken);
    if (n === 1) clock.advance(9 * 60_000);
    return n === 1 ? 'reply lost' : undefined;
  });
  const entry = await store.publish(lease, lease.record, generation('g1', Date.now()));
  assert.deepEqual([sent('TransactWriteItems'), tokens.length], [1, 1]);
  assert.equal(entry.generationId, 'g1', 'settled from the rows');
});

onEngines('a heartbeat that races with a publish does not report a lost lease', async (table) => {
  const ddb = table.connect();
  const store = storeOn(table, { ddb, clock: earlyClock() });
  const refreshing = promise();
  const published = promise();
  const refreshed = promise();
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const name = (context as { commandName?: string }).commandName;
      if (name === 'UpdateItemCommand') {
        refreshing.resolve(); // in flight, and delayed
        await published.promise;
        return next(args).finally(refreshed.resolve);
      }
      const answer = await next(args);
      if (name === 'TransactWriteItemsCommand') {
        published.resolve(); // and its reply is delayed
        await refreshed.promise;
        await new Promise(setImmediate); // the heartbeat has seen the response
      }
      return answer;
    },
    { step: 'initialize', name: 'delays' },
  );
  const entry = await store.withLease({ cacheKey, leaseDurationMs: 30_000 }, async (lease, signal) => {
    await refreshing.promise;
    return store.publish(lease, lease.record, generation('g1', Date.now()), { signal });
  });
  assert.deepEqual((await store.read({ cacheKey })).entry, entry);
});

onEngines('a lease is released even if its request cannot be ended', async (table) => {
  const { store, arm } = faulty(table, (command) => (command === 'UpdateItem' ? 'not applied' : undefined));
  arm();
  const failing = store.withLease(claim, () => Promise.reject(new Error('no origin')));
  await assert.rejects(failing, { message: 'no origin' });
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  assert.equal((await store.request({ cacheKey, idempotencyKey: 'r1' }))?.status, 'STARTED');
});

onEngines('a write that cannot be settled has an unknown outcome', async (table) => {
  const { store, arm } = faulty(table, () => 'not applied', { settleTimeoutMs: 1_000 });
  const lease = await store.acquireLease(acquisition);
  arm();
  await assert.rejects(store.publish(lease, lease.record, generation('g1', Date.now())), UnknownOutcomeError);
  const acquiring = faulty(table, () => 'not applied', { callTimeoutMs: 1_000 });
  acquiring.arm();
  await assert.rejects(acquiring.store.acquireLease(acquisition), UnknownOutcomeError);
});

onEngines('a transaction conflict is retried and is not a lost lease', async (table) => {
  const ddb = table.connect();
  const conflicts = cancel(ddb, 'TransactionConflict');
  const store = storeOn(table, { ddb });
  const lease = await store.acquireLease(acquisition);
  const entry = await store.publish(lease, lease.record, generation('g1', Date.now()));
  assert.deepEqual((await store.read({ cacheKey })).entry, entry);
  assert.equal(conflicts(), 1);
  const pinned = await store.pin({ cacheKey, untilMs: FOREVER_MS });
  assert.equal(pinned.generationId, 'g1');
});

onEngines('a duplicate generation id is rejected', async (table) => {
  await twoVersions(table);
  const store = storeOn(table);
  const lease = await store.acquireLease(acquisition);
  const again = store.publish(lease, lease.record, generation('g1', Date.now()), { history: true });
  await assert.rejects(again, (error) => error instanceof ConditionFailedError && error instanceof TheorydbError);
  assert.equal((await store.read({ cacheKey })).entry?.generationId, 'g2');
});

/** Publishes two generations with history; the second is current. */
async function twoVersions(table: TestTable): Promise<void> {
  const store = storeOn(table);
  for (const id of ['g1', 'g2']) {
    const lease = await store.acquireLease(acquisition);
    await store.publish(lease, lease.record, generation(id, Date.now()), { history: true });
  }
}

/** A signal that is aborted after a client's first unanswered transaction. */
function afterFirst(ddb: DynamoDBClient): AbortSignal {
  const caller = new AbortController();
  // The error of a heartbeat whose own write was refused: it proves nothing about our write.
  const cause = new ConditionalCheckFailedException({ message: 'refused', $metadata: { httpStatusCode: 400 } });
  const lost = new LeaseLostError('the caller went away', { cause });
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        const name = (context as { commandName?: string }).commandName;
        if (name === 'TransactWriteItemsCommand') caller.abort(lost);
        throw error;
      }
    },
    { step: 'initialize', priority: 'high', name: 'caller' },
  );
  return caller.signal;
}

/** Publishes a page. */
async function publishAt(table: TestTable, key: string): Promise<void> {
  const store = storeOn(table);
  const lease = await store.acquireLease({ cacheKey: key, leaseDurationMs: 30_000 });
  await store.publish(lease, lease.record, generation('g1', Date.now()));
}

/** Publishes two generations with history; the second is current and pinned. */
async function pinned(table: TestTable): Promise<void> {
  await twoVersions(table);
  await storeOn(table).pin({ cacheKey, untilMs: FOREVER_MS });
}

/** A promise with its resolve function. */
function promise(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const made = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise: made, resolve };
}
