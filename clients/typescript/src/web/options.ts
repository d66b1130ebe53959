import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';

import { type Clock, systemClock } from '../clock.js';
import { InvalidInputError } from '../errors.js';
import type { Warn } from '../isr/backend.js';
import { canonicalKey } from '../isr/canonicalkey.js';
import { checkTenant } from '../isr/key.js';
import { checkInterval } from '../isr/normalize.js';

/** The options of a page cache. Every member but `hosts` has a default, some of them from the environment. */
export interface PageCacheOptions {
  /**
   * The hosts whose pages are cached, such as `example.com` or `localhost:3000`, 1 to 100. Requests to
   * other hosts pass through: otherwise anyone could fill the table with invented hosts.
   */
  hosts: readonly string[];
  /** The table: partition key `pk`, sort key `sk`, both strings. Default: FACETHEORY_CACHE_TABLE_NAME. */
  tableName?: string;
  /** The bucket of the bodies. Default: FACETHEORY_CACHE_BUCKET. */
  bucket?: string;
  /** The tenant of all pages, see {@link FaceTheoryIsrMetaStoreConfig.tenant}. Default: FACETHEORY_CACHE_TENANT, else none. */
  tenant?: string;
  /** Default: configured by the SDK's environment variables. The cache does not close it. */
  ddb?: DynamoDBClient;
  /** Default: configured by the SDK's environment variables; with AWS_ENDPOINT_URL_S3 it uses path-style addresses. */
  s3?: S3Client;

  /**
   * The query parameters that pages depend on, which are part of the key. A request with another one
   * passes through, except for those that only record where a visitor came from (`utm_source`, `gclid`, …). Default: none.
   */
  query?: readonly string[];
  /**
   * The cookies that pages do not depend on; a name may end in `*`, and `*` means all. A request with another cookie
   * passes through. Default: those of common analytics.
   */
  ignoreCookies?: readonly string[];

  /**
   * How long after its freshness window a page may be served while it is regenerated, at most, and for responses without
   * stale-while-revalidate, in seconds. Default: 0, what a response states, unless it has s-maxage.
   */
  staleSeconds?: number;
  /** How long this process uses the metadata of a page from memory, in seconds, and so how late it sees purges by others. Default: 1. */
  trustSeconds?: number;
  /** The bodies in memory, in bytes. Default: 64 MiB. */
  memoryBytes?: number;
  /** The largest body that is stored, in bytes, at most 64 MiB. Default: 10 MiB. */
  maxBodyBytes?: number;
  /** The lifetime of a lease, in seconds: how long a crashed process delays the regeneration of a page. Default: 15. */
  leaseSeconds?: number;
  /** How long a render may take, in seconds. Its signal is aborted then. Default: 60. */
  renderSeconds?: number;
  /** How long a visitor waits for a page that another process renders, in seconds; then it is rendered here too. Default: 10. */
  waitSeconds?: number;
  /** How long a page without requests is kept, in seconds, at least two days. Default: 30 days. */
  retentionSeconds?: number;
  /** The timeout of one call to the table, in seconds. Default: 1.5. */
  callSeconds?: number;
  /** How long the stores are not asked after they have failed to answer, in seconds. Default: 2. */
  outageSeconds?: number;

  /** The clock, for tests. */
  clock?: Clock;
  /** Called for failures and how they were handled. Default: `console.warn`, once a minute for the same message. */
  warn?: Warn;
}

/** Options with defaults applied. Members ending in `Ms` are in milliseconds. */
export interface Settings {
  readonly hosts: ReadonlySet<string>;
  readonly query: ReadonlySet<string>;
  readonly ignoreCookies: readonly string[];
  readonly tableName: string;
  readonly bucket: string;
  readonly tenant: string;
  readonly ddb: DynamoDBClient;
  readonly s3: S3Client;
  readonly staleSeconds: number;
  readonly trustMs: number;
  readonly memoryBytes: number;
  readonly maxBodyBytes: number;
  readonly leaseMs: number;
  readonly renderMs: number;
  readonly waitMs: number;
  readonly retentionSeconds: number;
  readonly callMs: number;
  readonly outageMs: number;
  readonly clock: Clock;
  readonly warn: Warn;
}

