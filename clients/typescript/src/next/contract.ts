/**
 * What Next.js 16 asks of a `cacheHandler`, in the parts that this one looks at. The
 * types are ours, so that the package needs no `next`; a class of this shape fits.
 */

/** What is cached. */
export type Kind = 'APP_PAGE' | 'APP_ROUTE' | 'PAGES' | 'FETCH' | 'REDIRECT' | 'IMAGE';

/**
 * A cached value: a page, the answer of a route handler, of a fetch or of
 * `unstable_cache`, or an image. It may hold Buffers and Maps, whatever the kind;
 * other members than these are stored as they are. null: there is no such page (404).
 */
export type Value = ({ kind: Kind } & Readonly<Record<string, unknown>>) | null;

/** How long a value may be used, in seconds. */
export interface CacheControl {
  /** It is fresh for so long; false: for ever. */
  revalidate: number | false;
  /** It may be shown for so long, while it is made anew; absent: for ever. */
  expire?: number | undefined;
}

/** What Next says of a look-up. */
export interface GetContext {
  kind: Kind;
  /** Of a FETCH: the tags that the program gave, and those of the page that asks. */
  tags?: readonly string[];
  softTags?: readonly string[];
  /** Of a FETCH: what the program asks for, in seconds. */
  revalidate?: number | false;
}

/** What Next says of a value to keep. */
export interface SetContext {
  /** The value is a FETCH. */
  fetchCache?: boolean;
  /** Of a FETCH: the tags that the program gave. */
  tags?: readonly string[];
  /** Of all others. */
  cacheControl?: CacheControl;
}

/**
 * What Next is told. It computes freshness by itself: `lastModified` +
 * `cacheControl.revalidate` in the past makes it regenerate the page behind the
 * visitor's back, and a `lastModified` of -1 while the visitor waits.
 */
export interface Answer {
  value: Value;
  /** Epoch milliseconds, or -1. */
  lastModified: number;
  cacheControl?: CacheControl;
}

/** What Next gives the constructor, once per request or more often. */
export interface HandlerContext {
  /** `next dev`. */
  dev?: boolean;
  /** The folder `server` of the build. */
  serverDistDir?: string;
  /** `cacheMaxMemorySize` of the configuration, in bytes. */
  maxMemoryCacheSize?: number;
  /** Headers of the visitor's request. */
  _requestHeaders?: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** A header that Next puts on pages and takes off again before it sends them: their tags, joined by commas. */
const tagsHeader = 'x-next-cache-tags';

/** The tags of a value, each once. */
export function tagsOf(value: Value, ctx: Pick<SetContext, 'tags'>): string[] {
  const headers = value?.['headers'] as Readonly<Record<string, unknown>> | undefined;
  const joined = headers?.[tagsHeader];
  const own = value?.kind === 'FETCH' && Array.isArray(value['tags']) ? (value['tags'] as string[]) : [];
  const page = typeof joined === 'string' ? joined.split(',') : [];
  return [...new Set([...page, ...own, ...(ctx.tags ?? [])])].filter((tag) => tag !== '');
}
