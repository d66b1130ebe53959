import type { Bodies } from '../cache/bodies.js';
import { LruCache } from '../cache/lru.js';
import type { PurgeMarks } from '../cache/purgemarks.js';
import type { Clock } from '../clock.js';
import type { Entry, PurgeState } from '../isr/entry.js';
import { Fence } from '../isr/fence.js';
import { freshness, mergePurgeStates, NEVER_PURGED, type State, servableOnFailure } from '../isr/freshness.js';
import type { IsrMetaStore } from '../isr/metastore.js';
import type { PageRecord } from '../isr/record.js';
import type { Value } from './contract.js';
import { decode, EnvelopeError } from './envelope.js';
import type { KeptPurges } from './keptpurges.js';
import { isOfAnyTag } from './manytags.js';
import type { Records } from './records.js';
import type { Seed, SeedRequest, Seeds } from './seeds.js';

/** A snapshot of a value's metadata, with its freshness now. */
export interface PageSnapshot {
  /** The rows. If they have no entry, the entry is the seed's, if there is a seed. */
  record: PageRecord;
  /** The page as `next build` made it, if it is the entry. */
  seed: Seed | undefined;
  state: State | 'missing';
  /** It may be served as stale on a failure: see {@link servableOnFailure}. */
  isServable: boolean;
  /** Every purge up to this sequence has been applied. */
  seq: number;
}

/** A value to read. */
export interface PageRequest extends SeedRequest {
  /** The tags of the look-up, in addition to the entry's own. */
  tags: readonly string[];
  /** Reports whether the caller takes a fresh entry, read up to a minute ago. */
  isCurrent: (entry: Entry) => boolean;
  /** The log has been read up to here for this request; undefined: it is read now. */
  seq?: number | undefined;
}

/** The memory of a decoded value relative to its body: strings take two bytes per character. */
const decodedFactor = 2;

/**
 * How long before the start of a build a purge still counts as one after it, in milliseconds: the
 * clocks of the machine that builds and of the one that purges may differ.
 */
const seedToleranceMs = 60_000;

/** The dependencies and limits of {@link Pages}. */
export interface PagesOptions {
  store: IsrMetaStore;
  marks: PurgeMarks;
  purges: KeptPurges;
  records: Records;
  bodies: Bodies;
  seeds: Seeds | undefined;
  clock: Clock;
  /** See {@link CacheHandlerOptions.trustSeconds}, in milliseconds. */
  trustMs: number;
  /** The limit of values in memory, in bytes. */
  memoryBytes: number;
}

/** The record of a page of which no row is known. */
const unknownRecord: PageRecord = { purge: NEVER_PURGED, fence: new Fence('', undefined, undefined) };

/** Reads values: rows, the purge marks that cover them, and bodies. */
export class Pages {
  readonly #options: PagesOptions;
  /** Values by the key of their body, which is immutable. */
  readonly #values: LruCache<{ value: Value }>;
  /** When the marks were last up to date, on the monotonic clock. */
  #caughtUpAt = Number.NEGATIVE_INFINITY;

  constructor(parts: PagesOptions) {
    this.#options = parts;
    this.#values = new LruCache(parts.memoryBytes);
  }

  /**
   * Reads a value's rows and the purge log. A page whose record is in memory costs only the
   * log, if it is fresh by that; and nothing within `trustMs` of the last read of the log.
   */
  async read(request: PageRequest): Promise<PageSnapshot> {
    const { store, records, clock } = this.#options;
    const { cacheKey } = request;
    const seqBefore = records.get(cacheKey) && (request.seq ?? (await this.catchUp()));
    const known = records.get(cacheKey); // the log may have dropped it
    if (known && seqBefore !== undefined) {
      const snapshot = await this.judge(request, known, seqBefore);
      const { entry } = snapshot.record;
      if (snapshot.state === 'fresh' && entry && request.isCurrent(entry)) return snapshot;
    }
    const readAt = clock.elapsed();
    const [record, seq] = await Promise.all([store.read({ cacheKey }), seqBefore ?? request.seq ?? this.catchUp()]);
    const snapshot = await this.judge(request, record, seq);
    if (snapshot.state === 'fresh') records.set(cacheKey, record, readAt);
    else records.remember(cacheKey, record);
    return snapshot;
  }