const maxHosts = 100;
const mebibyte = 1 << 20;

/** @throws InvalidInputError InvalidKeyError */
export function settingsOf(o: PageCacheOptions, environment: NodeJS.ProcessEnv): Settings {
  const tenant = o.tenant ?? environment['FACETHEORY_CACHE_TENANT'] ?? '';
  if (tenant !== '') checkTenant(tenant);
  const clock = o.clock ?? systemClock();
  return {
    hosts: hostsOf(o.hosts),
    query: new Set(o.query ?? []),
    ignoreCookies: o.ignoreCookies ?? [],
    tableName: needed('tableName', o.tableName, 'FACETHEORY_CACHE_TABLE_NAME', environment),
    bucket: needed('bucket', o.bucket, 'FACETHEORY_CACHE_BUCKET', environment),
    tenant,
    ddb: o.ddb ?? new DynamoDBClient({}),
    s3: o.s3 ?? new S3Client({ forcePathStyle: Boolean(environment['AWS_ENDPOINT_URL_S3']) }),
    staleSeconds: milliseconds('staleSeconds', o.staleSeconds ?? 0, 0) / 1000,
    trustMs: milliseconds('trustSeconds', o.trustSeconds ?? 1, 0),
    memoryBytes: bytes('memoryBytes', o.memoryBytes ?? 64 * mebibyte, 0, 64 * 1024 * mebibyte),
    maxBodyBytes: bytes('maxBodyBytes', o.maxBodyBytes ?? 10 * mebibyte, 1, 64 * mebibyte),
    leaseMs: milliseconds('leaseSeconds', o.leaseSeconds ?? 15, 1),
    renderMs: milliseconds('renderSeconds', o.renderSeconds ?? 60, 1),
    waitMs: milliseconds('waitSeconds', o.waitSeconds ?? 10, 0),
    retentionSeconds: milliseconds('retentionSeconds', o.retentionSeconds ?? 30 * 24 * 3600, 2 * 24 * 3600) / 1000,
    callMs: milliseconds('callSeconds', o.callSeconds ?? 1.5, 0),
    outageMs: milliseconds('outageSeconds', o.outageSeconds ?? 2, 0),
    clock,
    warn: o.warn ?? occasionally(clock),
  };
}

function hostsOf(hosts: readonly string[] | undefined): ReadonlySet<string> {
  if (!Array.isArray(hosts) || hosts.length === 0 || hosts.length > maxHosts) {
    throw new InvalidInputError(
      `hosts must name 1 to ${maxHosts} hosts, such as ['example.com']: those at which visitors reach the site`,
    );
  }
  return new Set(hosts.map((host) => canonicalKey(`${host}/`).slice(0, -1)));
}

function needed(name: string, given: string | undefined, variable: string, environment: NodeJS.ProcessEnv): string {
  const value = given ?? environment[variable] ?? '';
  if (value !== '') return value;
  throw new InvalidInputError(`${name} is missing: set ${variable}, or pass it to createPageCache`);
}

function milliseconds(name: string, seconds: number, least: number): number {
  checkInterval(name, seconds);
  if (seconds < least) throw new InvalidInputError(`${name} must be at least ${least} seconds (got ${seconds})`);
  return seconds * 1000;
}

function bytes(name: string, n: number, least: number, most: number): number {
  if (Number.isSafeInteger(n) && n >= least && n <= most) return n;
  throw new InvalidInputError(`${name} must be a whole number of bytes from ${least} to ${most} (got ${n})`);
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
    console.warn(`page cache: ${message}`, details);
  };
}
