// The AWS SDK for JavaScript against a running isr dynamodb, configured by the SDK's usual
// environment variables: AWS_ENDPOINT_URL_DYNAMODB, region, credentials. sdk_test.go starts
// the server and this test; it sets ISR_TEST_VERIFIED if the server verifies signatures.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import { after, before, describe, test } from 'node:test';
import {
  BatchGetItemCommand, ConditionalCheckFailedException, CreateTableCommand, DeleteTableCommand, DescribeTableCommand,
  DescribeTimeToLiveCommand, DynamoDBClient, GetItemCommand, ListTablesCommand, ListTagsOfResourceCommand, PutItemCommand,
  ResourceInUseException, ResourceNotFoundException, TagResourceCommand, TransactionCanceledException, UntagResourceCommand,
  UpdateTableCommand, UpdateTimeToLiveCommand, paginateListTables, waitUntilTableExists, waitUntilTableNotExists,
} from '@aws-sdk/client-dynamodb';
import {
  BatchGetCommand, BatchWriteCommand, DeleteCommand, DynamoDBDocumentClient, GetCommand, NumberValue, PutCommand, QueryCommand,
  ScanCommand, TransactGetCommand, TransactWriteCommand, UpdateCommand, paginateQuery, paginateScan,
} from '@aws-sdk/lib-dynamodb';

const client = new DynamoDBClient({ maxAttempts: 1 });
const documents = DynamoDBDocumentClient.from(client, {
  marshallOptions: { removeUndefinedValues: true },
  unmarshallOptions: { wrapNumbers: NumberValue.from }, // JavaScript numbers cannot hold 38 digits
});
after(() => client.destroy());

const uniqueName = () => `javascript-${randomUUID()}`;
const waiterOptions = { client, maxWaitTime: 30, minDelay: 0.05, maxDelay: 0.2 };

// The index lists a customer's orders by price.
const schema = (TableName) => ({
  TableName,
  BillingMode: 'PAY_PER_REQUEST',
  AttributeDefinitions: [
    { AttributeName: 'pk', AttributeType: 'S' },
    { AttributeName: 'sk', AttributeType: 'N' },
    { AttributeName: 'customer', AttributeType: 'S' },
    { AttributeName: 'price', AttributeType: 'N' },
  ],
  KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }, { AttributeName: 'sk', KeyType: 'RANGE' }],
  GlobalSecondaryIndexes: [{
    IndexName: 'by-price',
    KeySchema: [{ AttributeName: 'customer', KeyType: 'HASH' }, { AttributeName: 'price', KeyType: 'RANGE' }],
    Projection: { ProjectionType: 'INCLUDE', NonKeyAttributes: ['note'] },
  }],
});

async function createTable() {
  const TableName = uniqueName();
  await client.send(new CreateTableCommand(schema(TableName)));
  await waitUntilTableExists(waiterOptions, { TableName });
  return TableName;
}

// plain converts NumberValue to JavaScript numbers.
const plain = (item) => JSON.parse(JSON.stringify(item, (_, v) => (v instanceof NumberValue ? Number(v.toString()) : v)));

