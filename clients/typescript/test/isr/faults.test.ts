/**
 * Faults, in pairs: a request that was carried out and whose reply is lost, and one
 * that never arrived. Whatever befalls them, answers are definite, and the rows agree
 * with what the caller is told.
 */

import assert from 'node:assert/strict';

import { ConditionalCheckFailedException, type DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { systemClock } from '../../src/clock.js';
import { ConditionFailedError, LeaseLostError, TheorydbError, UnknownOutcomeError } from '../../src/errors.js';
import { type FaceTheoryIsrMetaStore, FOREVER_MS, hashedPartition } from '../../src/isr/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { before, cancel, type Fault, injectFaults, observe, type Plan, Silence } from '../faults.js';
import { generation, itemAt, itemsOf, StoppedClock, storeOn } from './table.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);
const wanted = { cacheKey, leaseDurationMs: 30_000 };
const claimed = { ...wanted, idempotencyKey: 'r1', inputs: 'x' };

/** A store of its own client, on whose way there are faults once they are armed. */
function faulty(
  table: TestTable,
  plan: Plan,
): { store: FaceTheoryIsrMetaStore; arm(): void; sent(command: string): number } {
  const ddb = table.connect();
  let sent: ((command: string) => number) | undefined;
  return {
    store: storeOn(table, { ddb, settleTimeoutMs: 1_000, callTimeoutMs: 1_000 }),
    arm: () => {
      sent = injectFaults(ddb, plan);
    },
    sent: (command) => sent?.(command) ?? 0,
  };
}

/** The first requests of a command meet these faults, one each. */
function first(command: string, ...faults: Fault[]): Plan {
  return (name, n) => (name === command ? faults[n - 1] : undefined);
}

const pairs: Fault[] = ['reply lost', 'not applied'];

for (const fault of pairs) {
  onEngines(`an acquisition, ${fault}, is repeated under its token`, async (table) => {
    const { store, arm } = faulty(table, first('PutItem', fault));
    arm();
    const lease = await store.acquireLease(wanted);
    assert.equal((await itemAt(table, pk, 'LOCK'))?.['lease_token']?.S, lease.leaseToken);
    await store.publish(lease, lease.record, generation('g1', Date.now()));
  });

  onEngines(`an acquisition that is never answered, ${fault}, leaves nothing`, async (table) => {
    const { store, arm } = faulty(table, (command) => (command === 'PutItem' ? fault : undefined));
    arm();
    await assert.rejects(store.acquireLease(wanted), Silence);
    assert.deepEqual(await itemsOf(table), []);
  });

  onEngines(`a claim, ${fault}, is ours`, async (table) => {
    const { store, arm } = faulty(table, first('TransactWriteItems', fault));
    arm();
    const lease = await store.acquireLease(claimed);
    await store.publish(lease, lease.record, generation('g1', Date.now()));
    assert.equal((await store.request({ cacheKey, idempotencyKey: 'r1' }))?.status, 'COMPLETED');
  });

  onEngines(`a claim that is never answered, ${fault}, can be made again`, async (table) => {
    const { store, arm } = faulty(table, (command) => (command === 'TransactWriteItems' ? fault : undefined));
    arm();
    await assert.rejects(store.acquireLease(claimed), Silence);
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
    const { status } = (await store.request({ cacheKey, idempotencyKey: 'r1' })) ?? {};
    assert.equal(status, fault === 'reply lost' ? 'FAILED' : undefined);
    assert.ok(await storeOn(table).acquireLease(claimed));
  });

  onEngines(`refreshing, backing off and releasing, ${fault}, are repeated`, async (table) => {
    const { store, arm } = faulty(table, (command, n) => (command !== 'PutItem' && n % 2 === 1 ? fault : undefined));
    const lease = await store.acquireLease(wanted);
    arm();
    await store.refreshLease(lease);
    await store.backOff(lease, 0);
    assert.equal((await itemAt(table, pk, 'LOCK'))?.['failures']?.N, '1', 'the failure counts once');
    const again = await storeOn(table).acquireLease({ cacheKey: 'other', leaseDurationMs: 30_000 });
    await store.releaseLease(again);
    assert.equal(await itemAt(table, hashedPartition('other'), 'LOCK'), undefined);
  });

  onEngines(`breaking a lease, ${fault}, is repeated under its token`, async (table) => {
    const { store, arm } = faulty(table, first('TransactWriteItems', fault));
    await storeOn(table).acquireLease(wanted);
    const record = await store.read({ cacheKey });
    arm();
    await store.breakLease({ cacheKey, record });
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  });

  onEngines(`a publish, ${fault}, is repeated under its token`, async (table) => {
    const { store, arm, sent } = faulty(table, first('TransactWriteItems', fault, fault));
    const lease = await store.acquireLease(wanted);
    arm();
    const entry = await store.publish(lease, lease.record, generation('g1', Date.now()), { history: true });
    assert.equal(sent('TransactWriteItems'), 3);
    assert.deepEqual((await store.read({ cacheKey })).entry, entry);
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  });

  onEngines(`a publish whose caller went away, ${fault}, is settled`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    const lease = await store.acquireLease(claimed);
    injectFaults(ddb, first('TransactWriteItems', fault));
    const signal = afterFirst(ddb);
    const publishing = store.publish(lease, lease.record, generation('g1', Date.now()), { signal });
    if (fault === 'reply lost') assert.equal((await publishing).generationId, 'g1');
    else await assert.rejects(publishing, { message: 'the caller went away' });
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined, 'nothing of it can happen any more');
    const meta = await itemAt(table, pk, 'META');
    assert.equal(meta?.['isr']?.M?.['generation_id']?.S, fault === 'reply lost' ? 'g1' : undefined);
    const { status } = (await store.request({ cacheKey, idempotencyKey: 'r1' })) ?? {};
    assert.equal(status, fault === 'reply lost' ? 'COMPLETED' : 'STARTED');
    await assert.rejects(store.refreshLease(lease), LeaseLostError);
  });

  for (const history of [false, true]) {
    for (const gone of [false, true]) {
      const how = `${fault}, with${history ? '' : 'out'} history${gone ? ', whose caller went away' : ''}`;
      onEngines(`a publish that another follows, ${how}, is told from one that was not`, async (table) => {
        const ddb = table.connect();
        const store = storeOn(table, { ddb });
        const lease = await store.acquireLease(wanted);
        const other = storeOn(table);
        injectFaults(ddb, first('TransactWriteItems', fault));
        // Before the request is repeated, or the lease given up, another takes it and publishes.
        before(ddb, gone ? 'DeleteItem' : 'TransactWriteItems', gone ? 1 : 2, async () => {
          await other.breakLease({ cacheKey, record: await other.read({ cacheKey }) });
          const theirs = await other.acquireLease(wanted);
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

  onEngines(`a rollback, ${fault}, is repeated under its token`, async (table) => {
    const { store, arm } = faulty(table, first('TransactWriteItems', fault));
    await twoVersions(table);
    arm();
    const entry = await store.rollback({ cacheKey, to: 'g1' });
    assert.deepEqual((await store.read({ cacheKey })).entry, entry);
    assert.deepEqual(await store.sequence(), { seq: 1, markLifetimeSeconds: 0 });
  });

  onEngines(`a rollback whose caller went away, ${fault}, is carried through`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    await twoVersions(table);
    injectFaults(ddb, first('TransactWriteItems', fault));
    const entry = await store.rollback({ cacheKey, to: 'g1', signal: afterFirst(ddb) });
    assert.deepEqual((await storeOn(table).read({ cacheKey })).entry, entry);
    assert.equal((await storeOn(table).sequence()).seq, 1);
  });

  onEngines(`a publish over a pin, ${fault}, is repeated under its token`, async (table) => {
    const { store, arm, sent } = faulty(table, first('TransactWriteItems', fault, fault));
    await pinned(table);
    const lease = await store.acquireLease(wanted);
    arm();
    const entry = await store.publish(lease, lease.record, generation('g3', Date.now()), { unpin: true });
    assert.equal(sent('TransactWriteItems'), 3);
    assert.deepEqual((await store.read({ cacheKey })).entry, entry);
    assert.equal((await store.sequence()).seq, 2, 'told once');
  });

  onEngines(`a publish over a pin whose caller went away, ${fault}, is settled`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    await pinned(table);
    const lease = await store.acquireLease(wanted);
    injectFaults(ddb, first('TransactWriteItems', fault));
    const how = { unpin: true, signal: afterFirst(ddb) };
    const publishing = store.publish(lease, lease.record, generation('g3', Date.now()), how);
    if (fault === 'reply lost') assert.equal((await publishing).generationId, 'g3');
    else await assert.rejects(publishing, { message: 'the caller went away' });
    assert.equal((await storeOn(table).sequence()).seq, fault === 'reply lost' ? 2 : 1);
    assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  });
}

onEngines('a publish over a pin reads SEQ again when another change was faster, after a pause', async (table) => {
  const ddb = table.connect();
  const events: string[] = [];
  const clock = { ...systemClock(), sleep: async () => events.push('pause') > 0 };
  const store = storeOn(table, { ddb, clock });
  await pinned(table);
  const lease = await store.acquireLease(wanted);
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
  onEngines(`a publish over a pin that meets ${code} is tried again`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    await pinned(table);
    const lease = await store.acquireLease(wanted);
    const met = cancel(ddb, code);
    await store.publish(lease, lease.record, generation('g3', Date.now()), { unpin: true });
    assert.equal(met(), 1);
    assert.equal((await store.sequence()).seq, 2);
  });
}

onEngines('a client token that DynamoDB may have forgotten is not sent again', async (table) => {
  const ddb = table.connect();
  const clock = new StoppedClock(Date.now());
  const store = storeOn(table, { ddb, clock });
  const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 3_600_000 });
  const tokens: unknown[] = [];
  // The process is frozen after the first request, whose reply is lost: its monotonic clock stands still.
  const sent = injectFaults(ddb, (command, n, input) => {
    if (command !== 'TransactWriteItems') return undefined;
    tokens.push((input as { ClientRequestToken?: string }).ClientRequestToken);
    if (n === 1) clock.advance(9 * 60_000);
    return n === 1 ? 'reply lost' : undefined;
  });
  const entry = await store.publish(lease, lease.record, generation('g1', Date.now()));
  assert.deepEqual([sent('TransactWriteItems'), tokens.length], [1, 1]);
  assert.equal(entry.generationId, 'g1', 'the rows tell');
});

onEngines('a heartbeat that meets the row of a publish does not take it for a loss', async (table) => {
  const ddb = table.connect();
  const store = storeOn(table, { ddb });
  const refreshing = promise();
  const published = promise();
  const refreshed = promise();
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      const name = (context as { commandName?: string }).commandName;
      if (name === 'UpdateItemCommand') {
        refreshing.resolve(); // on its way, and delayed
        await published.promise;
        return next(args).finally(refreshed.resolve);
      }
      const answer = await next(args);
      if (name === 'TransactWriteItemsCommand') {
        published.resolve(); // and its reply is delayed
        await refreshed.promise;
        await new Promise(setImmediate); // the heartbeat has heard the answer
      }
      return answer;
    },
    { step: 'initialize', name: 'delays' },
  );
  const entry = await store.withLease({ cacheKey, leaseDurationMs: 3_000 }, async (lease, signal) => {
    await refreshing.promise;
    return store.publish(lease, lease.record, generation('g1', Date.now()), { signal });
  });
  assert.deepEqual((await store.read({ cacheKey })).entry, entry);
});

