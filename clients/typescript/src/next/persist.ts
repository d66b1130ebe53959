import { Bodies, type Described, largestBody, sha256 } from '../cache/bodies.js';
import { randomText } from '../isr/backend.js';
import type { Entry, NextEntry } from '../isr/entry.js';
import { generationId as newGenerationId } from '../isr/generationid.js';
import type { Lease } from '../isr/lease.js';
import { isBackoff } from '../isr/lockrow.js';
import { periodsOf } from './answers.js';
import { type CacheControl, type SetContext, tagsOf, type Value } from './contract.js';
import { statusOf, unstoredEntry } from './entries.js';
import { encode } from './envelope.js';
import type { RenderStart } from './lookup.js';
import type { Site } from './site.js';

/** A rendered value to store. */
export interface RenderedValue {
  cacheKey: string;
  value: Value;
  ctx: SetContext;
  start: RenderStart;
  /** How long the row is kept, in seconds. Default: `retentionSeconds`. */
  keepSeconds?: number;
}

/** The content type of the stored bodies, which are not served to visitors directly. */
const contentType = 'application/vnd.facetheory.next-cache';

/** The maximum backoff after consecutive failures, in seconds. */
const maxBackoffSeconds = 300;

/**
 * Stores a rendered value, body first and then the row, and releases the lease of its
 * rendering. Without a lease, or if it is over, a new one is acquired; if that is held, by
 * another process or another rendering of this one, or a newer entry exists, the value is
 * dropped. If we crash before the publish, a lease is left that expires, and an unreferenced
 * body that `isr gc` deletes.
 */
export async function persist(site: Site, rendered: RenderedValue): Promise<void> {
  const { cacheKey, value, start } = rendered;
  const rendering = site.renderings.storing(start.rendering);
  const body = value !== null && site.served.has(value) ? undefined : bodyOf(site, rendered);
  if (!body) {
    // Next.js failed to regenerate and passes the old value, or the value is too large.
    if (rendering) await site.renderings.backOff(rendering, backOffMs(rendering.lease, lifetimeOf(rendered)));
    return;
  }
  const lease = rendering?.lease ?? (await claim(site, rendered));
  if (!lease) return;
  try {
    await publish(site, lease, rendered, body);
  } catch (error) {
    await site.store.releaseLease(lease).catch(() => undefined); // it expires; the first error matters
    throw error;
  } finally {
    if (rendering) await site.renderings.end(rendering);
    site.pages.forget(cacheKey);
  }
}

/** Encodes the body of a value; undefined if it is too large to store. That is not an outage: each request renders the page. */
function bodyOf(site: Site, { cacheKey, value }: RenderedValue): Buffer | undefined {
  const body = encode(value);
  if (body.length <= largestBody) return body;
  site.settings.warn('a page is too large to be stored', { cacheKey, bytes: body.length, atMost: largestBody });
  return undefined;
}

/** Acquires a lease for a value rendered without one, unless a newer entry exists. */
async function claim(site: Site, { cacheKey, start }: RenderedValue): Promise<Lease | undefined> {
  const lease = (await site.renderings.acquire(cacheKey)) ?? (await endBackOff(site, cacheKey));
  const entry = lease?.lease.record.entry;
  if (!lease || !entry || entry.foreign || entry.generatedAtMs <= start.atMs) return lease?.lease;
  await site.store.releaseLease(lease.lease);
  return undefined;
}

/** Ends a backoff: a successful render breaks the lease that a failure left. */
async function endBackOff(site: Site, cacheKey: string): Promise<{ lease: Lease } | undefined> {
  const record = await site.store.read({ cacheKey });
  if (!isBackoff(record.lock)) return undefined;
  await site.store.breakLease({ cacheKey, record });
  return site.renderings.acquire(cacheKey);
}

async function publish(site: Site, lease: Lease, rendered: RenderedValue, body: Buffer): Promise<void> {
  const { clock, retentionSeconds } = site.settings;
  const generationId = newGenerationId(clock.now(), randomText());
  const described = await store(site, lease, generationId, body);
  const generatedAtMs = Math.min(rendered.start.atMs, clock.now());
  const periods = periodsOf(lifetimeOf(rendered));
  const { tags, headers } = site.tagLimit.stored(rendered.cacheKey, tagsOf(rendered.value, rendered.ctx));
  const next: NextEntry = {
    ...described,
    ...periods,
    generationId,
    generatedAtMs,
    key: rendered.cacheKey,
    status: statusOf(rendered.value),
    headers: { 'content-type': [contentType], ...headers },
    tags,
    purgeSeq: rendered.start.seq,
    renderMs: Math.max(1, clock.now() - rendered.start.atMs),
    ttlUnixSeconds: horizon(clock.now() / 1000, rendered.keepSeconds ?? retentionSeconds),
  };
  const entry = await site.store.publish(lease, lease.record, next);
  if (isPage(rendered)) site.pages.keep(rendered.cacheKey, entry, { value: rendered.value, bytes: body.length });
}

/** Reports whether a value is what a visitor gets, rather than a part of it. */
function isPage({ value }: RenderedValue): boolean {
  return value?.kind !== 'FETCH' && value?.kind !== 'USE_CACHE';
}

/**
 * Keeps a page in memory that could not be stored: it replaces the last known one while the stores
 * do not answer. If Next.js passes the old value, because it has failed to regenerate, that stays.
 */
export function keepUnstored(site: Site, rendered: RenderedValue): void {
  const { cacheKey, value, ctx, start } = rendered;
  if (!isPage(rendered) || (value !== null && site.served.has(value))) return;
  const { atMs: generatedAtMs, seq: purgeSeq } = start;
  const name = `unstored ${cacheKey}`;
  const entry = unstoredEntry({ name, value, tags: ctx.tags, life: lifetimeOf(rendered), generatedAtMs, purgeSeq });
  site.pages.keep(cacheKey, entry, { value, bytes: encode(value).length });
}

/** Stores the body, unless the current entry has the same body and it still exists. */
async function store(site: Site, lease: Lease, generationId: string, body: Buffer): Promise<Described> {
  const { entry } = lease.record;
  if (entry && isSame(entry, body) && (await site.bodies.has(entry.htmlPointer, entry.contentLength)))
    return describe(entry);
  return site.bodies.put(Bodies.key(lease.pk, generationId), body);
}

function isSame(entry: Entry, body: Buffer): boolean {
  return !entry.foreign && entry.contentLength === body.length && entry.contentSha256 === sha256(body);
}

function describe({ htmlPointer, contentSha256, contentLength }: Entry): Described {
  return { htmlPointer, contentSha256, contentLength };
}

/** Returns the lifetime of a value. A fetch carries its own. */
function lifetimeOf({ value, ctx }: RenderedValue): CacheControl {
  const own = value?.kind === 'FETCH' ? value['revalidate'] : ctx.revalidate;
  return ctx.cacheControl ?? { revalidate: typeof own === 'number' ? own : false };
}

/** Returns the ttl of the row, in epoch seconds: by then the page was regenerated or is unused. */
function horizon(nowSeconds: number, retentionSeconds: number): number {
  return Math.floor(nowSeconds + retentionSeconds) + 24 * 3600;
}

/** Exponential backoff: Next.js's own delay, doubled per consecutive failure, with jitter. */
function backOffMs(lease: Lease, life: CacheControl): number {
  const first = typeof life.revalidate === 'number' ? life.revalidate : 3;
  return Math.min(first * 2 ** Math.min(lease.failures, 10), maxBackoffSeconds) * 1000 * (1 + Math.random() / 4);
}
