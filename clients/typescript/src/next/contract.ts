/**
 * The interface of a `cacheHandler` in Next.js 15 and 16, as far as this package uses it. The types
 * are declared here so that the package does not depend on `next`.
 */

/** The kinds of cached values. `USE_CACHE` is this package's: Next.js keeps entries of `'use cache'` by another interface. */
export type Kind = 'APP_PAGE' | 'APP_ROUTE' | 'PAGES' | 'FETCH' | 'REDIRECT' | 'IMAGE' | 'USE_CACHE';

/**
 * A cached value: a page, the response of a route handler, a fetch or `unstable_cache`, or an
 * image. It may contain Buffers and Maps; all other members are stored unchanged. null means
 * that the page does not exist (404).
 */
export type Value = ({ kind: Kind } & Readonly<Record<string, unknown>>) | null;

/** How long a value may be used, in seconds. */
export interface CacheControl {
  /** The freshness window; false: forever. */
  revalidate: number | false;
  /** How long it may be served while it is regenerated; absent: forever. */
  expire?: number | undefined;
}

/** Next.js's description of a look-up. */
export interface GetContext {
  kind: Kind;
  /** For a FETCH: the tags that the program set; `softTags` are the tags of the page that fetches. */
  tags?: readonly string[];
  softTags?: readonly string[];
  /** For a FETCH: the window that the program asks for, in seconds. */
  revalidate?: number | false;
  /** For a page: the shell of a route, without the parameters of a visit. */
  isFallback?: boolean;
  /** For a page: the route is rendered partially in advance. */
  isRoutePPREnabled?: boolean;
}

/** Next.js's description of a value to store. */
export interface SetContext {
  /** The value is a FETCH. */
  fetchCache?: boolean;
  /** For a FETCH: the tags that the program set. */
  tags?: readonly string[];
  /** For all other kinds; until Next.js 15.1 the freshness window alone, in seconds. */
  cacheControl?: CacheControl;
  revalidate?: number | false;
}

/**
 * The answer to a look-up. Next.js computes freshness from it: `lastModified` +
 * `cacheControl.revalidate` in the past makes it regenerate the page in the background, a
 * `lastModified` of -1 while the visitor waits. See {@link Release} for releases that ignore `cacheControl`.
 */
export interface Answer {
  value: Value;
  /** Epoch milliseconds, or -1. */
  lastModified: number;
  cacheControl?: CacheControl;
}

/** The argument of the constructor. Next.js constructs a handler at least once per request. */
export interface HandlerContext {
  /** `next dev`. */
  dev?: boolean;
  /** The directory `server` of the build. */
  serverDistDir?: string;
  /** `cacheMaxMemorySize` of the configuration, in bytes. */
  maxMemoryCacheSize?: number;
  /** The headers of the visitor's request. */
  _requestHeaders?: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** A `cacheHandler` of Next.js. Next.js constructs one per request, or one for several. */
export interface CacheHandler {
  get(key: string, ctx: GetContext): Promise<Answer | null>;
  set(key: string, value: Value, ctx: SetContext): Promise<void>;
  revalidateTag(tags: string | readonly string[], durations?: { expire?: number }): Promise<void>;
  resetRequestCache(): void;
}

/** The class that Next.js constructs. It throws InvalidInputError if it is configured in `cacheHandlers`. */
export type CacheHandlerClass = new (ctx: HandlerContext) => CacheHandler;

/** An internal header with the tags of a page, joined by commas; Next.js removes it from responses. */
const tagsHeader = 'x-next-cache-tags';

/** Returns the distinct tags of a value. */
export function tagsOf(value: Value, ctx: Pick<SetContext, 'tags'>): string[] {
  const headers = value?.['headers'] as Readonly<Record<string, unknown>> | undefined;
  const joined = headers?.[tagsHeader];
  const own = value?.kind === 'FETCH' && Array.isArray(value['tags']) ? (value['tags'] as string[]) : [];
  const page = typeof joined === 'string' ? joined.split(',') : [];
  return [...new Set([...page, ...own, ...(ctx.tags ?? [])])].filter((tag) => tag !== '');
}
