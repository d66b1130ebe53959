import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DynamoDBClient, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';

import {
  ConditionFailedError,
  defineModel,
  InvalidInputError,
  InvalidModelError,
  InvalidQueryError,
  ItemNotFoundError,
  type ItemOf,
  MalformedRowError,
  outcomeOf,
  TableNotFoundError,
  TheorydbClient,
  UnknownOutcomeError,
  VersionConflictError,
} from '../src/index.js';
import { onEngines, type TestTable } from './engines.js';
import { injectFaults } from './faults.js';

const songs = (tableName: string) =>
  defineModel({
    name: 'Song',
    table: { name: tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S', roles: ['pk'] },
      { attribute: 'sk', type: 'S', roles: ['sk'] },
      { attribute: 'year', type: 'N', required: true },
      { attribute: 'plays', type: 'N', as: 'bigint', optional: true },
      { attribute: 'tags', type: 'SS', optional: true },
      { attribute: 'lines', type: 'L', optional: true },
      { attribute: 'version', type: 'N', roles: ['version'] },
      { attribute: 'ttl', type: 'N', roles: ['ttl'], optional: true },
    ],
  });

const notes = (tableName: string) =>
  defineModel({
    name: 'Note',
    table: { name: tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'text', type: 'S', optional: true },
      { attribute: 'n', type: 'N', optional: true },
    ],
  });

function clientOf(table: TestTable) {
  const song = songs(table.tableName);
  const note = notes(table.tableName);
  return new TheorydbClient(table.ddb, { models: [song, note] });
}

const sinnerman = { pk: 'Nina Simone', sk: 'Sinnerman', year: 1965 };
const key = { pk: 'Nina Simone', sk: 'Sinnerman' };

onEngines('a created item reads back exactly', async (table) => {
  const client = clientOf(table);
  const item = { ...sinnerman, plays: 2n ** 80n, tags: new Set(['live', 'long']), lines: [{ n: 1.5 }, null, 'oh'] };
  const created = await client.create('Song', item);
  assert.deepEqual(created, { ...item, version: 1 });
  assert.deepEqual(await client.get('Song', key), created);
});

onEngines('create rejects an existing item and returns the stored one', async (table) => {
  const client = clientOf(table);
  await client.create('Song', sinnerman);
  await assert.rejects(client.create('Song', { ...sinnerman, year: 1999 }), (error: ConditionFailedError) => {
    assert.equal(error.code, 'ConditionFailed');
    assert.equal(outcomeOf(error), 'condition failed');
    assert.deepEqual(error.item?.['year'], { N: '1965' });
    return true;
  });
  assert.equal((await client.get('Song', key)).year, 1965);
});

onEngines('a missing item is ItemNotFound for get and null for getOrNull', async (table) => {
  const client = clientOf(table);
  await assert.rejects(client.get('Song', key), ItemNotFoundError);
  assert.equal(await client.getOrNull('Song', key), null);
});

onEngines('versions prevent lost updates', async (table) => {
  const client = clientOf(table);
  const first = await client.create('Song', sinnerman);
  const second = await client.put('Song', { ...first, year: 1966 });
  assert.equal(second.version, 2);
  await assert.rejects(client.put('Song', { ...first, year: 1900 }), VersionConflictError);
  await assert.rejects(client.put('Song', sinnerman), VersionConflictError, 'an item without a version must be new');
  await assert.rejects(client.update('Song', { ...first, year: 1900 }, ['year']), VersionConflictError);
  await assert.rejects(client.delete('Song', first), VersionConflictError);
  const third = await client.update('Song', { ...second, year: 1967 }, ['year']);
  assert.deepEqual(await client.get('Song', key), { ...sinnerman, year: 1967, version: 3 });
  await client.delete('Song', third);
  assert.equal(await client.getOrNull('Song', key), null);
});

onEngines('a write to an item deleted since it was read is a version conflict', async (table) => {
  const client = clientOf(table);
  const first = await client.create('Song', sinnerman);
  await client.delete('Song', key);
  await assert.rejects(client.put('Song', first), /deleted since it was read/);
  await assert.rejects(client.update('Song', first, ['year']), ItemNotFoundError);
  assert.equal(await client.getOrNull('Song', key), null);
});

