/** Scans: all items of a table or an index, in no particular order. */

import { ScanCommand } from '@aws-sdk/client-dynamodb';

import { readFailure } from './classify.js';
import { cursorOf, positionOf } from './cursor.js';
import { InvalidQueryError } from './errors.js';
import type { AttributeNameOf, IndexNameOf, ItemOf, PartOf } from './infer.js';
import type { Item } from './item.js';
import type { Model } from './model.js';
import { checkLimit, selection } from './query.js';
import { type ReadScope, type ScanTerms, scanRequestOf, scanScopeOf } from './queryrequest.js';
import { countsFrom, decodeItems, type Page, pageOf, Reader, type ReadPage, type Source } from './reader.js';

/** DynamoDB's limit of the segments of a scan. */
const maxSegments = 1_000_000;

/**
 * An immutable scan builder. Each method returns a new scan, so scans may be shared. A scan
 * reads, and is charged for, every item of the table or index. `T` is the type of the
 * results.
 */
export class Scan<M extends Model, T = ItemOf<M>> extends Reader<T, M> {
  readonly #source: Source;
  readonly #model: M;
  readonly #terms: ScanTerms;

  /** @internal */
  constructor(source: Source, model: M, terms: ScanTerms = { filters: [] }) {
    super();
    this.#source = source;
    this.#model = model;
    this.#terms = terms;
  }

  /** Scans an index of the model: the items that have its keys. */
  usingIndex(name: IndexNameOf<M>): Scan<M, T> {
    return this.#with({ index: name });
  }

  /** @internal */
  override refilter(change: (filters: ScanTerms['filters']) => ScanTerms['filters']): this {
    return this.#with({ filters: change(this.#terms.filters) }) as this;
  }

  /** Reads these attributes only. */
  select<A extends AttributeNameOf<M>>(...attributes: [A, ...A[]]): Scan<M, PartOf<M, A>> {
    return this.projection(attributes);
  }

  /** Reads these attributes only, at least one: `select` under the name that TableTheory has for it. */
  projection<A extends AttributeNameOf<M>>(attributes: readonly A[]): Scan<M, PartOf<M, A>> {
    return new Scan(this.#source, this.#model, { ...this.#terms, select: selection(attributes) });
  }

  /** Limits the items read per page, before filters; at least 1. Default: as many as fit in 1 MB. */
  limit(items: number): Scan<M, T> {
    return this.#with({ limit: checkLimit(items) });
  }

  /** Sets strongly consistent reads. Default: true, but false on a global index (InvalidInputError). */
  consistentRead(consistent = true): Scan<M, T> {
    return this.#with({ consistent });
  }

  /**
   * Scans in parallel segments, 1 to 1,000,000, each with one request at a time. Pages of a
   * parallel scan have no cursors.
   */
  segments(total: number): Scan<M, T> {
    if (!Number.isSafeInteger(total) || total < 1 || total > maxSegments) {
      throw new InvalidQueryError(`segments must be a whole number of 1 to ${maxSegments} (got ${total})`);
    }
    return this.#with({ segments: total });
  }

  /** Starts after the page that returned the cursor. */
  cursor(cursor: string): Scan<M, T> {
    return this.#with({ cursor });
  }

  /** Cancels the reads when the signal is aborted. */
  signal(signal: AbortSignal): Scan<M, T> {
    return this.#with({ signal });
  }

  override async page(cursor: string | undefined = this.#terms.cursor): Promise<Page<T>> {
    if (this.#terms.segments !== undefined) {
      throw new InvalidQueryError(
        `scan ${this.#model.name}: a scan in segments has no single page; iterate over it, or over pages()`,
      );
    }
    const scope = scanScopeOf(this.#model, this.#terms);
    const start = cursor === undefined ? undefined : positionOf(scope, cursor);
    const read = await this.#read(start, scope);
    const { select, signal } = this.#terms;
    const items = (await decodeItems(this.#source, this.#model, read.items, select, signal)) as T[];
    return read.end === undefined ? { items } : { items, cursor: cursorOf(scope, read.end) };
  }

  override async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    const segments = this.#segments();
    if (segments === undefined) {
      yield* super.pages();
      return;
    }
    for await (const { items } of merge(segments.map((scan) => scan.pages()))) {
      yield { items };
    }
  }

  protected override async *counts(): AsyncGenerator<number, void, undefined> {
    const segments = this.#segments();
    if (segments !== undefined) {
      yield* merge(segments.map((scan) => scan.counts()));
      return;
    }
    const { cursor } = this.#terms;
    const scope = scanScopeOf(this.#model, this.#terms);
    yield* countsFrom(cursor === undefined ? undefined : positionOf(scope, cursor), (start) =>
      this.#read(start, scope, true),
    );
  }

  /** Returns the scans of the segments; undefined if this scan has none. */
  #segments(): Scan<M, T>[] | undefined {
    const { segments: total, ...terms } = this.#terms;
    if (total === undefined) {
      return undefined;
    }
    if (terms.cursor !== undefined) {
      throw new InvalidQueryError(`scan ${this.#model.name}: a scan in segments takes no cursor`);
    }
    return Array.from(
      { length: total },
      (_, index) => new Scan<M, T>(this.#source, this.#model, { ...terms, segment: { index, total } }),
    );
  }

  #with(terms: Partial<ScanTerms>): Scan<M, T> {
    return new Scan(this.#source, this.#model, { ...this.#terms, ...terms });
  }

  async #read(start: Item | undefined, scope: ReadScope, counts = false): Promise<ReadPage> {
    const { ddb, calls } = this.#source;
    const command = new ScanCommand(scanRequestOf(this.#model, this.#terms, scope, start, counts));
    this.#terms.signal?.throwIfAborted();
    try {
      const answer = await calls.call(this.#terms.signal, (abortSignal) => ddb.send(command, { abortSignal }));
      return pageOf(answer);
    } catch (error) {
      throw readFailure(`scan ${this.#model.name} in table ${this.#model.tableName}`, error);
    }
  }
}

/** Reads from all generators at the same time, each one ahead at most. It ends them all when one fails. */
async function* merge<T>(generators: AsyncGenerator<T, void, undefined>[]): AsyncGenerator<T, void, undefined> {
  const next = async (generator: AsyncGenerator<T, void, undefined>) => ({ generator, result: await generator.next() });
  const pending = new Map(generators.map((generator) => [generator, next(generator)]));
  try {
    while (pending.size > 0) {
      const { generator, result } = await Promise.race(pending.values());
      if (result.done) {
        pending.delete(generator);
        continue;
      }
      pending.set(generator, next(generator));
      yield result.value;
    }
  } finally {
    for (const [generator, read] of pending) {
      read.catch(() => undefined); // only the first failure is reported
      generator.return().catch(() => undefined);
    }
  }
}
