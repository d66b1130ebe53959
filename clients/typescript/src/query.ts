/** Queries: the items of one partition in sort-key order. A query never becomes a scan. */

import { type DynamoDBClient, QueryCommand } from '@aws-sdk/client-dynamodb';

import { readFailure } from './classify.js';
import { cursorOf, positionOf } from './cursor.js';
import { InvalidQueryError } from './errors.js';
import type { FieldOf, ItemOf } from './infer.js';
import type { Item } from './item.js';
import { decodeItem } from './marshal.js';
import type { Model } from './model.js';
import {
  type FilterOperator,
  type QueryScope,
  requestOf,
  type SortOperator,
  scopeOf,
  type Terms,
} from './queryrequest.js';
import type { Calls } from './retry.js';

/** A page of results. */
export interface Page<T> {
  items: T[];
  /** The cursor of the next page; absent on the last page. */
  cursor?: string;
}

/** The client and retry settings that a query runs with. */
export interface Source {
  ddb: DynamoDBClient;
  calls: Calls;
}

/** An immutable query builder. Each method returns a new query, so queries may be shared. */
export class Query<M extends Model> implements AsyncIterable<ItemOf<M>> {
  readonly #source: Source;
  readonly #model: M;
  readonly #terms: Terms;

  constructor(source: Source, model: M, terms: Terms = { filters: [], descending: false }) {
    this.#source = source;
    this.#model = model;
    this.#terms = terms;
  }

  /** Sets the partition key, which every query needs. */
  partitionKey(value: unknown): Query<M> {
    return this.#with({ partition: value });
  }

  /** Adds a condition on the sort key. `between` takes two values, the other operators one. */
  sortKey(operator: SortOperator, ...values: unknown[]): Query<M> {
    return this.#with({ sort: { operator, values } });
  }

  /** Queries an index of the model. */
  usingIndex(name: string): Query<M> {
    return this.#with({ index: name });
  }

  /**
   * Adds a filter; several filters are joined with AND. DynamoDB still reads, and charges
   * for, the items that a filter drops. `between` takes two values, `in` 1 to 100,
   * `exists` and `not_exists` none, the other operators one.
   */
  filter(attribute: FieldOf<M>, operator: FilterOperator, ...values: unknown[]): Query<M> {
    return this.#with({ filters: [...this.#terms.filters, { attribute, operator, values }] });
  }

  /** Limits the items read per page, before filters; at least 1. Default: as many as fit in 1 MB. */
  limit(items: number): Query<M> {
    if (!Number.isSafeInteger(items) || items < 1) {
      throw new InvalidQueryError(`limit must be a whole number of at least 1 (got ${items})`);
    }
    return this.#with({ limit: items });
  }

  /** Sets the order of the sort key. Default: `ASC`. */
  sort(direction: 'ASC' | 'DESC'): Query<M> {
    return this.#with({ descending: direction === 'DESC' });
  }

  /**
   * Sets strongly consistent reads, which cost twice as much. Default: true, but false on
   * a global index, which does not support them.
   */
  consistentRead(consistent = true): Query<M> {
    return this.#with({ consistent });
  }

  /** Starts after the page that returned the cursor. */
  cursor(cursor: string): Query<M> {
    return this.#with({ cursor });
  }

  /** Cancels the reads when the signal is aborted. */
  signal(signal: AbortSignal): Query<M> {
    return this.#with({ signal });
  }

  /**
   * Reads one page.
   *
   * @throws InvalidQueryError, TableNotFoundError, ThrottledError, MalformedRowError
   */
  async page(): Promise<Page<ItemOf<M>>> {
    const scope = scopeOf(this.#model, this.#terms);
    const { cursor } = this.#terms;
    const start = cursor === undefined ? undefined : positionOf(scope, cursor);
    const read = await this.#read(start, scope);
    const items = read.items.map((item) => decodeItem(this.#model, item) as ItemOf<M>);
    return read.end === undefined ? { items } : { items, cursor: cursorOf(scope, read.end) };
  }

  /** Reads page after page. */
  async *pages(): AsyncGenerator<Page<ItemOf<M>>, void, undefined> {
    let query: Query<M> = this;
    for (;;) {
      const page = await query.page();
      yield page;
      if (page.cursor === undefined) {
        return;
      }
      query = query.cursor(page.cursor);
    }
  }

  /** Reads item after item, a page at a time. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ItemOf<M>, void, undefined> {
    for await (const page of this.pages()) {
      yield* page.items;
    }
  }

  /** Reads all items into memory. */
  async all(): Promise<ItemOf<M>[]> {
    const items: ItemOf<M>[] = [];
    for await (const item of this) {
      items.push(item);
    }
    return items;
  }

  #with(terms: Partial<Terms>): Query<M> {
    return new Query(this.#source, this.#model, { ...this.#terms, ...terms });
  }

  async #read(start: Item | undefined, scope: QueryScope): Promise<{ items: Item[]; end: Item | undefined }> {
    const { ddb, calls } = this.#source;
    const command = new QueryCommand(requestOf(this.#model, this.#terms, scope, start));
    this.#terms.signal?.throwIfAborted();
    try {
      const answer = await calls.call(this.#terms.signal, (abortSignal) => ddb.send(command, { abortSignal }));
      return { items: answer.Items ?? [], end: answer.LastEvaluatedKey };
    } catch (error) {
      throw readFailure(`query ${this.#model.name} in table ${this.#model.tableName}`, error);
    }
  }
}
