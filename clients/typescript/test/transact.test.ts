import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import {
  ConditionFailedError,
  defineModel,
  InvalidQueryError,
  TheorydbClient,
  type TransactAction,
  TransactionConflictError,
  UnknownOutcomeError,
  VersionConflictError,
} from '../src/index.js';
import { onEngines } from './engines.js';
import { type Fault, injectFaults } from './faults.js';

const accounts = (tableName: string) =>
  defineModel({
    name: 'Account',
    table: { name: tableName },
    keys: { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } },
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'balance', type: 'N' },
      { attribute: 'version', type: 'N', roles: ['version'] },
    ],
  });

type Account = ReturnType<typeof accounts>;

const ann = { pk: 'ann', sk: 'A' };
const bob = { pk: 'bob', sk: 'A' };

onEngines('a transaction applies actions of every kind', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [accounts(table.tableName)] });
  const first = await client.create('Account', { ...ann, balance: 10 });
  await client.create('Account', { ...bob, balance: 10 });
  await client.create('Account', { pk: 'eve', sk: 'A', balance: 0 });
  await client.transactWrite([
    { kind: 'update', model: 'Account', item: { ...first, balance: 7 }, fields: ['balance'] },
    {
      kind: 'update',
      model: 'Account',
      key: bob,
      updateExpression: 'SET balance = balance + :n',
      expressionAttributeValues: { ':n': { N: '3' } },
    },
    { kind: 'delete', model: 'Account', key: { pk: 'eve', sk: 'A' } },
    { kind: 'put', model: 'Account', item: { pk: 'log', sk: '1', balance: 3 }, ifNotExists: true },
    {
      kind: 'conditionCheck',
      model: 'Account',
      key: { pk: 'mallory', sk: 'A' },
      conditionExpression: 'attribute_not_exists(pk)',
    },
  ]);
  const found = await client.batchGet('Account', [ann, bob, { pk: 'eve', sk: 'A' }, { pk: 'log', sk: '1' }]);
  assert.deepEqual(
    found.map((item) => item && [item.balance, item.version]),
    [[7, 2], [13, 1], undefined, [3, 1]],
  );
});

onEngines('a refused transaction names the failed action, reports all reasons, and applies nothing', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [accounts(table.tableName)] });
  const first = await client.create('Account', { ...ann, balance: 10 });
  await client.put('Account', { ...first, balance: 11 });
  const late: TransactAction<Account>[] = [
    { kind: 'put', model: 'Account', item: { ...bob, balance: 1 } },
    { kind: 'put', model: 'Account', item: { ...first, balance: 9 } },
  ];
  await assert.rejects(client.transactWrite(late), (error: VersionConflictError) => {
    assert.ok(error instanceof VersionConflictError);
    assert.match(error.message, /action 1, put Account pk=ann sk=A/);
    assert.deepEqual(
      error.reasons.map((reason) => reason.code),
      ['None', 'ConditionalCheckFailed'],
    );
    assert.deepEqual(error.item?.['balance'], { N: '11' });
    return true;
  });
  assert.equal(await client.getOrNull('Account', bob), null);
});

for (const fault of ['reply lost', 'not applied'] as Fault[]) {
  onEngines(`a transaction is applied once despite a failed call: ${fault}`, async (table) => {
    const ddb = table.connect({ maxAttempts: 1 });
    const sent = injectFaults(ddb, (command, n) => (command === 'TransactWriteItems' && n === 1 ? fault : undefined));
    const client = new TheorydbClient(ddb, { models: [accounts(table.tableName)], retryDelayMs: 1 });
    await client.create('Account', { ...ann, balance: 10 });
    await client.transactWrite([
      {
        kind: 'update',
        model: 'Account',
        key: ann,
        updateExpression: 'SET balance = balance + :n',
        expressionAttributeValues: { ':n': { N: '1' } },
      },
    ]);
    assert.equal((await client.get('Account', ann)).balance, 11);
    assert.equal(sent('TransactWriteItems'), 2);
  });
}

