/** Encrypted attributes of models: cases that the vectors of the contract cannot express. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AttributeValue,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
} from '@aws-sdk/client-dynamodb';

import { envelopeEncryption, KeyFile } from '../../src/encryption/index.js';
import {
  ConditionFailedError,
  defineModel,
  InvalidInputError,
  InvalidModelError,
  InvalidQueryError,
  KeyProviderError,
  MalformedRowError,
  NotEncryptedError,
  outcomeOf,
  TamperedError,
  TheorydbClient,
  type TransactAction,
} from '../../src/index.js';
import { onEngines, type TestTable } from '../engines.js';
import { injectFaults, loseReplies } from '../faults.js';
import { FixedKeys, newPath } from './keys.js';

const patients = (tableName: string) =>
  defineModel({
    name: 'Patient',
    table: { name: tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'ward', type: 'S', optional: true },
      { attribute: 'name', type: 'S', encrypted: true },
      { attribute: 'weight', type: 'N', encrypted: true, optional: true },
      { attribute: 'findings', type: 'M', encrypted: true, omit_empty: true },
      { attribute: 'drugs', type: 'SS', encrypted: true, optional: true },
      { attribute: 'scan', type: 'B', encrypted: true, optional: true },
      { attribute: 'nothing', type: 'NULL', encrypted: true, optional: true },
      { attribute: 'version', type: 'N', roles: ['version'] },
    ],
  });

type Patient = ReturnType<typeof patients>;

const key = { pk: 'north', sk: '1' };
const ada = {
  ...key,
  ward: 'B',
  name: 'Ada',
  weight: 61.5,
  findings: { blood: ['0', 2n ** 60n], seen: true },
  drugs: new Set(['tea']),
  scan: new Uint8Array([0, 255]),
  nothing: null,
};
const secrets = ['name', 'weight', 'findings', 'drugs', 'scan', 'nothing'];

function clientOf(table: TestTable, keys = new FixedKeys(), ddb = table.ddb): TheorydbClient<Patient> {
  return new TheorydbClient(ddb, { models: [patients(table.tableName)], encryption: envelopeEncryption(keys) });
}

async function stored(table: TestTable, sk = '1'): Promise<Record<string, AttributeValue>> {
  const command = new GetItemCommand({
    TableName: table.tableName,
    Key: { pk: { S: 'north' }, sk: { S: sk } },
    ConsistentRead: true,
  });
  return (await table.ddb.send(command)).Item ?? {};
}

function isEnvelope(value: AttributeValue | undefined): boolean {
  return (
    Object.keys(value?.M ?? {})
      .sort()
      .join() === 'ct,edk,nonce,v'
  );
}

onEngines('every write encrypts all types, with one data key, and every read decrypts them', async (table) => {
  const writes: Record<string, (client: TheorydbClient<Patient>) => Promise<unknown>> = {
    create: (client) => client.create('Patient', ada),
    put: (client) => client.put('Patient', ada),
    batchWrite: (client) => client.batchWrite('Patient', { puts: [ada] }),
    upsert: (client) =>
      client.upsert('Patient', ada, ['ward', 'name', 'weight', 'findings', 'drugs', 'scan', 'nothing']),
    transactPut: (client) => client.transactWrite([{ kind: 'put', model: 'Patient', item: ada, ifNotExists: true }]),
    transactUpsert: (client) =>
      client.transactWrite([
        {
          kind: 'upsert',
          model: 'Patient',
          item: key,
          changes: (u) => {
            const { pk: _pk, sk: _sk, ...changes } = ada;
            for (const [name, value] of Object.entries(changes)) u.set(name as 'ward', value as string);
          },
        },
      ]),
  };
  for (const [name, write] of Object.entries(writes)) {
    const keys = new FixedKeys();
    const client = clientOf(table, keys);
    await client.delete('Patient', key);
    await write(client);
    assert.deepEqual([keys.made, keys.opened], [1, 0 + (name === 'upsert' ? 1 : 0)], name);
    const item = await stored(table);
    assert.deepEqual(
      Object.keys(item)
        .filter((attribute) => isEnvelope(item[attribute]))
        .sort(),
      [...secrets].sort(),
      name,
    );
    assert.deepEqual(item['ward'], { S: 'B' });
    const expected = { ...ada, version: 1 };
    assert.deepEqual(await client.get('Patient', key), expected, name);
    assert.deepEqual(await client.batchGet('Patient', [key]), [expected], name);
    assert.deepEqual(await client.query('Patient').partitionKey('north').all(), [expected], name);
    assert.deepEqual(await client.scan('Patient').all(), [expected], name);
    const [part] = await client.scan('Patient').select('findings').all();
    assert.deepEqual(part, { findings: ada.findings });
  }
});

onEngines('create and put return the item as it was given, update what is stored', async (table) => {
  const client = clientOf(table);
  const created = await client.create('Patient', ada);
  assert.deepEqual(created, { ...ada, version: 1 });
  assert.deepEqual(await client.put('Patient', created), { ...ada, version: 2 });
  const updated = await client.update('Patient', { ...key, weight: 60 }, ['weight', 'drugs']);
  const { drugs: _, ...rest } = ada;
  assert.deepEqual(updated, { ...rest, weight: 60, version: 3 });
});

onEngines('a batch encrypts each item with a data key of its own, once, however often it is sent', async (table) => {
  const keys = new FixedKeys();
  const client = clientOf(table, keys);
  const puts = Array.from({ length: 30 }, (_, i) => ({ pk: 'north', sk: String(i), name: `patient ${i}` }));
  await client.batchWrite('Patient', { puts });
  assert.equal(keys.made, 30);
  const found = await client.batchGet('Patient', puts);
  assert.deepEqual(
    found.map((item) => item?.name),
    puts.map(({ name }) => name),
  );
  await client.batchWrite('Patient', { deletes: puts });
  assert.equal(keys.made, 30);
});

onEngines('a write that is sent again after a lost reply is recognized', async (table) => {
  const losing = (command: string) => {
    const ddb = table.connect();
    loseReplies(ddb, command, 1);
    return clientOf(table, new FixedKeys(), ddb);
  };
  const created = await losing('PutItem').create('Patient', ada);
  const updated = await losing('UpdateItem').update('Patient', { ...created, name: 'Ada King' }, ['name', 'ward']);
  assert.deepEqual(updated, { ...ada, name: 'Ada King', version: 2 });
  assert.deepEqual(await clientOf(table).get('Patient', key), updated);
});

onEngines('a transaction is applied once, with the ciphertext of its first attempt', async (table) => {
  const ddb = table.connect({ maxAttempts: 1 });
  const keys = new FixedKeys();
  const sent: string[] = [];
  injectFaults(ddb, (command, n, input) => {
    if (command !== 'TransactWriteItems') return undefined;
    sent.push(JSON.stringify(input));
    return n === 1 ? 'reply lost' : undefined;
  });
  const client = new TheorydbClient(ddb, {
    models: [patients(table.tableName)],
    encryption: envelopeEncryption(keys),
    retryDelayMs: 1,
  });
  await client.transactWrite([{ kind: 'put', model: 'Patient', item: ada, ifNotExists: true }]);
  assert.equal(sent.length, 2);
  assert.equal(sent[0], sent[1]);
  assert.equal(keys.made, 1);
  assert.equal((await client.get('Patient', key)).name, 'Ada');
});

onEngines('a value that was copied to another item or attribute is refused', async (table) => {
  const client = clientOf(table);
  await client.create('Patient', ada);
  const item = await stored(table);
  const name = item['name'] as AttributeValue;
  const copies: PutItemCommandInput['Item'][] = [
    { ...item, sk: { S: '2' } },
    { ...item, sk: { S: '3' }, name: item['scan'] as AttributeValue },
  ];
  for (const Item of copies) await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item }));
  for (const sk of ['2', '3']) {
    const expected = new RegExp(`attribute "name" of item {pk="north", sk="${sk}"} of table "${table.tableName}"`);
    for (const read of [
      () => client.get('Patient', { pk: 'north', sk }),
      () => client.batchGet('Patient', [{ pk: 'north', sk }]),
      () => client.query('Patient').partitionKey('north').sortKey('=', sk).select('name').all(),
    ]) {
      await assert.rejects(read, (error: Error) => error instanceof TamperedError && expected.test(error.message));
    }
  }
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: { ...item, name: { S: 'Eve' } } }));
  await assert.rejects(client.get('Patient', key), (error: Error) => {
    assert.match(error.message, /it is stored in plain text; to encrypt it, read it with a model/);
    return error instanceof NotEncryptedError && !error.message.includes('Eve');
  });
  await table.ddb.send(new PutItemCommand({ TableName: table.tableName, Item: { ...item, name } }));
  assert.equal((await client.get('Patient', key)).name, 'Ada');
});

onEngines('a failed condition has the stored item, still encrypted', async (table) => {
  const client = clientOf(table);
  await client.create('Patient', ada);
  await assert.rejects(client.create('Patient', { ...ada, name: 'Eve' }), (error: ConditionFailedError) => {
    assert.ok(error instanceof ConditionFailedError);
    return isEnvelope(error.item?.['name'] as AttributeValue);
  });
});

onEngines('conditions can check whether an encrypted attribute exists', async (table) => {
  const client = clientOf(table);
  const created = await client.create('Patient', { ...key, name: 'Ada' });
  await assert.rejects(
    client.put('Patient', created, { conditionExpression: 'attribute_exists(drugs)' }),
    ConditionFailedError,
  );
  const names = { '#d': 'drugs', '#n': 'name' };
  const condition = 'attribute_not_exists ( #d ) AND attribute_exists(#n)';
  await client.put('Patient', created, { conditionExpression: condition, expressionAttributeNames: names });
  const without = await client
    .scan('Patient')
    .filter((f) => f.not(f.where('drugs', 'exists')))
    .all();
  assert.equal(without.length, 1);
});

/** A client whose requests fail: nothing must be sent. */
function offline(keys = new FixedKeys()) {
  const ddb = new DynamoDBClient({ region: 'us-east-1', credentials: { accessKeyId: 'x', secretAccessKey: 'x' } });
  injectFaults(ddb, (command) => {
    throw new Error(`${command} was sent`);
  });
  return new TheorydbClient(ddb, { models: [patients('t')], encryption: envelopeEncryption(keys) });
}

