import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { defineModel, InvalidQueryError, TheorydbClient } from '../src/index.js';
import { onEngines, type TestTable } from './engines.js';

const events = (tableName: string) =>
  defineModel({
    name: 'Event',
    table: { name: tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'kind', type: 'S', optional: true },
      { attribute: 'at', type: 'N', optional: true },
      { attribute: 'tags', type: 'SS', optional: true },
    ],
    indexes: [
      {
        name: 'byKind',
        type: 'GSI',
        partition: { attribute: 'kind', type: 'S' },
        sort: { attribute: 'at', type: 'N' },
      },
    ],
  });

/** The index of the test table. */
const extra = {
  AttributeDefinitions: [
    { AttributeName: 'pk', AttributeType: 'S' as const },
    { AttributeName: 'sk', AttributeType: 'S' as const },
    { AttributeName: 'kind', AttributeType: 'S' as const },
    { AttributeName: 'at', AttributeType: 'N' as const },
  ],
  GlobalSecondaryIndexes: [
    {
      IndexName: 'byKind',
      KeySchema: [
        { AttributeName: 'kind', KeyType: 'HASH' as const },
        { AttributeName: 'at', KeyType: 'RANGE' as const },
      ],
      Projection: { ProjectionType: 'ALL' as const },
    },
  ],
};

async function withEvents(table: TestTable) {
  const client = new TheorydbClient(table.ddb, { models: [events(table.tableName)] });
  const puts = Array.from({ length: 60 }, (_, i) => ({
    pk: 'log',
    sk: `E#${String(i).padStart(3, '0')}`,
    kind: i % 3 === 0 ? 'deploy' : 'visit',
    at: i,
    tags: new Set([`t${i % 2}`]),
  }));
  await client.batchWrite('Event', { puts });
  return client;
}

onEngines(
  'a query iterates over all pages in order',
  async (table) => {
    const client = await withEvents(table);
    const found: string[] = [];
    for await (const item of client.query('Event').partitionKey('log').limit(7)) {
      found.push(item.sk);
    }
    assert.equal(found.length, 60);
    assert.deepEqual(found, [...found].sort());
    assert.equal((await client.query('Event').partitionKey('nothing').all()).length, 0);
  },
  extra,
);

onEngines(
  'a cursor continues after its page, in both directions and on an index',
  async (table) => {
    const client = await withEvents(table);
    const queries = [
      client.query('Event').partitionKey('log').sortKey('begins_with', 'E#').limit(8),
      client.query('Event').partitionKey('log').sort('DESC').limit(8),
      client.query('Event').usingIndex('byKind').partitionKey('visit').limit(8),
    ];
    for (const query of queries) {
      const whole = await query.limit(1000).all();
      const { items, cursor = '' } = await query.page();
      const rest = await query.cursor(cursor).all();
      assert.deepEqual([...items, ...rest], whole);
    }
  },
  extra,
);

onEngines(
  'sort key conditions and filters select items',
  async (table) => {
    const client = await withEvents(table);
    const log = client.query('Event').partitionKey('log');
    const counts = [
      [log.sortKey('between', 'E#010', 'E#019'), 10],
      [log.sortKey('>=', 'E#050').filter('kind', '=', 'deploy'), 3],
      [log.filter('at', 'in', 1, 2, 99), 2],
      [log.filter('at', '<', 10).filter('tags', 'contains', 't1'), 5],
      [log.filter('kind', 'not_exists'), 0],
      [log.filter('kind', 'exists').filter('kind', 'begins_with', 'de'), 20],
      [client.query('Event').usingIndex('byKind').partitionKey('deploy').sortKey('>', 30), 9],
    ] as const;
    for (const [i, [query, expected]] of counts.entries()) {
      assert.equal((await query.all()).length, expected, `query ${i}`);
    }
  },
  extra,
);

onEngines(
  'a cursor is rejected by another query',
  async (table) => {
    const client = await withEvents(table);
    const log = client.query('Event').partitionKey('log').limit(5);
    const { cursor = '' } = await log.page();
    await assert.rejects(client.query('Event').partitionKey('other').cursor(cursor).page(), /belongs to another query/);
    await assert.rejects(log.sort('DESC').cursor(cursor).page(), /belongs to another query/);
    for (const damaged of ['', 'x', cursor.slice(3), `${cursor}AAAA`, 'x'.repeat(10_000)]) {
      await assert.rejects(log.cursor(damaged).page(), InvalidQueryError);
    }
  },
  extra,
);

test('invalid queries are rejected before anything is sent', async () => {
  const client = new TheorydbClient(new DynamoDBClient({ endpoint: 'http://127.0.0.1:1', region: 'us-east-1' }), {
    models: [events('t')],
  });
  const query = client.query('Event').partitionKey('log');
  await assert.rejects(client.query('Event').page(), /partitionKey is missing/);
  await assert.rejects(query.usingIndex('byDate' as 'byKind').page(), /no index byDate/);
  await assert.rejects(query.usingIndex('byKind').consistentRead().page(), /does not support consistent reads/);
  await assert.rejects(
    query.sortKey('between', ...(['a'] as unknown as [string, string])).page(),
    /takes 2 values \(got 1\)/,
  );
  await assert.rejects(query.filter('at', 'like' as '=', 1).page(), /unknown operator like/);
  assert.throws(() => query.limit(0), InvalidQueryError);
});
