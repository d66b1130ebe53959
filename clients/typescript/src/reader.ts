/** What queries and scans share: pages, and iteration over their items. */

import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb';

import type { Encrypter } from './encrypted.js';
import { Filterable } from './filterable.js';
import type { Item } from './item.js';
import { decodeItem, decodePart } from './marshal.js';
import type { Model } from './model.js';
import type { Calls } from './retry.js';

/** A page of results. */
export interface Page<T> {
  items: T[];
  /** The cursor of the next page, URL-safe text; absent on the last page. */
  cursor?: string;
}

/** The client and retry settings that a query or a scan runs with. */
export interface Source {
  ddb: DynamoDBClient;
  calls: Calls;
  encrypter: Encrypter;
}

/** How many items are decrypted at the same time. With KMS each takes a request. */
const openedAtOnce = 16;

/** Decrypts and decodes items, or the attributes `select` that were read of them. */
export async function decodeItems(
  { encrypter }: Source,
  model: Model,
  items: readonly Item[],
  select: readonly string[] | undefined,
  signal: AbortSignal | undefined,
): Promise<Record<string, unknown>[]> {
  const opened: Item[] = [];
  while (opened.length < items.length) {
    const part = items.slice(opened.length, opened.length + openedAtOnce);
    opened.push(...(await Promise.all(part.map((item) => encrypter.open(model, item, signal)))));
  }
  return opened.map((item) => (select === undefined ? decodeItem(model, item) : decodePart(model, select, item)));
}

/** A page as DynamoDB answers it. */
export interface ReadPage {
  items: Item[];
  count: number;
  /** The key of the last item that was read; undefined on the last page. */
  end: Item | undefined;
}

/** Returns the page of an answer. */
export function pageOf(answer: {
  Items?: Record<string, AttributeValue>[] | undefined;
  Count?: number | undefined;
  LastEvaluatedKey?: Record<string, AttributeValue> | undefined;
}): ReadPage {
  return { items: answer.Items ?? [], count: answer.Count ?? 0, end: answer.LastEvaluatedKey };
}

/** Yields the counts of page after page, from a position on. */
export async function* countsFrom(
  start: Item | undefined,
  read: (start: Item | undefined) => Promise<ReadPage>,
): AsyncGenerator<number, void, undefined> {
  do {
    const { count, end } = await read(start);
    yield count;
    start = end;
  } while (start !== undefined);
}

/** Results of a query or a scan, read a page at a time. */
export abstract class Reader<T, M extends Model = Model> extends Filterable<M> implements AsyncIterable<T> {
  /**
   * Reads one page: the first, or the one after the page that returned the cursor.
   *
   * @throws InvalidQueryError, TableNotFoundError, ThrottledError, MalformedRowError
   */
  abstract page(cursor?: string): Promise<Page<T>>;

  /** Reads page after page. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    for (let cursor: string | undefined; ; ) {
      const page = await this.page(cursor);
      yield page;
      cursor = page.cursor;
      if (cursor === undefined) {
        return;
      }
    }
  }

  /** Reads item after item, a page at a time. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) {
      yield* page.items;
    }
  }

  /** Reads item after item, like an iteration over the query or scan itself. */
  items(): AsyncGenerator<T, void, undefined> {
    return this[Symbol.asyncIterator]();
  }

  /**
   * Counts the items, after filters. DynamoDB counts them, page after page, and returns none;
   * it charges as for reading them. `limit` and the attributes to read make no difference.
   *
   * @throws like `page`
   */
  async count(): Promise<number> {
    let total = 0;
    for await (const count of this.counts()) {
      total += count;
    }
    return total;
  }

  /** Counts the items of page after page. */
  protected abstract counts(): AsyncGenerator<number, void, undefined>;

  /** Reads all items into memory. */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) {
      items.push(item);
    }
    return items;
  }
}
