import { largestBody } from '../../cache/bodies.js';
import { InvalidInputError } from '../../errors.js';
import { withTimeout } from '../../retry.js';
import type { CacheHandlerClass } from '../handler.js';
import { createCacheHandler } from '../handler.js';
import { lookUp, maxQueueMs } from '../lookup.js';
import { type CacheHandlerOptions, settingsOf } from '../options.js';
import { persist } from '../persist.js';
import { type Rendering, Renderings } from '../renderings.js';
import type { Durations } from '../revalidations.js';
import { type SharedSite, sharedSite } from '../shared.js';
import { Site } from '../site.js';
import type { CacheEntry, UseCacheHandler } from './contract.js';
import { Cursors } from './cursors.js';
import { cachedValueOf, cacheKeyOf, entryOf, lifeOf, performanceTime, readAll } from './entry.js';

/** The memory for entries of a process without a handler of pages, in bytes: the default of `cacheMaxMemorySize`. */
const memoryBytes = 50 << 20;

/** The time of a look-up beyond calls to the table and waits for other servers: of reading a body, in milliseconds. */
const bodyMs = 15_000;

/** How many calls to the table a look-up makes one after the other, at most twice `callSeconds` each. */
const callsPerLookUp = 6;

/** The phases in which Next.js needs no shared cache: the results of a build become part of its pages. */
const idlePhases: ReadonlySet<string | undefined> = new Set(['phase-production-build', 'phase-development-server']);

/**
 * Creates a handler for `default` and `remote` in `cacheHandlers` of `next.config`: a fleet of
 * Next.js servers keeps the results of functions with `'use cache'` in the table and the bucket
 * of its pages, and each function is called once per expiry by one server.
 *
 * Pass the class of the site's `cacheHandler`: both then share the log of revalidations, the
 * memory and the settings. With options it is on its own. `next build` and `next dev` need no
 * table: the handler then stores nothing.
 */
export function createUseCacheHandler(of: CacheHandlerClass | CacheHandlerOptions = {}): UseCacheHandler {
  const pages = typeof of === 'function' ? of : createCacheHandler(of);
  const shared = (pages as { [sharedSite]?: SharedSite })[sharedSite];
  if (!shared) {
    throw new InvalidInputError('createUseCacheHandler got a class: expected one that createCacheHandler has made');
  }
  let fleet: Entries | undefined;
  const entries = () => {
    fleet ??= new Entries(shared.opened ?? openAlone(shared));
    return fleet;
  };
  return ofPlural({
    async refreshTags() {
      if (!isIdle()) await entries().refresh();
    },
    async get(cacheKey, softTags) {
      return isIdle() ? undefined : entries().get(cacheKey, softTags);
    },
    async set(cacheKey, pendingEntry) {
      if (!isIdle()) await entries().set(cacheKey, pendingEntry);
    },
    async getExpiration() {
      return Number.POSITIVE_INFINITY;
    },
    async updateTags(tags, durations) {
      if (!isIdle()) await entries().revalidate(tags, durations);
    },
  });
}

function isIdle(): boolean {
  return idlePhases.has(process.env['NEXT_PHASE']) || process.env['NODE_ENV'] === 'development';
}

/** Opens a site without pages: keys of entries have the build themselves. */
function openAlone({ options }: SharedSite): Site {
  return new Site({ ...settingsOf(options, process.env), buildId: 'none' }, { maxMemoryCacheSize: memoryBytes });
}

/** Makes `cacheHandler`, the singular, refuse the handler: Next.js constructs what is configured there, for `next build` too. */
function ofPlural(handler: UseCacheHandler): UseCacheHandler {
  const refuse = function cacheHandler() {
    throw new InvalidInputError(
      "the handler of @facetheory/tabletheory/next/use-cache is configured in cacheHandler of next.config: write cacheHandler: require.resolve('@facetheory/tabletheory/next'), and name this handler in cacheHandlers, the plural",
    );
  };
  return Object.assign(refuse, handler);
}

/** An entry that is complete, with its body. */
interface ReadEntry {
  entry: CacheEntry;
  body: Buffer;
}

/** The entries of `'use cache'` of a process. */
class Entries {
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
    // extended, and its end is nothing to warn of.
    const renderings = new Renderings({ ...settings, store, renderMs: settings.leaseMs, warn: () => undefined });
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
    const lookup = { cacheKey, key: '', ctx, isPrefetch: false, isOnDemand: false, seq: site.marks.cursor };
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
      await withTimeout(2 * maxQueueMs, undefined, () => revalidations.revalidate(tags, durations));
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
