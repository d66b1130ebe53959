/**
 * A cache handler for Next.js 15 and 16, for a fleet of servers that share one table and one
 * bucket. Set `cacheHandler` in `next.config` to the path of this module, or of a module that
 * exports the result of {@link createCacheHandler}:
 *
 *	visitor ──► next start ──► get ──► META, LOCK, PURGE, from memory or by one query; the purge log
 *	                │                   fresh: the body, from memory, the bucket or the files of the build
 *	                │                   stale: the lease holder regenerates in the background
 *	                │                   miss:  the lease holder renders, others wait
 *	                └──► set ──► body to the bucket, then META with its fence, and the lease
 */

export type { StoreOptions } from '../cache/settings.js';
export type {
  Answer,
  CacheControl,
  CacheHandler,
  CacheHandlerClass,
  GetContext,
  HandlerContext,
  Kind,
  SetContext,
  Value,
} from './contract.js';
export { createCacheHandler } from './handler.js';
export type { CacheHandlerOptions } from './options.js';

import { createCacheHandler } from './handler.js';

/** The handler configured by the environment: FACETHEORY_CACHE_TABLE_NAME, FACETHEORY_CACHE_BUCKET, and the AWS SDK's variables. */
export default createCacheHandler();
