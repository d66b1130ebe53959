/**
 * The interface of a handler in `cacheHandlers` of Next.js 15.4 and newer. The types are declared here so
 * that the package does not depend on `next`.
 */

/** The result of a function or component with `'use cache'`. */
export interface CacheEntry {
  /** The serialized result. It can be read once. */
  value: ReadableStream<Uint8Array>;
  /** The tags that the function set. */
  tags: string[];
  /** How long browsers keep it, in seconds. */
  stale: number;
  /** When the function was called, in epoch milliseconds by `performance.timeOrigin + performance.now()`. */
  timestamp: number;
  /** How long after that it may be used, in seconds; Infinity: forever. */
  expire: number;
  /** How long after that it is fresh, in seconds; -1: it is stale. */
  revalidate: number;
}

/** A handler of one or more kinds: `default` for `'use cache'`, `remote` for `'use cache: remote'`. No method rejects because of an outage. */
export interface UseCacheHandler {
  /** Reads the revalidations of other servers. Next.js calls it before the first read of a request. */
  refreshTags(): Promise<void>;
  /** Returns an entry that no revalidation of its tags or of the soft tags has expired; else undefined: Next.js calls the function. */
  get(cacheKey: string, softTags: string[]): Promise<CacheEntry | undefined>;
  /** Stores an entry once its stream has ended. */
  set(cacheKey: string, pendingEntry: Promise<CacheEntry>): Promise<void>;
  /** Returns Infinity: soft tags are checked by {@link get}. */
  getExpiration(tags: string[]): Promise<number>;
  /** Revalidates tags: at once without durations, otherwise entries are stale until `expire`, in seconds. */
  updateTags(tags: string[], durations?: { expire?: number }): Promise<void>;
  /** The same in Next.js 15, without durations. */
  expireTags(...tags: string[]): Promise<void>;
}
