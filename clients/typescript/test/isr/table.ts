/** Helpers for tests of the meta store. */

import { BatchWriteItemCommand, PutItemCommand, ScanCommand, type WriteRequest } from '@aws-sdk/client-dynamodb';

import { type Clock, systemClock } from '../../src/clock.js';
import {
  createFaceTheoryIsrMetaStore,
  type FaceTheoryIsrMetaStore,
  type FaceTheoryIsrMetaStoreConfig,
  type NextEntry,
} from '../../src/isr/index.js';
import type { Item } from '../../src/item.js';
import type { TestTable } from '../engines.js';

/** A wall clock that moves only when it is set, in epoch milliseconds. Waiting is real. */
export class StoppedClock implements Clock {
  #now: number;

  constructor(now = 1_800_000_000_600) {
    this.#now = now;
  }

  readonly now = () => this.#now;
  readonly elapsed = () => performance.now();
  readonly sleep = systemClock().sleep;

  set(now: number): void {
    this.#now = now;
  }

  advance(ms: number): void {
    this.#now += ms;
  }
}

/** How long calls and settling take at most on a busy machine, in milliseconds. Only tests of calls that never succeed set less. */
export const patience = { callTimeoutMs: 60_000, settleTimeoutMs: 60_000 };

/** Creates a store on a table. */
export function storeOn(table: TestTable, config: Partial<FaceTheoryIsrMetaStoreConfig> = {}): FaceTheoryIsrMetaStore {
  const { ddb, tableName } = table;
  return createFaceTheoryIsrMetaStore({ ddb, tableName, retryDelayMs: 1, ...patience, ...config });
}

/** Returns a generation to publish. */
export function generation(id: string, generatedAtMs: number, more: Partial<NextEntry> = {}): NextEntry {
  return {
    htmlPointer: `bodies/x/${id}`,
    generatedAtMs,
    revalidateSeconds: 60,
    etag: `"${id}"`,
    contentSha256: 'ab'.repeat(32),
    contentLength: 5,
    generationId: id,
    ...more,
  };
}

/** Reads all items of a table. */
export async function itemsOf({ ddb, tableName }: TestTable): Promise<Item[]> {
  const items: Item[] = [];
  let from: Item | undefined;
  do {
    const page = await ddb.send(
      new ScanCommand({ TableName: tableName, ConsistentRead: true, ...(from ? { ExclusiveStartKey: from } : {}) }),
    );
    items.push(...(page.Items ?? []));
    from = page.LastEvaluatedKey;
  } while (from);
  return items;
}

/** Reads the item of a key; undefined if it does not exist. */
export async function itemAt(table: TestTable, pk: string, sk: string): Promise<Item | undefined> {
  return (await itemsOf(table)).find((item) => item['pk']?.S === pk && item['sk']?.S === sk);
}

/** Replaces the content of a table with the items. */
export async function fill(table: TestTable, items: readonly Item[]): Promise<void> {
  const { ddb, tableName } = table;
  const keyOf = ({ pk, sk }: Item) => `${pk?.S} ${sk?.S}`;
  const kept = new Set(items.map(keyOf));
  const gone = (await itemsOf(table)).filter((item) => !kept.has(keyOf(item)));
  const writes: WriteRequest[] = [
    ...gone.map(({ pk, sk }) => ({ DeleteRequest: { Key: { pk, sk } as Item } })),
    ...items.map((Item) => ({ PutRequest: { Item } })),
  ];
  for (let i = 0; i < writes.length; i += 25) {
    await ddb.send(new BatchWriteItemCommand({ RequestItems: { [tableName]: writes.slice(i, i + 25) } }));
  }
}

/** Puts one item. */
export async function put({ ddb, tableName }: TestTable, item: Item): Promise<void> {
  await ddb.send(new PutItemCommand({ TableName: tableName, Item: item }));
}
