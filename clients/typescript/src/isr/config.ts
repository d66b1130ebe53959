import { hostname } from 'node:os';

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { type Clock, clockOf } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import { checkOptions, type Hints, type Members } from '../options.js';
import { Calls, type RetryOptions } from '../retry.js';
import { formatValue } from '../value.js';
import { type Backend, randomText, type Warn } from './backend.js';
import { GroupCommit } from './groupcommit.js';
import { checkTenant } from './key.js';
import { checkInterval } from './normalize.js';
import { interval } from './numbers.js';
import { checkPartition, hashedPartition, rawPartition } from './partition.js';

/** A way in which cache keys become partition keys. */
export type PartitionScheme = 'hashed' | 'raw';

/** The configuration of a meta store. Everything but `ddb` and `tableName` has a default. */
export interface FaceTheoryIsrMetaStoreConfig extends RetryOptions {
  /** The store does not close it. */
  ddb: DynamoDBClient;
  /** The table: partition key `pk`, sort key `sk`, both strings. */
  tableName: string;

  /** The tenant of all pages of this store, 1 to 64 letters, digits, `.`, `_`, `-`. Default: none. */
  tenant?: string;
  /**
   * How cache keys become partition keys: `hashed` ({@link hashedPartition}, as `isr serve` does)
   * or `raw` ({@link rawPartition}, as TableTheory does). All writers of a table must use the same:
   * otherwise they have different rows and leases. Default: FACETHEORY_CACHE_PARTITION, else `hashed`.
   */
  partition?: PartitionScheme;
  /** Maps a cache key to its partition key. It excludes `partition`. */
  pkFromCacheKey?: (cacheKey: string) => string;
  /** Uses this prefix plus the unchanged cache key as the partition key. It excludes `partition`, `pkFromCacheKey` and `tenant`. */
  pkPrefix?: string;

  /**
   * The minimum time to keep entries after a publish, pin or rollback, in seconds. Rows get a
   * ttl one day after their last possible use. Default: no ttl, unless a call gives one.
   */
  metaTtlSeconds?: number;
  /** How long request records are kept, in seconds. Default: one day. */
  requestKeepSeconds?: number;
  /**
   * How long purge marks are kept at least, in seconds, from the first purge of this store on; at
   * least 90 days. The longest of all writers holds for the table. A page expires a day before marks
   * that cover it may be gone, however long it is kept by `metaTtlSeconds`. Marks that exist keep
   * their lifetime: purge the whole site once after raising it, hard, or softly if nothing was purged
   * hard. So nothing else raises it. Default: 90 days.
   */
  markLifetimeSeconds?: number;
  /** Identifies this process in logs and errors; informational only. Default: host name and process id. */
  leaseOwner?: string;

  /** The wall clock, in epoch milliseconds; each reading is checked. Default: `Date.now`. */
  now?: () => number;
  /** Replaces all time sources, including `now`; for tests. */
  clock?: Clock;
  /** Returns an unguessable, unique text of at least 128 random bits. Default: from `node:crypto`. */
  newToken?: () => string;
  /** The timeout for settling the outcome of an unanswered write, in milliseconds. Default: 15,000. */
  settleTimeoutMs?: number;
  /** Called for lost replies and their settled outcome. Default: no-op. */
  warn?: Warn;
}

const configured: Members<FaceTheoryIsrMetaStoreConfig> = {
  ddb: true,
  tableName: true,
  tenant: true,
  partition: true,
  pkFromCacheKey: true,
  pkPrefix: true,
  metaTtlSeconds: true,
  requestKeepSeconds: true,
  markLifetimeSeconds: true,
  leaseOwner: true,
  now: true,
  clock: true,
  newToken: true,
  settleTimeoutMs: true,
  warn: true,
  callTimeoutMs: true,
  retryDelayMs: true,
  random: true,
};

/** TableTheory's options of its meta store. */
const replaced: Hints = {
  leaseToken: 'its name here is newToken',
  token: 'its name here is newToken',
  leaseTtlBufferSeconds: 'leave it out: DynamoDB may delete the row an hour after the lease has expired',
  client: 'leave it out: the store sends its own requests through ddb',
};