onEngines('a lease is released though its request cannot be ended', async (table) => {
  const { store, arm } = faulty(table, (command) => (command === 'UpdateItem' ? 'not applied' : undefined));
  arm();
  const failing = store.withLease(claimed, () => Promise.reject(new Error('no origin')));
  await assert.rejects(failing, { message: 'no origin' });
  assert.equal(await itemAt(table, pk, 'LOCK'), undefined);
  assert.equal((await store.request({ cacheKey, idempotencyKey: 'r1' }))?.status, 'STARTED');
});

onEngines('what cannot be settled is said to be unknown', async (table) => {
  let silent = false;
  const { store, arm } = faulty(table, () => (silent ? 'not applied' : undefined));
  const lease = await store.acquireLease({ ...wanted, leaseDurationMs: 1_000 });
  arm();
  silent = true;
  await assert.rejects(store.publish(lease, lease.record, generation('g1', Date.now())), UnknownOutcomeError);
  await assert.rejects(store.acquireLease(wanted), UnknownOutcomeError);
});

onEngines('a conflict with another transaction is tried again, and is no lost lease', async (table) => {
  const ddb = table.connect();
  const conflicts = cancel(ddb, 'TransactionConflict');
  const store = storeOn(table, { ddb });
  const lease = await store.acquireLease(wanted);
  const entry = await store.publish(lease, lease.record, generation('g1', Date.now()));
  assert.deepEqual((await store.read({ cacheKey })).entry, entry);
  assert.equal(conflicts(), 1);
  const pinned = await store.pin({ cacheKey, untilMs: FOREVER_MS });
  assert.equal(pinned.generationId, 'g1');
});

