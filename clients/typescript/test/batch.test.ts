import assert from 'node:assert/strict';

import { defineModel, InvalidQueryError, TheorydbClient, ThrottledError, UnknownOutcomeError } from '../src/index.js';
import { onEngines, type TestTable } from './engines.js';
import { injectFaults } from './faults.js';

const things = (tableName: string) =>
  defineModel({
    name: 'Thing',
    table: { name: tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'n', type: 'N' },
    ],
  });

const many = Array.from({ length: 130 }, (_, n) => ({ pk: 'p', sk: `${n}`, n }));
const keys = many.map(({ pk, sk }) => ({ pk, sk }));

onEngines('batches of any size are written, and read in the order of the keys', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [things(table.tableName)] });
  await client.batchWrite('Thing', { puts: many });
  assert.deepEqual(await client.batchGet('Thing', keys), many);
  await client.batchWrite('Thing', { puts: [{ pk: 'p', sk: '1', n: -1 }], deletes: [{ pk: 'p', sk: '0' }] });
  assert.deepEqual(await client.batchGet('Thing', keys.slice(0, 2)), [undefined, { pk: 'p', sk: '1', n: -1 }]);
});

onEngines('a batch write with a duplicate item is rejected as a whole', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [things(table.tableName)] });
  const put = { pk: 'p', sk: '0', n: 0 };
  await assert.rejects(client.batchWrite('Thing', { puts: [put], deletes: [{ pk: 'p', sk: '0' }] }), InvalidQueryError);
  assert.equal(await client.getOrNull('Thing', put), null);
});

/** A client whose engine processes one item per batch, and none after `most` batches, as under throttling. */
function throttling(table: TestTable, most: number) {
  const ddb = table.connect();
  let left = most;
  ddb.middlewareStack.add(
    (next) => async (args) => {
      const all = Object.entries((args.input as { RequestItems?: Record<string, unknown> }).RequestItems ?? {});
      const [tableName, work] = all[0] ?? [];
      if (tableName === undefined) {
        return next(args);
      }
      const done = left-- > 0 ? 1 : 0;
      const cut = (part: unknown[]) => (Array.isArray(work) ? part : { Keys: part });
      const items = Array.isArray(work) ? work : (work as { Keys: unknown[] }).Keys;
      const rest = items.length > done ? { [tableName]: cut(items.slice(done)) } : {};
      if (done === 0) {
        return {
          response: {},
          output: { $metadata: {}, UnprocessedItems: rest, UnprocessedKeys: rest, Responses: {} },
        } as never;
      }
      const answer = await next({
        ...args,
        input: { RequestItems: { [tableName]: cut(items.slice(0, done)) } } as never,
      });
      Object.assign(answer.output, { UnprocessedItems: rest, UnprocessedKeys: rest });
      return answer;
    },
    { step: 'initialize' },
  );
  return ddb;
}

onEngines('unprocessed items are retried', async (table) => {
  const client = new TheorydbClient(throttling(table, 1000), { models: [things(table.tableName)], retryDelayMs: 1 });
  await client.batchWrite('Thing', { puts: many.slice(0, 10) });
  assert.deepEqual(await client.batchGet('Thing', keys.slice(0, 10)), many.slice(0, 10));
});

onEngines('a batch that makes no progress reports the unprocessed items', async (table) => {
  const client = new TheorydbClient(throttling(table, 3), { models: [things(table.tableName)], retryDelayMs: 1 });
  await assert.rejects(client.batchWrite('Thing', { puts: many.slice(0, 10) }), (error: ThrottledError) => {
    assert.ok(error instanceof ThrottledError);
    assert.deepEqual(error.unprocessed, { puts: many.slice(3, 10), deletes: [], gets: [] });
    return true;
  });
  await assert.rejects(client.batchGet('Thing', keys.slice(0, 10)), ThrottledError);
});

onEngines('a batch whose reply is lost reports the writes with an unknown outcome', async (table) => {
  const ddb = table.connect({ maxAttempts: 1 });
  injectFaults(ddb, (command, n) => (command === 'BatchWriteItem' && n === 2 ? 'reply lost' : undefined));
  const client = new TheorydbClient(ddb, { models: [things(table.tableName)] });
  await assert.rejects(client.batchWrite('Thing', { puts: many.slice(0, 30) }), (error: UnknownOutcomeError) => {
    assert.ok(error instanceof UnknownOutcomeError);
    assert.deepEqual(error.unprocessed?.puts, many.slice(25, 30));
    return true;
  });
});
