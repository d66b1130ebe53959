import { randomText } from '../isr/backend.js';
import type { Entry, NextEntry } from '../isr/entry.js';
import { generationId as newGenerationId } from '../isr/generationid.js';
import type { Lease } from '../isr/lease.js';
import { periodsOf } from './answers.js';
import { Bodies, type Described, largestBody, sha256 } from './bodies.js';
import { type CacheControl, type SetContext, tagsOf, type Value } from './contract.js';
import { encode } from './envelope.js';
import { type Began, isBackOff } from './lookup.js';
import type { Site } from './site.js';

/** What is to be kept. */
export interface Made {
  cacheKey: string;
  value: Value;
  ctx: SetContext;
  began: Began;
}

/** The type of the bodies, which are none that a visitor could use. */
const contentType = 'application/vnd.facetheory.next-cache';

/** The longest pause after failures in a row, in seconds. */
const longestBackOff = 300;

/**
 * Keeps what was made: body, then row, and gives up the lease of its own rendering.
 * Without one, or if that is over, a lease is taken; if it is held, by another process or
 * for another rendering of this one, or something newer is there, what was made is
 * dropped. If we crash before the publish, what remains is a lease that expires, and a
 * body that nothing points at, which `isr gc` removes.
 */
export async function keep(site: Site, made: Made): Promise<void> {
  const { cacheKey, value, ctx, began } = made;
  const rendering = began.rendering && site.running.of(cacheKey) === began.rendering ? began.rendering : undefined;
  const body = value !== null && site.given.has(value) ? undefined : bodyOf(site, made);
  if (!body) {
    // Next keeps what it had, having failed to make a new one; or no row can have it.
    if (rendering) await site.running.backOff(rendering, backOffMs(rendering.lease, ctx.cacheControl));
    return;
  }
  const lease = rendering?.lease ?? (await claim(site, made));
  if (!lease) return;
  try {
    await publish(site, lease, made, body);
  } catch (error) {
    await site.store.releaseLease(lease).catch(() => undefined); // it expires; the first error is what matters
    throw error;
  } finally {
    if (rendering) await site.running.end(rendering);
    site.pages.forget(cacheKey);
  }
}

/** The body of a value; undefined if it is too large to be kept, which is no failure of the store: each visitor gets a page of his own. */
function bodyOf(site: Site, { cacheKey, value }: Made): Buffer | undefined {
  const body = encode(value);
  if (body.length <= largestBody) return body;
  site.settings.warn('a page is too large to be kept', { cacheKey, bytes: body.length, atMost: largestBody });
  return undefined;
}

/** A lease for what was made without one, if there is nothing newer. */
async function claim(site: Site, { cacheKey, began }: Made): Promise<Lease | undefined> {
  const lease = (await site.running.acquire(cacheKey)) ?? (await endBackOff(site, cacheKey));
  const entry = lease?.lease.record.entry;
  if (!lease || !entry || entry.foreign || entry.generatedAtMs <= began.atMs) return lease?.lease;
  await site.store.releaseLease(lease.lease);
  return undefined;
}

/** Success ends the pause that failures left. */
async function endBackOff(site: Site, cacheKey: string): Promise<{ lease: Lease } | undefined> {
  const record = await site.store.read({ cacheKey });
  if (!isBackOff(record.lock)) return undefined;
  await site.store.breakLease({ cacheKey, record });
  return site.running.acquire(cacheKey);
}

async function publish(site: Site, lease: Lease, made: Made, body: Buffer): Promise<void> {
  const { clock, retentionSeconds } = site.settings;
  const generationId = newGenerationId(clock.now(), randomText());
  const described = await store(site, lease, generationId, body);
  const generatedAtMs = Math.min(made.began.atMs, clock.now());
  const periods = periodsOf(lifetimeOf(made));
  const next: NextEntry = {
    ...described,
    ...periods,
    generationId,
    generatedAtMs,
    key: made.cacheKey,
    status: statusOf(made.value),
    headers: { 'content-type': [contentType] },
    tags: tagsOf(made.value, made.ctx),
    purgeSeq: made.began.seq,
    renderMs: Math.max(1, clock.now() - made.began.atMs),
    ttlUnixSeconds: horizon(clock.now() / 1000, retentionSeconds),
  };
  await site.store.publish(lease, lease.record, next);
}

/** Stores the body, unless it is that of the current entry, and that is still there. */
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

/** How long a value may be used. A fetch says so itself. */
function lifetimeOf({ value, ctx }: Made): CacheControl {
  const own = value?.kind === 'FETCH' ? value['revalidate'] : undefined;
  return ctx.cacheControl ?? { revalidate: typeof own === 'number' ? own : false };
}

function statusOf(value: Value): number {
  if (value === null) return 404;
  const status = value['status'];
  return typeof status === 'number' && Number.isInteger(status) && status >= 100 && status <= 999 ? status : 200;
}

/** When the row may be collected, in epoch seconds: it is made anew by then, or nobody wants it. */
function horizon(nowSeconds: number, retentionSeconds: number): number {
  return Math.floor(nowSeconds + retentionSeconds) + 24 * 3600;
}

/** How long nobody tries again: what Next would wait, doubled by each failure in a row, with jitter. */
function backOffMs(lease: Lease, life: CacheControl | undefined): number {
  const first = typeof life?.revalidate === 'number' ? life.revalidate : 3;
  return Math.min(first * 2 ** Math.min(lease.failures, 10), longestBackOff) * 1000 * (1 + Math.random() / 4);
}
