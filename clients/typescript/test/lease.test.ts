import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { DynamoDBClient, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';

import { InvalidInputError, InvalidKeyError, LeaseHeldError, LeaseLostError, LeaseManager } from '../src/index.js';
import { earlyClock } from './clocks.js';
import { onEngines, type TestTable } from './engines.js';
import { type Fault, injectFaults } from './faults.js';

const begin = 1_800_000_000_500;

async function lockRow(table: TestTable, pk: string) {
  const key = { pk: { S: pk }, sk: { S: 'LOCK' } };
  return (await table.ddb.send(new GetItemCommand({ TableName: table.tableName, Key: key, ConsistentRead: true })))
    .Item;
}

/** A manager with a clock that the test sets. */
function managerAt(table: TestTable, leaseOwner: string, ddb = table.ddb) {
  const clock = { now: begin };
  const manager = new LeaseManager(ddb, table.tableName, {
    now: () => clock.now,
    leaseOwner,
    retryDelayMs: 1,
    callTimeoutMs: 60_000,
  });
  return { clock, manager };
}

onEngines('a lease is stored as the row shared by all languages', async (table) => {
  const manager = new LeaseManager(table.ddb, table.tableName, {
    now: () => begin,
    newToken: () => 'tok',
    leaseOwner: 'ann',
  });
  const lease = await manager.acquire('nightly', { leaseSeconds: 30 });
  assert.deepEqual(lease, {
    key: { pk: 'JOB#nightly', sk: 'LOCK' },
    token: 'tok',
    expiresAt: 1_800_000_031,
    leaseSeconds: 30,
  });
  assert.deepEqual(await lockRow(table, 'JOB#nightly'), {
    pk: { S: 'JOB#nightly' },
    sk: { S: 'LOCK' },
    lease_token: { S: 'tok' },
    lease_owner: { S: 'ann' },
    lease_expires_at: { N: '1800000031' },
    ttl: { N: '1800003631' },
  });
  await manager.release(lease);
  assert.equal(await lockRow(table, 'JOB#nightly'), undefined);
});

onEngines('a lease is exclusive until it expires', async (table) => {
  const ann = managerAt(table, 'ann');
  const bob = managerAt(table, 'bob');
  const lease = await ann.manager.acquire('job', { leaseSeconds: 10 });
  await assert.rejects(bob.manager.acquire('job', { leaseSeconds: 10 }), (error: LeaseHeldError) => {
    assert.ok(error instanceof LeaseHeldError);
    assert.deepEqual([error.owner, error.expiresAt, error.failures], ['ann', lease.expiresAt, 0]);
    return true;
  });
  bob.clock.now = lease.expiresAt * 1000;
  const taken = await bob.manager.acquire('job', { leaseSeconds: 10 });
  assert.notEqual(taken.token, lease.token);
  await assert.rejects(ann.manager.refresh(lease), LeaseLostError);
  await ann.manager.release(lease); // no longer ours: no effect
  assert.equal((await lockRow(table, 'JOB#job'))?.['lease_token']?.S, taken.token);
});

onEngines('refresh extends a lease by the original or another duration', async (table) => {
  const { clock, manager } = managerAt(table, 'ann');
  const lease = await manager.acquire({ pk: 'CACHE#abc' }, { leaseSeconds: 10 });
  clock.now += 5000;
  const second = await manager.refresh(lease);
  assert.equal(second.expiresAt, lease.expiresAt + 5);
  const third = await manager.refresh(second, { leaseSeconds: 60 });
  assert.equal(third.expiresAt, second.expiresAt + 50);
  assert.equal((await lockRow(table, 'CACHE#abc'))?.['lease_expires_at']?.N, String(third.expiresAt));
});

onEngines('an expired lease stays lost even if it was not acquired again and the clock is set back', async (table) => {
  const { clock, manager } = managerAt(table, 'ann');
  const lease = await manager.acquire('job', { leaseSeconds: 10 });
  clock.now = lease.expiresAt * 1000;
  await assert.rejects(manager.refresh(lease), LeaseLostError);
  clock.now = begin;
  await assert.rejects(manager.refresh(lease), LeaseLostError);
});

onEngines('a lease can be handed to another process by its token', async (table) => {
  const ann = managerAt(table, 'ann');
  const bob = managerAt(table, 'bob');
  const lease = await ann.manager.acquire('job', { leaseSeconds: 10 });
  const given = JSON.parse(JSON.stringify(lease));
  bob.clock.now += 2000;
  assert.equal((await bob.manager.refresh(given)).expiresAt, lease.expiresAt + 2);
  await bob.manager.release(given);
  assert.equal(await lockRow(table, 'JOB#job'), undefined);
});

for (const fault of ['reply lost', 'not applied'] as Fault[]) {
  onEngines(`an acquisition survives a failed call: ${fault}`, async (table) => {
    const ddb = table.connect({ maxAttempts: 1 });
    injectFaults(ddb, (command, n) => (command === 'PutItem' && n === 1 ? fault : undefined));
    const { manager } = managerAt(table, 'ann', ddb);
    const lease = await manager.acquire('job', { leaseSeconds: 10 });
    assert.equal((await lockRow(table, 'JOB#job'))?.['lease_token']?.S, lease.token);
  });

  onEngines(`refresh and release are retried: ${fault}`, async (table) => {
    const ddb = table.connect({ maxAttempts: 1 });
    injectFaults(ddb, (command, n) => (command !== 'PutItem' && n === 1 ? fault : undefined));
    const { clock, manager } = managerAt(table, 'ann', ddb);
    const lease = await manager.acquire('job', { leaseSeconds: 10 });
    clock.now += 1000;
    assert.equal((await manager.refresh(lease)).expiresAt, lease.expiresAt + 1);
    await manager.release(lease);
    assert.equal(await lockRow(table, 'JOB#job'), undefined);
  });
}

onEngines('an unanswered acquisition leaves no lease behind', async (table) => {
  const ddb = table.connect({ maxAttempts: 1 });
  injectFaults(ddb, (command) => (command === 'PutItem' ? 'reply lost' : undefined));
  const clock = { now: begin };
  const manager = new LeaseManager(ddb, table.tableName, {
    now: () => clock.now,
    retryDelayMs: 1,
    callTimeoutMs: 60_000,
  });
  // A readable refusal would show our token on the row, which would make the lease ours.
  const lease = await manager.acquire('job', { leaseSeconds: 10 }).catch((error: unknown) => error);
  assert.ok(lease instanceof Error, 'every reply is lost, including refusals');
  assert.equal(await lockRow(table, 'JOB#job'), undefined);
});

onEngines('one of many concurrent contenders gets the lease', async (table) => {
  const { manager } = managerAt(table, 'ann');
  const attempts = Array.from({ length: 20 }, () => manager.acquire('job', { leaseSeconds: 10 }));
  const results = await Promise.allSettled(attempts);
  assert.equal(results.filter((result) => result.status === 'fulfilled').length, 1);
  for (const result of results) {
    assert.ok(result.status === 'fulfilled' || result.reason instanceof LeaseHeldError);
  }
});

onEngines('withLease extends the lease while the job runs, and releases it', async (table) => {
  const manager = new LeaseManager(table.ddb, table.tableName, { clock: earlyClock() });
  const result = await manager.withLease('job', { leaseSeconds: 30 }, async (lease, signal) => {
    while (Number((await lockRow(table, 'JOB#job'))?.['lease_expires_at']?.N) <= lease.expiresAt) {
      signal.throwIfAborted();
    }
    return 'done';
  });
  assert.equal(result, 'done');
  assert.equal(await lockRow(table, 'JOB#job'), undefined);
});

onEngines('withLease aborts its job when the lease is lost, and does not release the new holder', async (table) => {
  const manager = new LeaseManager(table.ddb, table.tableName, { clock: earlyClock() });
  const theirs = {
    pk: { S: 'JOB#job' },
    sk: { S: 'LOCK' },
    lease_token: { S: 'x' },
    lease_expires_at: { N: '9999999999' },
  };
  const run = manager.withLease('job', { leaseSeconds: 30 }, async (_, signal) => {
    await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: theirs }));
    await once(signal, 'abort');
    assert.ok(signal.reason instanceof LeaseLostError);
    return 'too late';
  });
  await assert.rejects(run, LeaseLostError);
  assert.deepEqual(await lockRow(table, 'JOB#job'), theirs);
});

