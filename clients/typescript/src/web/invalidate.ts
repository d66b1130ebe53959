/**
 * Purging the pages that unsafe requests have changed (RFC 9111, section 4.4). Anyone may send such requests, as often
 * as they like, so their effect on other visitors is limited, as `isr serve` does:
 *
 *	request ──► page ─ was purged within a multiple of its render time, by any process: wait
 *	             └─ read the record: an entry, or a lease? ──► purge
 *
 * Requests that wait are merged: one purge, after the last of them, is for all.
 */

import type { CircuitBreaker } from '../cache/breaker.js';
import { LruCache } from '../cache/lru.js';
import type { Clock } from '../clock.js';
import type { Warn } from '../isr/backend.js';
import { freshness } from '../isr/freshness.js';
import { isBackoff } from '../isr/lockrow.js';
import type { PageRecord } from '../isr/record.js';
import type { FaceTheoryIsrMetaStore } from '../isr/store.js';

/** A page is purged once in so many times its render time, within these bounds, so that it is stored most of the time. */
const everyRenders = 16;
const minEveryMs = 1_000;
const maxEveryMs = 60_000;
/** How many pages wait for a purge, at most; how many purged ones are remembered; how many are purged at once. */
const maxPages = 4_096;
const maxAtOnce = 8;
/** How often a purge that fails is repeated, and how long after each failure, in milliseconds. */
const maxRetries = 5;
const retryMs = 2_000;

/** What invalidations work with. */
export interface InvalidationTools {
  store: FaceTheoryIsrMetaStore;
  breaker: CircuitBreaker;
  clock: Clock;
  warn: Warn;
  /** How long the visitor who sent a request waits for its purges, in milliseconds. */
  waitMs: number;
  /** Removes a page from the memory of this process. */
  drop(cacheKey: string): void;
}

/** The work of one page, which ends when no request waits for a purge of it. */
interface Work {
  /** A request has arrived that no purge covers yet. */
  isChanged: boolean;
  failures: number;
}

/** When a page may be purged again, on the monotonic clock, and the sequence of its last purge by this process. */
interface Interval {
  endsAt: number;
  seq: number;
}

/** The purges of this process that unsafe requests have caused. Safe for concurrent use. */
export class Invalidations {
  readonly #tools: InvalidationTools;
  readonly #work = new Map<string, Work>();
  readonly #runs = new Set<Promise<void>>();
  readonly #intervals = new LruCache<Interval>(maxPages);
  readonly #closing = new AbortController();
  readonly #queue: (() => void)[] = [];
  #running = 0;

  constructor(tools: InvalidationTools) {
    this.#tools = tools;
  }

  /** Purges pages that a request has changed. Resolves when they are purged, must wait, or `waitMs` have passed. */
  async add(cacheKeys: readonly string[]): Promise<void> {
    const purged = cacheKeys.map((cacheKey) => this.#add(cacheKey));
    const waited = new AbortController();
    await Promise.race([Promise.all(purged), this.#tools.clock.sleep(this.#tools.waitMs, waited.signal)]);
    waited.abort();
  }

  /** Makes the purges that wait, and waits for them. */
  async close(): Promise<void> {
    this.#closing.abort();
    while (this.#runs.size > 0) await Promise.all(this.#runs);
  }

  #add(cacheKey: string): Promise<void> {
    this.#tools.drop(cacheKey); // however long the table takes
    const known = this.#work.get(cacheKey);
    if (known) {
      known.isChanged = true;
      return Promise.resolve();
    }
    if (this.#work.size >= maxPages) {
      this.#tools.warn('a page that an unsafe request has changed is not purged: too many wait', { cacheKey });
      return Promise.resolve();
    }
    const work = { isChanged: true, failures: 0 };
    this.#work.set(cacheKey, work);
    return new Promise((resolve) => {
      const run = this.#run(cacheKey, work, resolve).finally(() => this.#runs.delete(run));
      this.#runs.add(run);
    });
  }

  /** Purges a page, and again as long as requests have arrived since. `tried` is called after the first attempt. */
  async #run(cacheKey: string, work: Work, tried: () => void): Promise<void> {
    while (work.isChanged) {
      const { clock } = this.#tools;
      const wait = (this.#intervals.get(cacheKey)?.endsAt ?? 0) - clock.elapsed();
      if (wait > 0) {
        tried();
        await clock.sleep(wait, this.#closing.signal);
      }
      await this.#inTurn(() => this.#purge(cacheKey, work));
      tried();
    }
    this.#work.delete(cacheKey);
  }

  async #inTurn(work: () => Promise<void>): Promise<void> {
    if (this.#running >= maxAtOnce) await new Promise<void>((resolve) => this.#queue.push(resolve));
    this.#running++;
    try {
      await work();
    } finally {
      this.#running--;
      this.#queue.shift()?.();
    }
  }

  /** Purges what is stored of a page, unless its interval makes the purge wait; or fails, and is to be repeated. */
  async #purge(cacheKey: string, work: Work): Promise<void> {
    const { breaker, clock, warn } = this.#tools;
    work.isChanged = false;
    if (await breaker.call('a purge after an unsafe request', () => this.#purgeStored(cacheKey, work))) {
      work.failures = 0;
      return;
    }
    if (this.#closing.signal.aborted || ++work.failures > maxRetries) {
      warn('other processes serve a page that an unsafe request has changed until it expires', { cacheKey });
      return;
    }
    work.isChanged = true;
    this.#wait(cacheKey, clock.elapsed() + retryMs);
  }

  #wait(cacheKey: string, endsAt: number, seq = this.#intervals.get(cacheKey)?.seq ?? 0): void {
    this.#intervals.set(cacheKey, { endsAt, seq }, 1);
  }

  async #purgeStored(cacheKey: string, work: Work): Promise<true> {
    const { store, clock, drop } = this.#tools;
    const beganAt = clock.elapsed();
    const record = await store.read({ cacheKey });
    const everyMs = Math.min(Math.max(everyRenders * (record.entry?.renderMs ?? 0), minEveryMs), maxEveryMs);
    if (!mayBeServed(record, clock.now())) return true;
    const { seq, atMs } = record.purge;
    // Another process, whose clock may be ahead, may have purged the page.
    const left = seq === this.#intervals.get(cacheKey)?.seq ? 0 : Math.min(atMs + everyMs - clock.now(), everyMs);
    if (left > 0 && !this.#closing.signal.aborted) {
      work.isChanged = true;
      this.#wait(cacheKey, beganAt + left);
      return true;
    }
    const receipt = await store.purge([{ kind: 'key', value: cacheKey }], { hard: true });
    drop(cacheKey);
    this.#wait(cacheKey, beganAt + everyMs, receipt.seq);
    return true;
  }
}

/**
 * Reports whether a page has a generation that may be served, or will have one whose render has begun. A pinned one stays
 * as it is: only an operator ends a pin.
 */
function mayBeServed({ entry, purge, lock }: PageRecord, nowMs: number): boolean {
  const state = entry ? freshness(entry, purge, nowMs) : 'missing';
  if (state === 'fresh' && (entry?.pinnedUntilMs ?? 0) > nowMs) return false;
  return state !== 'missing' && state !== 'purged' ? true : lock !== undefined && !isBackoff(lock);
}
