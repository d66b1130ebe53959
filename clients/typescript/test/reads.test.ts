/** Counts, and filters and projections under the names of TableTheory. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import {
  defineModel,
  type FilterGroup,
  InvalidInputError,
  InvalidQueryError,
  TableNotFoundError,
  TheorydbClient,
} from '../src/index.js';
import { onEngines, type TestTable } from './engines.js';
import { injectFaults, NoReply } from './faults.js';

const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;

function visits(tableName: string) {
  return defineModel({
    name: 'Visit',
    table: { name: tableName },
    keys,
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'kind', type: 'S', optional: true },
      { attribute: 'n', type: 'N', optional: true },
      { attribute: 'body', type: 'S', optional: true },
    ],
    indexes: [{ name: 'byKind', type: 'GSI', partition: { attribute: 'kind', type: 'S' } }],
  });
}

/** A table with items `log 00` to `log 29` of three kinds, and one of another partition; and the requests of its client. */
async function withVisits(table: TestTable, bytes = 10) {
  const requests: Record<string, unknown>[] = [];
  const ddb = table.connect();
  const count = injectFaults(ddb, (_, __, input) => {
    requests.push(input as Record<string, unknown>);
    return undefined;
  });
  const client = new TheorydbClient(ddb, { models: [visits(table.tableName)] });
  const body = 'x'.repeat(bytes);
  const puts = Array.from({ length: 30 }, (_, n) => {
    return { pk: 'log', sk: `log ${String(n).padStart(2, '0')}`, kind: ['a', 'b', 'c'][n % 3] ?? '', n, body };
  });
  await client.batchWrite('Visit', { puts: [...puts, { pk: 'other', sk: 'one' }] });
  requests.length = 0;
  return { client, requests, count, query: client.query('Visit').partitionKey('log') };
}

