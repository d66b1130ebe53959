import type { Lock } from '../isr/entry.js';
import { holdsUntil } from '../isr/lockrow.js';
import { expired, fetched, fresh, held, stale } from './answers.js';
import type { Answer, GetContext, Value } from './contract.js';
import type { Reading } from './pages.js';
import type { Rendering } from './renderings.js';
import type { Site } from './site.js';

/** From when on what Next makes is made: see {@link Began.seq}. */
export interface Began {
  /** Epoch milliseconds. */
  atMs: number;
  /** A sequence of the purge log that had been reached by then: a purge that comes later covers what is made. */
  seq: number;
  /** The rendering that Next was told to begin, whose lease is then this one's; absent: it makes the page without a lease. */
  rendering?: Rendering;
}

/** What is asked for. */
export interface Wanted {
  cacheKey: string;
  ctx: GetContext;
  /** The request makes nothing anew, whatever it is told: it fetches a page in case somebody goes there. */
  isPrefetch: boolean;
}

/** What Next is told, and from when on it makes the page, if it does. */
export interface Found {
  answer: Answer | null;
  began: Began;
}

/** The first pause between looks at a page that another process makes, in milliseconds, and the longest. */
const firstPauseMs = 50;
const longestPauseMs = 500;

/**
 * Looks a value up, and decides who makes it anew if it is not fresh. Next has no place
 * for a lease, but whoever is told that a page is stale makes it anew. So that is told
 * to whom has got the lease, and to nobody else: others are told for a moment that it
 * is fresh, or, if it must not be shown, wait until it is there.
 */
export async function lookUp(site: Site, wanted: Wanted): Promise<Found> {
  const { pages } = site;
  const { cacheKey, ctx } = wanted;
  const isFetch = ctx.kind === 'FETCH';
  const atMs = site.settings.clock.now();
  const tags = isFetch ? [...(ctx.tags ?? []), ...(ctx.softTags ?? [])] : [];
  let reading = await pages.read(cacheKey, tags);
  const began: Began = { atMs, seq: reading.seq };
  if (isFetch) return { answer: await fetchOf(site, reading, ctx), began };
  const startedAt = site.settings.clock.elapsed();
  for (let look = 1; ; look++) {
    const found = await tryOnce(site, wanted, reading, began);
    if (found) return found;
    if (isBackOff(reading.record.lock) || !(await pause(site, cacheKey, look, startedAt)))
      return { answer: null, began };
    pages.forget(cacheKey);
    reading = await pages.read(cacheKey);
  }
}

/** The answer to what was read, unless there is nothing to show and another process is making it. */
async function tryOnce(site: Site, wanted: Wanted, reading: Reading, began: Began): Promise<Found | undefined> {
  const now = site.settings.clock.now();
  const { entry } = reading.record;
  const known = await valueFor(site, reading);
  if (known && entry && reading.state === 'fresh')
    return { answer: shown(site, fresh(entry, known.value, now)), began };
  const showing = known && entry ? held(entry, known.value, now) : undefined;
  if (showing && wanted.isPrefetch) return { answer: shown(site, showing), began };
  if (mayBeFree(site, wanted.cacheKey, reading.record.lock)) {
    const taken = await site.running.take(wanted.cacheKey);
    if (taken) return make(site, reading, began.seq, taken);
  }
  return showing && { answer: shown(site, showing), began };
}

/** An acquisition costs a write, even one that is refused. */
function mayBeFree(site: Site, cacheKey: string, lock: Lock | undefined): boolean {
  const isHeld = lock !== undefined && holdsUntil(lock.expiresAtMs / 1000, site.settings.clock.now());
  return !isHeld || site.running.of(cacheKey) !== undefined;
}

/** Has this process make the page, unless somebody has done so before the lease was ours. */
async function make(
  site: Site,
  before: Reading,
  seq: number,
  { rendering, again }: { rendering: Rendering; again: boolean },
): Promise<Found> {
  // It begins now, under the lease: what is published with the lease may not be older.
  const began = { atMs: site.settings.clock.now(), seq: Math.max(seq, rendering.lease.purgeSeq), rendering };
  try {
    return again ? await toMake(site, before, began) : await lookAgain(site, began);
  } catch (error) {
    await site.running.giveUp(rendering).catch(() => undefined); // the first error is what matters
    throw error;
  }
}

