import type { Entry, Lock } from '../isr/entry.js';
import { holdsUntil, isBackingOff, isBackoff } from '../isr/lockrow.js';
import { BOUNDS } from '../isr/names.js';
import { expired, fetched, fresh, stale, staleElsewhere } from './answers.js';
import type { Answer, GetContext, Value } from './contract.js';
import type { PageRequest, PageSnapshot } from './pages.js';
import type { Rendering } from './renderings.js';
import type { Site } from './site.js';
import type { Visit } from './visits.js';

/** The start of a rendering: its time and its purge sequence. */
export interface RenderStart {
  /** Epoch milliseconds. */
  atMs: number;
  /** The purge sequence known at the start: a later purge covers the rendering. */
  seq: number;
  /** The rendering with its lease; absent if Next.js renders without a lease. */
  rendering?: Rendering;
}

/** A look-up. */
export interface Lookup {
  cacheKey: string;
  /** Next.js's key. */
  key: string;
  ctx: GetContext;
  /** A prefetch: Next.js does not regenerate for it, whatever the answer. */
  isPrefetch: boolean;
  /** An on-demand revalidation (`res.revalidate`): Next.js renders, whatever the answer. */
  isOnDemand: boolean;
  /** An on-demand revalidation only of a page that exists (`unstable_onlyGenerated`): without a value Next.js renders nothing. */
  isOnlyGenerated: boolean;
  /** The visit that Next.js looks up the value for, which may be one of several; none if it is not known. */
  visits: readonly Visit[];
  /** See {@link PageRequest.seq}. */
  seq?: number;
}

/** The answer to Next.js, and the start of the rendering, should Next.js render. */
export interface LookupResult {
  answer: Answer | null;
  start: RenderStart;
  /** What the answer means to Next.js; undefined: Next.js renders while the visitor waits. */
  state?: 'fresh' | 'regenerated here' | 'regenerated elsewhere';
}

/** The shortest and the longest mean delay between polls of a page that another process renders, in milliseconds. */
const minPollDelayMs = 50;
const maxPollDelayMs = 500;

/**
 * Looks up a value, and elects the process that regenerates it if it is not fresh. Next.js has
 * no notion of a lease, but it regenerates whenever the answer is stale. So only the lease
 * holder gets a stale answer: the others get the same value as briefly fresh, or wait if it
 * must not be served. `answered` is called before the wait.
 */
export async function lookUp(site: Site, lookup: Lookup, answered: () => void): Promise<LookupResult> {
  const { pages } = site;
  const { cacheKey, ctx } = lookup;
  const request = requestOf(site, lookup);
  const atMs = site.settings.clock.now();
  let snapshot = await pages.read(request);
  if (lookup.isOnDemand && (snapshot.state === 'fresh' || snapshot.state === 'stale')) {
    // Then this process renders it under the lease, and others do not take what they have in memory
    // for fresh. If the rendering fails, the next visitor causes another.
    await site.revalidations.revalidatePage(cacheKey);
    snapshot = await pages.read(request);
  }
  const start: RenderStart = { atMs, seq: snapshot.seq };
  if (ctx.kind === 'FETCH') return { answer: await fetchOf(site, snapshot, ctx), start };
  const startedAt = site.settings.clock.elapsed();
  for (let poll = 1; ; poll++) {
    const found = await attempt(site, lookup, request, snapshot, start);
    if (found) return found;
    answered();
    if (isBackoff(snapshot.record.lock) || !(await waitForNextPoll(site, cacheKey, poll, startedAt)))
      return { answer: null, start };
    pages.forget(cacheKey);
    snapshot = await pages.read(request);
  }
}

