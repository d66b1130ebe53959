import { LruCache } from '../cache/lru.js';
import type { Clock } from '../clock.js';
import type { PageRecord } from '../isr/record.js';

/**
 * How long a record is used, in milliseconds, whatever the log says: a change that is not in the
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

/**
 * The records of pages in memory. The purge log tells which pages have changed: {@link changed}
 * must be called for each before its sequence is used.
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

  /** Returns the record of a page, if it is in memory. */
  get(cacheKey: string): PageRecord | undefined {
    const known = this.#records.get(cacheKey);
    if (!known || this.#clock.elapsed() - known.readAt < maxAgeMs) return known?.record;
    this.#records.delete(cacheKey);
    return undefined;
  }

  /** Keeps a record whose read began at a time of the monotonic clock, unless the page has just changed. */
  set(cacheKey: string, record: PageRecord, readAt: number): void {
    const changedAt = Math.max(this.#changedAt.get(cacheKey) ?? Number.NEGATIVE_INFINITY, this.#allChangedAt);
    if (readAt < changedAt + unstableMs) return;
    const tags = record.entry?.tags ?? [];
    // The rows are kept as well, so that each tag is in memory twice, in two bytes per character.
    const bytes = tags.reduce((sum, tag) => sum + 4 * tag.length + 100, bytesOfRecord);
    this.#records.set(cacheKey, { record, readAt }, bytes);
  }

  /** Drops the record of a page. */
  forget(cacheKey: string): void {
    this.#records.delete(cacheKey);
  }

  /** Drops the record of a page that another process has changed, or all if it is unknown which have changed. */
  changed(cacheKey: string | undefined): void {
    const now = this.#clock.elapsed();
    if (cacheKey === undefined || this.#isFull(now)) {
      this.#records.clear();
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
