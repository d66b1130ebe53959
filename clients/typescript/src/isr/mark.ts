import { createHash } from 'node:crypto';

import { type Backend, queryAll, readRows } from './backend.js';
import type { Mark, PurgeState, Target } from './entry.js';
import { mergePurgeStates, NEVER_PURGED } from './freshness.js';
import { PREFIX, PURGE_LOG_PK } from './names.js';
import { covers } from './purgetarget.js';
import {
  countKind,
  horizonKind,
  instantKind,
  malformed,
  type Row,
  read,
  requirePresent,
  S,
  text,
  textKind,
} from './row.js';

/** The stored value of the mark of all pages, which has none: `value` must not be empty. */
const siteValue = '*';

/** A target of a mark: all but single pages. */
type MarkTarget = Pick<Mark, 'kind' | 'tenant' | 'value'>;

/** Returns the `value` of a mark's row and of its log target; for a tenant it is the tenant's name. */
export function storedValueOf({ kind, tenant, value }: MarkTarget): string {
  if (value !== '') return value;
  if (kind === 'tenant') return tenant;
  return kind === 'site' ? siteValue : '';
}

/** Returns the target of a mark: the inverse of {@link storedValueOf}. Another writer's value stays, since it is part of the key. */
function targetOf(kind: string, tenant: string, stored: string): MarkTarget {
  const target = { kind, tenant, value: '' };
  return storedValueOf(target) === stored ? target : { ...target, value: stored };
}

/** Returns the sort key of a mark: `MARK#<tenant>#<kind>#<hex sha256 of the value>`. */
export function markKey(target: MarkTarget): string {
  const digest = createHash('sha256').update(storedValueOf(target), 'utf8').digest('hex');
  return markPrefix(target.tenant, target.kind) + digest;
}

function markPrefix(tenant: string, kind: string): string {
  return `${PREFIX.mark}${tenant}#${kind}#`;
}

/** Reads all marks of the table, strongly consistent. @throws MalformedRowError, since no purge may be lost */
export async function readMarks(b: Backend, signal: AbortSignal | undefined): Promise<Mark[]> {
  const rows = await queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND begins_with(sk, :marks)',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':marks': S(PREFIX.mark) },
  });
  return rows.map(markOfRow);
}

/** Reads all marks that may cover pages of a tenant, strongly consistent. @throws MalformedRowError */
export async function readMarksOf(b: Backend, tenant: string): Promise<Mark[]> {
  const own = await marksBetween(b, undefined, `${PREFIX.mark}${tenant}#`, `${PREFIX.mark}${tenant}$`);
  const ofSite = tenant === '' ? [] : await siteMarks(b, undefined);
  return [...own, ...ofSite].map(markOfRow);
}

/** Parses the row of a mark. @throws MalformedRowError */
export function markOfRow(row: Row): Mark {
  const [, tenant = '', kind = '', digest = ''] = text(row, 'sk').split('#');
  if (kind === '' || digest === '') throw malformed(row, 'sk', 'MARK#<tenant>#<kind>#<sha256>');
  requirePresent(row, 'seq', countKind);
  return { ...attributesOf(row, kind, tenant), seq: read(row, 'seq', countKind) };
}

/** Parses the mark in a log target; the row is for the error. @throws MalformedRowError */
export function markOfTarget(row: Row, target: Row, seq: number): Mark {
  const { pk, sk } = row;
  if (!text(target, 'value') || target['at']?.N === undefined) {
    throw malformed(row, 'targets', 'a value and a time of each mark');
  }
  return { ...attributesOf({ ...target, pk, sk } as Row, text(target, 'kind'), text(target, 'tenant')), seq };
}

/** Parses the attributes that the row of a mark and its log target share. */
function attributesOf(row: Row, kind: string, tenant: string): Omit<Mark, 'seq'> {
  requirePresent(row, 'value', textKind);
  requirePresent(row, 'at', instantKind);
  const expireSeq = read(row, 'expire_seq', countKind);
  const expireAt = read(row, 'expire_at', horizonKind);
  return {
    ...targetOf(kind, tenant, read(row, 'value', textKind)),
    hardSeq: read(row, 'hard_seq', countKind),
    atMs: read(row, 'at', instantKind) * 1000,
    expireSeq,
    expireAtMs: expireSeq > 0 ? expireAt * 1000 : 0,
  };
}

/** Returns the purge state of the entries that a mark covers, at a time in epoch milliseconds. */
export function purgeStateOfMark(mark: Mark, nowMs: number): PurgeState {
  return { ...NEVER_PURGED, seq: mark.seq, hardSeq: hardSeqOf(mark, nowMs), atMs: mark.atMs };
}

/** Returns the sequence of a mark's newest hard purge: from `expireAtMs` on, `expireSeq` counts as one. */
export function hardSeqOf(mark: Mark, nowMs: number): number {
  return Math.max(mark.hardSeq, mark.expireAtMs <= nowMs ? mark.expireSeq : 0);
}

/**
 * Merges a mark of the log into the known one of the same target. Sequences only grow: one that is
 * not newer is part of the known one already, also its expiry, which it must not bring back.
 */
export function mergeMarks(before: Mark | undefined, logged: Mark): Mark {
  if (!before) return logged;
  if (logged.seq <= before.seq) return before;
  const { expireSeq, expireAtMs } = logged.expireSeq > 0 ? logged : before;
  return {
    ...logged,
    seq: Math.max(before.seq, logged.seq),
    hardSeq: Math.max(before.hardSeq, logged.hardSeq),
    atMs: Math.max(before.atMs, logged.atMs),
    expireSeq,
    expireAtMs,
  };
}

/**
 * Merges all marks that cover a page with these tags, read strongly consistent: the marks of
 * its tags, and the marks of other kinds, of its tenant and of the whole site.
 *
 * The reads are made in the order of the kinds: marks that a later mark of a larger kind
 * includes are deleted, and must be read before that one.
 * @throws MalformedRowError, since no purge may be lost
 */
export async function covering(
  b: Backend,
  signal: AbortSignal | undefined,
  page: Target,
  tags: readonly string[],
): Promise<PurgeState> {
  const { tenant } = page;
  const keys = tags.map((tag) => markKey({ kind: 'tag', tenant, value: tag }));
  const rows = [...(await readRows(b, signal, PURGE_LOG_PK, keys)).values()];
  // '$' comes after '#': each range ends where the next prefix would begin.
  rows.push(...(await marksBetween(b, signal, `${PREFIX.mark}${tenant}#`, markPrefix(tenant, 'tag'))));
  rows.push(...(await marksBetween(b, signal, `${PREFIX.mark}${tenant}#tag$`, `${PREFIX.mark}${tenant}$`)));
  if (tenant !== '') rows.push(...(await siteMarks(b, signal)));
  const now = b.clock.now();
  return rows
    .map(markOfRow)
    .filter((mark) => covers(mark, page, tags))
    .map((mark) => purgeStateOfMark(mark, now))
    .reduce(mergePurgeStates, NEVER_PURGED);
}

function siteMarks(b: Backend, signal: AbortSignal | undefined): Promise<Row[]> {
  return marksBetween(b, signal, markPrefix('', 'site'), `${PREFIX.mark}#site$`);
}

function marksBetween(b: Backend, signal: AbortSignal | undefined, from: string, to: string): Promise<Row[]> {
  return queryAll(b, signal, {
    KeyConditionExpression: 'pk = :pk AND sk BETWEEN :from AND :to',
    ExpressionAttributeValues: { ':pk': S(PURGE_LOG_PK), ':from': S(from), ':to': S(to) },
  });
}
