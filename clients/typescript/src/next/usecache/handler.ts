import { InvalidInputError } from '../../errors.js';
import type { CacheHandlerClass } from '../contract.js';
import { createCacheHandler } from '../handler.js';
import type { CacheHandlerOptions } from '../options.js';
import { type SharedSite, sharedSite } from '../shared.js';
import type { UseCacheHandler } from './contract.js';
import type { Entries } from './entries.js';

/** The phases in which Next.js needs no shared cache: the results of a build become part of its pages. */
const idlePhases: ReadonlySet<string | undefined> = new Set(['phase-production-build', 'phase-development-server']);

/**
 * Creates a handler for `default` and `remote` in `cacheHandlers` of `next.config`: a fleet of
 * Next.js servers keeps the results of functions with `'use cache'` in the table and the bucket
 * of its pages, and each function is called once per expiry by one server.
 *
 * Pass the class of the site's `cacheHandler`: both then share the log of revalidations, the
 * memory and the settings. With options it is on its own. `next build` and `next dev` need no
 * table: the handler then stores nothing. Where something is missing, it is inactive, as the other is.
 */
export function createUseCacheHandler(of: CacheHandlerClass | CacheHandlerOptions = {}): UseCacheHandler {
  const pages = typeof of === 'function' ? of : createCacheHandler(of);
  const shared = (pages as { [sharedSite]?: SharedSite })[sharedSite];
  if (!shared) {
    throw new InvalidInputError('createUseCacheHandler got a class: expected one that createCacheHandler has made');
  }
  let opening: Promise<Entries | undefined> | undefined;
  let known: Entries | undefined;
  /** Calls a method, in the same turn of the event loop once the entries are open. */
  const call = async <T>(work: (entries: Entries) => Promise<T>): Promise<T | undefined> => {
    if (isIdle()) return undefined;
    if (known) return work(known);
    opening ??= entriesOf(shared);
    known = await opening;
    if (!known) opening = undefined;
    return known && work(known);
  };
  return ofPlural({
    async refreshTags() {
      await call((entries) => entries.refresh());
    },
    get: (cacheKey, softTags) => call((entries) => entries.get(cacheKey, softTags)),
    set: (cacheKey, pendingEntry) => call((entries) => entries.set(cacheKey, pendingEntry)),
    async getExpiration() {
      return Number.POSITIVE_INFINITY;
    },
    updateTags: (tags, durations) => call((entries) => entries.revalidate(tags, durations)),
    expireTags: (...tags) => call((entries) => entries.revalidate(tags, undefined)),
  });
}

function isIdle(): boolean {
  return idlePhases.has(process.env['NEXT_PHASE']) || process.env['NODE_ENV'] === 'development';
}

/** Opens the entries; undefined if the handler is inactive. */
async function entriesOf(shared: SharedSite): Promise<Entries | undefined> {
  const open = await shared.openForFunctions();
  if (!open) return undefined;
  // Next.js leaves the branch out of bundles for the edge runtime (see shared.ts).
  const loaded = process.env['NEXT_RUNTIME'] === 'edge' ? undefined : await import('./entries.js');
  return loaded && new loaded.Entries(open.site);
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