/** DynamoDB's response to a conflicting transaction, which test engines rarely produce. */
function conflict(): Error {
  const CancellationReasons = [{ Code: 'TransactionConflict', Message: 'Transaction is ongoing for the item' }];
  return Object.assign(new Error('Transaction cancelled'), {
    name: 'TransactionCanceledException',
    $fault: 'client',
    CancellationReasons,
  });
}

onEngines('a conflicting transaction is retried, and finally reports the conflict', async (table) => {
  const ddb = table.connect();
  let conflicts = 2;
  ddb.middlewareStack.add(
    (next, context) => async (args) => {
      if ((context as { commandName?: string }).commandName === 'TransactWriteItemsCommand' && conflicts-- > 0) {
        throw conflict();
      }
      return next(args);
    },
    { step: 'initialize' },
  );
  const client = new TheorydbClient(ddb, { models: [accounts(table.tableName)], retryDelayMs: 1 });
  await client.transactWrite([{ kind: 'put', model: 'Account', item: { ...ann, balance: 10 } }]);
  assert.equal((await client.get('Account', ann)).balance, 10);
  conflicts = Number.POSITIVE_INFINITY;
  const removal: TransactAction<Account> = { kind: 'delete', model: 'Account', key: ann };
  await assert.rejects(client.transactWrite([removal]), (error: TransactionConflictError) => {
    assert.ok(error instanceof TransactionConflictError);
    assert.equal(error.reasons[0]?.code, 'TransactionConflict');
    return true;
  });
  assert.equal((await client.get('Account', ann)).balance, 10);
});

onEngines('an unanswered transaction has an unknown outcome after a few attempts', async (table) => {
  const ddb = table.connect({ maxAttempts: 1 });
  const sent = injectFaults(ddb, (command) => (command === 'TransactWriteItems' ? 'reply lost' : undefined));
  const client = new TheorydbClient(ddb, { models: [accounts(table.tableName)], retryDelayMs: 1 });
  const put: TransactAction<Account> = { kind: 'put', model: 'Account', item: { ...ann, balance: 10 } };
  await assert.rejects(client.transactWrite([put]), UnknownOutcomeError);
  assert.equal(sent('TransactWriteItems'), 4);
  assert.equal((await client.get('Account', ann)).version, 1);
});

onEngines('actions take raw conditions', async (table) => {
  const client = new TheorydbClient(table.ddb, { models: [accounts(table.tableName)] });
  await client.create('Account', { ...ann, balance: 10 });
  const withdrawal: TransactAction<Account> = {
    kind: 'update',
    model: 'Account',
    key: ann,
    updateExpression: 'SET balance = balance - :n',
    conditionExpression: 'balance >= :n',
    expressionAttributeValues: { ':n': { N: '6' } },
  };
  await client.transactWrite([withdrawal]);
  await assert.rejects(client.transactWrite([withdrawal]), ConditionFailedError);
  assert.equal((await client.get('Account', ann)).balance, 4);
});

test('invalid transactions are rejected before anything is sent', async () => {
  const client = new TheorydbClient(new DynamoDBClient({ endpoint: 'http://127.0.0.1:1', region: 'us-east-1' }), {
    models: [accounts('t')],
  });
  const put: TransactAction<Account> = { kind: 'put', model: 'Account', item: { ...ann, balance: 1 } };
  const removal: TransactAction<Account> = { kind: 'delete', model: 'Account', key: ann };
  const many = Array.from(
    { length: 101 },
    (_, i): TransactAction<Account> => ({ ...put, item: { pk: `${i}`, sk: 'A', balance: 1 } }),
  );
  await assert.rejects(client.transactWrite([]), InvalidQueryError);
  await assert.rejects(client.transactWrite(many), InvalidQueryError);
  await assert.rejects(client.transactWrite([put, removal]), /actions 0 and 1 .* same item/);
  await assert.rejects(client.transactWrite([put], { clientRequestToken: 'x'.repeat(37) }), InvalidQueryError);
  await assert.rejects(client.transactWrite([{ kind: 'replace', model: 'Account' } as never]), /the kind replace/);
});