onEngines('withLease releases the lease when the job fails', async (table) => {
  const manager = new LeaseManager(table.ddb, table.tableName);
  const run = manager.withLease('job', { leaseSeconds: 30 }, async () => {
    throw new Error('no paper');
  });
  await assert.rejects(run, /no paper/);
  assert.equal(await lockRow(table, 'JOB#job'), undefined);
});

test('invalid keys and terms are rejected before anything is sent', async () => {
  const manager = new LeaseManager(new DynamoDBClient({ endpoint: 'http://127.0.0.1:1', region: 'us-east-1' }), 't');
  const term = { leaseSeconds: 10 };
  for (const key of ['', 'x'.repeat(1025), '\ud800', { pk: '' }, { pk: 'p', sk: 'META' }]) {
    await assert.rejects(manager.acquire(key, term), InvalidKeyError);
  }
  for (const key of [null, 7, {}, { pk: 7 }]) {
    await assert.rejects(manager.acquire(key as never, term), InvalidInputError);
  }
  for (const leaseSeconds of [0, -1, Number.NaN, '10' as never]) {
    await assert.rejects(manager.acquire('job', { leaseSeconds }), InvalidInputError);
  }
  await assert.rejects(
    manager.refresh({ key: { pk: 'p', sk: 'LOCK' }, token: '', expiresAt: 0, leaseSeconds: 1 }),
    InvalidInputError,
  );
  assert.throws(() => new LeaseManager(new DynamoDBClient(), ''), InvalidInputError);
});

onEngines('a kept lease is released at the end of its block', async (table) => {
  const manager = new LeaseManager(table.ddb, table.tableName);
  {
    await using kept = await manager.hold('job', { leaseSeconds: 30 });
    assert.equal(kept.signal.aborted, false);
    await assert.rejects(manager.hold('job', { leaseSeconds: 30 }), LeaseHeldError);
  }
  assert.equal(await lockRow(table, 'JOB#job'), undefined);
});

onEngines('close gives back all leases, aborts their jobs, and refuses further ones', async (table) => {
  const manager = new LeaseManager(table.ddb, table.tableName);
  await manager.acquire('by hand', { leaseSeconds: 30 });
  const kept = await manager.hold('kept', { leaseSeconds: 30 });
  let begin = () => {};
  const started = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const job = manager.withLease('job', { leaseSeconds: 30 }, async (_, signal) => {
    begin();
    await once(signal, 'abort');
  });
  const lost = assert.rejects(job, LeaseLostError);
  await started;
  await manager.close();
  await lost;
  assert.ok(kept.signal.reason instanceof LeaseLostError);
  for (const key of ['by hand', 'kept', 'job']) assert.equal(await lockRow(table, `JOB#${key}`), undefined, key);
  await assert.rejects(manager.acquire('more', { leaseSeconds: 30 }), InvalidInputError);
  await manager.close();
});
