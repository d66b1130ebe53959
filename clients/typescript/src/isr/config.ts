import { hostname } from 'node:os';

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

import { type Clock, systemClock } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import { Calls, type RetryOptions } from '../retry.js';
import { type Backend, randomText, type Warn } from './backend.js';
import { checkTenant } from './key.js';
import { LogQueue } from './logqueue.js';
import { checkInterval } from './normalize.js';
import { checkPartition, hashedPartition } from './partition.js';

/** How a meta store is made; all but the client and the table has a default. */
export interface FaceTheoryIsrMetaStoreConfig extends RetryOptions {
  /** It is not closed by the store. */
  ddb: DynamoDBClient;
  /** The table: partition key `pk`, sort key `sk`, both strings. */
  tableName: string;

  /** The tenant of all pages of this store: 1 to 64 letters, digits, `.`, `_`, `-`. Default: none. */
  tenant?: string;
  /**
   * The partition key of a page. All writers of a table must use the same. Default:
   * `hashedPartition`, with the tenant, as `isr serve` does.
   */
  pkFromCacheKey?: (cacheKey: string) => string;
  /** Makes partition keys of this and the cache key as it is. It excludes `pkFromCacheKey` and `tenant`. */
  pkPrefix?: string;

  /**
   * How long entries are kept after they were published, pinned or rolled back to, at
   * least, in seconds: rows get a ttl a day beyond all that could need them. Default:
   * rows have no ttl, unless a call gives one.
   */
  metaTtlSeconds?: number;
  /** How long records of requests with an idempotency key are kept, in seconds. Default: a day. */
  requestKeepSeconds?: number;
  /** Names this process to people and to other holders. It decides nothing. Default: host name and process id. */
  leaseOwner?: string;

  /** The wall clock, in epoch milliseconds. Default: `Date.now`. */
  now?: () => number;
  /** Time as a whole, for tests; it takes the place of `now`. */
  clock?: Clock;
  /** A text that nobody can guess and that never returns, of at least 128 random bits. Default: of `node:crypto`. */
  newToken?: () => string;
  /** Bounds the work that finds out what became of a write, in milliseconds. Default: 15,000. */
  settleTimeoutMs?: number;
  /** Hears of lost replies and what became of them. Default: nobody. */
  warn?: Warn;
}

/** A configuration with its defaults. */
export interface Settings {
  readonly backend: Backend;
  /** All changes of the purge log go through it. */
  readonly log: LogQueue;
  readonly tenant: string;
  readonly partition: (cacheKey: string) => string;
  readonly metaTtlSeconds: number | undefined;
  readonly requestKeepSeconds: number;
  readonly owner: string;
}

/** @throws InvalidInputError InvalidKeyError */
export function settingsOf(c: FaceTheoryIsrMetaStoreConfig): Settings {
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
    log: new LogQueue(backend),
    tenant: c.tenant ?? '',
    partition: partitionOf(c),
    metaTtlSeconds: c.metaTtlSeconds,
    requestKeepSeconds,
    owner: c.leaseOwner ?? `${hostname()}:${process.pid}`,
  };
}

function backendOf(c: FaceTheoryIsrMetaStoreConfig): Backend {
  const clock = c.clock ?? systemClock(c.now);
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
  const { tenant, pkFromCacheKey, pkPrefix } = c;
  if (tenant) checkTenant(tenant);
  if (pkPrefix !== undefined && (pkFromCacheKey || tenant)) {
    throw new InvalidInputError('pkPrefix excludes pkFromCacheKey and tenant: give one of them');
  }
  if (pkPrefix !== undefined) return (cacheKey) => checkPartition(pkPrefix + cacheKey);
  if (pkFromCacheKey) return (cacheKey) => checkPartition(pkFromCacheKey(cacheKey));
  return (cacheKey) => hashedPartition(cacheKey, tenant);
}
