import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';

import { type Clock, systemClock } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Warn } from '../isr/backend.js';
import { checkTenant } from '../isr/key.js';
import { checkInterval } from '../isr/normalize.js';

/** The options of a cache handler. Every member has a default, some of them from the environment. */
export interface CacheHandlerOptions {
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
   * The id of the build that pages belong to. All servers of a build must use the same.
   * Default: as in Next.js, `deploymentId` of its configuration, else `.next/BUILD_ID`.
   */
  buildId?: string;
  /** Default: configured by the SDK's environment variables (AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, …). */
  ddb?: DynamoDBClient;
  /** Default: configured by the SDK's environment variables; with AWS_ENDPOINT_URL_S3 it uses path-style addresses. */
  s3?: S3Client;

  /**
   * The lifetime of a page's lease, in seconds: how long other servers wait before they take
   * over from a server that died during a rendering. Heartbeats extend it. Default: 15.
   */
  leaseSeconds?: number;
  /** The timeout of a rendering, in seconds, after which another server may render. Default: 120. */
  renderSeconds?: number;
  /**
   * How long a cache miss waits for the server that is rendering the page, in seconds; then
   * this server renders it too. Default: 10.
   */
  waitSeconds?: number;
  /** How long a page that is not regenerated is kept, in seconds. Default: 30 days. */
  retentionSeconds?: number;
  /**
   * How long a server may use what it knows of the purge log, in seconds, and so how late it may see
   * revalidations by other servers; its own are seen at once. Rows of fresh pages are in memory, whatever
   * this is. Default: 0, each visit reads the log.
   */
  trustSeconds?: number;
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
  readonly callMs: number;
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
    callMs: milliseconds('callSeconds', o.callSeconds ?? 1.5, 0),
    outageMs: milliseconds('outageSeconds', o.outageSeconds ?? 2, 0),
    clock,
    warn: o.warn ?? occasionally(clock),
  };
}

function needed(name: string, given: string | undefined, variable: string, environment: NodeJS.ProcessEnv): string {
  const value = given ?? environment[variable] ?? '';
  if (value !== '') return value;
  throw new InvalidInputError(`${name} is missing: set ${variable}, or pass it to createCacheHandler`);
}

function milliseconds(name: string, seconds: number, least: number): number {
  checkInterval(name, seconds);
  if (seconds < least) throw new InvalidInputError(`${name} must be at least ${least} seconds (got ${seconds})`);
  return seconds * 1000;
}

/** The minimum interval between prints of the same message, in milliseconds. */
const quietMs = 60_000;

/** Prints each message at most once per minute, so that an outage does not log a line per visitor. */
function occasionally(clock: Clock): Warn {
  const printed = new Map<string, number>();
  return (message, details) => {
    const now = clock.elapsed();
    if (now - (printed.get(message) ?? Number.NEGATIVE_INFINITY) < quietMs) return;
    printed.set(message, now);
    console.warn(`ISR cache: ${message}`, details);
  };
}
