import { LruCache } from '../cache/lru.js';
import { InvalidInputError } from '../errors.js';
import type { Answer, GetContext, HandlerContext, SetContext, Value } from './contract.js';
import { LocalCache } from './localcache.js';
import { lookUp, type RenderStart } from './lookup.js';
import { cacheKeyOf } from './names.js';
import type { CacheHandlerOptions } from './options.js';
import { persist } from './persist.js';
import { onDemandHeader, stampBuild } from './seeds.js';
import { SharedSite, sharedSite } from './shared.js';
import type { Site } from './site.js';

/** A `cacheHandler` of Next.js. Next.js constructs one per request, or one for several. */
export interface CacheHandler {
  get(key: string, ctx: GetContext): Promise<Answer | null>;
  set(key: string, value: Value, ctx: SetContext): Promise<void>;
  revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void>;
  resetRequestCache(): void;
}

/** The class that Next.js constructs. It throws InvalidInputError if it is configured in `cacheHandlers`. */
export type CacheHandlerClass = new (ctx: HandlerContext) => CacheHandler;

/**
 * Creates a class for `cacheHandler` of `next.config`: a fleet of Next.js servers keeps its
 * pages in one table and one bucket, and each page is rendered once per expiry by one server.
 * Nothing is read before the first request; `next build` and `next dev` need no table.
 */
export function createCacheHandler(options: CacheHandlerOptions = {}): CacheHandlerClass {
  let local: LocalCache | undefined;
  const shared = new SharedSite(options);
  return ofSingular(
    class {
      static readonly [sharedSite] = shared;
      readonly #handler: CacheHandler;

      /** @throws InvalidInputError InvalidKeyError if the table or the bucket is missing, or an option is invalid */
      constructor(ctx: HandlerContext) {
        if (isBuilding(ctx)) {
          if (!ctx.dev) stampBuild(ctx.serverDistDir, Date.now());
          local ??= new LocalCache();
          this.#handler = ofLocal(local);
          return;
        }
        this.#handler = new Shared(shared.open(ctx), ctx);
      }

      get(key: string, ctx: GetContext): Promise<Answer | null> {
        return this.#handler.get(key, ctx);
      }

      set(key: string, value: Value, ctx: SetContext): Promise<void> {
        return this.#handler.set(key, value, ctx);
      }

      revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void> {
        return this.#handler.revalidateTag(tags, durations);
      }

      resetRequestCache(): void {}
    },
  );
}

/** Methods that Next.js looks for only in the handlers of `cacheHandlers`. */
const methodsOfPlural: ReadonlySet<PropertyKey> = new Set(['refreshTags', 'getExpiration', 'updateTags']);

/**
 * Rejects use in `cacheHandlers`, the handlers of 'use cache'. Next.js looks for their methods
 * before it renders: throwing there fails `next build` at once, while a missing method would
 * make each page hang and be retried three times for a minute.
 */
function ofSingular(handler: CacheHandlerClass): CacheHandlerClass {
  return new Proxy(handler, {
    has(target, name) {
      if (!methodsOfPlural.has(name)) return Reflect.has(target, name);
      throw new InvalidInputError(
        "the handler of @facetheory/tabletheory/next is configured in cacheHandlers of next.config: set cacheHandler, in the singular, to it, and write cacheHandlers: { default: path, remote: path } with path = require.resolve('@facetheory/tabletheory/next/use-cache')",
      );
    },
  });
}

/** Reports whether this is `next build`, in any of its processes, or `next dev`. */
function isBuilding(ctx: HandlerContext): boolean {
  return ctx.dev === true || process.env['NEXT_PHASE'] === 'phase-production-build';
}

function ofLocal(local: LocalCache): CacheHandler {
  return {
    get: async (key) => local.get(key),
    set: async (key, value) => local.set(key, value),
    revalidateTag: async () => local.revalidateTag(),
    resetRequestCache: () => {},
  };
}

/** How many look-ups an instance remembers. The instance for images lives as long as the process. */
const maxRenderStarts = 1000;

/** The handler of one request, on the shared state of the process. */
class Shared implements CacheHandler {
  readonly #site: Site;
  readonly #isPrefetch: boolean;
  readonly #isOnDemand: boolean;
  /** Render starts by cache key: Next.js looks up a page with this instance before it renders it. */
  readonly #starts = new LruCache<RenderStart>(maxRenderStarts);
  /** The render start of values without a look-up. */
  readonly #defaultStart: RenderStart;

  constructor(site: Site, ctx: HandlerContext) {
    const headers = ctx._requestHeaders ?? {};
    this.#site = site;
    this.#isPrefetch = headers['next-router-prefetch'] === '1' || headers['purpose'] === 'prefetch';
    this.#isOnDemand = site.seeds?.isOnDemand(headers[onDemandHeader]) ?? false;
    this.#defaultStart = { atMs: site.settings.clock.now(), seq: site.marks.cursor };
  }

  async get(key: string, ctx: GetContext): Promise<Answer | null> {
    const site = this.#site;
    const cacheKey = cacheKeyOf(site.buildId, key, ctx.kind);
    const lookup = { cacheKey, key, ctx, isPrefetch: this.#isPrefetch, isOnDemand: this.#isOnDemand };
    const found = await site.breaker.call('a look-up', (answered) => lookUp(site, lookup, answered));
    if (found) this.#starts.set(cacheKey, found.start, 1);
    return found?.answer ?? null;
  }

  async set(key: string, value: Value, ctx: SetContext): Promise<void> {
    const site = this.#site;
    const kind = ctx.fetchCache ? 'FETCH' : (value?.kind ?? 'PAGES');
    const cacheKey = cacheKeyOf(site.buildId, key, kind);
    const start = this.#starts.get(cacheKey) ?? this.#defaultStart;
    await site.breaker.call('storing a page', () => persist(site, { cacheKey, value, ctx, start }));
  }

  /** Rejects if the purge fails, so that a failed purge never goes unnoticed. Next.js logs the error. */
  async revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void> {
    await this.#site.revalidations.revalidate(tags, durations);
  }

  resetRequestCache(): void {}
}
