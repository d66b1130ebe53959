/** The members of the arguments of the meta store. One that is ignored could cost a fence, a pin or a hard purge. */

import { cancellable, type Members } from '../options.js';
import type { Acquisition, Commit, Covered, Declaration, Pin, Publishing, Rollback } from './metastore.js';
import type { PurgeOptions } from './purge.js';

export const acquisition: Members<Acquisition> = {
  ...cancellable,
  cacheKey: true,
  leaseDurationMs: true,
  leaseOwner: true,
  nowMs: true,
  idempotencyKey: true,
  inputs: true,
  requestHash: true,
  requestKeepSeconds: true,
};

export const publishing: Members<Publishing> = {
  ...cancellable,
  history: true,
  keep: true,
  supersededAtMs: true,
  unchanged: true,
  unpin: true,
};

export const commit: Members<Commit> = {
  ...publishing,
  cacheKey: true,
  leaseToken: true,
  leaseOwner: true,
  nowMs: true,
  htmlPointer: true,
  generatedAtMs: true,
  revalidateSeconds: true,
  etag: true,
  ttlUnixSeconds: true,
  contentSha256: true,
  contentLength: true,
  generationId: true,
  key: true,
  route: true,
  status: true,
  headers: true,
  tags: true,
  staleSeconds: true,
  purgeSeq: true,
  build: true,
  pinnedUntilMs: true,
  assertedAtMs: true,
  renderMs: true,
  initialAgeSeconds: true,
};

export const declaration: Members<Declaration> = {
  ...cancellable,
  cacheKey: true,
  record: true,
  ttlUnixSeconds: true,
  supersededAtMs: true,
};
export const rollingBack: Members<Rollback> = { ...declaration, to: true, pinnedUntilMs: true, assertedAtMs: true };
export const pinning: Members<Pin> = { ...declaration, untilMs: true };
export const covered: Members<Covered> = { ...cancellable, cacheKey: true, tags: true };
export const purging: Members<PurgeOptions> = { ...cancellable, hard: true, expireSeconds: true, confirm: true };