test('raw expressions that name an encrypted attribute are refused', async () => {
  const keys = new FixedKeys();
  const client = offline(keys);
  const values = { ':v': { S: 'Ada' } };
  const names = { '#n': 'name', '#w': 'ward' };
  const rest = { expressionAttributeNames: names, expressionAttributeValues: values };
  const refused: Record<string, () => Promise<unknown>> = {};
  for (const conditionExpression of [
    'name = :v',
    '#n = :v',
    ':v = #n',
    'size(name) > :v',
    'attribute_exists(ward) AND begins_with(name, :v)',
    'attribute_exists(name.first)',
    'attribute_type(name, :v)',
    'findings.blood = :v',
    '#w=:v OR (NOT name=:v)',
  ]) {
    refused[`condition of put: ${conditionExpression}`] = () =>
      client.put('Patient', { ...key, name: 'Ada' }, { conditionExpression, ...rest });
    const action: TransactAction<Patient> = {
      kind: 'conditionCheck',
      model: 'Patient',
      key,
      conditionExpression,
      ...rest,
    };
    refused[`condition check: ${conditionExpression}`] = () => client.transactWrite([action]);
  }
  for (const updateExpression of [
    'SET name = :v',
    'SET ward = :v, #n = :v',
    'SET ward = name',
    'SET ward = if_not_exists(name, :v)',
    'REMOVE name',
    'ADD weight :v',
    'SET findings.blood = :v',
    'SET ward = :v REMOVE drugs',
  ]) {
    const action: TransactAction<Patient> = { kind: 'update', model: 'Patient', key, updateExpression, ...rest };
    refused[`update: ${updateExpression}`] = () => client.transactWrite([action]);
  }
  for (const [what, call] of Object.entries(refused)) {
    await assert.rejects(call, (error: Error) => {
      assert.ok(error instanceof InvalidQueryError, `${what}: ${error}`);
      return error.message.includes('encrypted');
    });
  }
  assert.equal(keys.made, 0);
});

