import { LruCache } from '../cache/lru.js';
import type { Answer, CacheHandler, GetContext, HandlerContext, SetContext, Value } from './contract.js';
import { lookUp, type RenderStart } from './lookup.js';
import { cacheKeyOf } from './names.js';
import { type CacheHandlerOptions, settingsOf } from './options.js';
import { lookUpInOutage } from './outage.js';
import { keepUnstored, persist } from './persist.js';
import { onDemandHeader, onlyGeneratedHeader } from './seeds.js';
import { Site } from './site.js';
import type { RequestHeaders } from './visits.js';

/** The memory for entries of `'use cache'` of a process without a handler of pages, in bytes: the default of `cacheMaxMemorySize`. */
const memoryBytes = 50 << 20;

/** An open site, and what makes handlers on it. */
export interface OpenSite {
  readonly site: Site;
  /** Returns the handler of a request, whose values without a look-up began to be rendered at `start`. */
  request(ctx: HandlerContext, start: RenderStart): CacheHandler;
}

/**
 * Opens the site of a build; without a handler of pages (no `ctx`) one for `'use cache'` alone, whose
 * keys have the build themselves.
 * @throws InvalidInputError InvalidKeyError if the table, the bucket or the build is missing, or an option is invalid
 */
export function openSite(options: CacheHandlerOptions, ctx: HandlerContext | undefined): OpenSite {
  const settings = settingsOf(options, process.env);
  const site = ctx
    ? new Site(settings, ctx)
    : new Site({ ...settings, buildId: 'none' }, { maxMemoryCacheSize: memoryBytes });
  return { site, request: (of, start) => new RequestHandler(site, of, start) };
}

/** How many look-ups an instance remembers. The instance for images lives as long as the process. */
const maxRenderStarts = 1000;

/** The handler of one request, on the shared state of the process. */
class RequestHandler implements CacheHandler {
  readonly #site: Site;
  readonly #headers: RequestHeaders;
  readonly #isPrefetch: boolean;
  readonly #isOnDemand: boolean;
  /** Render starts by cache key: Next.js looks up a page with this instance before it renders it. */
  readonly #starts = new LruCache<RenderStart>(maxRenderStarts);
  /** The render start of values without a look-up. */
  readonly #defaultStart: RenderStart;

  constructor(site: Site, ctx: HandlerContext, start: RenderStart) {
    const headers = ctx._requestHeaders ?? {};
    this.#site = site;
    this.#headers = headers;
    this.#isPrefetch = headers['next-router-prefetch'] === '1' || headers['purpose'] === 'prefetch';
    this.#isOnDemand = site.seeds?.isOnDemand(headers[onDemandHeader]) ?? false;
    this.#defaultStart = start;
  }

  async get(key: string, ctx: GetContext): Promise<Answer | null> {
    const site = this.#site;
    const cacheKey = cacheKeyOf(site.buildId, key, ctx.kind);
    const lookup = {
      cacheKey,
      key,
      ctx,
      isPrefetch: this.#isPrefetch,
      isOnDemand: this.#isOnDemand,
      isOnlyGenerated: this.#isOnDemand && this.#headers[onlyGeneratedHeader] !== undefined,
      visits: site.visits.of(this.#headers),
    };
    const found =
      (await site.breaker.call('a look-up', (answered) => lookUp(site, lookup, answered))) ??
      (await lookUpInOutage(site, lookup));
    this.#starts.set(cacheKey, found.start, 1);
    const { answer, state } = found;
    if (!answer || ctx.kind === 'FETCH' || ctx.kind === 'IMAGE') return answer;
    return site.release.adapt(key, answer, state === 'regenerated here');
  }

  async set(key: string, value: Value, ctx: SetContext): Promise<void> {
    const site = this.#site;
    const kind = ctx.fetchCache ? 'FETCH' : (value?.kind ?? 'PAGES');
    const cacheKey = cacheKeyOf(site.buildId, key, kind);
    const start = this.#starts.get(cacheKey) ?? this.#defaultStart;
    const rendered = { cacheKey, value, ctx, start };
    const isDone = await site.breaker.call('storing a page', async () => {
      await persist(site, rendered);
      return true;
    });
    if (isDone) return;
    keepUnstored(site, rendered);
    // No other server waits for this rendering any more. If the table does not answer, the lease expires.
    if (start.rendering) void site.renderings.giveUp(start.rendering).catch(() => undefined);
  }

  /** Resolves once the revalidation is in the table, or is kept to be sent again. It rejects if neither is possible. */
  async revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void> {
    await this.#site.revalidations.revalidate(tags, durations);
  }

  resetRequestCache(): void {}
}
