import { InvalidInputError } from '../errors.js';
import type {
  Answer,
  CacheHandler,
  CacheHandlerClass,
  GetContext,
  HandlerContext,
  SetContext,
  Value,
} from './contract.js';
import { LocalCache } from './localcache.js';
import type { RenderStart } from './lookup.js';
import type { CacheHandlerOptions } from './options.js';
import { checkPeers } from './peers.js';
import { Release } from './release.js';
import { SharedSite, sharedSite } from './shared.js';
import { stampBuild } from './stamp.js';

/**
 * Creates a class for `cacheHandler` of `next.config`: a fleet of Next.js servers keeps its
 * pages in one table and one bucket, and each page is rendered once per expiry by one server.
 * Nothing is read before the first look-up; `next build` and `next dev` need no table. Where something
 * is missing, such as the build in a proxy, or the table, the handler is inactive, with one warning.
 */
export function createCacheHandler(options: CacheHandlerOptions = {}): CacheHandlerClass {
  let local: LocalCache | undefined;
  const shared = new SharedSite(options);
  return ofSingular(
    class {
      static readonly [sharedSite] = shared;
      readonly #handler: CacheHandler;

      /** @throws InvalidInputError in `next build` and `next dev` if the release of Next.js is not supported or, in the former, a peer is missing */
      constructor(ctx: HandlerContext) {
        if (isBuilding(ctx)) {
          if (!ctx.dev) stampBuild(ctx.serverDistDir, Date.now());
          local ??= newLocalCache(ctx);
          this.#handler = ofLocal(local);
          return;
        }
        this.#handler = new Deferred(shared, ctx);
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

/** Returns the cache of a build or of `next dev`. @throws InvalidInputError if its servers could not cache: the build fails */
function newLocalCache(ctx: HandlerContext): LocalCache {
  new Release(); // throws if it is not supported
  if (!ctx.dev) checkPeers();
  return new LocalCache();
}

/** Methods that Next.js looks for only in the handlers of `cacheHandlers`. */
const methodsOfPlural: ReadonlySet<PropertyKey> = new Set(['refreshTags', 'getExpiration', 'updateTags', 'expireTags']);

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

/** The handler of one request. It opens the site when Next.js first calls a method. */
class Deferred implements CacheHandler {
  readonly #shared: SharedSite;
  readonly #ctx: HandlerContext;
  readonly #start: RenderStart;
  #handler: CacheHandler | undefined;

  constructor(shared: SharedSite, ctx: HandlerContext) {
    shared.construct(ctx);
    this.#shared = shared;
    this.#ctx = ctx;
    this.#start = { atMs: shared.now(), seq: shared.opened?.site.marks.cursor ?? 0 };
  }

  async get(key: string, ctx: GetContext): Promise<Answer | null> {
    return (await this.#open())?.get(key, ctx) ?? null;
  }

  async set(key: string, value: Value, ctx: SetContext): Promise<void> {
    await (await this.#open())?.set(key, value, ctx);
  }

  /** Rejects if the handler is inactive: the revalidation would be lost. */
  async revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void> {
    const handler = await this.#open();
    if (handler) return handler.revalidateTag(tags, durations);
    const names = typeof tags === 'string' ? tags : tags.join(', ');
    throw new InvalidInputError(
      `${names} cannot be revalidated: the cache handler is inactive: ${this.#shared.reason}`,
    );
  }

  resetRequestCache(): void {}

  async #open(): Promise<CacheHandler | undefined> {
    const open = this.#shared.opened ?? (await this.#shared.open());
    this.#handler ??= open?.request(this.#ctx, this.#start);
    return this.#handler;
  }
}
