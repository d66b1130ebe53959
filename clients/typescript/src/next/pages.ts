import type { Clock } from '../clock.js';
import type { Cover, Entry } from '../isr/entry.js';
import { freshness, mergeCovers, type State, servableOnFailure } from '../isr/freshness.js';
import type { IsrMetaStore } from '../isr/metastore.js';
import type { PageRecord } from '../isr/record.js';
import type { Bodies } from './bodies.js';
import type { Value } from './contract.js';
import { decode, EnvelopeError } from './envelope.js';
import type { Marks } from './marks.js';
import { Memory } from './memory.js';

/** What there is of a value, and what it is worth now. */
export interface Reading {
  record: PageRecord;
  state: State | 'missing';
  /** It may be shown, as stale, in place of a failure: see {@link servableOnFailure}. */
  isServable: boolean;
  /** Every purge up to this sequence is taken into account. */
  seq: number;
}

/** How many records are trusted at the same time, if any are. */
const mostTrusted = 10_000;

/** What a decoded value weighs beside its body: strings have two bytes for a character. */
const decodedFactor = 2;

/** What pages are made of. */
export interface Parts {
  store: IsrMetaStore;
  marks: Marks;
  bodies: Bodies;
  clock: Clock;
  /** See {@link CacheHandlerOptions.trustSeconds}, in milliseconds. */
  trustMs: number;
  /** Bounds the values in memory, in bytes. */
  memoryBytes: number;
}

/** Reads values: rows, the marks of their tags, bodies. */
export class Pages {
  readonly #parts: Parts;
  /** Values by the key of their body, which never changes. */
  readonly #values: Memory<{ value: Value }>;
  readonly #records = new Memory<{ record: PageRecord; readAt: number }>(mostTrusted);
  /** When the marks were known, on the monotonic clock. */
  #caughtUpAt = Number.NEGATIVE_INFINITY;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#values = new Memory(parts.memoryBytes);
  }

  /** Reads a value's rows, and what was said of tags, unless both were read a trusted moment ago. */
  async read(cacheKey: string, tags: readonly string[] = []): Promise<Reading> {
    const [record, seq] = await Promise.all([this.#record(cacheKey), this.#sequence()]);
    return this.judge(record, seq, tags);
  }

  /** What a record is worth now, given the tags of the entry and those that come with the look-up. */
  judge(record: PageRecord, seq: number, tags: readonly string[] = []): Reading {
    const { entry } = record;
    // Rows of other services point at what is no cached value.
    if (!entry || entry.foreign) return { record, seq, state: 'missing', isServable: false };
    const now = this.#parts.clock.now();
    const cover: Cover = mergeCovers(record.cover, this.#parts.marks.coverOf([...entry.tags, ...tags], now));
    const isServable = servableOnFailure(entry, cover, now);
    return { record, seq, state: freshness(entry, cover, now), isServable };
  }

  /** The value of an entry; undefined if its body is gone, or is none. */
  async valueOf(entry: Entry): Promise<{ value: Value } | undefined> {
    const known = this.#values.get(entry.htmlPointer);
    if (known) return known;
    const body = await this.#parts.bodies.get(entry);
    const found = body && decoded(body);
    if (found) this.#values.set(entry.htmlPointer, found, body.byteLength * decodedFactor);
    return found;
  }

  /** Reads a page anew when it is asked for next, and the marks. */
  forget(cacheKey?: string): void {
    if (cacheKey !== undefined) this.#records.delete(cacheKey);
    this.#caughtUpAt = Number.NEGATIVE_INFINITY;
  }

  async #record(cacheKey: string): Promise<PageRecord> {
    const readAt = this.#parts.clock.elapsed();
    const known = this.#records.get(cacheKey);
    if (known && readAt - known.readAt < this.#parts.trustMs) return known.record;
    const record = await this.#parts.store.read({ cacheKey });
    if (this.#parts.trustMs > 0) this.#records.set(cacheKey, { record, readAt }, 1);
    return record;
  }

  async #sequence(): Promise<number> {
    const { marks, clock, trustMs } = this.#parts;
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
    if (error instanceof EnvelopeError) return undefined; // it counts as missing, and is replaced
    throw error;
  }
}