onEngines('values of every type round-trip', async (table) => {
  const model = defineModel({
    name: 'Everything',
    table: { name: table.tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'n', type: 'N' },
      { attribute: 'large', type: 'N', as: 'bigint' },
      { attribute: 'exact', type: 'N', as: 'string' },
      { attribute: 'b', type: 'B' },
      { attribute: 'yes', type: 'BOOL' },
      { attribute: 'none', type: 'NULL' },
      { attribute: 'ss', type: 'SS' },
      { attribute: 'ns', type: 'NS' },
      { attribute: 'bs', type: 'BS' },
      { attribute: 'l', type: 'L' },
      { attribute: 'm', type: 'M' },
    ],
  });
  const client = new TheorydbClient(table.ddb, { models: [model] });
  const item: ItemOf<typeof model> = {
    pk: 'é €',
    sk: '𝄞',
    n: -1.5e-7,
    large: 10n ** 125n,
    exact: '0.12345678901234567890123456789012345678',
    b: Uint8Array.of(0, 255),
    yes: false,
    none: null,
    ss: new Set(['', 'a']),
    ns: new Set([-1, 2.5]),
    bs: new Set([Uint8Array.of(1), Uint8Array.of()]),
    l: [1, 2n ** 60n, null, [Uint8Array.of(7)], { a: '' }],
    m: { a: { 'b.c': [true] }, s: new Set(['x']) },
  };
  await client.put('Everything', item);
  assert.deepEqual(await client.get('Everything', { pk: item.pk, sk: item.sk }), item);
});

onEngines('update sets and removes the listed attributes and keeps all others', async (table) => {
  const client = clientOf(table);
  const stored = { pk: { S: 'p' }, sk: { S: 's' }, text: { S: 'old' }, n: { N: '1' }, theirs: { BOOL: true } };
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: stored }));
  await client.update('Note', { pk: 'p', sk: 's', text: 'new' }, ['text', 'n']);
  const found = await table.ddb.send(
    new GetItemCommand({ TableName: table.tableName, Key: { pk: { S: 'p' }, sk: { S: 's' } } }),
  );
  assert.deepEqual(found.Item, { pk: { S: 'p' }, sk: { S: 's' }, text: { S: 'new' }, theirs: { BOOL: true } });
});

onEngines('update does not create an item', async (table) => {
  const client = clientOf(table);
  await assert.rejects(client.update('Note', { pk: 'p', sk: 's', text: 'x' }, ['text']), ItemNotFoundError);
  assert.equal(await client.getOrNull('Note', { pk: 'p', sk: 's' }), null);
});

onEngines('a raw condition with OR is combined with the version check', async (table) => {
  const client = clientOf(table);
  const first = await client.create('Song', sinnerman);
  const raw = {
    conditionExpression: '#y = :y OR attribute_exists(pk)',
    expressionAttributeNames: { '#y': 'year' },
    expressionAttributeValues: { ':y': { N: '1' } },
  };
  await assert.rejects(client.put('Song', { ...first, version: 7 }, raw), VersionConflictError);
  assert.equal((await client.put('Song', first, raw)).version, 2);
});

onEngines('a parenthesized condition is sent unchanged', async (table) => {
  const client = clientOf(table);
  await client.put('Note', { pk: 'p', sk: 's' }, { conditionExpression: '(attribute_not_exists(pk))' });
  await assert.rejects(
    client.delete(
      'Note',
      { pk: 'p', sk: 's' },
      { conditionExpression: '(attribute_not_exists(pk) OR attribute_exists(n))' },
    ),
    ConditionFailedError,
  );
});

onEngines('a malformed row is reported with its key and attribute', async (table) => {
  const client = clientOf(table);
  const stored = { pk: { S: 'Nina Simone' }, sk: { S: 'Sinnerman' }, year: { S: 'sixties' } };
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: stored }));
  await assert.rejects(client.get('Song', key), (error: MalformedRowError) => {
    assert.ok(error instanceof MalformedRowError);
    assert.deepEqual([error.pk, error.sk, error.attribute], ['Nina Simone', 'Sinnerman', 'year']);
    assert.match(error.found, /sixties/);
    return true;
  });
});

onEngines('a missing table is TableNotFound', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [notes('no-such-table')] });
  await assert.rejects(client.get('Note', { pk: 'p', sk: 's' }), TableNotFoundError);
  await assert.rejects(client.put('Note', { pk: 'p', sk: 's' }), TableNotFoundError);
});