test('raw expressions that only resemble the name of an encrypted attribute are sent', async () => {
  for (const conditionExpression of [
    'ward = :name',
    'ward.name = :v',
    '#name = :v',
    'ward. name = :v',
    'renamed = :v AND name_1 = :v',
    'attribute_exists(#n) AND NOT attribute_not_exists(drugs)',
  ]) {
    const call = offline().delete('Patient', key, {
      conditionExpression,
      expressionAttributeNames: { '#name': 'ward', '#n': 'name' },
    });
    await assert.rejects(call, { code: 'UnknownOutcome' }, conditionExpression);
  }
});

test('updates that need the stored value of an encrypted attribute are refused', async () => {
  const client = offline() as unknown as TheorydbClient; // the types refuse them too
  for (const [name, build] of Object.entries({
    add: (u) => u.add('weight', 1),
    'add to a set': (u) => u.add('drugs', new Set(['tea'])),
    delete: (u) => u.delete('drugs', new Set(['tea']) as never),
    ifNotExists: (u) => u.ifNotExists('name', 'Ada'),
  } satisfies Record<string, Parameters<typeof client.update>[2]>)) {
    await assert.rejects(client.update('Patient', key, build), InvalidQueryError, name);
  }
});

test('errors do not contain the values of encrypted attributes', async () => {
  const client = offline() as unknown as TheorydbClient;
  for (const wrong of [
    { name: 4711 },
    { weight: '4711' },
    { weight: Number.POSITIVE_INFINITY },
    { findings: { '4711': new Date() } },
    { drugs: ['4711'] },
    { name: '4711\ud800' },
  ]) {
    const [attribute = ''] = Object.keys(wrong);
    await assert.rejects(client.create('Patient', { ...key, name: 'Ada', ...wrong }), (error: Error) => {
      assert.ok(error instanceof InvalidInputError, String(error));
      assert.ok(error.message.includes(`Patient.${attribute}`), error.message);
      return !/4711|Infinity/.test(error.message) && error.cause === undefined;
    });
  }
});

