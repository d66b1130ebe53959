/**
 * Queries: the items of one partition, in the order of the sort key. A query never
 * becomes a scan.
 */

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

/** A page of a query. */
export interface Page<T> {
  items: T[];
  /** For the next page; absent at the end. */
  cursor?: string;
}

/** What a query needs to be carried out. */
export interface Source {
  ddb: DynamoDBClient;
  calls: Calls;
}

/**
 * A query. Each call returns another one, with something added; the query itself is
 * never changed, and may be shared.
 */
export class Query<M extends Model> implements AsyncIterable<ItemOf<M>> {
  readonly #source: Source;
  readonly #model: M;
  readonly #terms: Terms;

  constructor(source: Source, model: M, terms: Terms = { filters: [], descending: false }) {
    this.#source = source;
    this.#model = model;
    this.#terms = terms;
  }

  /** Names the partition, by its key; every query needs one. */
  partitionKey(value: unknown): Query<M> {
    return this.#with({ partition: value });
  }

  /** Bounds the sort key. `between` takes two values, all others one. */
  sortKey(operator: SortOperator, ...values: unknown[]): Query<M> {
    return this.#with({ sort: { operator, values } });
  }

  /** Queries an index of the model. */
  usingIndex(name: string): Query<M> {
    return this.#with({ index: name });
  }

  /**
   * Leaves out items that do not compare so; several filters must all hold. What is
   * left out is read, and paid for, all the same. `between` takes two values, `in` 1
   * to 100, `exists` and `not_exists` none, all others one.
   */
  filter(attribute: FieldOf<M>, operator: FilterOperator, ...values: unknown[]): Query<M> {
    return this.#with({ filters: [...this.#terms.filters, { attribute, operator, values }] });
  }

  /** Bounds how many items a page reads, before filters; from 1. Default: as many as fit in 1 MB. */
  limit(items: number): Query<M> {
    if (!Number.isSafeInteger(items) || items < 1) {
      throw new InvalidQueryError(`limit: expected a whole number from 1, found ${items}`);
    }
    return this.#with({ limit: items });
  }

  /** The order of the sort key. Default: `ASC`. */
  sort(direction: 'ASC' | 'DESC'): Query<M> {
    return this.#with({ descending: direction === 'DESC' });
  }

  /**
   * Whether every write that was answered before is seen. Default: true, which costs
   * twice as much; of a global index, which does not offer it, false.
   */
  consistentRead(consistent = true): Query<M> {
    return this.#with({ consistent });
  }

  /** Begins where a page ended. */
  cursor(cursor: string): Query<M> {
    return this.#with({ cursor });
  }

  /** Ends the reads with the signal. */
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

  /** Reads all items, which have to fit into memory. */
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
