import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';

import { isMissing, sha256 } from '../cache/bodies.js';
import { LruCache } from '../cache/lru.js';
import { storeMembers } from '../cache/members.js';
import { PurgeMarks } from '../cache/purgemarks.js';
import { type StoreOptions, storeSettingsOf } from '../cache/settings.js';
import { storesOf } from '../cache/stores.js';
import type { Clock } from '../clock.js';
import type { Entry, PurgeState } from '../isr/entry.js';
import { freshness, freshUntilMs, mergePurgeStates } from '../isr/freshness.js';
import type { Lease } from '../isr/lease.js';
import { checkInterval } from '../isr/normalize.js';
import type { FaceTheoryIsrMetaStore } from '../isr/store.js';
import { checkOptions, type Members } from '../options.js';
import { withTimeout } from '../retry.js';

/** A page as FaceTheory's runtime reads it: its `IsrMetaRecord`. Times are in epoch milliseconds. */
export interface RuntimeRecord {
  cacheKey: string;
  htmlPointer: string | null;
  generatedAt: number;
  revalidateSeconds: number;
  status: number;
  contentType: string;
  contentSecurityPolicy: string | null;
  etag: string | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseExpiresAt: number;
}

/** The stores of FaceTheory's runtime: its `IsrMetaStore` and `HtmlStore`, to be passed as `isr` to its `createFaceApp`. */
export interface RuntimeStores {
  readonly metaStore: RuntimeMetaStore;
  readonly htmlStore: RuntimeHtmlStore;
  /** Gives back the leases of this process. */
  close(): Promise<void>;
}

/** The options of {@link createRuntimeStores}. */
export interface RuntimeStoresOptions extends StoreOptions {
  /** How long after its freshness window `isr serve` may serve a page while it is regenerated, in seconds. Default: 0. */
  staleSeconds?: number;
}

const runtimeMembers: Members<RuntimeStoresOptions> = { ...storeMembers, staleSeconds: true };

/** The runtime's request for a lease. */
export interface RuntimeAcquisition {
  cacheKey: string;
  leaseOwner: string;
  /** At most an hour from the clock of the stores. */
  nowMs: number;
  leaseDurationMs: number;
  fallbackRevalidateSeconds: number;
}

/** A generation that the runtime has rendered and stored. */
export interface RuntimeGeneration {
  cacheKey: string;
  leaseToken: string;
  htmlPointer: string;
  generatedAt: number;
  revalidateSeconds: number;
  status: number;
  contentType: string;
  contentSecurityPolicy?: string | null;
  etag?: string | null;
}

/** A body that the runtime stores. */
export interface RuntimeBody {
  key: string;
  body: Uint8Array;
  contentType?: string;
  cacheControl?: string | null;
  metadata?: Record<string, string>;
}

/** The content type of pages that state none. */
const html = 'text/html; charset=utf-8';
/** The statuses of pages that need no header beyond type and policy. Readers of others find the status beside the body. */
const plainStatuses: ReadonlySet<number> = new Set([200, 203, 204, 404, 410]);
/** The timeout of one request to the bucket, in milliseconds. */
const timeoutMs = 10_000;
/** How many bodies are remembered that were stored and not published. */
const maxWritten = 1000;

/** What is known of a body that was stored by this process. */
interface Written {
  contentSha256: string;
  contentLength: number;
}

/**
 * The meta store of FaceTheory's runtime. It follows the purges of all programs, and publishes pages
 * with status, header and digest, so that `isr serve` and the other clients serve them too.
 */
export class RuntimeMetaStore {
  readonly #store: FaceTheoryIsrMetaStore;
  readonly #marks: PurgeMarks;
  readonly #written: LruCache<Written>;
  readonly #clock: Clock;
  readonly #staleSeconds: number;
  /** The leases that the runtime has, by token. It releases each of them. */
  readonly #leases = new Map<string, Lease>();

  /** @internal */
  constructor(
    store: FaceTheoryIsrMetaStore,
    marks: PurgeMarks,
    written: LruCache<Written>,
    clock: Clock,
    staleSeconds: number,
  ) {
    this.#store = store;
    this.#marks = marks;
    this.#written = written;
    this.#clock = clock;
    this.#staleSeconds = staleSeconds;
  }

