import { createHash } from 'node:crypto';

import { type Backend, queryAll, readRows } from './backend.js';
import type { Cover } from './entry.js';
import { mergeCovers, NO_COVER } from './freshness.js';
import type { Target } from './log.js';
import { PURGE_LOG_PK } from './names.js';
import { countKind, demand, horizonKind, instantKind, N, type Row, read, S, text, textKind } from './row.js';

/**
 * What was said of a tag: what carries it and was rendered before is stale, or must
 * not be shown. It is the row
 *
 *	PURGE  MARK#<tenant>#tag#<hex sha256 of the tag>  value, seq, hard_seq, at, ttl
 *
 * and, beyond what purges by tag are elsewhere, `expire_seq` and `expire_at`: what was
 * rendered before that sequence may be shown as stale until that moment, and not after.
 * The same attributes make the target of kind `tag` in the log, but for `ttl`, and
 * `seq`, which is that of the row.
 */
export interface Mark {
  /** The tag. */
  value: string;
  /** The sequences of the newest purge, and of the newest hard one, 0 for none. */
  seq: number;
  hardSeq: number;
  /** When the newest was made, in epoch seconds. */
  at: number;
  /** From `expireAt` on, in epoch seconds, `expireSeq` is that of a hard purge; 0 and 0: of none. */
  expireSeq: number;
  expireAt: number;
}

/** What a person asks for: nothing of before may be shown, or, for so many seconds more, as stale. */
export type Severity = { hard: true } | { hard: false; expireSeconds?: number | undefined };

/** Where the marks of a kind are, in the partition of the purge log: `MARK#<tenant>#<kind>#`. */
function markPrefix(tenant: string, kind: string): string {
  return `MARK#${tenant}#${kind}#`;
}

/** The sort key of the mark of a tag. */
export function markKey(tenant: string, tag: string): string {
  return markPrefix(tenant, 'tag') + createHash('sha256').update(tag, 'utf8').digest('hex');
}

/** All marks of a tenant's tags, read strongly. @throws MalformedRowError: no purge may be lost */
export async function readMarks(b: Backend, tenant: string): Promise<Mark[]> {
  const rows = await queryAll(b, undefined, {
    KeyConditionExpression: 'pk = :pk AND begins_with(sk, :marks)',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':marks': S(markPrefix(tenant, 'tag')) },
  });
  return rows.map(storedMarkOf);
}

/** A row of a mark. @throws MalformedRowError */
export function storedMarkOf(row: Row): Mark {
  demand(row, 'seq', countKind);
  return { ...markOf(row), seq: read(row, 'seq', countKind) };
}

/** A target of the log, which says no sequence: that is 0. @throws MalformedRowError */
export function markOf(row: Row): Mark {
  demand(row, 'value', textKind);
  demand(row, 'at', instantKind);
  return {
    value: read(row, 'value', textKind),
    seq: 0,
    hardSeq: read(row, 'hard_seq', countKind),
    at: read(row, 'at', instantKind),
    expireSeq: read(row, 'expire_seq', countKind),
    expireAt: read(row, 'expire_at', horizonKind),
  };
}

/** What a mark and its target in the log have in common. */
export function storedMark(m: Mark): Row {
  return {
    value: S(m.value),
    at: N(m.at),
    ...(m.hardSeq > 0 ? { hard_seq: N(m.hardSeq) } : {}),
    ...(m.expireSeq > 0 ? { expire_seq: N(m.expireSeq), expire_at: N(m.expireAt) } : {}),
  };
}

/** The mark of a tag after a purge of this sequence, at a moment in epoch seconds. Sequences only grow. */
export function marked(before: Mark | undefined, value: string, seq: number, now: number, how: Severity): Mark {
  const hardSeq = Math.max(before?.hardSeq ?? 0, before && before.expireAt <= now ? before.expireSeq : 0);
  if (how.hard) return { value, seq, hardSeq: seq, at: now, expireSeq: 0, expireAt: 0 };
  if (how.expireSeconds !== undefined) {
    return { value, seq, hardSeq, at: now, expireSeq: seq, expireAt: now + Math.ceil(how.expireSeconds) };
  }
  const pending = before && before.expireAt > now ? before : { expireSeq: 0, expireAt: 0 };
  return { value, seq, hardSeq, at: now, expireSeq: pending.expireSeq, expireAt: pending.expireAt };
}

/** What a mark covers at a moment in epoch milliseconds. */
export function coverBy(mark: Mark, nowMs: number): Cover {
  const due = mark.expireSeq > 0 && mark.expireAt * 1000 <= nowMs;
  return {
    ...NO_COVER,
    seq: mark.seq,
    hardSeq: Math.max(mark.hardSeq, due ? mark.expireSeq : 0),
    atMs: mark.at * 1000,
  };
}

/**
 * What all marks that cover a page with these tags come to, read strongly: its tags' by
 * their keys, and those of other kinds, of its tenant and of the whole site.
 * @throws MalformedRowError: no purge may be lost
 */
export async function coverByMarks(
  b: Backend,
  signal: AbortSignal | undefined,
  page: Target,
  tags: readonly string[],
): Promise<Cover> {
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
    .flatMap((row) => (covers(row, page) ? coverBy(storedMarkOf(row), now) : []))
    .reduce(mergeCovers, NO_COVER);
}

function marksBetween(b: Backend, signal: AbortSignal | undefined, from: string, to: string): Promise<Row[]> {
  return queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :from AND :to',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':from': S(from), ':to': S(to) },
  });
}

/** A mark of a prefix covers keys that begin with it; of any other kind, also one that is not known, all that was asked for. */
function covers(row: Row, { key }: Target): boolean {
  const kind = text(row, 'sk').split('#')[2];
  return kind !== 'prefix' || key.startsWith(storedMarkOf(row).value);
}
