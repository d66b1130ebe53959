/** The meta store of FaceTheory's ISR cache. */

export type { RequestEnd } from './attempt.js';
export type { Warn } from './backend.js';
export { canonicalKey } from './canonicalkey.js';
export type { FaceTheoryIsrMetaStoreConfig, PartitionScheme } from './config.js';
export type {
  Change,
  Content,
  Entry,
  HeaderFields,
  HeaderValue,
  Lock,
  Mark,
  NextEntry,
  PurgeState,
  RequestRecord,
  Sequence,
} from './entry.js';
export type { Fence } from './fence.js';
export {
  ageSeconds,
  type Dated,
  freshness,
  freshUntilMs,
  mergePurgeStates,
  NEVER_PURGED,
  type State as FreshnessState,
  servableOnFailure,
  staleUntilMs,
} from './freshness.js';
export { hashInputs } from './inputs.js';
export { checkCacheKey, checkRequestKey, checkTenant } from './key.js';
export type { Lease } from './lease.js';
export { LOG_LIFE_MS } from './log.js';
export type {
  Acquisition,
  Commit,
  Covered,
  Declaration,
  Described,
  IsrMetaStore,
  LeaseRef,
  PageRef,
  Pin,
  Publishing,
  RefreshedLease,
  Rollback,
} from './metastore.js';
export { FOREVER_MS } from './names.js';
export { bodyPrefix, hashedPartition, rawPartition } from './partition.js';
export type { PurgeOptions, Receipt } from './purge.js';
export { hostTarget, MAX_PURGE_TARGETS, type PurgeKind, type PurgeTarget } from './purgetarget.js';
export type { PageRecord } from './record.js';
export { createFaceTheoryIsrMetaStore, FaceTheoryIsrMetaStore } from './store.js';
