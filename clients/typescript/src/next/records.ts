import { LruCache } from '../cache/lru.js';
import type { Clock } from '../clock.js';
import type { PageRecord } from '../isr/record.js';

/**
 * How long a record is used, in milliseconds, even without a change in the log: a change that is not in the
 * log (rows restored or deleted by hand) is seen after that.
 */
const maxAgeMs = 60_000;

/**
 * How long after a change of a page its rows are not kept, in milliseconds: a transaction that is
 * being committed can be seen in part, see spec/schema.md.
 */
const unstableMs = 10_000;

/** The limit of all records in memory, in bytes, as far as their size is known, and of one without tags. */
const maxBytes = 32 << 20;
const bytesOfRecord = 2048;

/** How many changed pages are remembered. If there are more, all pages count as changed. */
const maxChanged = 10_000;

/** When a record was read that is of use only in an outage, on the monotonic clock. */
const outdated = Number.NEGATIVE_INFINITY;

/**
 * The records of pages in memory. The purge log names the pages that have changed: {@link changed}
 * must be called for each before its sequence is used. Records that have changed stay, for
 * {@link lastKnown}.
 */
export class Records {
  readonly #clock: Clock;
  readonly #records = new LruCache<{ record: PageRecord; readAt: number }>(maxBytes);
  /** When pages have changed, in the order of the changes, and when all have; on the monotonic clock. */
  readonly #changedAt = new Map<string, number>();
  #allChangedAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the record of a page, if it is in memory and current. */
  get(cacheKey: string): PageRecord | undefined {
    const known = this.#records.get(cacheKey);
    if (!known || known.readAt < this.#allChangedAt) return undefined;
    return this.#clock.elapsed() - known.readAt < maxAgeMs ? known.record : undefined;
  }

  /** Returns the newest known record of a page, which others may have changed. */
  lastKnown(cacheKey: string): PageRecord | undefined {
    return this.#records.get(cacheKey)?.record;
  }

  /** Keeps a record whose read began at a time of the monotonic clock; it is not current if the page has just changed. */
  set(cacheKey: string, record: PageRecord, readAt: number): void {
    const changedAt = Math.max(this.#changedAt.get(cacheKey) ?? Number.NEGATIVE_INFINITY, this.#allChangedAt);
    this.#keep(cacheKey, record, readAt < changedAt + unstableMs ? outdated : readAt);
  }

  /** Keeps a record for {@link lastKnown} only. */
  remember(cacheKey: string, record: PageRecord): void {
    this.#keep(cacheKey, record, outdated);
  }

  #keep(cacheKey: string, record: PageRecord, readAt: number): void {
    const tags = record.entry?.tags ?? [];
    // The rows are kept as well, so that each tag is in memory twice, in two bytes per character.
    const bytes = tags.reduce((sum, tag) => sum + 4 * tag.length + 100, bytesOfRecord);
    this.#records.set(cacheKey, { record, readAt }, bytes);
  }

  /** Makes the record of a page outdated. */
  forget(cacheKey: string): void {
    const record = this.lastKnown(cacheKey);
    if (record) this.remember(cacheKey, record);
  }

  /** Makes the record of a page outdated that another process has changed, or all if it is unknown which have changed. */
  changed(cacheKey: string | undefined): void {
    const now = this.#clock.elapsed();
    if (cacheKey === undefined || this.#isFull(now)) {
      this.#changedAt.clear();
      this.#allChangedAt = now;
      return;
    }
    this.forget(cacheKey);
    this.#changedAt.delete(cacheKey);
    this.#changedAt.set(cacheKey, now);
  }

  /** Forgets changes that no longer matter, and reports whether too many are left. */
  #isFull(now: number): boolean {
    for (const [cacheKey, at] of this.#changedAt) {
      if (now - at < unstableMs) break;
      this.#changedAt.delete(cacheKey);
    }
    return this.#changedAt.size >= maxChanged;
  }
}