onEngines('a decrypted value of another type is malformed, and is not shown', async (table) => {
  const item = { ...key, name: 'Ada', findings: { secret: ['4711'] } };
  await clientOf(table).create('Patient', item);
  const other = defineModel({
    name: 'Patient',
    table: { name: table.tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'name', type: 'N', encrypted: true },
    ],
  });
  const client = new TheorydbClient(table.ddb, { models: [other], encryption: envelopeEncryption(new FixedKeys()) });
  await assert.rejects(client.get('Patient', key), (error: MalformedRowError) => {
    assert.ok(error instanceof MalformedRowError);
    assert.equal(error.attribute, 'name');
    return !error.message.includes('Ada');
  });
});

test('a model with encrypted attributes needs keys', async () => {
  const ddb = new DynamoDBClient({ region: 'us-east-1' });
  const client = new TheorydbClient(ddb, { models: [patients('t')] });
  for (const call of [
    async () => client.query('Patient'),
    async () => client.scan('Patient'),
    () => client.get('Patient', key),
    () => client.create('Patient', ada),
    () => client.delete('Patient', key),
    () => client.batchGet('Patient', [key]),
    () => client.batchWrite('Patient', { puts: [ada] }),
    () => client.transactWrite([{ kind: 'delete', model: 'Patient', key }]),
  ]) {
    await assert.rejects(call, (error: Error) => {
      assert.match(
        error.message,
        /the attribute name of the model Patient is encrypted: there are no keys.*pass encryption/,
      );
      return error instanceof InvalidModelError;
    });
  }
});

