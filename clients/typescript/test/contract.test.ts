/** The contract of the mappers: spec/contract.md, by its vectors. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import {
  type AttributeValue,
  DeleteTableCommand,
  type DynamoDBClient,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';

import { envelopeEncryption } from '../src/encryption/index.js';
import {
  defineModel,
  type Encryption,
  type Filter,
  type FilterBuilder,
  type Model,
  TheorydbClient,
  TheorydbError,
  type UpdateBuilder,
} from '../src/index.js';
import type { Item } from '../src/item.js';
import { attributeOf, decodePart, encodeMember } from '../src/marshal.js';
import { decode } from '../src/value.js';
import { onEngines, type TestTable } from './engines.js';
import { specFile } from './spec.js';

interface Rule {
  attribute: string;
  operator: string;
  values?: AttributeValue[];
  and?: Rule[];
  or?: Rule[];
  not?: Rule;
}

interface Arguments {
  key: Item;
  keys?: Item[];
  item: Item;
  expected_version?: number;
  set?: Item;
  remove?: string[];
  add?: Item;
  if_not_exists?: Item;
  append?: Item;
  delete?: Item;
  index?: string;
  partition: AttributeValue;
  sort?: { operator: string; values: AttributeValue[] };
  filter?: Rule;
  fields?: string[];
  limit?: number;
  segments?: number;
  descending?: boolean;
  consistent_read?: boolean;
}

interface Vector {
  name: string;
  now_ms?: number;
  before: Item[];
  do: string;
  arguments: Arguments;
  result?: unknown;
  error?: string;
  after: Item[];
}

const keys = { partition: { attribute: 'pk', type: 'S' }, sort: { attribute: 'sk', type: 'S' } } as const;

/** The model of the vectors, without its types: the vectors' arguments have none. */
function modelOf(name: string, tableName: string): Model {
  return defineModel({
    name,
    table: { name: tableName },
    keys,
    attributes: [
      { attribute: 'pk', type: 'S' },
      { attribute: 'sk', type: 'S' },
      { attribute: 'name', type: 'S', optional: true },
      { attribute: 'count', type: 'N', optional: true },
      { attribute: 'tags', type: 'SS', optional: true },
      { attribute: 'lines', type: 'L', optional: true },
      { attribute: 'version', type: 'N', roles: ['version'], optional: true },
      { attribute: 'created_at', type: 'S', roles: ['created_at'], optional: true },
      { attribute: 'updated_at', type: 'N', roles: ['updated_at'], optional: true },
      { attribute: 'secret', type: 'S', encrypted: true, optional: true },
      { attribute: 'codes', type: 'L', encrypted: true, optional: true },
    ],
    indexes: [
      {
        name: 'by-name',
        type: 'GSI',
        partition: { attribute: 'name', type: 'S' },
        sort: { attribute: 'sk', type: 'S' },
      },
    ],
  });
}

for (const file of ['reads', 'writes', 'encryption']) {
  const { calls }: { calls: Vector[] } = JSON.parse(readFileSync(specFile(`vectors/contract/${file}.json`), 'utf8'));
  onEngines(`contract: ${file}`, async (table, t) => {
    let n = 0;
    for (const vector of calls) {
      await t.test(vector.name, () => check(table, `${table.tableName}-${++n}`, vector));
    }
  });
}

async function check(table: TestTable, tableName: string, vector: Vector): Promise<void> {
  try {
    await answer(table, tableName, vector);
  } finally {
    await table.ddb.send(new DeleteTableCommand({ TableName: tableName }));
  }
}

async function answer(table: TestTable, tableName: string, vector: Vector): Promise<void> {
  const model = modelOf('Item', tableName);
  const now = () => vector.now_ms ?? Date.now();
  const client = new TheorydbClient(table.ddb, { models: [model], now, encryption });
  await client.createTable(model);
  for (const item of vector.before) {
    const Item = await replaceSecrets(tableName, item, sealMarked);
    await table.ddb.send(new PutItemCommand({ TableName: tableName, Item }));
  }
  const call = new Call(client, model);
  const { result, error } = await call.execute(vector.do, vector.arguments).then(
    (result) => ({ result, error: undefined }),
    (error: unknown) => ({ result: undefined, error }),
  );
  if (error !== undefined && !(error instanceof TheorydbError)) throw error;
  assert.equal(error?.code, vector.error, error?.message);
  assert.deepEqual(normal(result), normal(vector.result));
  assert.deepEqual(normal(await stored(table.ddb, tableName)), normal(vector.after));
}

async function stored(ddb: DynamoDBClient, TableName: string): Promise<Item[]> {
  const { Items = [] } = await ddb.send(new ScanCommand({ TableName, ConsistentRead: true }));
  return inOrder(await Promise.all(Items.map((item) => replaceSecrets(TableName, item, openAndMark))));
}

/** Always the same data key. */
const encryption: Encryption = envelopeEncryption({
  newDataKey: async () => ({ plain: new Uint8Array(32).fill(1), sealed: Buffer.from('sealed') }),
  openDataKey: async () => new Uint8Array(32).fill(1),
});

/** Replaces the encrypted attributes of an item, or what stands for them, which are maps. */
async function replaceSecrets(table: string, item: Item, replace: typeof encryption.seal): Promise<Item> {
  const secrets = Object.entries(item).filter(([name, value]) => ['secret', 'codes'].includes(name) && value.M);
  const key = (['pk', 'sk'] as const).map((name) => [name, item[name] as AttributeValue] as const);
  return { ...item, ...(await replace({ table, key }, Object.fromEntries(secrets))) };
}

