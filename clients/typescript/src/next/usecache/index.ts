/**
 * A handler of `'use cache'` and `'use cache: remote'` for Next.js 15.4 and newer, for a fleet of servers that
 * share one table and one bucket. Set `cacheHandlers.default` and `cacheHandlers.remote` in
 * `next.config` to the path of this module, or of a module that exports the result of
 * {@link createUseCacheHandler}, together with `cacheHandler`:
 *
 *	request ──► refreshTags ──► one query: the purge log, shared with the pages
 *	               get ──► the row, unless it is in memory; then the body
 *	                │       fresh: its result
 *	                │       stale: the lease holder calls the function in the background
 *	                │       miss:  the lease holder calls the function, others wait
 *	               set ──► body to the bucket, then META with its fence, and the lease
 */

export type { CacheEntry, UseCacheHandler } from './contract.js';
export { createUseCacheHandler } from './handler.js';

import defaultCacheHandler from '../index.js';
import { createUseCacheHandler } from './handler.js';

/** The handler that belongs to the default export of `@facetheory/tabletheory/next`. */
export default createUseCacheHandler(defaultCacheHandler);
