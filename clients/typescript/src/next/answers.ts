import type { Entry } from '../isr/entry.js';
import { freshUntilMs, staleUntilMs } from '../isr/freshness.js';
import { BOUNDS } from '../isr/names.js';
import type { Answer, CacheControl, Kind, Value } from './contract.js';

/**
 * Converts entries to answers for Next.js, which computes freshness from the times in the
 * answer. Answers carry the remaining time, counted from now, so that Next.js comes to the
 * same result as we did, and a CDN keeps a page only for its remaining time.
 */

/** How long a value that is not fresh is presented as fresh, in seconds. */
const briefSeconds = 1;

/** Returns the answer for a fresh value: Next.js serves it. */
export function fresh(entry: Entry, value: Value, nowMs: number): Answer {
  const until = Math.max(freshUntilMs(entry), entry.pinnedUntilMs ?? 0);
  const { revalidate } = lifeOf(entry);
  return {
    value,
    lastModified: nowMs,
    cacheControl: { revalidate: revalidate === false ? false : secondsUntil(until, nowMs), ...expireOf(entry, nowMs) },
  };
}

/** Returns the answer for a stale value that another process regenerates: Next.js serves it and asks again after a second. */
export function staleElsewhere(entry: Entry, value: Value, nowMs: number): Answer {
  return { value, lastModified: nowMs, cacheControl: { revalidate: briefSeconds, ...expireOf(entry, nowMs) } };
}

/** Returns the answer for a stale value: Next.js serves it and regenerates it in the background. */
export function stale(entry: Entry, value: Value, nowMs: number): Answer {
  return {
    value,
    lastModified: nowMs - ageOfStale(value),
    cacheControl: { revalidate: briefSeconds, ...expireOf(entry, nowMs) },
  };
}

/** Returns the answer for an expired value: Next.js regenerates it while the visitor waits. It needs the value to report a failure. */
export function expired(entry: Entry, value: Value): Answer {
  return { value, lastModified: -1, cacheControl: lifeOf(entry) };
}

/**
 * Returns the answer for a fetch, whose freshness Next.js computes from the window that the
 * program asks for now. The time of a row without milliseconds counts as up to a second later;
 * a purge within that second has been handled here, by its sequence.
 */
export function fetched(entry: Entry, value: Value, nowMs: number, isStale: boolean, requestedSeconds: number): Answer {
  const unknownMs = entry.generatedAtMs % 1000 === 0 ? 999 : 0;
  const generatedAtMs = Math.min(nowMs, entry.generatedAtMs + unknownMs);
  const window = Math.max(requestedSeconds, numberOf(value?.['revalidate']));
  return {
    value,
    lastModified: isStale ? Math.min(generatedAtMs, nowMs - (window + briefSeconds) * 1000) : generatedAtMs,
  };
}

/** Returns the age that makes Next.js treat a value as stale, in milliseconds. Images use their own window. */
function ageOfStale(value: Value): number {
  const window = value?.kind === ('IMAGE' satisfies Kind) ? numberOf(value['revalidate']) : briefSeconds;
  return (window + briefSeconds) * 1000;
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/** Converts Next.js's cache control to the windows of an entry. Ten years stand for "forever". */
export function periodsOf(life: CacheControl): { revalidateSeconds: number; staleSeconds: number } {
  const revalidateSeconds = life.revalidate === false ? BOUNDS.interval : Math.min(life.revalidate, BOUNDS.interval);
  const staleSeconds = life.expire === undefined ? BOUNDS.interval : Math.max(0, life.expire - revalidateSeconds);
  return { revalidateSeconds, staleSeconds: Math.min(staleSeconds, BOUNDS.interval) };
}

/** The inverse of {@link periodsOf}. */
export function lifeOf(entry: Entry): CacheControl {
  const { revalidateSeconds: fresh, staleSeconds: stale } = entry;
  return {
    revalidate: fresh >= BOUNDS.interval ? false : fresh,
    ...(stale >= BOUNDS.interval ? {} : { expire: fresh + stale }),
  };
}

/** Returns the time until the value must not be served. Next.js requires it to be later than `revalidate`. */
function expireOf(entry: Entry, nowMs: number): { expire?: number } {
  if (entry.staleSeconds >= BOUNDS.interval) return {};
  return { expire: Math.max(secondsUntil(staleUntilMs(entry), nowMs), 3 * briefSeconds) };
}

/** Returns the whole seconds from now, at least 1: Next.js takes 0 for "never cache". */
function secondsUntil(untilMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((untilMs - nowMs) / 1000));
}
