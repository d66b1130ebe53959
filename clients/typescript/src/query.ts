/** Queries: the items of one partition in sort-key order. A query never becomes a scan. */

import { QueryCommand } from '@aws-sdk/client-dynamodb';

import { readFailure } from './classify.js';
import { cursorOf, positionOf } from './cursor.js';
import { InvalidQueryError } from './errors.js';
import type { Operands, SortOperator } from './filter.js';
import type { AttributeNameOf, IndexNameOf, ItemOf, PartitionValueOf, PartOf, SortValueOf } from './infer.js';
import type { Item } from './item.js';
import type { Model } from './model.js';
import { type QueryScope, requestOf, scopeOf, type Terms } from './queryrequest.js';
import { countsFrom, decodeItems, type Page, pageOf, Reader, type ReadPage, type Source } from './reader.js';

/**
 * An immutable query builder. Each method returns a new query, so queries may be shared.
 * `I` is the index, undefined for the table, and `T` the type of the results.
 */
export class Query<M extends Model, I = undefined, T = ItemOf<M>> extends Reader<T, M> {
  readonly #source: Source;
  readonly #model: M;
  readonly #terms: Terms;

  /** @internal */
  constructor(source: Source, model: M, terms: Terms = { filters: [], descending: false }) {
    super();
    this.#source = source;
    this.#model = model;
    this.#terms = terms;
  }

  /** Sets the partition key, which every query needs. */
  partitionKey(value: PartitionValueOf<M, I>): Query<M, I, T> {
    return this.#with({ partition: value });
  }

  /** Adds a condition on the sort key. `between` takes two values, the other operators one. */
  sortKey<O extends SortOperator>(operator: O, ...values: Operands<O, SortValueOf<M, I>>): Query<M, I, T> {
    return this.#with({ sort: { operator, values } });
  }

  /** Queries an index of the model. Call it before `partitionKey` and `sortKey`, whose types depend on it. */
  usingIndex<N extends IndexNameOf<M>>(name: N): Query<M, N, T> {
    return new Query(this.#source, this.#model, { ...this.#terms, index: name });
  }

  /** @internal */
  override refilter(change: (filters: Terms['filters']) => Terms['filters']): this {
    return this.#with({ filters: change(this.#terms.filters) }) as this;
  }

  /** Reads these attributes only. */
  select<A extends AttributeNameOf<M>>(...attributes: [A, ...A[]]): Query<M, I, PartOf<M, A>> {
    return this.projection(attributes);
  }

  /** Reads these attributes only, at least one: `select` under the name that TableTheory has for it. */
  projection<A extends AttributeNameOf<M>>(attributes: readonly A[]): Query<M, I, PartOf<M, A>> {
    return new Query(this.#source, this.#model, { ...this.#terms, select: selection(attributes) });
  }

  /** Limits the items read per page, before filters; at least 1. Default: as many as fit in 1 MB. */
  limit(items: number): Query<M, I, T> {
    return this.#with({ limit: checkLimit(items) });
  }

  /** Sets the order of the sort key. Default: `ASC`. */
  sort(direction: 'ASC' | 'DESC'): Query<M, I, T> {
    return this.#with({ descending: direction === 'DESC' });
  }

  /**
   * Sets strongly consistent reads, which cost twice as much. Default: true, but false on
   * a global index, which does not support them (InvalidInputError).
   */
  consistentRead(consistent = true): Query<M, I, T> {
    return this.#with({ consistent });
  }

  /** Starts after the page that returned the cursor. */
  cursor(cursor: string): Query<M, I, T> {
    return this.#with({ cursor });
  }

  /** Cancels the reads when the signal is aborted. */
  signal(signal: AbortSignal): Query<M, I, T> {
    return this.#with({ signal });
  }

  override async page(cursor: string | undefined = this.#terms.cursor): Promise<Page<T>> {
    const scope = scopeOf(this.#model, this.#terms);
    const start = cursor === undefined ? undefined : positionOf(scope, cursor);
    const read = await this.#read(start, scope);
    const { select, signal } = this.#terms;
    const items = (await decodeItems(this.#source, this.#model, read.items, select, signal)) as T[];
    return read.end === undefined ? { items } : { items, cursor: cursorOf(scope, read.end) };
  }

  #with(terms: Partial<Terms>): Query<M, I, T> {
    return new Query(this.#source, this.#model, { ...this.#terms, ...terms });
  }

  protected override async *counts(): AsyncGenerator<number, void, undefined> {
    const { cursor } = this.#terms;
    const scope = scopeOf(this.#model, this.#terms);
    yield* countsFrom(cursor === undefined ? undefined : positionOf(scope, cursor), (start) =>
      this.#read(start, scope, true),
    );
  }

  async #read(start: Item | undefined, scope: QueryScope, counts = false): Promise<ReadPage> {
    const { ddb, calls } = this.#source;
    const command = new QueryCommand(requestOf(this.#model, this.#terms, scope, start, counts));
    this.#terms.signal?.throwIfAborted();
    try {
      const answer = await calls.call(this.#terms.signal, (abortSignal) => ddb.send(command, { abortSignal }));
      return pageOf(answer);
    } catch (error) {
      throw readFailure(`query ${this.#model.name} in table ${this.#model.tableName}`, error);
    }
  }
}

/** Checks the arguments of `select`. */
export function selection(attributes: readonly string[]): readonly string[] {
  if (attributes.length === 0) {
    throw new InvalidQueryError('select takes the name of at least one attribute');
  }
  return [...new Set(attributes)];
}

/** Checks the argument of `limit`. */
export function checkLimit(items: number): number {
  if (!Number.isSafeInteger(items) || items < 1) {
    throw new InvalidQueryError(`limit must be a whole number of at least 1 (got ${items})`);
  }
  return items;
}