onEngines('a write whose reply is lost has an unknown outcome', async (table) => {
  const ddb = table.connect({ maxAttempts: 1 });
  injectFaults(ddb, (command, n) => (command === 'PutItem' && n === 1 ? 'reply lost' : undefined));
  const client = new TheorydbClient(ddb, { models: [notes(table.tableName)] });
  await assert.rejects(client.create('Note', { pk: 'p', sk: 's' }), (error: UnknownOutcomeError) => {
    assert.ok(error instanceof UnknownOutcomeError);
    assert.equal(outcomeOf(error), 'unknown');
    return true;
  });
  assert.deepEqual(await client.get('Note', { pk: 'p', sk: 's' }), { pk: 'p', sk: 's' });
});

onEngines('a hanging database blocks a call for at most callTimeoutMs', async (table) => {
  const ddb = table.connect();
  ddb.middlewareStack.add(() => () => new Promise(() => {}), { step: 'initialize' });
  const client = new TheorydbClient(ddb, { models: [notes(table.tableName)], callTimeoutMs: 20 });
  await assert.rejects(client.put('Note', { pk: 'p', sk: 's' }), UnknownOutcomeError);
});

onEngines('a call with an aborted signal sends nothing', async (table) => {
  const ddb = table.connect();
  const sent = injectFaults(ddb, () => undefined);
  const client = new TheorydbClient(ddb, { models: [notes(table.tableName)] });
  const signal = AbortSignal.abort(new Error('gone'));
  await assert.rejects(client.put('Note', { pk: 'p', sk: 's' }, { signal }), /gone/);
  await assert.rejects(client.get('Note', { pk: 'p', sk: 's' }, { signal }), /gone/);
  assert.deepEqual([sent('PutItem'), sent('GetItem')], [0, 0]);
});

/** No server listens on this endpoint. */
const nowhere = new DynamoDBClient({ endpoint: 'http://127.0.0.1:1', region: 'us-east-1' });

test('invalid items are rejected before anything is sent', async () => {
  const client = new TheorydbClient(nowhere, { models: [songs('t')] });
  const refused: [string, Record<string, unknown>][] = [
    ['Song.year', { ...sinnerman, year: 2 ** 53 }],
    ['Song.year', { ...sinnerman, year: Number.NaN }],
    ['Song.year', { ...sinnerman, year: '1965' }],
    ['Song.year', { pk: 'p', sk: 's' }],
    ['Song.pk', { ...sinnerman, pk: '' }],
    ['Song.ttl', { ...sinnerman, ttl: 1_800_000_000_000 }],
    ['Song.ttl', { ...sinnerman, ttl: -1 }],
    ['Song.tags', { ...sinnerman, tags: new Set() }],
    ['Song.version', { ...sinnerman, version: -1 }],
    ['yaer', { ...sinnerman, yaer: 1 }],
  ];
  for (const [named, item] of refused) {
    await assert.rejects(
      client.put('Song', item as ItemOf<ReturnType<typeof songs>>),
      (error: Error) => error instanceof InvalidInputError && error.message.includes(named),
      named,
    );
  }
});

test('inconsistent arguments are rejected before anything is sent', async () => {
  const client = new TheorydbClient(nowhere, { models: [songs('t')] });
  const read = { ...sinnerman, version: 1 };
  await assert.rejects(async () => client.upsert('Song', { ...key, plays: 1n }, ['plays']), /does not set year/);
  await assert.rejects(async () => client.update('Song', read, ['version' as 'year']), InvalidQueryError);
  await assert.rejects(async () => client.update('Song', read, ['pk' as 'year']), InvalidQueryError);
  await assert.rejects(async () => client.update('Song', read, ['year', 'year']), InvalidQueryError);
  await assert.rejects(
    async () =>
      client.put('Song', sinnerman, { conditionExpression: '#_0 = :x', expressionAttributeNames: { '#_0': 'year' } }),
    InvalidQueryError,
  );
  await assert.rejects(new TheorydbClient(nowhere).get('Song', key), InvalidModelError);
});

test('two models with the same name are rejected', () => {
  assert.throws(() => new TheorydbClient(nowhere, { models: [notes('a'), notes('b')] }), InvalidModelError);
});

test('the constructor rejects anything but a DynamoDBClient', () => {
  assert.throws(() => new TheorydbClient({} as DynamoDBClient), InvalidInputError);
});