const extra = {
  AttributeDefinitions: ['pk', 'sk', 'kind'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' as const })),
  GlobalSecondaryIndexes: [
    {
      IndexName: 'byKind',
      KeySchema: [{ AttributeName: 'kind', KeyType: 'HASH' as const }],
      Projection: { ProjectionType: 'ALL' as const },
    },
  ],
};

onEngines(
  'count counts the items of all pages, and reads none of them',
  async (table) => {
    const { client, requests, count, query } = await withVisits(table, 100_000);
    assert.equal(await query.count(), 30);
    assert.ok(count('Query') >= 3, 'three pages of 1 MB at least');
    assert.ok(requests.every((request) => request['Select'] === 'COUNT'));
    assert.equal(await client.scan('Visit').count(), 31);
    assert.equal(await client.scan('Visit').segments(4).count(), 31);
    assert.equal(await client.query('Visit').partitionKey('none').count(), 0);
  },
  extra,
);

onEngines(
  'count respects keys, filters, indexes and cursors, and neither limits nor projections',
  async (table) => {
    const { client, requests, count, query } = await withVisits(table);
    assert.equal(await query.sortKey('between', 'log 05', 'log 09').count(), 5);
    assert.equal(await query.filter('kind', '=', 'a').filter('n', '<', 10).count(), 4);
    assert.equal(await client.scan('Visit').filter('n', 'not_exists').count(), 1);
    assert.equal(await client.query('Visit').usingIndex('byKind').partitionKey('b').count(), 10);
    assert.equal(await client.scan('Visit').usingIndex('byKind').segments(2).count(), 30);
    const before = count('Query');
    assert.equal(await query.limit(1).projection(['n']).sort('DESC').count(), 30);
    assert.equal(count('Query') - before, 1, 'a limit does not make more pages');
    assert.equal(requests.at(-1)?.['ProjectionExpression'], undefined);
    const { cursor = '' } = await query.limit(20).page();
    assert.equal(await query.cursor(cursor).count(), 10);
    assert.equal((await query.limit(7).all()).length, 30, 'the query itself is as before');
  },
  extra,
);

onEngines('count fails like a read', async (table) => {
  const { client, query } = await withVisits(table);
  await assert.rejects(client.query('Visit').count(), InvalidQueryError);
  await assert.rejects(query.usingIndex('byKind').partitionKey('a').consistentRead().count(), InvalidInputError);
  await assert.rejects(query.signal(AbortSignal.abort(new Error('stop'))).count(), /stop/);
  await assert.rejects(client.scan('Visit').segments(2).cursor('a').count(), InvalidQueryError);
  const missing = new TheorydbClient(table.ddb, { models: [visits(`${table.tableName}-missing`)] });
  await assert.rejects(missing.query('Visit').partitionKey('log').count(), TableNotFoundError);
});

onEngines('a count is complete or an error', async (table) => {
  const { query } = await withVisits(table, 100_000);
  const ddb = table.connect({ maxAttempts: 1 });
  injectFaults(ddb, (command, n) => (command === 'Query' && n === 2 ? 'not applied' : undefined));
  const broken = new TheorydbClient(ddb, { models: [visits(table.tableName)] });
  await assert.rejects(broken.query('Visit').partitionKey('log').count(), NoReply);
  assert.equal(await query.count(), 30);
});

/** Which of the items a filter keeps. */
async function kept(query: { projection(names: readonly ['n']): { all(): Promise<{ n?: number | undefined }[]> } }) {
  return (await query.projection(['n']).all()).map(({ n }) => n);
}

onEngines('filters join like TableTheory’s: an alternative is one to all filters before it', async (table) => {
  const { client, query } = await withVisits(table);
  const few = query.filter('n', '<', 6); // kinds a b c a b c
  assert.deepEqual(await kept(few.filter('kind', '=', 'a').orFilter('n', '=', 20)), [0, 3, 20]);
  assert.deepEqual(await kept(few.orFilter('n', '=', 20).filter('kind', '=', 'c')), [2, 5, 20]);
  assert.deepEqual(await kept(query.orFilter('n', '=', 7)), [7]);
  assert.deepEqual(
    await kept(few.filterGroup((g) => g.filter('kind', '=', 'a').orFilter('kind', '=', 'b'))),
    [0, 1, 3, 4],
  );
  const late = (g: FilterGroup<ReturnType<typeof visits>>) => {
    g.filter('n', '>', 26); // what the function returns does not matter
    g.filter('kind', '<>', 'b');
  };
  assert.deepEqual(await kept(few.filter('kind', '=', 'b').orFilterGroup(late)), [1, 4, 27, 29]);
  assert.deepEqual(
    await kept(
      query.filterGroup((g) =>
        g
          .filterGroup((h) => h.filter('n', '=', 1).orFilter('n', '=', 2))
          .orFilterGroup((h) => h.filter('n', '>=', 28).filterGroup((i) => i.filter('kind', 'in', 'a', 'c'))),
      ),
    ),
    [1, 2, 29],
  );
  assert.deepEqual(await kept(query.orFilter((f) => f.not(f.where('n', '>', 0)))), [0]);
  assert.equal((await few.all()).length, 6, 'a query is not changed by what is built on it');
  const scanned = client
    .scan('Visit')
    .filter('n', '<', 1)
    .orFilterGroup((g) => g.filter('n', 'not_exists'));
  assert.equal(await scanned.count(), 2);
  const items: unknown[] = [];
  for await (const { sk } of few.projection(['sk']).items()) items.push(sk);
  assert.deepEqual([items.length, items[0]], [6, 'log 00']);
});

test('groups without filters, and what is no group, are refused', () => {
  const ddb = new DynamoDBClient({ region: 'us-east-1' });
  const query = new TheorydbClient(ddb, { models: [visits('t')] }).query('Visit').partitionKey('log');
  for (const add of [() => undefined, undefined, 'n = 1']) {
    assert.throws(() => query.filterGroup(add as never), InvalidQueryError);
    assert.throws(() => query.orFilterGroup(add as never), InvalidQueryError);
  }
  assert.throws(() => query.projection([]), InvalidQueryError);
  assert.throws(() => query.filterGroup((g) => g.filterGroup(() => undefined)), InvalidQueryError);
});