/** Returns the request for the rows and the body of a look-up. */
export function requestOf(site: Site, { cacheKey, key, ctx, seq }: Lookup): PageRequest {
  const tags = [...(ctx.tags ?? []), ...(ctx.softTags ?? [])];
  if (ctx.kind !== 'FETCH') return { cacheKey, key, ctx, tags, isCurrent: () => true, seq };
  // Next.js will fetch again if the window is over: a newer response of another process saves that.
  const isCurrent = ({ generatedAtMs }: Entry) =>
    site.settings.clock.now() < generatedAtMs + (ctx.revalidate || BOUNDS.interval) * 1000;
  return { cacheKey, key, ctx, tags, isCurrent };
}

/** Makes one attempt; undefined if there is nothing to serve and another process is rendering. */
async function attempt(
  site: Site,
  lookup: Lookup,
  request: PageRequest,
  snapshot: PageSnapshot,
  start: RenderStart,
): Promise<LookupResult | undefined> {
  const { entry } = snapshot.record;
  const known = await valueFor(site, snapshot);
  // After the body has been read: Next.js renders if the second in which an answer is fresh is over.
  const now = site.settings.clock.now();
  if (known && entry && snapshot.state === 'fresh')
    return { answer: shown(site, fresh(entry, known.value, now)), start, state: 'fresh' };
  const elsewhere = () =>
    known && entry
      ? { answer: shown(site, staleElsewhere(entry, known.value, now)), start, state: 'regenerated elsewhere' as const }
      : undefined;
  if (known && lookup.isPrefetch) return elsewhere();
  if (isWorthAcquiring(site, lookup.cacheKey, snapshot.record.lock)) {
    const taken = await site.renderings.take(lookup.cacheKey);
    if (taken) return render(site, lookup, request, snapshot, start.seq, taken);
  }
  return elsewhere();
}

/** Reports whether an acquisition is worth trying: even a refused one costs a write. */
function isWorthAcquiring(site: Site, cacheKey: string, lock: Lock | undefined): boolean {
  const isHeld = lock !== undefined && holdsUntil(lock.expiresAtMs / 1000, site.settings.clock.now());
  return !isHeld || site.renderings.of(cacheKey) !== undefined;
}

/** Lets this process render the page, unless another did so before we got the lease. */
async function render(
  site: Site,
  lookup: Lookup,
  request: PageRequest,
  before: PageSnapshot,
  seq: number,
  { rendering, again }: { rendering: Rendering; again: boolean },
): Promise<LookupResult> {
  // The rendering starts now, under the lease: a publish with the lease must not be older.
  const start = { atMs: site.settings.clock.now(), seq: Math.max(seq, rendering.lease.purgeSeq), rendering };
  try {
    return again ? await askToRender(site, lookup, before, start) : await checkUnderLease(site, lookup, request, start);
  } catch (error) {
    await site.renderings.giveUp(rendering).catch(() => undefined); // the first error matters
    throw error;
  }
}

/** Evaluates the page as it was read under the lease. */
async function checkUnderLease(
  site: Site,
  lookup: Lookup,
  request: PageRequest,
  start: RenderStart & { rendering: Rendering },
): Promise<LookupResult> {
  const { rendering } = start;
  const seq = await site.marks.catchUp();
  const snapshot = await site.pages.judge(request, rendering.lease.record, seq);
  const known = await valueFor(site, snapshot);
  const { entry } = snapshot.record;
  if (!known || !entry || snapshot.state !== 'fresh') return askToRender(site, lookup, snapshot, start);
  await site.renderings.giveUp(rendering);
  return { answer: shown(site, fresh(entry, known.value, site.settings.clock.now())), start, state: 'fresh' };
}

/**
 * Makes Next.js render the page, in the background or while the visitor waits. An expired
 * value is passed along, as Next.js itself does, so that Next.js reports a failed
 * regeneration. A purged value is not: Next.js would then refetch all data of the page, not
 * only the revalidated data.
 */
