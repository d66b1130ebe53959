/**
 * A cache handler of Next.js 16, for a fleet of servers that share one table and one
 * bucket. `cacheHandler` of `next.config` takes the path of this module, or of one that
 * exports what {@link createCacheHandler} returns:
 *
 *	visitor ──► next start ──► get ──► one query: META, LOCK, PURGE; the log of purges
 *	                │                   fresh: the body, from memory or the bucket
 *	                │                   stale: who gets the lease renders behind, others go on
 *	                │                   none: who gets the lease renders, others wait
 *	                └──► set ──► body to the bucket, then META on its fence, and the lease
 */

export type { Answer, CacheControl, GetContext, HandlerContext, Kind, SetContext, Value } from './contract.js';
export { type CacheHandler, type CacheHandlerClass, createCacheHandler } from './handler.js';
export type { CacheHandlerOptions } from './options.js';

import { createCacheHandler } from './handler.js';

/** The handler that the environment describes: FACETHEORY_CACHE_TABLE_NAME, FACETHEORY_CACHE_BUCKET, and what the AWS SDK reads. */
export default createCacheHandler();
