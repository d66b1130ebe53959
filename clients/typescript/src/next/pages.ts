import type { Clock } from '../clock.js';
import type { Entry, PurgeState } from '../isr/entry.js';
import { freshness, mergePurgeStates, type State, servableOnFailure } from '../isr/freshness.js';
import type { IsrMetaStore } from '../isr/metastore.js';
import type { PageRecord } from '../isr/record.js';
import type { Bodies } from './bodies.js';
import type { Value } from './contract.js';
import { decode, EnvelopeError } from './envelope.js';
import { LruCache } from './lru.js';
import type { PurgeMarks } from './purgemarks.js';

/** A snapshot of a value's metadata, with its freshness now. */
export interface PageSnapshot {
  record: PageRecord;
  state: State | 'missing';
  /** It may be served as stale on a failure: see {@link servableOnFailure}. */
  isServable: boolean;
  /** Every purge up to this sequence has been applied. */
  seq: number;
}

/** How many records are kept in memory, if `trustSeconds` is set. */
const maxRecords = 10_000;

/** The memory of a decoded value relative to its body: strings take two bytes per character. */
const decodedFactor = 2;

/** The dependencies and limits of {@link Pages}. */
export interface PagesOptions {
  store: IsrMetaStore;
  marks: PurgeMarks;
  bodies: Bodies;
  clock: Clock;
  /** See {@link CacheHandlerOptions.trustSeconds}, in milliseconds. */
  trustMs: number;
  /** The limit of values in memory, in bytes. */
  memoryBytes: number;
}

/** Reads values: rows, the purge marks that cover them, and bodies. */
export class Pages {
  readonly #options: PagesOptions;
  /** Values by the key of their body, which is immutable. */
  readonly #values: LruCache<{ value: Value }>;
  readonly #records = new LruCache<{ record: PageRecord; readAt: number }>(maxRecords);
  /** When the marks were last up to date, on the monotonic clock. */
  #caughtUpAt = Number.NEGATIVE_INFINITY;

  constructor(parts: PagesOptions) {
    this.#options = parts;
    this.#values = new LruCache(parts.memoryBytes);
  }

  /** Reads a value's rows and the purge marks, unless both are within `trustMs`. */
  async read(cacheKey: string, tags: readonly string[] = []): Promise<PageSnapshot> {
    const [record, seq] = await Promise.all([this.#record(cacheKey), this.#sequence()]);
    return this.judge(cacheKey, record, seq, tags);
  }

  /** Evaluates a record now, with the tags of the entry and of the look-up. */
  judge(cacheKey: string, record: PageRecord, seq: number, tags: readonly string[] = []): PageSnapshot {
    const { entry } = record;
    // Rows of other services do not point at cached values of Next.js.
    if (!entry || entry.foreign) return { record, seq, state: 'missing', isServable: false };
    const now = this.#options.clock.now();
    const cover: PurgeState = mergePurgeStates(
      record.purge,
      this.#options.marks.purgeStateOf(cacheKey, [...entry.tags, ...tags], now),
    );
    const isServable = servableOnFailure(entry, cover, now);
    return { record, seq, state: freshness(entry, cover, now), isServable };
  }

  /** Returns the value of an entry; undefined if its body is missing or not a cached value. */
  async valueOf(entry: Entry): Promise<{ value: Value } | undefined> {
    const known = this.#values.get(entry.htmlPointer);
    if (known) return known;
    const body = await this.#options.bodies.get(entry);
    const found = body && decoded(body);
    if (found) this.#values.set(entry.htmlPointer, found, body.byteLength * decodedFactor);
    return found;
  }

  /** Drops a page's record from memory, and forces the marks to be read again. */
  forget(cacheKey?: string): void {
    if (cacheKey !== undefined) this.#records.delete(cacheKey);
    this.#caughtUpAt = Number.NEGATIVE_INFINITY;
  }

  async #record(cacheKey: string): Promise<PageRecord> {
    const readAt = this.#options.clock.elapsed();
    const known = this.#records.get(cacheKey);
    if (known && readAt - known.readAt < this.#options.trustMs) return known.record;
    const record = await this.#options.store.read({ cacheKey });
    if (this.#options.trustMs > 0) this.#records.set(cacheKey, { record, readAt }, 1);
    return record;
  }

  async #sequence(): Promise<number> {
    const { marks, clock, trustMs } = this.#options;
    const now = clock.elapsed();
    if (now - this.#caughtUpAt < trustMs) return marks.cursor;
    const seq = await marks.catchUp();
    this.#caughtUpAt = now;
    return seq;
  }
}

function decoded(body: Uint8Array): { value: Value } | undefined {
  try {
    return { value: decode(body) };
  } catch (error) {
    if (error instanceof EnvelopeError) return undefined; // counts as missing and gets replaced
    throw error;
  }
}
