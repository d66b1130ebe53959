/** Echoes: the SDK retries a write whose reply was lost although it was applied. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { PutItemCommand } from '@aws-sdk/client-dynamodb';

import {
  defineModel,
  type ModelDefinition,
  outcomeOf,
  TheorydbClient,
  TheorydbError,
  type TransactAction,
  UnknownOutcomeError,
  VersionConflictError,
} from '../src/index.js';
import type { Item } from '../src/item.js';
import { onEngines, type TestTable } from './engines.js';
import { loseReplies } from './faults.js';
import { fill, itemsOf } from './isr/table.js';
import { specFile } from './spec.js';

const attributes = [
  { attribute: 'pk', type: 'S' },
  { attribute: 'sk', type: 'S' },
  { attribute: 'name', type: 'S', optional: true },
  { attribute: 'marks', type: 'SS', optional: true },
  { attribute: 'count', type: 'N', optional: true },
] as const;
const versioned = [...attributes, { attribute: 'version', type: 'N', roles: ['version'] }] as const;

function modelOf<const A extends ModelDefinition['attributes']>(table: TestTable, all: A) {
  const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;
  return defineModel({ name: 'Thing', table: { name: table.tableName }, keys, attributes: all });
}

const ada = { pk: 'p', sk: 's', name: 'Ada' };

/** A client that loses the reply to the first request of a command. `interleaved` runs before the SDK's retry. */
function echoing(table: TestTable, command: string, interleaved?: () => Promise<unknown>) {
  const ddb = table.connect();
  loseReplies(ddb, command, 1, interleaved);
  return new TheorydbClient(ddb, { models: [modelOf(table, versioned)] });
}

onEngines('a create, a put and an update that the SDK retries succeed', async (table) => {
  const created = await echoing(table, 'PutItem').create('Thing', ada);
  assert.deepEqual(created, { ...ada, version: 1 });
  const put = await echoing(table, 'PutItem').put('Thing', { ...created, marks: new Set(['b', 'a']) });
  assert.equal(put.version, 2);
  const change = { ...put, name: 'Bob', marks: undefined };
  const updated = await echoing(table, 'UpdateItem').update('Thing', change, ['name', 'marks']);
  assert.equal(updated.version, 3);
  assert.deepEqual(await itemsOf(table), [{ pk: { S: 'p' }, sk: { S: 's' }, name: { S: 'Bob' }, version: { N: '3' } }]);
});

onEngines('a write followed by another writer before the retry has an unknown outcome', async (table) => {
  const other = { pk: { S: 'p' }, sk: { S: 's' }, name: { S: 'Eve' }, version: { N: '2' } };
  const interleaved = () => table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: other }));
  const creating = echoing(table, 'PutItem', interleaved).create('Thing', ada);
  await assert.rejects(creating, (error: unknown) => {
    assert.ok(error instanceof UnknownOutcomeError);
    assert.equal(outcomeOf(error), 'unknown');
    return true;
  });
});

onEngines('a retried delete has an unknown outcome; one refused at the first attempt does not', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [modelOf(table, versioned)] });
  const created = await client.create('Thing', ada);
  await assert.rejects(client.delete('Thing', { ...created, version: 7 }), VersionConflictError);
  await assert.rejects(echoing(table, 'DeleteItem').delete('Thing', created), UnknownOutcomeError);
  assert.deepEqual(await itemsOf(table), []);
});

onEngines('an ADD in a transaction is applied once when the SDK and the client retry it', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [modelOf(table, attributes)] });
  await client.put('Thing', { ...ada, count: 1 });
  const ddb = table.connect();
  loseReplies(ddb, 'TransactWriteItems', 5); // more than the SDK's own attempts
  const model = modelOf(table, attributes);
  const adding: TransactAction<typeof model> = {
    kind: 'update',
    model: 'Thing',
    key: { pk: 'p', sk: 's' },
    updateExpression: 'ADD #count :one',
    expressionAttributeNames: { '#count': 'count' },
    expressionAttributeValues: { ':one': { N: '1' } },
  };
  await new TheorydbClient(ddb, { models: [model], retryDelayMs: 1 }).transactWrite([adding]);
  assert.equal((await client.get('Thing', ada)).count, 2);
});

interface Echo {
  name: string;
  write: 'put' | 'create' | 'update' | 'delete';
  item: Item;
  removed?: string[];
  computed?: string[];
  attempts: number;
  stored?: Item;
  outcome: string;
}

onEngines('echoes are classified as the test vectors demand', async (table) => {
  const { echoes } = JSON.parse(readFileSync(specFile('vectors/outcomes.json'), 'utf8')) as { echoes: Echo[] };
  for (const echo of echoes.filter(({ computed }) => !computed)) {
    assert.equal(await outcomeOfEcho(table, echo), echo.outcome, echo.name);
  }
});

/** Runs the write of a vector. All attempts but the last lose their reply; before the last, the row is set to the vector's. */
async function outcomeOfEcho(table: TestTable, { write, item, removed = [], attempts, stored }: Echo) {
  const ddb = table.connect();
  const row = stored ?? undefined;
  const command = { put: 'PutItem', create: 'PutItem', update: 'UpdateItem', delete: 'DeleteItem' }[write];
  const settled = () => fill(table, row ? [row] : []);
  if (attempts > 1) loseReplies(ddb, command, attempts - 1, settled);
  else await settled();
  const isVersioned = item['version'] !== undefined || write === 'delete';
  const given = Object.fromEntries(Object.entries(item).map(([name, av]) => [name, plain(name, av)]));
  // The write requires the version before the one it stores.
  if (isVersioned && write !== 'create') given['version'] = Number(given['version'] ?? 2) - 1;
  if (write === 'create') delete given['version'];
  const raw = isVersioned ? {} : { conditionExpression: 'attribute_not_exists(pk) AND attribute_exists(pk)' };
  const fields = [...Object.keys(item).filter((name) => !['pk', 'sk', 'version'].includes(name)), ...removed];
  const client = new TheorydbClient(ddb, { models: [modelOf(table, isVersioned ? versioned : attributes) as never] });
  const argument = { ...given } as never;
  const calls = {
    put: () => client.put('Thing' as never, argument, raw),
    create: () => client.create('Thing' as never, argument, raw),
    update: () => client.update('Thing' as never, argument, fields as never, raw),
    delete: () => client.delete('Thing' as never, argument, raw),
  };
  try {
    await calls[write]();
    return 'applied';
  } catch (error) {
    assert.ok(error instanceof TheorydbError, String(error));
    return outcomeOf(error);
  }
}

function plain(name: string, av: Item[string] | undefined): unknown {
  if (name === 'marks') return new Set(av?.SS);
  return av?.N === undefined ? av?.S : Number(av.N);
}
