import type { Cover, Entry } from './entry.js';
import { BOUNDS } from './names.js';

/** What an entry is worth at a moment. */
export type State =
  /** The origin has withdrawn it: there is nothing to serve. */
  | 'missing'
  /** Served as it is. */
  | 'fresh'
  /** Served, while it is regenerated behind. */
  | 'stale'
  /** Too old to be served, except while the origin fails. */
  | 'expired'
  /** A hard purge covers it; it is never served. */
  | 'purged';

/** What the rule looks at. */
export type Dated = Pick<
  Entry,
  | 'generatedAtMs'
  | 'revalidateSeconds'
  | 'staleSeconds'
  | 'foreign'
  | 'purgeSeq'
  | 'pinnedUntilMs'
  | 'assertedAtMs'
  | 'withdrawn'
>;

/** How far ahead a generated_at may lie before it is taken for the work of a wrong clock. */
const clockToleranceMs = 120_000;
/** The clock difference granted between a purge and an entry of another writer, which has no sequence. */
const purgeToleranceMs = 60_000;
/** Subtracted from the life of purge marks: an entry that may outlive a mark that covers it is not trusted. */
const markMarginMs = 24 * 3600 * 1000;

/** No purge at all. */
export const NO_COVER: Cover = Object.freeze({ seq: 0, hardSeq: 0, atMs: 0, markLifetimeSeconds: 0 });

/**
 * The one rule that decides what an entry is worth at a moment (epoch
 * milliseconds), given the purges that cover it. It is pure.
 */
export function freshness(entry: Dated, cover: Cover, nowMs: number): State {
  if (entry.withdrawn) return 'missing';
  if (covered(entry, cover.hardSeq, cover.atMs)) return 'purged';
  if (outlivesMarks(entry, cover.markLifetimeSeconds, nowMs)) return 'expired';
  const inTheFuture = entry.generatedAtMs - nowMs > clockToleranceMs;
  const inWindow = nowMs < freshUntilMs(entry) && !inTheFuture;
  const pinned = (entry.pinnedUntilMs ?? 0) > nowMs;
  if (!covered(entry, cover.seq, cover.atMs) && (inWindow || pinned)) return 'fresh';
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

/** The time since the entry was generated, in whole seconds, never negative. */
export function ageSeconds(entry: Pick<Entry, 'generatedAtMs'>, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - entry.generatedAtMs) / 1000));
}

/** The newer of two covers in each respect. */
export function mergeCovers(a: Cover, b: Cover): Cover {
  return {
    seq: Math.max(a.seq, b.seq),
    hardSeq: Math.max(a.hardSeq, b.hardSeq),
    atMs: Math.max(a.atMs, b.atMs),
    markLifetimeSeconds: Math.max(a.markLifetimeSeconds, b.markLifetimeSeconds),
  };
}

/**
 * Whether an entry that is not fresh may be served, marked as stale, in place of a
 * failure to render the page: a stale one; and without limit one that was pinned, since
 * its windows ended while the pin held and the page was not to be regenerated. Never
 * one that a hard purge covers, or that marks which are gone may have covered.
 */
export function servableOnFailure(entry: Dated, cover: Cover, nowMs: number): boolean {
  const state = freshness(entry, cover, nowMs);
  if (state !== 'expired') return state === 'stale';
  return entry.pinnedUntilMs !== undefined && !outlivesMarks(entry, cover.markLifetimeSeconds, nowMs);
}

/** Marks that could cover the entry may be gone, if they are kept for so many seconds. */
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
 * Whether a purge of this sequence, made at this time, came after the content. An
 * entry of another writer has no sequence: its time decides, with a tolerance for
 * clocks, in favour of the purge.
 */
function covered(entry: Dated, seq: number, atMs: number): boolean {
  if (seq === 0) return false;
  return entry.foreign ? entry.generatedAtMs <= atMs + purgeToleranceMs : seq > entry.purgeSeq;
}

function clampInterval(seconds: number): number {
  return Math.min(Math.max(seconds, 0), BOUNDS.interval);
}
