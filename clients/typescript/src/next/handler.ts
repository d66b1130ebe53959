import { writeFailure } from '../classify.js';
import { InvalidInputError } from '../errors.js';
import type { Severity } from '../isr/mark.js';
import { BOUNDS } from '../isr/names.js';
import type { Answer, GetContext, HandlerContext, SetContext, Value } from './contract.js';
import { keep } from './keep.js';
import { Local } from './local.js';
import { type Began, lookUp } from './lookup.js';
import { Memory } from './memory.js';
import { cacheKeyOf } from './names.js';
import { type CacheHandlerOptions, settingsOf } from './options.js';
import { purgeTags } from './purge.js';
import { Site } from './site.js';

/** A `cacheHandler` of Next.js. Next makes one for a request, or for several. */
export interface CacheHandler {
  get(key: string, ctx: GetContext): Promise<Answer | null>;
  set(key: string, value: Value, ctx: SetContext): Promise<void>;
  revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void>;
  resetRequestCache(): void;
}

/** What Next constructs. It throws InvalidInputError if it is named in `cacheHandlers`. */
export type CacheHandlerClass = new (ctx: HandlerContext) => CacheHandler;

/**
 * A class for `cacheHandler` of `next.config`: the pages of a fleet of Next.js servers in
 * one table and one bucket, each made once per expiry by one of them. Nothing is asked
 * or read before the first request; `next build` and `next dev` need no table.
 */
export function createCacheHandler(options: CacheHandlerOptions = {}): CacheHandlerClass {
  let local: Local | undefined;
  let site: Site | undefined;
  return ofSingular(
    class {
      readonly #handler: CacheHandler;

      /** @throws InvalidInputError InvalidKeyError if the table or the bucket is not named, or an option is wrong */
      constructor(ctx: HandlerContext) {
        if (isBuilding(ctx)) {
          local ??= new Local();
          this.#handler = ofLocal(local);
          return;
        }
        site ??= new Site(settingsOf(options, process.env), ctx);
        this.#handler = new Shared(site, ctx);
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

/** What Next looks for in handlers of `cacheHandlers`, and not in that of `cacheHandler`. */
const methodsOfPlural: ReadonlySet<PropertyKey> = new Set(['refreshTags', 'getExpiration', 'updateTags']);

/**
 * Refuses to be one of `cacheHandlers`, those of 'use cache'. Next looks for their
 * methods before it renders: what is thrown there ends `next build`, while a page that
 * calls a method in vain hangs, and is tried three times for a minute each.
 */
function ofSingular(handler: CacheHandlerClass): CacheHandlerClass {
  return new Proxy(handler, {
    has(target, name) {
      if (!methodsOfPlural.has(name)) return Reflect.has(target, name);
      throw new InvalidInputError(
        "cacheHandlers of next.config, which are for 'use cache', name the handler of @facetheory/tabletheory/next: expected it as cacheHandler, in the singular",
      );
    },
  });
}

/** `next build`, in all of its processes, and `next dev`. */
function isBuilding(ctx: HandlerContext): boolean {
  return ctx.dev === true || process.env['NEXT_PHASE'] === 'phase-production-build';
}

function ofLocal(local: Local): CacheHandler {
  return {
    get: async (key) => local.get(key),
    set: async (key, value) => local.set(key, value),
    revalidateTag: async () => local.revalidateTag(),
    resetRequestCache: () => {},
  };
}

/** How long a revalidation waits for its turn in the log, in milliseconds; once it is sent, the store's settle timeout bounds it. */
const longestQueueMs = 30_000;

/** How many look-ups an instance remembers. That of the images lives for ever. */
const mostBegun = 1000;

/** The handler of a request, in front of what the process shares. */
class Shared implements CacheHandler {
  readonly #site: Site;
  readonly #isPrefetch: boolean;
  /** What Next makes, it has looked up before, and by this instance. */
  readonly #begun = new Memory<Began>(mostBegun);
  /** Of what it has not looked up. */
  readonly #created: Began;

  constructor(site: Site, ctx: HandlerContext) {
    const headers = ctx._requestHeaders ?? {};
    this.#site = site;
    this.#isPrefetch = headers['next-router-prefetch'] === '1' || headers['purpose'] === 'prefetch';
    this.#created = { atMs: site.settings.clock.now(), seq: site.marks.cursor };
  }

  async get(key: string, ctx: GetContext): Promise<Answer | null> {
    const site = this.#site;
    const cacheKey = cacheKeyOf(site.buildId, key, ctx.kind);
    const wanted = { cacheKey, ctx, isPrefetch: this.#isPrefetch };
    const found = await site.outage.spare('a look-up', () => lookUp(site, wanted));
    if (found) this.#begun.set(cacheKey, found.began, 1);
    return found?.answer ?? null;
  }

  async set(key: string, value: Value, ctx: SetContext): Promise<void> {
    const site = this.#site;
    const kind = ctx.fetchCache ? 'FETCH' : (value?.kind ?? 'PAGES');
    const cacheKey = cacheKeyOf(site.buildId, key, kind);
    const began = this.#begun.get(cacheKey) ?? this.#created;
    await site.outage.spare('keeping a page', () => keep(site, { cacheKey, value, ctx, began }));
  }

  /**
   * Throws what went wrong: nobody shall believe that was purged what is shown for
   * another month. Next prints it.
   */
  async revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void> {
    const site = this.#site;
    const all = [...new Set(typeof tags === 'string' ? [tags] : tags)].filter((tag) => tag !== '');
    const { backend, log, markLifetimeSeconds } = site;
    const of = { backend, log, tenant: site.settings.tenant, markLifetimeSeconds };
    try {
      await purgeTags(of, all, severityOf(durations), AbortSignal.timeout(longestQueueMs));
    } catch (error) {
      throw writeFailure(`the revalidation of ${named(all)}`, [], error);
    } finally {
      site.pages.forget();
    }
  }

  resetRequestCache(): void {}
}

/** The tags for a message, the first few by name. */
function named(tags: readonly string[]): string {
  const some = tags.slice(0, 5).join(', ');
  return tags.length > 5 ? `${some} and ${tags.length - 5} more` : some;
}

/** Without durations nothing of before may be shown; with them it may, until it expires. */
function severityOf(durations: { expire?: number } | undefined): Severity {
  const expire = durations?.expire;
  if (!durations || expire === 0) return { hard: true };
  if (expire !== undefined && !(typeof expire === 'number' && expire > 0)) {
    throw new InvalidInputError(`expire is ${expire}: expected a number of seconds, 0 or more`);
  }
  return { hard: false, expireSeconds: expire !== undefined && expire < BOUNDS.interval ? expire : undefined };
}