async function askToRender(
  site: Site,
  lookup: Lookup,
  snapshot: PageSnapshot,
  start: RenderStart & { rendering: Rendering },
): Promise<LookupResult> {
  const { renderings } = site;
  const { rendering } = start;
  const found = await previousOf(site, lookup, snapshot, start);
  // A page is rendered in the background of its visit; the call of a function is not what a visit is for.
  const holders = lookup.ctx.kind === 'USE_CACHE' ? [] : lookup.visits;
  if (found.state === 'regenerated here') renderings.awaitReport(rendering, holders);
  else if (lookup.isOnlyGenerated && !found.answer) await renderings.giveUp(rendering);
  else renderings.follow(rendering, lookup.visits);
  return found;
}

/** Returns the answer that makes Next.js render, with the value that it replaces, if Next.js is to have it. */
async function previousOf(
  site: Site,
  { key, isOnlyGenerated }: Lookup,
  snapshot: PageSnapshot,
  start: RenderStart,
): Promise<LookupResult> {
  const { record, state } = snapshot;
  // Without a value Next.js would answer again that the page does not exist, as the build found.
  if (site.seeds?.isNotFound(key) && state !== 'stale') return { answer: { value: null, lastModified: -1 }, start };
  const isGiven = state === 'stale' || state === 'expired' || (state === 'purged' && isOnlyGenerated);
  const entry = isGiven ? record.entry : undefined;
  const known = entry && (await site.pages.valueOf(snapshot));
  if (!entry || !known) return { answer: null, start };
  const now = site.settings.clock.now();
  if (state === 'stale') {
    return { answer: shown(site, stale(entry, known.value, now)), start, state: 'regenerated here' };
  }
  // For images Next.js has no way to express "expired".
  if (known.value?.kind === 'IMAGE') return { answer: null, start };
  return { answer: shown(site, expired(entry, known.value)), start };
}

/**
 * Returns the value if it may be served: a fresh or stale one, or, during backoff, an expired
 * one that was pinned (stale-if-error).
 */
async function valueFor(site: Site, snapshot: PageSnapshot): Promise<{ value: Value } | undefined> {
  const { entry, lock } = snapshot.record;
  const isShown =
    snapshot.state === 'fresh' ||
    snapshot.state === 'stale' ||
    (snapshot.isServable && isBackingOff(lock, site.settings.clock.now()));
  return entry && isShown ? site.pages.valueOf(snapshot) : undefined;
}

/**
 * Returns the answer for a fetch. Fetches have no lease: only one process renders a page at a
 * time, so its fetches are made once, and a page must not be rendered from a response that
 * another process is about to replace.
 */
async function fetchOf(site: Site, snapshot: PageSnapshot, ctx: GetContext): Promise<Answer | null> {
  const { entry } = snapshot.record;
  const known = await valueFor(site, snapshot);
  if (!known || !entry || known.value?.kind !== 'FETCH') return null;
  return fetched(entry, known.value, site.settings.clock.now(), snapshot.state === 'stale', ctx.revalidate || 0);
}

/**
 * Waits before the next poll; false if the wait has timed out. The lease holder may have
 * failed, which Next.js does not report: after one visitor's wait has timed out, other
 * visitors of this process do not wait, for twice the lifetime of a lease.
 */
async function waitForNextPoll(site: Site, cacheKey: string, poll: number, startedAt: number): Promise<boolean> {
  const { clock, waitMs, leaseMs } = site.settings;
  const now = clock.elapsed();
  if ((site.waitTimedOut.get(cacheKey) ?? Number.NEGATIVE_INFINITY) > now) return false;
  const left = startedAt + waitMs - now;
  if (left <= 0) {
    site.waitTimedOut.set(cacheKey, now + 2 * leaseMs, 1);
    return false;
  }
  const mean = Math.min(minPollDelayMs * 2 ** (poll - 1), maxPollDelayMs);
  return clock.sleep(Math.min(mean * (0.5 + Math.random()), left), undefined);
}

function shown(site: Site, answer: Answer): Answer {
  site.markServed(answer.value);
  return answer;
}
