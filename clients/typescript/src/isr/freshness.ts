import type { Entry, PurgeState } from './entry.js';
import { BOUNDS } from './names.js';

/** The state of an entry at a given time. */
export type State =
  /** The origin has withdrawn the page: nothing to serve. */
  | 'missing'
  /** Served without contacting the origin. */
  | 'fresh'
  /** Served while it is regenerated in the background. */
  | 'stale'
  /** Too old to serve, except while the origin fails. */
  | 'expired'
  /** Covered by a hard purge: never served. */
  | 'purged';

/** The members of an entry that determine its freshness. */
export type Dated = Pick<
  Entry,
  | 'generatedAtMs'
  | 'revalidateSeconds'
  | 'staleSeconds'
  | 'foreign'
  | 'purgeSeq'
  | 'build'
  | 'pinnedUntilMs'
  | 'assertedAtMs'
  | 'withdrawn'
>;

/** How far in the future generated_at may lie before it counts as a wrong clock. */
const clockToleranceMs = 120_000;
/** The clock skew tolerated between a purge and another service's entry, which has no sequence. */
const purgeToleranceMs = 60_000;
/** A margin subtracted from the lifetime of purge marks: an entry that may outlive a covering mark is not trusted. */
const markMarginMs = 24 * 3600 * 1000;

/** The purge state of a page that was never purged. */
export const NEVER_PURGED: PurgeState = Object.freeze({
  seq: 0,
  hardSeq: 0,
  atMs: 0,
  markLifetimeSeconds: 0,
  build: 0,
});

/**
 * Returns the state of an entry at a time in epoch milliseconds, given the purges that cover
 * it. This pure function is the only freshness rule.
 */
export function freshness(entry: Dated, purge: PurgeState, nowMs: number): State {
  if (entry.withdrawn) return 'missing';
  if (covered(entry, purge.hardSeq, purge.atMs)) return 'purged';
  if (outlivesMarks(entry, purge.markLifetimeSeconds, nowMs)) return 'expired';
  const inTheFuture = entry.generatedAtMs - nowMs > clockToleranceMs;
  const isOfOldBuild = !entry.foreign && builtAt(entry) < purge.build;
  const inWindow = nowMs < freshUntilMs(entry) && !inTheFuture && !isOfOldBuild;
  const pinned = (entry.pinnedUntilMs ?? 0) > nowMs;
  const isCovered = covered(entry, purge.seq, purge.atMs);
  if (!isCovered && (inWindow || pinned)) return 'fresh';
  // What ends the window early does not grant a stale window: an entry without one is rendered before it is served.
  if ((isCovered || isOfOldBuild) && clampInterval(entry.staleSeconds) === 0) return 'expired';
  return nowMs < staleUntilMs(entry) ? 'stale' : 'expired';
}

/** The end of the freshness window, in epoch milliseconds. */
export function freshUntilMs(entry: Pick<Entry, 'generatedAtMs' | 'revalidateSeconds'>): number {
  return entry.generatedAtMs + clampInterval(entry.revalidateSeconds) * 1000;
}

/** The end of the stale window, in epoch milliseconds. */
export function staleUntilMs(entry: Pick<Entry, 'generatedAtMs' | 'revalidateSeconds' | 'staleSeconds'>): number {
  return freshUntilMs(entry) + clampInterval(entry.staleSeconds) * 1000;
}

/** The time since the origin generated the response, in whole seconds, never negative. */
export function ageSeconds(entry: Pick<Entry, 'generatedAtMs' | 'initialAgeSeconds'>, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - entry.generatedAtMs) / 1000)) + entry.initialAgeSeconds;
}

/** Merges two purge states, taking the maximum of each member. */
export function mergePurgeStates(a: PurgeState, b: PurgeState): PurgeState {
  return {
    seq: Math.max(a.seq, b.seq),
    hardSeq: Math.max(a.hardSeq, b.hardSeq),
    atMs: Math.max(a.atMs, b.atMs),
    markLifetimeSeconds: Math.max(a.markLifetimeSeconds, b.markLifetimeSeconds),
    build: Math.max(a.build, b.build),
  };
}

/**
 * Reports whether an entry that is not fresh may be served as stale when rendering fails
 * (stale-if-error): a stale entry, or, without limit, one that was pinned, since its windows
 * may have ended during the pin. Never an entry that a hard purge covers, or that deleted
 * purge marks may have covered.
 */
export function servableOnFailure(entry: Dated, purge: PurgeState, nowMs: number): boolean {
  const state = freshness(entry, purge, nowMs);
  if (state !== 'expired') return state === 'stale';
  return entry.pinnedUntilMs !== undefined && !outlivesMarks(entry, purge.markLifetimeSeconds, nowMs);
}

/** Reports whether marks that cover the entry may have expired, given their lifetime in seconds. */
export function outlivesMarks(
  entry: Pick<Entry, 'assertedAtMs' | 'generatedAtMs'>,
  markLifetimeSeconds: number,
  nowMs: number,
): boolean {
  if (markLifetimeSeconds <= 0) return false;
  const asserted = entry.assertedAtMs ?? entry.generatedAtMs;
  return nowMs >= asserted + markLifetimeSeconds * 1000 - markMarginMs;
}

/**
 * Reports whether a purge with this sequence and time covers the entry. Another service's
 * entry has no sequence: its time is compared, with a tolerance in favour of the purge.
 */
function covered(entry: Dated, seq: number, atMs: number): boolean {
  if (seq === 0) return false;
  return entry.foreign ? entry.generatedAtMs <= atMs + purgeToleranceMs : seq > entry.purgeSeq;
}

/**
 * Returns the sequence of the newest build that an entry counts as being of. A rollback makes
 * its generation one of the build that was current then: otherwise the next process that
 * reads it would regenerate it at once.
 */
function builtAt({ build, assertedAtMs, purgeSeq }: Dated): number {
  return assertedAtMs === undefined ? build : Math.max(build, purgeSeq);
}

function clampInterval(seconds: number): number {
  return Math.min(Math.max(seconds, 0), BOUNDS.interval);
}