/** Judges what was read under the lease. */
async function lookAgain(site: Site, began: Began & { rendering: Rendering }): Promise<Found> {
  const { rendering } = began;
  const seq = await site.marks.catchUp();
  const reading = site.pages.judge(rendering.lease.record, seq);
  const known = await valueFor(site, reading);
  const { entry } = reading.record;
  if (!known || !entry || reading.state !== 'fresh') return toMake(site, reading, began);
  await site.running.giveUp(rendering);
  return { answer: shown(site, fresh(entry, known.value, site.settings.clock.now())), began };
}

/**
 * Tells Next to make the page: behind the visitor's back, or while he waits. What has
 * expired by its time is told all the same, as Next itself does it: it says when it
 * fails to replace it. What was revalidated is not: Next would fetch everything anew
 * that the page is made of, and not only what was revalidated.
 */
async function toMake(site: Site, reading: Reading, began: Began): Promise<Found> {
  const { record, state } = reading;
  const entry = state === 'stale' || state === 'expired' ? record.entry : undefined;
  const known = entry && (await site.pages.valueOf(entry));
  if (!entry || !known) return { answer: null, began };
  const now = site.settings.clock.now();
  if (state === 'stale') return { answer: shown(site, stale(entry, known.value, now)), began };
  // Images have no word for what must not be shown.
  if (known.value?.kind === 'IMAGE') return { answer: null, began };
  return { answer: shown(site, expired(entry, known.value)), began };
}

/**
 * The value of what may be shown. Of what has expired that is, while a failure's pause
 * lasts, the page that was pinned: it stands in for the failure.
 */
async function valueFor(site: Site, reading: Reading): Promise<{ value: Value } | undefined> {
  const { entry, lock } = reading.record;
  const isShown =
    reading.state === 'fresh' || reading.state === 'stale' || (reading.isServable && isPaused(site, lock));
  return entry && isShown ? site.pages.valueOf(entry) : undefined;
}

function isPaused(site: Site, lock: Lock | undefined): boolean {
  return isBackOff(lock) && holdsUntil((lock?.expiresAtMs ?? 0) / 1000, site.settings.clock.now());
}

/**
 * The answer of a fetch. There is no lease: pages are made by one process at a time, so
 * that what they fetch is fetched by one, and a page must not be made of an answer that
 * another process is about to replace.
 */
async function fetchOf(site: Site, reading: Reading, ctx: GetContext): Promise<Answer | null> {
  const { entry } = reading.record;
  const known = await valueFor(site, reading);
  if (!known || !entry || known.value?.kind !== 'FETCH') return null;
  return fetched(entry, known.value, site.settings.clock.now(), reading.state === 'stale', ctx.revalidate || 0);
}

/** What failed is left alone by all, but for visitors who have nothing else to look at. */
export function isBackOff(lock: Lock | undefined): boolean {
  return lock !== undefined && lock.owner === '' && lock.failures > 0;
}

/**
 * Waits for the next look; false: it has been long enough. Who holds the lease may have
 * failed, which Next does not say: after one visitor has waited in vain, others of this
 * process do not, for as long as a dead holder's lease lasts twice.
 */
async function pause(site: Site, cacheKey: string, look: number, startedAt: number): Promise<boolean> {
  const { clock, waitMs, leaseMs } = site.settings;
  const now = clock.elapsed();
  if ((site.inVain.get(cacheKey) ?? Number.NEGATIVE_INFINITY) > now) return false;
  const left = startedAt + waitMs - now;
  if (left <= 0) {
    site.inVain.set(cacheKey, now + 2 * leaseMs, 1);
    return false;
  }
  const mean = Math.min(firstPauseMs * 2 ** (look - 1), longestPauseMs);
  return clock.sleep(Math.min(mean * (0.5 + Math.random()), left), undefined);
}

function shown(site: Site, answer: Answer): Answer {
  site.give(answer.value);
  return answer;
}