describe('tables', () => {
  test('are created, listed, described, tagged and deleted', async () => {
    const TableName = uniqueName();
    await client.send(new CreateTableCommand({ ...schema(TableName), Tags: [{ Key: 'stage', Value: 'test' }] }));
    const waited = await waitUntilTableExists(waiterOptions, { TableName });
    assert.equal(waited.state, 'SUCCESS');
    await assert.rejects(client.send(new CreateTableCommand(schema(TableName))), ResourceInUseException);

    const { Table } = await client.send(new DescribeTableCommand({ TableName }));
    assert.equal(Table.TableStatus, 'ACTIVE');
    assert.ok(Table.CreationDateTime instanceof Date && Math.abs(Date.now() - Table.CreationDateTime) < 600_000, `created at ${Table.CreationDateTime}`);
    assert.deepEqual(Table.GlobalSecondaryIndexes.map((i) => [i.IndexName, i.IndexStatus]), [['by-price', 'ACTIVE']]);

    const names = [];
    for await (const page of paginateListTables({ client, pageSize: 1 }, {})) names.push(...page.TableNames);
    assert.ok(names.includes(TableName), `${TableName} is not among ${names}`);
    assert.equal((await client.send(new ListTablesCommand({ Limit: 1 }))).TableNames.length, 1);

    const tags = async () => (await client.send(new ListTagsOfResourceCommand({ ResourceArn: Table.TableArn }))).Tags
      .map((t) => `${t.Key}=${t.Value}`).sort();
    await client.send(new TagResourceCommand({ ResourceArn: Table.TableArn, Tags: [{ Key: 'owner', Value: 'zoë' }] }));
    assert.deepEqual(await tags(), ['owner=zoë', 'stage=test']);
    await client.send(new UntagResourceCommand({ ResourceArn: Table.TableArn, TagKeys: ['stage'] }));
    assert.deepEqual(await tags(), ['owner=zoë']);

    await client.send(new UpdateTableCommand({ TableName, GlobalSecondaryIndexUpdates: [{ Delete: { IndexName: 'by-price' } }] }));
    await waitUntilTableExists(waiterOptions, { TableName });
    await client.send(new DeleteTableCommand({ TableName }));
    await waitUntilTableNotExists(waiterOptions, { TableName });
    await assert.rejects(client.send(new DescribeTableCommand({ TableName })), (err) => {
      assert.ok(err instanceof ResourceNotFoundException, `${err}`);
      assert.equal(err.$metadata.httpStatusCode, 400);
      assert.ok(err.$metadata.requestId, 'no request id');
      return true;
    });
  });

  test('have a time to live attribute', async () => {
    const TableName = await createTable();
    await client.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { Enabled: true, AttributeName: 'expires' } }));
    const { TimeToLiveDescription: ttl } = await client.send(new DescribeTimeToLiveCommand({ TableName }));
    assert.equal(ttl.AttributeName, 'expires');
    assert.match(ttl.TimeToLiveStatus, /^ENABL(ED|ING)$/);
    await client.send(new DeleteTableCommand({ TableName }));
  });
});

