import { largestBody } from '../../cache/bodies.js';
import { withTimeout } from '../../retry.js';
import { lookUp } from '../lookup.js';
import { persist } from '../persist.js';
import { type Rendering, Renderings } from '../renderings.js';
import type { Durations } from '../revalidations.js';
import type { Site } from '../site.js';
import type { CacheEntry } from './contract.js';
import { Cursors } from './cursors.js';
import { cachedValueOf, cacheKeyOf, entryOf, lifeOf, performanceTime, readAll } from './entry.js';

/** The time of a look-up beyond calls to the table and waits for other servers: of reading a body, in milliseconds. */
const bodyMs = 15_000;

/** How many calls to the table a look-up makes one after the other, at most twice `callSeconds` each. */
const callsPerLookUp = 6;

/** An entry that is complete, with its body. */
interface ReadEntry {
  entry: CacheEntry;
  body: Buffer;
}

/** The entries of `'use cache'` of a process. */
export class Entries {
  /** The site, with renderings of its own: the calls of functions. */
  readonly #site: Site;
  readonly #cursors = new Cursors();
  /** When the lease of a call was acquired, by `performanceTime`. */
  readonly #takenAt = new WeakMap<Rendering, number>();
  /** The entries that are being stored: a look-up waits for them. */
  readonly #storing = new Map<string, Promise<void>>();
  /** The log was read when it was last needed. */
  #isCurrent = false;

  constructor(site: Site) {
    const { store, settings } = site;
    // Next.js does not report calls that fail or whose result it does not store. So a lease is not
    // extended, ends with the visit, and its end is nothing to warn of.
    const lasting = { renderMs: settings.leaseMs, unknownMs: settings.leaseMs };
    const renderings = new Renderings({ ...settings, ...lasting, store, warn: () => undefined });
    this.#site = { ...site, renderings, markServed: (value) => site.markServed(value) };
  }

  /** Reads the log; false if that failed. */
  async refresh(): Promise<boolean> {
    const { breaker, pages, settings } = this.#site;
    const seq = await breaker.call('reading the log of revalidations', () =>
      withTimeout(callsPerLookUp * settings.callMs, undefined, () => pages.catchUp()),
    );
    this.#isCurrent = seq !== undefined;
    this.#note();
    return this.#isCurrent;
  }

  /** Looks up an entry. Without the table, or if the log could not be read, there is none. */
  async get(key: string, softTags: readonly string[]): Promise<CacheEntry | undefined> {
    const site = this.#site;
    const { waitMs, callMs, clock } = site.settings;
    const cacheKey = cacheKeyOf(key);
    const storing = this.#storing.get(cacheKey);
    if (storing) await withTimeout(waitMs, undefined, () => storing).catch(() => undefined);
    if (!this.#isCurrent && !(await this.refresh())) return undefined;
    const ctx = { kind: 'USE_CACHE', softTags } as const;
    const never = { isPrefetch: false, isOnDemand: false, isOnlyGenerated: false };
    const lookup = { cacheKey, key: '', ctx, ...never, visits: site.visits.of(), seq: site.marks.cursor };
    const limitMs = waitMs + 2 * callsPerLookUp * callMs + bodyMs;
    const found = await site.breaker.call("a look-up of 'use cache'", (answered) =>
      withTimeout(limitMs, undefined, () => lookUp(site, lookup, answered)),
    );
    const rendering = found?.start.rendering;
    if (rendering && !this.#takenAt.has(rendering)) this.#takenAt.set(rendering, performanceTime());
    this.#note();
    return found && entryOf(found, clock);
  }

  /** Stores an entry. Later look-ups of the process wait for it. */
  async set(key: string, pendingEntry: Promise<CacheEntry>): Promise<void> {
    const { breaker, settings } = this.#site;
    const cacheKey = cacheKeyOf(key);
    // The function may still be running, and make calls of its own: no call to the stores includes that.
    const known = this.#read(pendingEntry, settings.renderMs, cacheKey).then(async (read) => {
      await breaker.call("storing an entry of 'use cache'", () => this.#store(cacheKey, read));
    });
    this.#storing.set(cacheKey, known);
    await known;
    if (this.#storing.get(cacheKey) === known) this.#storing.delete(cacheKey);
  }

  /** Revalidates tags; look-ups of this process see it at once. A failure is a warning: the handler of pages rejects for the same one. */
  async revalidate(tags: readonly string[], durations: Durations | undefined): Promise<void> {
    const { revalidations, settings } = this.#site;
    try {
      await revalidations.revalidate(tags, durations);
    } catch (failure) {
      settings.warn('a revalidation failed', { failure });
    }
    await this.refresh();
  }

  async #store(cacheKey: string, read: ReadEntry | undefined): Promise<void> {
    const site = this.#site;
    const { clock, retentionSeconds } = site.settings;
    const rendering = site.renderings.of(cacheKey);
    if (!read) {
      if (rendering) await site.renderings.giveUp(rendering);
      return;
    }
    const { entry, body } = read;
    const age = Math.max(0, performanceTime() - entry.timestamp);
    const atMs = Math.floor(clock.now() - age);
    // The lease is of a call that began after it was acquired.
    const isLeased =
      rendering !== undefined && (this.#takenAt.get(rendering) ?? Number.POSITIVE_INFINITY) <= entry.timestamp;
    const seq = Math.max(this.#cursors.at(entry.timestamp), isLeased ? rendering.lease.purgeSeq : 0);
    const start = { atMs, seq, ...(isLeased ? { rendering } : {}) };
    const ctx = { tags: entry.tags, cacheControl: lifeOf(entry) };
    const keepSeconds = Math.min(retentionSeconds, Math.ceil(entry.expire));
    await persist(site, { cacheKey, value: cachedValueOf(entry, body, atMs), ctx, start, keepSeconds });
  }

  /** Reads an entry; undefined if it failed, is too large, or is of use only once. */
  async #read(pendingEntry: Promise<CacheEntry>, limitMs: number, cacheKey: string): Promise<ReadEntry | undefined> {
    const { warn } = this.#site.settings;
    try {
      return await withTimeout(limitMs, undefined, async (signal) => {
        const entry = await pendingEntry;
        const body = await readAll(entry.value, largestBody, signal);
        if (!body) warn("an entry of 'use cache' is too large to be stored", { cacheKey, atMost: largestBody });
        return body && entry.expire > 0 ? { entry, body } : undefined;
      });
    } catch {
      return undefined; // Next.js reports the error of the function itself
    }
  }

  #note(): void {
    this.#cursors.note(performanceTime(), this.#site.marks.cursor);
  }
}