/** A configuration with defaults applied. */
export interface Settings {
  readonly backend: Backend;
  /** The queue through which all changes of the purge log go. */
  readonly log: GroupCommit;
  readonly tenant: string;
  readonly partition: (cacheKey: string) => string;
  readonly metaTtlSeconds: number | undefined;
  readonly requestKeepSeconds: number;
  readonly markLifetimeSeconds: number;
  readonly owner: string;
}

/** @throws InvalidInputError InvalidKeyError */
export function settingsOf(c: FaceTheoryIsrMetaStoreConfig): Settings {
  checkOptions('the meta store', c, configured, replaced);
  if (!c?.ddb) throw new InvalidInputError('ddb is missing: expected a DynamoDBClient');
  if (typeof c.tableName !== 'string' || c.tableName === '') {
    throw new InvalidInputError('tableName is missing: expected the name of a table');
  }
  if (c.metaTtlSeconds !== undefined) checkInterval('metaTtlSeconds', c.metaTtlSeconds);
  const requestKeepSeconds = c.requestKeepSeconds ?? 24 * 3600;
  checkInterval('requestKeepSeconds', requestKeepSeconds);
  const backend = backendOf(c);
  return {
    backend,
    log: new GroupCommit(backend),
    tenant: c.tenant ?? '',
    partition: partitionOf(c),
    metaTtlSeconds: c.metaTtlSeconds,
    requestKeepSeconds,
    markLifetimeSeconds: markLifetimeOf(c),
    owner: c.leaseOwner ?? `${hostname()}:${process.pid}`,
  };
}

/** The minimum lifetime of purge marks, in seconds. */
const minMarkLifetime = 90 * 24 * 3600;

function markLifetimeOf({ markLifetimeSeconds = minMarkLifetime }: FaceTheoryIsrMetaStoreConfig): number {
  checkInterval('markLifetimeSeconds', markLifetimeSeconds);
  if (markLifetimeSeconds >= minMarkLifetime) return interval(markLifetimeSeconds);
  throw new InvalidInputError(
    `markLifetimeSeconds is ${markLifetimeSeconds}: expected at least ${minMarkLifetime}, 90 days`,
  );
}

function backendOf(c: FaceTheoryIsrMetaStoreConfig): Backend {
  const clock = clockOf(c);
  return {
    ddb: c.ddb,
    tableName: c.tableName,
    clock,
    calls: new Calls(clock, c),
    settleTimeoutMs: c.settleTimeoutMs ?? 15_000,
    newToken: c.newToken ?? randomText,
    warn: c.warn ?? (() => {}),
  };
}

function partitionOf(c: FaceTheoryIsrMetaStoreConfig): (cacheKey: string) => string {
  const { tenant, pkFromCacheKey, pkPrefix, partition } = c;
  if (tenant) checkTenant(tenant);
  if (pkPrefix !== undefined && (pkFromCacheKey || tenant)) {
    throw new InvalidInputError('pkPrefix excludes pkFromCacheKey and tenant: set one of them');
  }
  if (partition !== undefined && (pkFromCacheKey || pkPrefix !== undefined)) {
    throw new InvalidInputError('partition excludes pkFromCacheKey and pkPrefix: set one of them');
  }
  if (pkPrefix !== undefined) return (cacheKey) => checkPartition(pkPrefix + cacheKey);
  if (pkFromCacheKey) return (cacheKey) => checkPartition(pkFromCacheKey(cacheKey));
  const schemed = schemeOf(partition) === 'raw' ? rawPartition : hashedPartition;
  return (cacheKey) => schemed(cacheKey, tenant);
}

const schemeVariable = 'FACETHEORY_CACHE_PARTITION';

function schemeOf(given: PartitionScheme | undefined): PartitionScheme {
  const scheme = given === undefined ? process.env[schemeVariable] || 'hashed' : given;
  if (scheme === 'hashed' || scheme === 'raw') return scheme;
  const name = given === undefined ? schemeVariable : 'partition';
  throw new InvalidInputError(`${name} is ${formatValue(scheme)}: expected hashed or raw`);
}