/** Encrypts the plain value that stands for an encrypted attribute in a vector. */
function sealMarked(...[location, marked]: Parameters<typeof encryption.seal>): Promise<Item> {
  return encryption.seal(
    location,
    each(marked, (value) => value.M?.['encrypted'] as AttributeValue),
  );
}

async function openAndMark(...[location, stored]: Parameters<typeof encryption.open>): Promise<Item> {
  return each(await encryption.open(location, stored), (encrypted) => ({ M: { encrypted } }));
}

function each(item: Item, change: (value: AttributeValue) => AttributeValue): Item {
  return Object.fromEntries(Object.entries(item).map(([name, value]) => [name, change(value)]));
}

function inOrder(items: Item[]): Item[] {
  return items.sort((a, b) => (textOf(a) < textOf(b) ? -1 : 1));
}

/** Sorts the members of sets, and of objects. */
function normal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normal);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(
    ([name, member]) => [name, name === 'SS' ? [...member].sort() : normal(member)] as const,
  );
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Executes the calls of the vectors. */
class Call {
  constructor(
    readonly client: TheorydbClient<Model>,
    readonly model: Model,
  ) {}

  async execute(name: string, given: Arguments): Promise<unknown> {
    const { client, model } = this;
    switch (name) {
      case 'get':
        return this.encode(await client.get(model, this.decode(given.key)));
      case 'get_or_none': {
        const found = await client.getOrNull(model, this.decode(given.key));
        return found === null ? undefined : this.encode(found);
      }
      case 'create':
      case 'put':
        return this.encode(await client[name](model, this.decode(given.item)));
      case 'update':
      case 'upsert':
        return this.encode(await client[name](model, this.versioned(given), (u) => this.change(u, given)));
      case 'delete':
        return client.delete(model, this.versioned(given));
      case 'batch_get': {
        const found = await client.batchGet(
          model,
          (given.keys ?? []).map((key) => this.decode(key)),
        );
        return found.map((item) => (item === undefined ? null : this.encode(item)));
      }
      case 'query':
        return (await this.query(given).all()).map((item) => this.encode(item));
      case 'pages': {
        const pages: Item[][] = [];
        for await (const { items } of this.query(given).pages()) pages.push(items.map((item) => this.encode(item)));
        return pages;
      }
      case 'scan':
        return inOrder((await this.scan(given).all()).map((item) => this.encode(item)));
    }
    throw new Error(`unknown call ${name}`);
  }

  /** Decodes what the arguments have of an item. */
  decode(item: Item): Record<string, unknown> {
    return decodePart(this.model, Object.keys(item), item);
  }

  /** Encodes a result; a version of 0 is one that is not stored. */
  encode(item: Record<string, unknown>): Item {
    const entries = Object.entries(item).map(
      ([name, value]) => [name, encodeMember(this.model, attributeOf(this.model, name), value)] as const,
    );
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as Item;
  }

  versioned({ key, expected_version: version }: Arguments): Record<string, unknown> {
    return { ...this.decode(key), ...(version === undefined ? {} : { version }) };
  }

  value(name: string, value: AttributeValue): unknown {
    return decode(this.model.attributes.get(name) ?? { type: 'S' }, value);
  }

  change(update: UpdateBuilder<Model>, given: Arguments): void {
    const each = (item: Item | undefined, apply: (name: string, value: never) => unknown) => {
      for (const [name, value] of Object.entries(item ?? {})) apply(name, this.value(name, value) as never);
    };
    each(given.set, (name, value) => update.set(name, value));
    for (const name of given.remove ?? []) update.remove(name);
    each(given.add, (name, value) => update.add(name, value));
    each(given.if_not_exists, (name, value) => update.ifNotExists(name, value));
    each(given.append, (name, value) => update.append(name, value));
    each(given.delete, (name, value) => update.delete(name, value));
  }

  query(given: Arguments) {
    let query: ReturnType<typeof this.unindexed> = this.unindexed();
    if (given.index !== undefined) query = query.usingIndex(given.index) as unknown as typeof query;
    query = query.partitionKey(given.partition.S);
    if (given.sort !== undefined) {
      const values = given.sort.values.map(({ S }) => S);
      query = query.sortKey(given.sort.operator as '=', ...(values as [unknown]));
    }
    if (given.descending) query = query.sort('DESC');
    if (given.limit !== undefined) query = query.limit(given.limit);
    if (given.filter !== undefined) query = query.filter(this.filter(given.filter));
    if (given.consistent_read !== undefined) query = query.consistentRead(given.consistent_read);
    return given.fields === undefined ? query : query.select(...(given.fields as [string]));
  }

  unindexed() {
    return this.client.query(this.model);
  }

  scan(given: Arguments) {
    let scan = this.client.scan(this.model);
    if (given.index !== undefined) scan = scan.usingIndex(given.index);
    if (given.segments !== undefined) scan = scan.segments(given.segments);
    if (given.filter !== undefined) scan = scan.filter(this.filter(given.filter));
    return given.fields === undefined ? scan : scan.select(...(given.fields as [string]));
  }

  filter(rule: Rule): (f: FilterBuilder<Model>) => Filter<Model> {
    return (f) => {
      const all = (rules: Rule[]) => rules.map((rule) => this.filter(rule)(f));
      if (rule.and !== undefined) return f.and(...all(rule.and));
      if (rule.or !== undefined) return f.or(...all(rule.or));
      if (rule.not !== undefined) return f.not(this.filter(rule.not)(f));
      const values = (rule.values ?? []).map((value) =>
        rule.operator === 'contains' ? value.S : this.value(rule.attribute, value),
      );
      return f.where(rule.attribute, rule.operator as '=', ...(values as [unknown]));
    };
  }
}

function textOf({ pk, sk }: Item): string {
  return `${pk?.S} ${sk?.S}`;
}
