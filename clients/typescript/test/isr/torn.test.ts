/** Transactions that are seen in part undo no purge, and do not hide outcomes. */

import assert from 'node:assert/strict';

import { PurgeMarks } from '../../src/cache/purgemarks.js';
import { PurgedError } from '../../src/errors.js';
import { settingsOf } from '../../src/isr/config.js';
import { hashedPartition, type PurgeTarget } from '../../src/isr/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { injectFaults } from '../faults.js';
import { fill, generation, itemAt, itemsOf, patience, StoppedClock, storeOn } from './table.js';
import { tear, torn } from './torn.js';

const cacheKey = 'example.com/news';
const pk = hashedPartition(cacheKey);

/** Publishes two kept generations of the page, with the tag "t". */
async function publishTwo(table: TestTable): Promise<void> {
  const store = storeOn(table);
  for (const id of ['g1', 'g2']) {
    const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
    await store.publish(lease, lease.record, generation(id, Date.now(), { tags: ['t'], purgeSeq: 0 }), {
      history: true,
    });
  }
}

/** What reads may show of a purge: all but SEQ from before it, or all but SEQ and the log. */
const views: Record<string, (sk: string) => boolean> = {
  'the log row is visible': (sk) => sk === 'PURGE' || sk.startsWith('MARK#'),
  'only SEQ is visible': (sk) => sk === 'PURGE' || sk.startsWith('MARK#') || sk.startsWith('LOG#'),
};

const targets: PurgeTarget[] = [
  { kind: 'key', value: cacheKey },
  { kind: 'tag', value: 't' },
  { kind: 'prefix', value: 'example.com/' },
  { kind: 'site' },
];

for (const [view, old] of Object.entries(views)) {
  for (const target of targets) {
    onEngines(
      `a rollback does not undo a hard purge that is being committed: ${target.kind}, ${view}`,
      async (table) => {
        await publishTwo(table);
        // The last of several purges: an older one of the same mark is complete.
        await storeOn(table).purge([target, { kind: 'tag', value: 'other' }]);
        const purge = () => storeOn(table).purge([target], { hard: true });
        // More conflicts than a call has attempts.
        const ddb = await torn(table, purge, old, 6);
        await assert.rejects(storeOn(table, { ddb }).rollback({ cacheKey, to: 'g1' }), PurgedError);
        assert.equal((await storeOn(table).read({ cacheKey })).entry?.generationId, 'g2');
      },
    );
  }

  onEngines(`marks that are read while a purge is being committed include it: ${view}`, async (table) => {
    await storeOn(table).purge([{ kind: 'tag', value: 't' }], { expireSeconds: 3600 });
    const purge = () => storeOn(table).purge([{ kind: 'tag', value: 't' }], { hard: true });
    const ddb = await torn(table, purge, old, 6);
    const { backend } = settingsOf({ ddb, tableName: table.tableName, retryDelayMs: 1, ...patience });
    const marks = new PurgeMarks(backend, '');
    const seq = await marks.catchUp();
    assert.equal(marks.purgeStateOf(cacheKey, ['t'], Date.now()).hardSeq, seq);
  });
}

onEngines('marks are not made older by the rows of the log that they include', async (table) => {
  const store = storeOn(table);
  const soon = { expireSeconds: 0 };
  await store.purge([{ kind: 'tag', value: 't' }], soon);
  const { seq } = await store.purge([{ kind: 'tag', value: 't' }], { expireSeconds: 3600 });
  const { backend } = settingsOf({ ddb: table.ddb, tableName: table.tableName, ...patience });
  const marks = new PurgeMarks(backend, '');
  await marks.catchUp();
  const later = Date.now() + 7_200_000;
  assert.equal(marks.purgeStateOf(cacheKey, ['t'], later).hardSeq, seq, 'the newest expiry');
});

onEngines('a rollback behind rows of the log that have expired succeeds', async (table) => {
  await publishTwo(table);
  for (let i = 0; i < 3; i++) await storeOn(table).purge([{ kind: 'tag', value: 'other' }]);
  await fill(
    table,
    (await itemsOf(table)).filter(({ sk }) => !sk?.S?.startsWith('LOG#')),
  );
  const rolledBack = await storeOn(table).rollback({ cacheKey, to: 'g1' });
  assert.equal(rolledBack.generationId, 'g1');
});

for (const history of [false, true]) {
  onEngines(`a publish without a reply is settled while it is being committed, history ${history}`, async (table) => {
    const ddb = table.connect();
    const store = storeOn(table, { ddb });
    const lease = await store.acquireLease({ cacheKey, leaseDurationMs: 30_000 });
    const before = await itemsOf(table);
    const caller = new AbortController();
    injectFaults(ddb, (command, n) => {
      if (command !== 'TransactWriteItems') return undefined;
      if (n > 1) caller.abort(new Error('the caller went away'));
      return n > 1 ? 'not applied' : 'reply lost';
    });
    tear(ddb, before, (sk) => sk === 'META' || sk.startsWith('VER#'), 6);
    const entry = await store.publish(lease, lease.record, generation('g1', Date.now()), {
      history,
      signal: caller.signal,
    });
    assert.equal(entry.generationId, 'g1');
    assert.equal((await itemAt(table, pk, 'META'))?.['isr']?.M?.['generation_id']?.S, 'g1');
  });
}

onEngines('a purge without a reply is settled while it is being committed', async (table) => {
  const ddb = table.connect();
  const clock = new StoppedClock();
  const store = storeOn(table, { ddb, clock });
  const before = await itemsOf(table);
  injectFaults(ddb, (command, n) => {
    if (command !== 'TransactWriteItems' || n > 1) return undefined;
    clock.advance(600_000); // it cannot be repeated: DynamoDB has forgotten its client token
    return 'reply lost';
  });
  tear(ddb, before, (sk) => sk.startsWith('LOG#'), 6);
  const { seq } = await store.purge([{ kind: 'tag', value: 't' }], { hard: true });
  assert.equal(seq, 1);
  assert.equal((await storeOn(table).sequence()).seq, 1, 'purged once');
});
