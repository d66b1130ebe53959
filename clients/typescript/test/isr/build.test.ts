/** Builds of a site: processes agree on the current one and its sequence. */

import assert from 'node:assert/strict';

import { UnknownOutcomeError } from '../../src/errors.js';
import { freshness, NEVER_PURGED } from '../../src/isr/index.js';
import { onEngines } from '../engines.js';
import { before, injectFaults } from '../faults.js';
import { generation, storeOn } from './table.js';

onEngines('processes that start a build at the same time get one sequence', async (table) => {
  const stores = Array.from({ length: 5 }, () => storeOn(table, { ddb: table.connect() }));
  const sequences = await Promise.all(stores.map((store) => store.build('b1')));
  assert.deepEqual(new Set(sequences), new Set([1]));
  assert.equal((await storeOn(table).sequence()).seq, 1);
});

onEngines('the build that is deployed last is the current one', async (table) => {
  const ddb = table.connect();
  const store = storeOn(table, { ddb });
  before(ddb, 'TransactWriteItems', 1, () => storeOn(table).build('b1'));
  assert.equal(await store.build('b2'), 2);
  assert.equal(await storeOn(table).build('b2'), 2);
  assert.equal(await storeOn(table).build('b1'), 3);
});

onEngines('a deployment whose replies are lost is made once', async (table) => {
  const ddb = table.connect({ maxAttempts: 1 });
  injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n <= 2 ? 'reply lost' : undefined));
  assert.equal(await storeOn(table, { ddb }).build('b1'), 1);
  assert.equal((await storeOn(table).sequence()).seq, 1);
  const dead = table.connect({ maxAttempts: 1 });
  injectFaults(dead, (command) => (command === 'TransactWriteItems' ? 'not applied' : undefined));
  await assert.rejects(storeOn(table, { ddb: dead, settleTimeoutMs: 1_000 }).build('b2'), UnknownOutcomeError);
});

onEngines('a page keeps its build, and is stale for a newer one until it is rolled back', async (table) => {
  const store = storeOn(table);
  const cacheKey = 'example.com/';
  const first = await store.build('b1');
  for (const [id, build] of [
    ['g1', first],
    ['g2', first],
  ] as const) {
    const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
    const next = generation(id, Date.now(), { build, staleSeconds: 60 });
    await store.publish(lease, lease.record, next, { history: true });
  }
  const state = async (build: number) => {
    const { entry } = await store.read({ cacheKey });
    assert.ok(entry);
    assert.equal(entry.build, first);
    return freshness(entry, { ...NEVER_PURGED, build }, Date.now());
  };
  assert.equal(await state(first), 'fresh');
  const second = await store.build('b2');
  assert.equal(await state(second), 'stale');
  assert.equal(await state(first), 'fresh', 'for processes that still run the old build');
  await store.rollback({ cacheKey, to: 'g1', pinnedUntilMs: 0 });
  assert.equal(await state(second), 'fresh', 'it was asserted after the deployment');
});