  /** Returns what is known of a value without asking the stores; others may have changed it since. */
  async lastKnown(request: PageRequest): Promise<PageSnapshot> {
    const { records, marks } = this.#options;
    return this.judge(request, records.lastKnown(request.cacheKey) ?? unknownRecord, marks.cursor);
  }

  /** Keeps a value in memory, as the last known of a page, until its row is read. */
  keep(cacheKey: string, entry: Entry, { value, bytes }: { value: Value; bytes: number }): void {
    this.#values.set(entry.htmlPointer, { value }, bytes * decodedFactor);
    this.#options.records.remember(cacheKey, { ...unknownRecord, entry });
  }

  /** Evaluates a record now, with the tags of the entry and of the look-up. */
  async judge(request: PageRequest, record: PageRecord, seq: number): Promise<PageSnapshot> {
    const { clock, marks, purges, seeds } = this.#options;
    const now = clock.now();
    const isMissing = !record.entry && !record.malformed;
    const seed = isMissing ? await seeds?.find(request, now) : undefined;
    const stored = record.entry ?? seed?.entry;
    // Rows of other services do not point at cached values of Next.js.
    if (!stored || stored.foreign) return { record, seed, seq, state: 'missing', isServable: false };
    const tags = [...stored.tags, ...request.tags];
    const ofTags = marks.purgeStateOf(request.cacheKey, isOfAnyTag(stored) ? 'any' : tags, now);
    const known: PurgeState = mergePurgeStates(record.purge, ofTags);
    const entry = seed ? { ...stored, purgeSeq: purgeSeqOf(seed, known, seq) } : stored;
    const cover = mergePurgeStates(known, purges.cover(entry, request.cacheKey, tags, now));
    const isServable = servableOnFailure(entry, cover, now);
    return { record: { ...record, entry }, seed, seq, state: freshness(entry, cover, now), isServable };
  }

  /** Returns the value of a snapshot's entry; undefined if there is none, or its body is missing or not a cached value. */
  async valueOf({ record: { entry }, seed }: PageSnapshot): Promise<{ value: Value } | undefined> {
    if (!entry) return undefined;
    const known = this.#values.get(entry.htmlPointer);
    if (known) return known;
    return this.#remembered(entry, await (seed ? seed.read() : this.#stored(entry)));
  }

  /** Like {@link valueOf}, without the bucket: undefined also if the value is not in memory, nor in the files of the build. */
  async localValueOf({ record: { entry }, seed }: PageSnapshot): Promise<{ value: Value } | undefined> {
    if (!entry) return undefined;
    return this.#values.get(entry.htmlPointer) ?? this.#remembered(entry, await seed?.read());
  }

  #remembered(entry: Entry, found: { value: Value; bytes: number } | undefined): { value: Value } | undefined {
    if (!found) return undefined;
    const { value, bytes } = found;
    this.#values.set(entry.htmlPointer, { value }, bytes * decodedFactor);
    return { value };
  }

  async #stored(entry: Entry): Promise<{ value: Value; bytes: number } | undefined> {
    const body = await this.#options.bodies.get(entry);
    const found = body && decoded(body);
    return found && { ...found, bytes: body.byteLength };
  }

  /** Drops a page's record from memory, and forces the log to be read again. */
  forget(cacheKey?: string): void {
    if (cacheKey !== undefined) this.#options.records.forget(cacheKey);
    this.#caughtUpAt = Number.NEGATIVE_INFINITY;
  }

  /** Reads the log, unless that is less than `trustMs` ago, and returns the sequence up to which purges are known. */
  async catchUp(): Promise<number> {
    const { marks, clock, trustMs } = this.#options;
    const now = clock.elapsed();
    if (now - this.#caughtUpAt < trustMs) return marks.cursor;
    const seq = await marks.catchUp();
    this.#caughtUpAt = now;
    return seq;
  }
}

/**
 * Returns the purge sequence of a seed. The build has no table, so that only times decide which
 * purges it includes: if all that cover the page were made before the build, up to a tolerance,
 * it includes them; otherwise none, since a mark has the time of its newest purge only.
 */
function purgeSeqOf(seed: Seed, cover: PurgeState, seq: number): number {
  return cover.atMs < seed.entry.generatedAtMs - seedToleranceMs ? seq : 0;
}

function decoded(body: Uint8Array): { value: Value } | undefined {
  try {
    return { value: decode(body) };
  } catch (error) {
    if (error instanceof EnvelopeError) return undefined; // counts as missing and gets replaced
    throw error;
  }
}
