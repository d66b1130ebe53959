/**
 * A page cache for servers in JavaScript, in front of a `fetch` handler: one table and one bucket for all processes,
 * each page rendered once per expiry, stale pages served while they are regenerated, purges by key, tag and prefix.
 */

export type { StoreOptions } from '../cache/settings.js';
export { canonicalKey } from '../isr/canonicalkey.js';
export type { PurgeOptions, Receipt } from '../isr/purge.js';
export { hostTarget, type PurgeTarget } from '../isr/purgetarget.js';
export type { OptIn } from './lifetime.js';
export type { PageCacheOptions } from './options.js';
export { createPageCache, PageCache, type Render } from './pagecache.js';
export {
  createRuntimeStores,
  type RuntimeAcquisition,
  type RuntimeBody,
  type RuntimeGeneration,
  type RuntimeHtmlStore,
  type RuntimeMetaStore,
  type RuntimeRecord,
  type RuntimeStores,
  type RuntimeStoresOptions,
} from './runtimestores.js';
