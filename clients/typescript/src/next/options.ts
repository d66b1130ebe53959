import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';

import { type Clock, systemClock } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Warn } from '../isr/backend.js';
import { checkTenant } from '../isr/key.js';
import { checkInterval } from '../isr/normalize.js';

/** How a cache handler is made; everything has a default, some of it in the environment. */
export interface CacheHandlerOptions {
  /** The table: partition key `pk`, sort key `sk`, both strings. Default: FACETHEORY_CACHE_TABLE_NAME. */
  tableName?: string;
  /** The bucket of the bodies. Default: FACETHEORY_CACHE_BUCKET. */
  bucket?: string;
  /**
   * Keeps the pages and tags of one site apart from those of others in the same table: 1
   * to 64 letters, digits, `.`, `_`, `-`. Default: FACETHEORY_CACHE_TENANT, else none.
   */
  tenant?: string;
  /**
   * Names the build that pages belong to. All servers of a build must have the same.
   * Default: that of Next.js, in `.next/BUILD_ID`.
   */
  buildId?: string;
  /** Default: of the environment, as the SDK reads it (AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, …). */
  ddb?: DynamoDBClient;
  /** Default: of the environment, as the SDK reads it; with AWS_ENDPOINT_URL_S3 buckets are named in paths. */
  s3?: S3Client;

  /**
   * How long the lease of a page lasts, in seconds: so long does nobody else take over
   * after a server has died in the middle of a page. It is extended while a page is
   * being made. Default: 15.
   */
  leaseSeconds?: number;
  /** How long a page may take to be made, in seconds: then somebody else may try. Default: 120. */
  renderSeconds?: number;
  /**
   * How long a visitor of a page that is not there waits, in seconds, for the server that
   * makes it; then this one makes it too. Default: 10.
   */
  waitSeconds?: number;
  /** How long a page that nobody makes anew is kept, in seconds. Default: 30 days. */
  retentionSeconds?: number;
  /**
   * For how long a server may go on with what it has read of a page and of tags, in
   * seconds; so late may it see what others did. Default: 0, it reads every time.
   */
  trustSeconds?: number;
  /** For how long the table is not asked after it has not answered, in seconds. Default: 2. */
  outageSeconds?: number;

  /** The clock, for tests. */
  clock?: Clock;
  /** Hears of what went wrong and of what was done instead. Default: `console.warn`, once a minute for the same message. */
  warn?: Warn;
}

/** Options with their defaults, intervals in milliseconds. */
export interface Settings {
  readonly tableName: string;
  readonly bucket: string;
  readonly tenant: string;
  readonly buildId: string | undefined;
  readonly ddb: DynamoDBClient;
  readonly s3: S3Client;
  readonly leaseMs: number;
  readonly renderMs: number;
  readonly waitMs: number;
  readonly retentionSeconds: number;
  readonly trustMs: number;
  readonly outageMs: number;
  readonly clock: Clock;
  readonly warn: Warn;
}

/** @throws InvalidInputError InvalidKeyError */
export function settingsOf(o: CacheHandlerOptions, environment: NodeJS.ProcessEnv): Settings {
  const tenant = o.tenant ?? environment['FACETHEORY_CACHE_TENANT'] ?? '';
  if (tenant !== '') checkTenant(tenant);
  const clock = o.clock ?? systemClock();
  return {
    tableName: needed('tableName', o.tableName, 'FACETHEORY_CACHE_TABLE_NAME', environment),
    bucket: needed('bucket', o.bucket, 'FACETHEORY_CACHE_BUCKET', environment),
    tenant,
    buildId: o.buildId,
    ddb: o.ddb ?? new DynamoDBClient({}),
    s3: o.s3 ?? new S3Client({ forcePathStyle: Boolean(environment['AWS_ENDPOINT_URL_S3']) }),
    leaseMs: milliseconds('leaseSeconds', o.leaseSeconds ?? 15, 1),
    renderMs: milliseconds('renderSeconds', o.renderSeconds ?? 120, 1),
    waitMs: milliseconds('waitSeconds', o.waitSeconds ?? 10, 0),
    retentionSeconds: milliseconds('retentionSeconds', o.retentionSeconds ?? 30 * 24 * 3600, 2 * 24 * 3600) / 1000,
    trustMs: milliseconds('trustSeconds', o.trustSeconds ?? 0, 0),
    outageMs: milliseconds('outageSeconds', o.outageSeconds ?? 2, 0),
    clock,
    warn: o.warn ?? occasionally(clock),
  };
}

function needed(name: string, given: string | undefined, variable: string, environment: NodeJS.ProcessEnv): string {
  const value = given ?? environment[variable] ?? '';
  if (value !== '') return value;
  throw new InvalidInputError(`${name} is missing: set ${variable}, or give it to createCacheHandler`);
}

function milliseconds(name: string, seconds: number, least: number): number {
  checkInterval(name, seconds);
  if (seconds < least) throw new InvalidInputError(`${name} is ${seconds}: expected ${least} seconds or more`);
  return seconds * 1000;
}

/** How often the same message is printed, in milliseconds. */
const quietMs = 60_000;

/** Prints a message, unless it was printed within the last minute: an outage has a line, not one for each visitor. */
function occasionally(clock: Clock): Warn {
  const printed = new Map<string, number>();
  return (message, details) => {
    const now = clock.elapsed();
    if (now - (printed.get(message) ?? Number.NEGATIVE_INFINITY) < quietMs) return;
    printed.set(message, now);
    console.warn(`ISR cache: ${message}`, details);
  };
}