  /** Returns a page; null if it is missing or purged, or if the runtime could not serve it as it is. */
  async get(cacheKey: string): Promise<RuntimeRecord | null> {
    const [{ entry, purge }] = await Promise.all([this.#store.read({ cacheKey }), this.#marks.catchUp()]);
    return entry ? this.#recordOf(cacheKey, entry, purge) : null;
  }

  /** Purges a page for all processes: its generations are not served any more. */
  async invalidate(cacheKey: string): Promise<void> {
    await this.#store.purge([{ kind: 'key', value: cacheKey }], { hard: true });
  }

  /** Acquires the lease without waiting. `record` is the page as it was read under the lease, or without one as it is. */
  async tryAcquireLease(
    a: RuntimeAcquisition,
  ): Promise<{ acquired: boolean; record: RuntimeRecord; leaseToken: string | null }> {
    const { cacheKey, leaseOwner, nowMs, leaseDurationMs, fallbackRevalidateSeconds } = a;
    await this.#marks.catchUp(); // before there is a lease that a failure would leave behind
    const lease = await this.#store.tryAcquireLease({ cacheKey, leaseOwner, nowMs, leaseDurationMs });
    if (!lease) {
      const record = (await this.get(cacheKey)) ?? missing(cacheKey, fallbackRevalidateSeconds);
      return { acquired: false, record, leaseToken: null };
    }
    const { leaseToken, leaseExpiresAtMs: leaseExpiresAt, record } = lease;
    this.#leases.set(leaseToken, lease);
    const found = record.entry ? this.#recordOf(cacheKey, record.entry, record.purge) : null;
    const page = found ?? missing(cacheKey, fallbackRevalidateSeconds);
    return { acquired: true, record: { ...page, leaseOwner, leaseToken, leaseExpiresAt }, leaseToken };
  }

  /** Publishes a generation, and releases the lease. @throws LeaseLostError MovedError PinnedError UnknownOutcomeError */
  async commitGeneration(g: RuntimeGeneration): Promise<void> {
    const { cacheKey, leaseToken, htmlPointer, generatedAt, revalidateSeconds, status, contentType } = g;
    const written = plainStatuses.has(status) ? this.#written.get(htmlPointer) : undefined;
    const policy = g.contentSecurityPolicy ? { 'content-security-policy': [g.contentSecurityPolicy] } : {};
    const headers = { 'content-type': [contentType], ...policy };
    await this.#store.commitGeneration({
      cacheKey,
      leaseToken,
      htmlPointer,
      generatedAtMs: generatedAt,
      revalidateSeconds,
      ...(g.etag ? { etag: g.etag } : {}),
      ...(written ? { ...written, status, headers, staleSeconds: this.#staleSeconds } : {}),
    });
    this.#written.delete(htmlPointer);
    this.#leases.delete(leaseToken);
  }

  /** Releases the lease, unless a generation was published with it. */
  async releaseLease({ leaseToken }: { cacheKey: string; leaseToken: string }): Promise<void> {
    const lease = this.#leases.get(leaseToken);
    this.#leases.delete(leaseToken);
    if (lease) await this.#store.releaseLease(lease);
  }

  /**
   * Returns a page for the runtime, which knows no state but the freshness window: the window of a page that is not fresh
   * any more has ended, and the window of a pinned page ends with the pin.
   */
  #recordOf(cacheKey: string, entry: Entry, ofPage: PurgeState): RuntimeRecord | null {
    const now = this.#clock.now();
    const purge = mergePurgeStates(ofPage, this.#marks.purgeStateOf(cacheKey, entry.tags, now));
    const state = freshness(entry, purge, now);
    if (state === 'missing' || state === 'purged' || !isServable(entry)) return null;
    const { htmlPointer, generatedAtMs, pinnedUntilMs = 0, etag = null, status } = entry;
    const isInWindow = now < freshUntilMs(entry);
    let { revalidateSeconds } = entry;
    if (state === 'fresh' && !isInWindow) revalidateSeconds = (pinnedUntilMs - generatedAtMs) / 1000;
    if (state !== 'fresh' && isInWindow) revalidateSeconds = 0;
    return {
      ...missing(cacheKey, revalidateSeconds),
      htmlPointer,
      generatedAt: generatedAtMs,
      status,
      contentType: fieldOf(entry, 'content-type') ?? html,
      contentSecurityPolicy: fieldOf(entry, 'content-security-policy'),
      etag,
    };
  }
}

/** Reports whether the runtime can serve a page, of whose header it replays type, policy and entity tag alone. */
function isServable({ status, headers }: Entry): boolean {
  return !(status >= 300 && status < 400) && headers['content-encoding'] === undefined;
}

/** Returns the values of a field of a page; null if it has none. */
function fieldOf({ headers }: Entry, name: string): string | null {
  const values = headers[name]?.map((value) =>
    typeof value === 'string' ? value : Buffer.from(value).toString('latin1'),
  );
  return values ? values.join(', ') : null;
}

function missing(cacheKey: string, revalidateSeconds: number): RuntimeRecord {
  return {
    cacheKey,
    htmlPointer: null,
    generatedAt: 0,
    revalidateSeconds,
    status: 200,
    contentType: html,
    contentSecurityPolicy: null,
    etag: null,
    leaseOwner: null,
    leaseToken: null,
    leaseExpiresAt: 0,
  };
}

/** The bodies of FaceTheory's runtime: objects of the bucket under the keys that it chooses, which are unique. */
export class RuntimeHtmlStore {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #written: LruCache<Written>;

  /** @internal */
  constructor(s3: S3Client, bucket: string, written: LruCache<Written>) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#written = written;
  }

  /** Returns a body with its metadata; null if there is none. */
  async read(key: string): Promise<{ body: Uint8Array; etag: string | null; metadata: Record<string, string> } | null> {
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: key });
    return withTimeout(timeoutMs, undefined, async (abortSignal) => {
      const { Body, ETag = null, Metadata = {} } = await this.#s3.send(command, { abortSignal });
      return Body ? { body: await Body.transformToByteArray(), etag: ETag, metadata: Metadata } : null;
    }).catch((error: unknown) => {
      if (isMissing(error)) return null;
      throw error;
    });
  }

  /** Stores a body, durably once this resolves. */
  async write({
    key,
    body,
    contentType = html,
    cacheControl,
    metadata,
  }: RuntimeBody): Promise<{ etag: string | null }> {
    const command = new PutObjectCommand({
      Bucket: this.#bucket,
      Key: key,
      Body: body,
      ContentLength: body.byteLength,
      ContentType: contentType,
      ChecksumAlgorithm: 'CRC32',
      ...(cacheControl ? { CacheControl: cacheControl } : {}),
      ...(metadata ? { Metadata: metadata } : {}),
    });
    const { ETag = null } = await withTimeout(timeoutMs, undefined, (abortSignal) =>
      this.#s3.send(command, { abortSignal }),
    );
    this.#written.set(key, { contentSha256: sha256(body), contentLength: body.byteLength }, 1);
    return { etag: ETag };
  }
}

/**
 * Creates the stores of FaceTheory's runtime on a table and a bucket that `isr serve`, its commands and the other
 * clients share.
 * @throws InvalidInputError InvalidKeyError for an invalid option, or a missing table or bucket
 */
export function createRuntimeStores(options: RuntimeStoresOptions = {}): RuntimeStores {
  checkOptions('createRuntimeStores', options, runtimeMembers);
  const { staleSeconds = 0 } = options;
  checkInterval('staleSeconds', staleSeconds);
  const naming = { maker: 'createRuntimeStores', warning: 'FaceTheory' };
  const settings = storeSettingsOf(options, naming, process.env);
  const { store, backend } = storesOf(settings);
  const written = new LruCache<Written>(maxWritten);
  const marks = new PurgeMarks(backend, settings.tenant);
  return {
    metaStore: new RuntimeMetaStore(store, marks, written, settings.clock, staleSeconds),
    htmlStore: new RuntimeHtmlStore(settings.s3, settings.bucket, written),
    close: () => store.close(),
  };
}
