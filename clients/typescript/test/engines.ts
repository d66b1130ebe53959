/** The engines that tests run on: real servers, named by the environment. */

import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  DeleteTableCommand,
  DynamoDBClient,
  type DynamoDBClientConfig,
} from '@aws-sdk/client-dynamodb';

/** A DynamoDB-compatible server. */
export interface Engine {
  name: string;
  endpoint: string;
}

/** A table with a random name, deleted after the test. */
export interface TestTable {
  engine: Engine;
  ddb: DynamoDBClient;
  tableName: string;
  /** Another client of the same engine, closed after the test. */
  connect(config?: DynamoDBClientConfig): DynamoDBClient;
}

const variable = 'ISR_TEST_ENGINES';

/** Parses ISR_TEST_ENGINES, `name=URL,name=URL`. */
export function engines(): Engine[] {
  const given = process.env[variable] ?? '';
  return given
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const [name = '', endpoint = ''] = part.split(/=(.*)/s);
      return { name, endpoint: new URL(endpoint).origin };
    });
}

/** The reason for skipping tests that need an engine. */
export const noEngine = `${variable} names no engine; ./test sets it, or: ${variable}=localdynamo=http://127.0.0.1:8000`;

/** Defines a test that runs on each engine with a new table. `extra` is added to the keys pk and sk. */
export function onEngines(
  name: string,
  body: (table: TestTable, t: TestContext) => Promise<void>,
  extra: Partial<CreateTableCommandInput> = {},
  all: readonly Engine[] = engines(),
): void {
  if (all.length === 0) {
    test(name, { skip: noEngine });
  }
  for (const engine of all) {
    test(`${name} (${engine.name})`, { timeout: 900_000 }, async (t) => body(await newTable(t, engine, extra), t));
  }
}

/** Registers cleanup work: a test, or a suite. */
export type Cleanup = Pick<TestContext, 'after'>;

/** Creates a table that is deleted after the test. */
export async function newTable(
  t: Cleanup,
  engine: Engine,
  extra: Partial<CreateTableCommandInput> = {},
): Promise<TestTable> {
  const clients: DynamoDBClient[] = [];
  const connect = (config: DynamoDBClientConfig = {}) => {
    const ddb = new DynamoDBClient({
      endpoint: engine.endpoint,
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      ...config,
    });
    clients.push(ddb);
    return ddb;
  };
  const ddb = connect();
  const tableName = `typescript-${randomUUID()}`;
  await ddb.send(new CreateTableCommand({ ...shape, ...extra, TableName: tableName }));
  t.after(async () => {
    await ddb.send(new DeleteTableCommand({ TableName: tableName }));
    for (const client of clients) {
      client.destroy();
    }
  });
  return { engine, ddb, tableName, connect };
}

const shape: Omit<CreateTableCommandInput, 'TableName'> = {
  BillingMode: 'PAY_PER_REQUEST',
  KeySchema: [
    { AttributeName: 'pk', KeyType: 'HASH' },
    { AttributeName: 'sk', KeyType: 'RANGE' },
  ],
  AttributeDefinitions: [
    { AttributeName: 'pk', AttributeType: 'S' },
    { AttributeName: 'sk', AttributeType: 'S' },
  ],
};
