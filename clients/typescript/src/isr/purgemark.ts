import { createHash } from 'node:crypto';

import { type Backend, queryAll, readRows } from './backend.js';
import type { PurgeState } from './entry.js';
import { mergePurgeStates, NEVER_PURGED } from './freshness.js';
import type { Target } from './log.js';
import { PURGE_LOG_PK } from './names.js';
import { countKind, horizonKind, instantKind, N, type Row, read, requirePresent, S, text, textKind } from './row.js';

/**
 * The purge mark of a tag: pages with the tag that were rendered before it are stale, or must
 * not be served. It is the row
 *
 *	PURGE  MARK#<tenant>#tag#<hex sha256 of the tag>  value, seq, hard_seq, at, ttl
 *
 * and, only in marks of this client, `expire_seq` and `expire_at`: pages rendered before that
 * sequence may be served as stale until that time, and not after. A log target of kind `tag`
 * has the same attributes except `ttl` and `seq`; its sequence is that of the log row.
 */
export interface Mark {
  /** The tag. */
  value: string;
  /** The sequences of the newest purge and of the newest hard purge, 0 for none. */
  seq: number;
  hardSeq: number;
  /** The time of the newest purge, in epoch seconds. */
  at: number;
  /** From `expireAt` (epoch seconds) on, `expireSeq` counts as a hard purge; both are 0 for none. */
  expireSeq: number;
  expireAt: number;
}

/** A hard purge, or a soft purge after which pages may be served as stale, for at most `expireSeconds`. */
export type PurgeMode = { hard: true } | { hard: false; expireSeconds?: number | undefined };

/** Returns the sort key prefix of a kind of marks: `MARK#<tenant>#<kind>#`. */
function markPrefix(tenant: string, kind: string): string {
  return `MARK#${tenant}#${kind}#`;
}

/** Returns the sort key of a tag's mark. */
export function markKey(tenant: string, tag: string): string {
  return markPrefix(tenant, 'tag') + createHash('sha256').update(tag, 'utf8').digest('hex');
}

/** Reads all tag marks of a tenant, strongly consistent. @throws MalformedRowError, since no purge may be lost */
export async function readMarks(b: Backend, tenant: string): Promise<Mark[]> {
  const rows = await queryAll(b, undefined, {
    KeyConditionExpression: 'pk = :pk AND begins_with(sk, :marks)',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':marks': S(markPrefix(tenant, 'tag')) },
  });
  return rows.map(storedMarkOf);
}

/** Parses the row of a mark. @throws MalformedRowError */
export function storedMarkOf(row: Row): Mark {
  requirePresent(row, 'seq', countKind);
  return { ...markOf(row), seq: read(row, 'seq', countKind) };
}

/** Parses a log target. It carries no sequence, so `seq` is 0. @throws MalformedRowError */
export function markOf(row: Row): Mark {
  requirePresent(row, 'value', textKind);
  requirePresent(row, 'at', instantKind);
  return {
    value: read(row, 'value', textKind),
    seq: 0,
    hardSeq: read(row, 'hard_seq', countKind),
    at: read(row, 'at', instantKind),
    expireSeq: read(row, 'expire_seq', countKind),
    expireAt: read(row, 'expire_at', horizonKind),
  };
}

/** The attributes shared by a mark and its log target. */
export function storedMark(m: Mark): Row {
  return {
    value: S(m.value),
    at: N(m.at),
    ...(m.hardSeq > 0 ? { hard_seq: N(m.hardSeq) } : {}),
    ...(m.expireSeq > 0 ? { expire_seq: N(m.expireSeq), expire_at: N(m.expireAt) } : {}),
  };
}

/** Returns the mark of a tag after a purge with this sequence and time (epoch seconds). Sequences only grow. */
export function markAfterPurge(
  before: Mark | undefined,
  value: string,
  seq: number,
  now: number,
  mode: PurgeMode,
): Mark {
  const hardSeq = Math.max(before?.hardSeq ?? 0, before && before.expireAt <= now ? before.expireSeq : 0);
  if (mode.hard) return { value, seq, hardSeq: seq, at: now, expireSeq: 0, expireAt: 0 };
  if (mode.expireSeconds !== undefined) {
    return { value, seq, hardSeq, at: now, expireSeq: seq, expireAt: now + Math.ceil(mode.expireSeconds) };
  }
  const pending = before && before.expireAt > now ? before : { expireSeq: 0, expireAt: 0 };
  return { value, seq, hardSeq, at: now, expireSeq: pending.expireSeq, expireAt: pending.expireAt };
}

/** Returns the purge state of a mark at a time in epoch milliseconds. */
export function purgeStateOfMark(mark: Mark, nowMs: number): PurgeState {
  const due = mark.expireSeq > 0 && mark.expireAt * 1000 <= nowMs;
  return {
    ...NEVER_PURGED,
    seq: mark.seq,
    hardSeq: Math.max(mark.hardSeq, due ? mark.expireSeq : 0),
    atMs: mark.at * 1000,
  };
}

/**
 * Merges all marks that cover a page with these tags, read strongly consistent: those of its
 * tags, and those of other kinds, of its tenant and of the whole site.
 * @throws MalformedRowError, since no purge may be lost
 */
export async function readPurgeState(
  b: Backend,
  signal: AbortSignal | undefined,
  page: Target,
  tags: readonly string[],
): Promise<PurgeState> {
  const { tenant } = page;
  const keys = tags.map((tag) => markKey(tenant, tag));
  // '$' comes after '#': each range ends where the next prefix would begin.
  const ranges = [
    [`MARK#${tenant}#`, markPrefix(tenant, 'tag')],
    [`MARK#${tenant}#tag$`, `MARK#${tenant}$`],
    ...(tenant === '' ? [] : [[markPrefix('', 'site'), 'MARK##site$']]),
  ] as [string, string][];
  const others = ranges.map(([from, to]) => marksBetween(b, signal, from, to));
  const [ofTags, ...ofOthers] = await Promise.all([readRows(b, signal, PURGE_LOG_PK, keys), ...others]);
  const now = b.clock.now();
  return [...ofTags.values(), ...ofOthers.flat()]
    .flatMap((row) => (covers(row, page) ? purgeStateOfMark(storedMarkOf(row), now) : []))
    .reduce(mergePurgeStates, NEVER_PURGED);
}

function marksBetween(b: Backend, signal: AbortSignal | undefined, from: string, to: string): Promise<Row[]> {
  return queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :from AND :to',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':from': S(from), ':to': S(to) },
  });
}

/** Reports whether a mark covers a page: a prefix mark by its prefix; any other kind, including unknown ones, always. */
function covers(row: Row, { key }: Target): boolean {
  const kind = text(row, 'sk').split('#')[2];
  return kind !== 'prefix' || key.startsWith(storedMarkOf(row).value);
}