onEngines('a generation id is used once, even by a publish that was repeated', async (table) => {
  await twoVersions(table);
  const store = storeOn(table);
  const lease = await store.acquireLease(wanted);
  const again = store.publish(lease, lease.record, generation('g1', Date.now()), { history: true });
  await assert.rejects(again, (error) => error instanceof ConditionFailedError && error instanceof TheorydbError);
  assert.equal((await store.read({ cacheKey })).entry?.generationId, 'g2');
});

/** Two generations with history, the second of which is current. */
async function twoVersions(table: TestTable): Promise<void> {
  const store = storeOn(table);
  for (const id of ['g1', 'g2']) {
    const lease = await store.acquireLease(wanted);
    await store.publish(lease, lease.record, generation(id, Date.now()), { history: true });
  }
}

/** A signal that is aborted once the first transaction of a client has got no answer. */
function afterFirst(ddb: DynamoDBClient): AbortSignal {
  const caller = new AbortController();
  // The word of a heartbeat, caused by the refusal of its own write: it says nothing of ours.
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

/** A page of that key. */
async function publishAt(table: TestTable, key: string): Promise<void> {
  const store = storeOn(table);
  const lease = await store.acquireLease({ cacheKey: key, leaseDurationMs: 30_000 });
  await store.publish(lease, lease.record, generation('g1', Date.now()));
}

/** Two generations with history, the second of which is current, and pinned. */
async function pinned(table: TestTable): Promise<void> {
  await twoVersions(table);
  await storeOn(table).pin({ cacheKey, untilMs: FOREVER_MS });
}

/** A promise, and what resolves it. */
function promise(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const made = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise: made, resolve };
}
