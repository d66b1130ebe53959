import type { Entry } from '../isr/entry.js';
import { freshUntilMs, staleUntilMs } from '../isr/freshness.js';
import { BOUNDS } from '../isr/names.js';
import type { Answer, CacheControl, Kind, Value } from './contract.js';

/**
 * How an entry is shown to Next, which judges by time what it is told. What there is
 * left is told, counted from now, so that nothing passes between our judgement and
 * Next's, and so that a CDN keeps a page for what is left of its time.
 */

/** How long a value that is not fresh is passed on as if it were, in seconds. */
const moment = 1;

/** Fresh: it is shown, and that is all. */
export function fresh(entry: Entry, value: Value, nowMs: number): Answer {
  const until = Math.max(freshUntilMs(entry), entry.pinnedUntilMs ?? 0);
  const { revalidate } = lifeOf(entry);
  return {
    value,
    lastModified: nowMs,
    cacheControl: { revalidate: revalidate === false ? false : left(until, nowMs), ...expireOf(entry, nowMs) },
  };
}

/** Stale, and another process makes it anew: it is shown, and asked for again a moment later. */
export function held(entry: Entry, value: Value, nowMs: number): Answer {
  return { value, lastModified: nowMs, cacheControl: { revalidate: moment, ...expireOf(entry, nowMs) } };
}

/** Stale, and this process is to make it anew behind the visitor's back. */
export function stale(entry: Entry, value: Value, nowMs: number): Answer {
  return {
    value,
    lastModified: nowMs - ageOfStale(value),
    cacheControl: { revalidate: moment, ...expireOf(entry, nowMs) },
  };
}

/** It must not be shown: this process is to make it anew while the visitor waits. Next wants to know it in order to say that it failed. */
export function expired(entry: Entry, value: Value): Answer {
  return { value, lastModified: -1, cacheControl: lifeOf(entry) };
}

/**
 * The answer of a fetch, which Next judges by what the program asks for now. Its time
 * is a second late at the most, as rows say whole seconds: a purge within that second
 * has been judged here, by its sequence.
 */
export function fetched(entry: Entry, value: Value, nowMs: number, isStale: boolean, asked: number): Answer {
  const generatedAtMs = Math.min(nowMs, entry.generatedAtMs + 999);
  const window = Math.max(asked, numberOf(value?.['revalidate']));
  return { value, lastModified: isStale ? Math.min(generatedAtMs, nowMs - (window + moment) * 1000) : generatedAtMs };
}

/** How old what is stale claims to be, in milliseconds: an image is judged by its own window. */
function ageOfStale(value: Value): number {
  const window = value?.kind === ('IMAGE' satisfies Kind) ? numberOf(value['revalidate']) : moment;
  return (window + moment) * 1000;
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/** What Next said of the lifetime of a value, in what an entry can say: ten years stand for ever. */
export function periodsOf(life: CacheControl): { revalidateSeconds: number; staleSeconds: number } {
  const revalidateSeconds = life.revalidate === false ? BOUNDS.interval : Math.min(life.revalidate, BOUNDS.interval);
  const staleSeconds = life.expire === undefined ? BOUNDS.interval : Math.max(0, life.expire - revalidateSeconds);
  return { revalidateSeconds, staleSeconds: Math.min(staleSeconds, BOUNDS.interval) };
}

/** The reverse of {@link periodsOf}. */
export function lifeOf(entry: Entry): CacheControl {
  const { revalidateSeconds: fresh, staleSeconds: stale } = entry;
  return {
    revalidate: fresh >= BOUNDS.interval ? false : fresh,
    ...(stale >= BOUNDS.interval ? {} : { expire: fresh + stale }),
  };
}

/** When it may not be shown any more, a little later than when it is to be made anew, as Next wants it. */
function expireOf(entry: Entry, nowMs: number): { expire?: number } {
  if (entry.staleSeconds >= BOUNDS.interval) return {};
  return { expire: Math.max(left(staleUntilMs(entry), nowMs), 3 * moment) };
}

/** Whole seconds from now, one at least: Next takes 0 for "never cache". */
function left(untilMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((untilMs - nowMs) / 1000));
}
