/** Creates the tables of models: keys, indexes, and the TTL attribute. */

import {
  type AttributeDefinition as AttributeSpec,
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type KeySchemaElement,
  type TableDescription,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';

import { InvalidModelError, TableNotFoundError } from './errors.js';
import type { IndexDefinition, KeyDefinition, Model } from './model.js';
import { answerOf } from './outcome.js';
import type { Calls } from './retry.js';

/** Options of `createTable` and `ensureTable`. */
export interface TableOptions {
  /** Cancels the call. A table that was being created stays. */
  signal?: AbortSignal;
  /** How long to wait until the table and its indexes are active, in milliseconds. Default: 300,000. */
  timeoutMs?: number;
}

/** The interval at which the state of a table is polled, in milliseconds. */
const pollMs = 250;
const defaultTimeoutMs = 300_000;

/** The table that models share. */
interface Spec {
  tableName: string;
  keys: Keys;
  indexes: ReadonlyMap<string, IndexDefinition>;
  ttl: string | undefined;
}

interface Keys {
  readonly partition: KeyDefinition;
  readonly sort?: KeyDefinition | undefined;
}

/** The clients and bounds of one call. */
interface Work {
  ddb: DynamoDBClient;
  calls: Calls;
  spec: Spec;
  signal: AbortSignal | undefined;
  deadline: number;
}

/** Creates the table and waits until it is active. */
export async function createTable(
  ddb: DynamoDBClient,
  calls: Calls,
  models: readonly Model[],
  options: TableOptions,
): Promise<void> {
  const work = workOf(ddb, calls, models, options);
  await create(work);
  await awaitActive(work);
  await ensureTtl(work);
}

/** Creates the table if it does not exist, or adds what it lacks. */
export async function ensureTable(
  ddb: DynamoDBClient,
  calls: Calls,
  models: readonly Model[],
  options: TableOptions,
): Promise<void> {
  const work = workOf(ddb, calls, models, options);
  if ((await describe(work)) === undefined) {
    await create(work).catch((error: unknown) => {
      if (answerOf(error)?.name !== 'ResourceInUseException') throw error; // another process is creating it
    });
  }
  checkKeys(work.spec, 'the table', work.spec.keys, (await awaitActive(work)).KeySchema);
  for (const index of work.spec.indexes.values()) {
    await ensureIndex(work, index);
  }
  await ensureTtl(work);
}

function workOf(ddb: DynamoDBClient, calls: Calls, models: readonly Model[], options: TableOptions): Work {
  const deadline = calls.clock.elapsed() + (options.timeoutMs ?? defaultTimeoutMs);
  return { ddb, calls, spec: specOf(models), signal: options.signal, deadline };
}

/** Merges the declarations of models of one table. */
function specOf(models: readonly Model[]): Spec {
  const [first, ...others] = models;
  if (first === undefined) {
    throw new InvalidModelError('a table needs at least one model');
  }
  const spec = { tableName: first.tableName, keys: first.definition.keys, ttl: first.ttl?.attribute };
  for (const model of others) {
    if (model.tableName !== spec.tableName || textOf(model.definition.keys) !== textOf(spec.keys)) {
      throw new InvalidModelError(
        `the models ${first.name} and ${model.name} are not of one table: they differ in its name or its keys`,
      );
    }
    spec.ttl ??= model.ttl?.attribute;
    if (model.ttl !== undefined && model.ttl.attribute !== spec.ttl) {
      throw new InvalidModelError(
        `the models of the table ${spec.tableName} have different ttl attributes, ${spec.ttl} and ${model.ttl.attribute}`,
      );
    }
  }
  const indexes = new Map<string, IndexDefinition>();
  for (const index of models.flatMap((model) => model.definition.indexes ?? [])) {
    const known = indexes.get(index.name) ?? index;
    if (known.type !== index.type || textOf(known) !== textOf(index)) {
      throw new InvalidModelError(`models of the table ${spec.tableName} declare the index ${index.name} differently`);
    }
    indexes.set(index.name, index);
  }
  return { ...spec, indexes };
}

/** Describes keys: equal for equal keys. */
function textOf(keys: Keys): string {
  const [partition, sort] = [keys.partition, keys.sort].map((key) => key && `${key.attribute} ${key.type}`);
  return sort === undefined ? `${partition}` : `${partition}, ${sort}`;
}

async function create({ ddb, calls, spec, signal }: Work): Promise<void> {
  const all = [...spec.indexes.values()];
  const of = (type: 'GSI' | 'LSI') => all.filter((index) => index.type === type).map(indexSpec);
  const [globals, locals] = [of('GSI'), of('LSI')];
  const command = new CreateTableCommand({
    TableName: spec.tableName,
    BillingMode: 'PAY_PER_REQUEST',
    KeySchema: schemaOf(spec.keys),
    AttributeDefinitions: attributesOf([spec.keys, ...all]),
    ...(globals.length === 0 ? {} : { GlobalSecondaryIndexes: globals }),
    ...(locals.length === 0 ? {} : { LocalSecondaryIndexes: locals }),
  });
  await calls.call(signal, (abortSignal) => ddb.send(command, { abortSignal }));
}

function indexSpec(index: IndexDefinition) {
  return { IndexName: index.name, KeySchema: schemaOf(index), Projection: { ProjectionType: 'ALL' as const } };
}

function schemaOf(keys: Keys): KeySchemaElement[] {
  const sort = keys.sort === undefined ? [] : [{ AttributeName: keys.sort.attribute, KeyType: 'RANGE' as const }];
  return [{ AttributeName: keys.partition.attribute, KeyType: 'HASH' }, ...sort];
}

function attributesOf(all: readonly Keys[]): AttributeSpec[] {
  const keys = all.flatMap(({ partition, sort }) => (sort === undefined ? [partition] : [partition, sort]));
  const types = new Map(keys.map((key) => [key.attribute, key.type]));
  return [...types].map(([AttributeName, AttributeType]) => ({ AttributeName, AttributeType }));
}

async function describe({ ddb, calls, spec, signal }: Work): Promise<TableDescription | undefined> {
  const command = new DescribeTableCommand({ TableName: spec.tableName });
  try {
    return (await calls.retry(signal, (abortSignal) => ddb.send(command, { abortSignal }))).Table;
  } catch (error) {
    if (answerOf(error)?.name === 'ResourceNotFoundException') return undefined;
    throw error;
  }
}

/** Waits until the table and all its indexes are active. */
async function awaitActive(work: Work): Promise<TableDescription> {
  const { calls, spec, signal } = work;
  for (;;) {
    const table = await describe(work);
    const states = [table?.TableStatus, ...(table?.GlobalSecondaryIndexes ?? []).map((index) => index.IndexStatus)];
    if (table !== undefined && states.every((state) => state === 'ACTIVE')) {
      return table;
    }
    if (calls.clock.elapsed() >= work.deadline || !(await calls.clock.sleep(pollMs, signal))) {
      signal?.throwIfAborted();
      throw new TableNotFoundError(
        `the table ${spec.tableName} is not active yet (${states.join(', ')}); wait, and call ensureTable again`,
      );
    }
  }
}

function checkKeys(spec: Spec, what: string, keys: Keys, found: readonly KeySchemaElement[] | undefined): void {
  const describeKeys = (schema: readonly KeySchemaElement[]) => schema.map((key) => key.AttributeName).join(', ');
  const [expected, stored] = [describeKeys(schemaOf(keys)), describeKeys(found ?? [])];
  if (expected !== stored) {
    throw new InvalidModelError(
      `${what} of ${spec.tableName} has the keys ${stored}, but the model declares ${expected}; use another name, or change the model`,
    );
  }
}

async function ensureIndex(work: Work, index: IndexDefinition): Promise<void> {
  const { ddb, calls, spec, signal } = work;
  const table = await awaitActive(work);
  const all = [...(table.GlobalSecondaryIndexes ?? []), ...(table.LocalSecondaryIndexes ?? [])];
  const found = all.find(({ IndexName }) => IndexName === index.name);
  if (found !== undefined) {
    checkKeys(spec, `the index ${index.name}`, index, found.KeySchema);
    return;
  }
  if (index.type === 'LSI') {
    throw new InvalidModelError(
      `the table ${spec.tableName} lacks the local index ${index.name}, which only a new table can get; create another table`,
    );
  }
  const command = new UpdateTableCommand({
    TableName: spec.tableName,
    AttributeDefinitions: attributesOf([spec.keys, index]),
    GlobalSecondaryIndexUpdates: [{ Create: indexSpec(index) }],
  });
  await calls.call(signal, (abortSignal) => ddb.send(command, { abortSignal }));
  await awaitActive(work);
}

async function ensureTtl({ ddb, calls, spec, signal }: Work): Promise<void> {
  const { tableName: TableName, ttl } = spec;
  if (ttl === undefined) {
    return;
  }
  const { TimeToLiveDescription: found } = await calls.retry(signal, (abortSignal) =>
    ddb.send(new DescribeTimeToLiveCommand({ TableName }), { abortSignal }),
  );
  const isOn = found?.TimeToLiveStatus === 'ENABLED' || found?.TimeToLiveStatus === 'ENABLING';
  if (isOn && found.AttributeName !== ttl) {
    throw new InvalidModelError(
      `the table ${TableName} has the ttl attribute ${found.AttributeName}, but the model declares ${ttl}`,
    );
  }
  if (!isOn) {
    const TimeToLiveSpecification = { AttributeName: ttl, Enabled: true };
    const command = new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification });
    await calls.call(signal, (abortSignal) => ddb.send(command, { abortSignal }));
  }
}
