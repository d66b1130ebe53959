import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';

import { type Clock, systemClock } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Warn } from '../isr/backend.js';
import type { PartitionScheme } from '../isr/config.js';
import { checkTenant } from '../isr/key.js';
import { checkInterval } from '../isr/normalize.js';
import { occasionally } from './occasionally.js';

/** The options of the stores of a cache. Every member has a default, some of them from the environment. */
export interface StoreOptions {
  /** The table: partition key `pk`, sort key `sk`, both strings. Default: FACETHEORY_CACHE_TABLE_NAME. */
  tableName?: string;
  /** The bucket of the stored bodies. Default: FACETHEORY_CACHE_BUCKET. */
  bucket?: string;
  /**
   * Separates the pages and tags of one site from others in the same table: 1 to 64 letters,
   * digits, `.`, `_`, `-`. Default: FACETHEORY_CACHE_TENANT, else none.
   */
  tenant?: string;
  /**
   * How cache keys become partition keys, the same for all writers of a table. Default:
   * FACETHEORY_CACHE_PARTITION, else `hashed`, as `isr serve` does.
   */
  partition?: PartitionScheme;
  /** Default: configured by the SDK's environment variables (AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, …). */
  ddb?: DynamoDBClient;
  /** Default: configured by the SDK's environment variables; with AWS_ENDPOINT_URL_S3 it uses path-style addresses. */
  s3?: S3Client;
  /** How long a page that is not regenerated is kept, in seconds, at least two days. Default: 30 days. */
  retentionSeconds?: number;
  /**
   * The timeout of one call to the table, in seconds, above 0 and at most an hour. A visitor waits
   * at most twice that for a table that does not answer; then the page is rendered without the
   * cache. Default: 1.5.
   */
  callSeconds?: number;
  /** How long the circuit breaker stays open after the table failed to answer, in seconds. Default: 2. */
  outageSeconds?: number;
  /** The clock, for tests. */
  clock?: Clock;
  /** Called for failures and how they were handled. Default: `console.warn`, once per minute for the same message. */
  warn?: Warn;
}

/** Options with defaults applied. Members ending in `Ms` are in milliseconds. */
export interface StoreSettings {
  readonly tableName: string;
  readonly bucket: string;
  readonly tenant: string;
  readonly partition: PartitionScheme | undefined;
  readonly ddb: DynamoDBClient;
  readonly s3: S3Client;
  readonly retentionSeconds: number;
  readonly callMs: number;
  readonly outageMs: number;
  readonly clock: Clock;
  readonly warn: Warn;
}

/** How messages name a cache: the function that takes its options, and the beginning of its warnings. */
export interface Naming {
  maker: string;
  warning: string;
}

/** @throws InvalidInputError InvalidKeyError */
export function storeSettingsOf(
  o: StoreOptions,
  { maker, warning }: Naming,
  environment: NodeJS.ProcessEnv,
): StoreSettings {
  const tenant = o.tenant ?? environment['FACETHEORY_CACHE_TENANT'] ?? '';
  if (tenant !== '') checkTenant(tenant);
  const needed = (name: string, given: string | undefined, variable: string): string => {
    const value = given ?? environment[variable] ?? '';
    if (value !== '') return value;
    throw new InvalidInputError(`${name} is missing: set ${variable}, or pass it to ${maker}`);
  };
  const clock = o.clock ?? systemClock();
  return {
    tableName: needed('tableName', o.tableName, 'FACETHEORY_CACHE_TABLE_NAME'),
    bucket: needed('bucket', o.bucket, 'FACETHEORY_CACHE_BUCKET'),
    tenant,
    partition: o.partition,
    ddb: o.ddb ?? new DynamoDBClient({}),
    s3: o.s3 ?? new S3Client({ forcePathStyle: Boolean(environment['AWS_ENDPOINT_URL_S3']) }),
    retentionSeconds: milliseconds('retentionSeconds', o.retentionSeconds ?? 30 * 24 * 3600, 2 * 24 * 3600) / 1000,
    callMs: milliseconds('callSeconds', o.callSeconds ?? 1.5, 0),
    outageMs: milliseconds('outageSeconds', o.outageSeconds ?? 2, 0),
    clock,
    warn: o.warn ?? occasionally(clock, warning),
  };
}

/** Converts an option in seconds, at least `least`, to milliseconds. @throws InvalidInputError */
export function milliseconds(name: string, seconds: number, least: number): number {
  checkInterval(name, seconds);
  if (seconds < least) throw new InvalidInputError(`${name} must be at least ${least} seconds (got ${seconds})`);
  return seconds * 1000;
}