test('keys of tables and indexes, and attributes with a role, cannot be encrypted', () => {
  const pk = { attribute: 'pk', type: 'S' } as const;
  const base = { name: 'Wrong', table: { name: 't' }, keys: { partition: pk } } as const;
  const gsi = { name: 'i', type: 'GSI', partition: { attribute: 'name', type: 'S' } } as const;
  for (const definition of [
    { ...base, attributes: [{ ...pk, encrypted: true }] },
    { ...base, attributes: [pk, { attribute: 'name', type: 'S', encrypted: true }], indexes: [gsi] } as const,
    { ...base, attributes: [pk, { attribute: 'v', type: 'N', roles: ['version'], encrypted: true }] } as const,
    { ...base, attributes: [pk, { attribute: 'at', type: 'S', roles: ['updated_at'], encrypted: true }] } as const,
  ]) {
    assert.throws(
      () => defineModel(definition),
      (error: Error) => error instanceof InvalidModelError && error.message.includes('cannot be encrypted'),
    );
  }
});

test('a provider that does not answer ends with the call, and nothing is sent', async () => {
  const ddb = new DynamoDBClient({ region: 'us-east-1', credentials: { accessKeyId: 'x', secretAccessKey: 'x' } });
  injectFaults(ddb, (command) => {
    throw new Error(`${command} was sent`);
  });
  const signals: (AbortSignal | undefined)[] = [];
  const encryption = envelopeEncryption({
    newDataKey: (signal) => {
      signals.push(signal);
      return new Promise(() => undefined);
    },
    openDataKey: () => Promise.reject(new Error('not needed')),
  });
  const client = new TheorydbClient(ddb, { models: [patients('t')], encryption, callTimeoutMs: 1 });
  await assert.rejects(client.create('Patient', ada), (error: KeyProviderError) => {
    assert.ok(error instanceof KeyProviderError);
    return (error.cause as Error).name === 'TimeoutError';
  });
  const stop = new AbortController();
  const calling = client.create('Patient', ada, { signal: stop.signal });
  stop.abort(new Error('stopped'));
  await assert.rejects(calling, /stopped/);
  assert.ok(signals[0]?.aborted);
});

test('a provider that fails is the cause, and nothing is sent', async () => {
  const failure = new Error('KMS is down');
  const keys = new FixedKeys();
  keys.newDataKey = () => Promise.reject(failure);
  const client = offline(keys);
  for (const call of [
    () => client.put('Patient', ada),
    () => client.update('Patient', ada, ['name']),
    () => client.batchWrite('Patient', { puts: [ada] }),
    () => client.transactWrite([{ kind: 'put', model: 'Patient', item: ada }]),
  ]) {
    await assert.rejects(call, (error: Error) => {
      assert.match(error.message, /Patient pk=north sk=1 in table t: the key provider failed: KMS is down/);
      assert.equal(outcomeOf(error), 'cancelled');
      return error instanceof KeyProviderError && error.cause === failure;
    });
  }
});

onEngines('a key file: items stay readable after a rotation', async (table, t) => {
  const keys = await KeyFile.open(newPath(t));
  const models = [patients(table.tableName)];
  const client = new TheorydbClient(table.ddb, { models, encryption: envelopeEncryption(keys) });
  await client.create('Patient', ada);
  await keys.rotate();
  const updated = await client.update('Patient', { ...key, name: 'Ada King' }, ['name']);
  assert.deepEqual(updated, { ...ada, name: 'Ada King', version: 2 });
});
