/** Updates by builders, and tables: cases that the vectors of the contract cannot express. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeleteTableCommand, DescribeTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';

import {
  defineModel,
  InvalidInputError,
  InvalidModelError,
  InvalidQueryError,
  TheorydbClient,
  UnknownOutcomeError,
} from '../src/index.js';
import { onEngines, type TestTable } from './engines.js';
import { loseReplies } from './faults.js';

const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;

const counters = (tableName: string) =>
  defineModel({
    name: 'Counter',
    table: { name: tableName },
    keys,
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'label', type: 'S' },
      { attribute: 'n', type: 'N', optional: true },
      { attribute: 'log', type: 'L', optional: true },
      { attribute: 'tags', type: 'SS', optional: true },
      { attribute: 'ttl', type: 'N', roles: ['ttl'], optional: true },
    ],
    indexes: [{ name: 'byLabel', type: 'GSI', partition: { attribute: 'label', type: 'S' } }],
  });

const key = { pk: 'a', sk: '1' };

async function counted(table: TestTable) {
  const ddb = table.connect();
  const client = new TheorydbClient(ddb, { models: [counters(table.tableName)] });
  await client.create('Counter', { ...key, label: 'x', n: 1 });
  return { ddb, client };
}

onEngines('an update that is not idempotent is not repeated after a lost reply', async (table) => {
  const { ddb, client } = await counted(table);
  loseReplies(ddb, 'UpdateItem', 1);
  await assert.rejects(
    client.update('Counter', key, (u) => u.add('n', 1)),
    UnknownOutcomeError,
  );
  assert.equal((await client.get('Counter', key)).n, 2, 'applied once');
});

onEngines('an idempotent update is repeated after a lost reply', async (table) => {
  const { ddb, client } = await counted(table);
  loseReplies(ddb, 'UpdateItem', 1);
  const updated = await client.update('Counter', key, (u) => u.set('n', 7).add('tags', new Set(['t'])));
  assert.deepEqual(updated, { ...key, label: 'x', n: 7, tags: new Set(['t']) });
});

onEngines('update builders work in transactions', async (table) => {
  const { client } = await counted(table);
  await client.transactWrite([
    { kind: 'update', model: 'Counter', item: key, changes: (u) => u.add('n', 41).append('log', ['first']) },
    { kind: 'upsert', model: 'Counter', item: { pk: 'a', sk: '2' }, changes: (u) => u.set('label', 'y') },
  ]);
  assert.deepEqual(await client.query('Counter').partitionKey('a').all(), [
    { ...key, label: 'x', n: 42, log: ['first'] },
    { pk: 'a', sk: '2', label: 'y' },
  ]);
});

test('invalid updates are rejected before anything is sent', async () => {
  const ddb = new DynamoDBClient({ endpoint: 'http://127.0.0.1:1', region: 'us-east-1' });
  const client = new TheorydbClient(ddb, { models: [counters('t')] });
  const rejects = (work: () => Promise<unknown>, error: new (...given: never[]) => Error) =>
    assert.rejects(work, error);
  await rejects(async () => client.update('Counter', key, () => undefined), InvalidQueryError);
  await rejects(async () => client.update('Counter', key, (u) => u.set('n', 1).add('n', 1)), InvalidQueryError);
  await rejects(async () => client.update('Counter', key, (u) => u.remove('label')), InvalidInputError);
  await rejects(async () => client.update('Counter', key, (u) => u.add('label' as 'n', 1)), InvalidInputError);
  await rejects(async () => client.update('Counter', key, (u) => u.delete('tags', new Set())), InvalidInputError);
  await rejects(async () => client.upsert('Counter', key, (u) => u.set('n', 1)), InvalidInputError);
});

/** Repeats a call. DynamoDB Local sometimes fails to add an index, with an internal error, on a busy machine. */
async function unlessInternalFailure(call: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as Error).name !== 'InternalFailure') throw error;
    }
  }
}

onEngines('a table is created, completed and checked', async (table) => {
  const tableName = `${table.tableName}-made`;
  const [indexed] = [counters(tableName)];
  const { indexes: _, ...plain } = indexed.definition;
  const client = new TheorydbClient(table.ddb);
  try {
    await client.ensureTable(defineModel({ ...plain, name: 'Plain' }));
    const models = [indexed, defineModel({ ...plain, name: 'Plain' })];
    await unlessInternalFailure(() => client.ensureTable(models, { timeoutMs: 600_000 }));
    await client.ensureTable(indexed);
    const { Table } = await table.ddb.send(new DescribeTableCommand({ TableName: tableName }));
    assert.equal(Table?.GlobalSecondaryIndexes?.[0]?.IndexName, 'byLabel');
    const other = defineModel({ ...plain, name: 'Other', keys: { partition: keys.partition } });
    await assert.rejects(client.ensureTable(other), InvalidModelError);
    await assert.rejects(client.createTable(indexed), { name: 'ResourceInUseException' });
  } finally {
    await table.ddb.send(new DeleteTableCommand({ TableName: tableName }));
  }
});