describe('items', () => {
  let TableName;
  before(async () => { TableName = await createTable(); });
  after(() => client.send(new DeleteTableCommand({ TableName })));

  const order = (pk, sk, rest) => ({ pk, sk, ...rest });

  test('keep every type of value', async () => {
    const item = order('values', 1, {
      digits: NumberValue.from('12345678901234567890123456789012345678'),
      tiny: NumberValue.from('-1.5e-128'),
      empty: '',
      text: 'Größe 東京 🚲 \u0000 "\\',
      bytes: new Uint8Array([0, 1, 254, 255]),
      nothing: null,
      yes: true,
      list: [1, 'two', [false, {}], []],
      map: { 'a.b': { ' ': 'a blank' } },
      names: new Set(['a', 'b', '']),
      numbers: new Set([3, 20, -1]),
      blobs: new Set([new Uint8Array([1]), new Uint8Array([2, 3])]),
    });
    await documents.send(new PutCommand({ TableName, Item: item }));
    const { Item } = await documents.send(new GetCommand({ TableName, Key: { pk: 'values', sk: 1 }, ConsistentRead: true }));
    assert.equal(Item.digits.toString(), '12345678901234567890123456789012345678');
    assert.match(Item.tiny.toString(), /^-0\.0{127}15$/);
    assert.deepEqual(Buffer.from(Item.bytes), Buffer.from([0, 1, 254, 255]));
    assert.deepEqual(new Set(Item.names), item.names);
    assert.deepEqual([...Item.numbers].map((n) => Number(n.toString())).sort((a, b) => a - b), [-1, 3, 20]);
    assert.deepEqual([...Item.blobs].map((b) => Buffer.from(b).toString('hex')).sort(), ['01', '0203']);
    for (const name of ['empty', 'text', 'nothing', 'yes', 'list', 'map']) assert.deepEqual(plain(Item[name]), item[name], name);
  });

  test('are written conditionally', async () => {
    const Key = { pk: 'conditions', sk: 1 };
    const create = { TableName, Item: { ...Key, version: 1 }, ConditionExpression: 'attribute_not_exists(pk)' };
    await documents.send(new PutCommand(create));
    await assert.rejects(documents.send(new PutCommand({ ...create, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' })), (err) => {
      assert.ok(err instanceof ConditionalCheckFailedException, `${err}`);
      assert.equal(err.message, 'The conditional request failed');
      assert.deepEqual(err.Item, { pk: { S: 'conditions' }, sk: { N: '1' }, version: { N: '1' } });
      return true;
    });
    await assert.rejects(documents.send(new PutCommand(create)), (err) => err instanceof ConditionalCheckFailedException && err.Item === undefined);

    const { Attributes } = await documents.send(new UpdateCommand({
      TableName, Key,
      UpdateExpression: 'SET #v = #v + :one, marks = list_append(if_not_exists(marks, :none), :mark) ADD tags :tags',
      ConditionExpression: '#v = :one',
      ExpressionAttributeNames: { '#v': 'version' },
      ExpressionAttributeValues: { ':one': 1, ':none': [], ':mark': ['new'], ':tags': new Set(['x']) },
      ReturnValues: 'UPDATED_NEW',
    }));
    assert.equal(Number(Attributes.version), 2);
    assert.deepEqual(Attributes.marks, ['new']);
    assert.deepEqual(new Set(Attributes.tags), new Set(['x']));
    const gone = await documents.send(new DeleteCommand({ TableName, Key, ReturnValues: 'ALL_OLD' }));
    assert.equal(Number(gone.Attributes.version), 2);
    assert.equal((await documents.send(new GetCommand({ TableName, Key }))).Item, undefined);
  });

  test('are queried and scanned with pagination', async () => {
    for (let sk = 0; sk < 23; sk += 1) {
      await documents.send(new PutCommand({ TableName, Item: order('pages', sk, { customer: 'zoë', price: 100 - sk, note: `n${sk}`, hidden: 1 }) }));
    }
    const query = {
      TableName, KeyConditionExpression: 'pk = :pk AND sk BETWEEN :from AND :to', ScanIndexForward: false,
      ExpressionAttributeValues: { ':pk': 'pages', ':from': 3, ':to': 19 },
    };
    const found = [];
    let pages = 0;
    for await (const page of paginateQuery({ client: documents, pageSize: 5 }, { ...query })) {
      found.push(...page.Items.map((i) => Number(i.sk)));
      pages += 1;
    }
    assert.deepEqual(found, Array.from({ length: 17 }, (_, i) => 19 - i));
    assert.equal(pages, 4);
    assert.equal((await documents.send(new QueryCommand({ ...query, Select: 'COUNT' }))).Count, 17);

    const byPrice = await documents.send(new QueryCommand({
      TableName, IndexName: 'by-price', KeyConditionExpression: 'customer = :c AND price < :t', FilterExpression: 'note <> :n',
      ExpressionAttributeValues: { ':c': 'zoë', ':t': 81, ':n': 'n21' }, ReturnConsumedCapacity: 'INDEXES',
    }));
    assert.deepEqual(plain(byPrice.Items), [22, 20].map((sk) => ({ pk: 'pages', sk, customer: 'zoë', price: 100 - sk, note: `n${sk}` })));
    assert.equal(byPrice.ScannedCount, 3);
    assert.equal(byPrice.ConsumedCapacity.GlobalSecondaryIndexes['by-price'].CapacityUnits, 0.5);

    let scanned = 0;
    const scan = { TableName, IndexName: 'by-price', TotalSegments: 2 };
    for (const Segment of [0, 1]) {
      for await (const page of paginateScan({ client: documents, pageSize: 4 }, { ...scan, Segment })) scanned += page.Count;
    }
    assert.equal(scanned, 23);
    assert.equal((await documents.send(new ScanCommand({ TableName, FilterExpression: 'note = :n', ExpressionAttributeValues: { ':n': 'n4' } }))).Count, 1);
  });

  test('are written and read in batches', async () => {
    const keys = Array.from({ length: 25 }, (_, sk) => ({ pk: 'batch', sk }));
    const wrote = await documents.send(new BatchWriteCommand({
      RequestItems: { [TableName]: keys.map((key) => ({ PutRequest: { Item: { ...key, text: 'x'.repeat(100) } } })) },
    }));
    assert.deepEqual(wrote.UnprocessedItems, {});
    const read = await documents.send(new BatchGetCommand({ RequestItems: { [TableName]: { Keys: [...keys, { pk: 'batch', sk: 99 }] } } }));
    assert.equal(read.Responses[TableName].length, 25);
    assert.deepEqual(read.UnprocessedKeys, {});
    const low = await client.send(new BatchGetItemCommand({
      RequestItems: { [TableName]: { Keys: [{ pk: { S: 'batch' }, sk: { N: '7.0' } }], ProjectionExpression: 'sk' } },
    }));
    assert.deepEqual(low.Responses[TableName], [{ sk: { N: '7' } }]);
  });

  test('are written atomically by transactions', async () => {
    const put = (sk, more) => ({ Put: { TableName, Item: { pk: 'transaction', sk, value: 'old' }, ...more } });
    const ClientRequestToken = randomUUID();
    const first = { TransactItems: [put(1), put(2)], ClientRequestToken };
    await documents.send(new TransactWriteCommand(first));
    await documents.send(new TransactWriteCommand(first)); // idempotent by its token

    const absent = { ConditionExpression: 'attribute_not_exists(pk)', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' };
    await assert.rejects(documents.send(new TransactWriteCommand({ TransactItems: [put(3), put(2, absent)] })), (err) => {
      assert.ok(err instanceof TransactionCanceledException, `${err}`);
      assert.deepEqual(err.CancellationReasons.map((r) => r.Code), ['None', 'ConditionalCheckFailed']);
      assert.deepEqual(err.CancellationReasons[1].Item, { pk: { S: 'transaction' }, sk: { N: '2' }, value: { S: 'old' } });
      return true;
    });
    const get = (sk) => ({ Get: { TableName, Key: { pk: 'transaction', sk } } });
    const { Responses } = await documents.send(new TransactGetCommand({ TransactItems: [get(1), get(3), get(2)] }));
    assert.deepEqual(Responses.map((r) => r.Item?.value), ['old', undefined, 'old']);

    const other = { TransactItems: [put(1)], ClientRequestToken };
    await assert.rejects(documents.send(new TransactWriteCommand(other)), { name: 'IdempotentParameterMismatchException' });
  });

  test('are rejected with the errors of DynamoDB', async () => {
    await assert.rejects(client.send(new GetItemCommand({ TableName: uniqueName(), Key: { pk: { S: 'a' } } })), ResourceNotFoundException);
    const bad = new UpdateCommand({
      TableName, Key: { pk: 'a', sk: 1 }, UpdateExpression: 'SET ttl = :v', ExpressionAttributeValues: { ':v': 1 },
    });
    await assert.rejects(documents.send(bad), { name: 'ValidationException', message: /reserved keyword.*ttl/ });
    await assert.rejects(client.send(new PutItemCommand({ TableName, Item: { pk: { S: '' }, sk: { N: '1' } } })), { name: 'ValidationException' });
    await assert.rejects(client.send(new PutItemCommand({ TableName, Item: { pk: { S: 'a' }, sk: { N: 'one' } } })), { name: 'ValidationException' });
  });
});

test('connections are kept alive', async () => {
  const TableName = await createTable();
  const agent = new Agent({ keepAlive: true });
  let connections = 0;
  const connect = agent.createConnection;
  agent.createConnection = function count(...args) {
    connections += 1;
    return connect.apply(this, args);
  };
  const pooled = new DynamoDBClient({ maxAttempts: 1, requestHandler: { httpAgent: agent } });
  for (let i = 0; i < 20; i += 1) {
    await pooled.send(new PutItemCommand({ TableName, Item: { pk: { S: 'kept' }, sk: { N: `${i}` }, text: { S: 'x'.repeat(i * 5000) } } }));
  }
  await assert.rejects(pooled.send(new PutItemCommand({ TableName, Item: {} })), { name: 'ValidationException' });
  await pooled.send(new DeleteTableCommand({ TableName }));
  pooled.destroy();
  assert.equal(connections, 1);
});

if (process.env.ISR_TEST_VERIFIED) {
  test('wrong signatures are rejected', async () => {
    const accessKeyId = process.env.AWS_ACCESS_KEY_ID;
    for (const [credentials, name] of [
      [{ accessKeyId, secretAccessKey: 'guessed' }, 'InvalidSignatureException'],
      [{ accessKeyId: 'unknown', secretAccessKey: 'guessed' }, 'UnrecognizedClientException'],
    ]) {
      const stranger = new DynamoDBClient({ maxAttempts: 1, credentials });
      await assert.rejects(stranger.send(new ListTablesCommand({})), { name });
      stranger.destroy();
    }
  });
}
