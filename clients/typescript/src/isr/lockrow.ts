import { floorSeconds } from '../clock.js';
import { LeaseHeldError } from '../errors.js';
import type { Lock } from './entry.js';
import type { Condition } from './expression.js';
import { BOUNDS, LONGEST_LEASE } from './names.js';
import { ceilNumber, clamp, floorOf } from './numbers.js';
import { N, type Row, S, text } from './row.js';

/**
 * How many seconds a LOCK row outlives its lease before DynamoDB may collect it:
 * longer than clocks differ.
 */
export const LOCK_LINGER = 3600;

/** Beyond it, failures are not counted: the number only shapes a back-off. */
const enoughFailures = 1 << 20;

/** A LOCK row as it is stored, without its key: `until` in epoch seconds. */
export function storedLock(token: string, owner: string, until: number): Row {
  return {
    lease_token: S(token),
    ...storedEnd(until),
    ...(owner ? { lease_owner: S(owner) } : {}),
  };
}

/** What changes when the end of a lease moves. */
export function storedEnd(until: number): Row {
  return { lease_expires_at: N(until), ttl: N(until + LOCK_LINGER) };
}

/** A LOCK row read as the condition of an acquisition judges it. */
export interface ReadLock extends Lock {
  token: string;
  /** In epoch seconds, rounded up: a whole `:now` is compared with it. 0, long ago, if the row has no number. */
  expiresAt: number;
}

/** Whatever other writers left there is a lease or is none, and never an error. */
export function readLock(row: Row | undefined): ReadLock {
  const end = row?.['lease_expires_at']?.N;
  const failures = row?.['failures'];
  const expiresAt = clamp((end && ceilNumber(end)) || 0n, 0, BOUNDS.moment);
  return {
    token: text(row, 'lease_token'),
    owner: text(row, 'lease_owner'),
    expiresAt,
    expiresAtMs: expiresAt * 1000,
    failures: clamp((failures && floorOf(failures)) ?? 0n, 0, enoughFailures),
  };
}

/** The lock as callers are told of it. */
export function lockOf(row: Row): Lock {
  const { owner, expiresAtMs, failures } = readLock(row);
  return { owner, expiresAtMs, failures };
}

/** Whether what ends at a moment, in epoch seconds, holds now: it has not ended, and a lease can end there. */
export function holdsUntil(end: number, nowMs: number): boolean {
  return end * 1000 > nowMs && end <= floorSeconds(nowMs) + LONGEST_LEASE;
}

const free =
  'attribute_not_exists(pk) OR NOT attribute_type(lease_expires_at, :number) OR lease_expires_at <= :now OR lease_expires_at > :longest';

/** The lease is not held: see {@link holdsUntil}. A row without a number cannot say when it ends: it is free. */
export function isFree(nowMs: number): Condition {
  const now = floorSeconds(nowMs);
  return { expression: free, values: { ':number': S('N'), ':now': N(now), ':longest': N(now + LONGEST_LEASE) } };
}

/**
 * Besides, the row counts as many failures as one that was read: a transaction does
 * not tell what it replaces, and a worker that froze after it had looked must not
 * take over failures that others have made up for.
 */
export function isFreeAfter(found: Row | undefined, nowMs: number): Condition {
  const { values } = isFree(nowMs);
  const failures = found?.['failures'];
  if (!failures) return { expression: `(${free}) AND attribute_not_exists(failures)`, values: values ?? {} };
  return { expression: `(${free}) AND failures = :failures`, values: { ...values, ':failures': failures } };
}

/** The LOCK row is this token's, and has not expired. */
export function isHeld(token: string, nowMs: number): Condition {
  return {
    expression: 'lease_token = :token AND lease_expires_at > :now',
    values: { ':token': S(token), ':now': N(floorSeconds(nowMs)) },
  };
}

/** The LOCK row is this token's. */
export function hasToken(token: string): Condition {
  return { expression: 'lease_token = :token', values: { ':token': S(token) } };
}

/** The end of a lease that lasts so long from now, in epoch seconds, rounded up so that no holder gets less than it asked for. */
export function expiry(nowMs: number, durationMs: number): number {
  return Math.min(Math.max(Math.ceil((nowMs + durationMs) / 1000), 0), BOUNDS.moment);
}

/** Says who has the lease. */
export function heldBy(pk: string, row: Row | undefined, cause?: unknown): LeaseHeldError {
  const { owner, expiresAt, failures } = readLock(row);
  return new LeaseHeldError(`the lease of ${pk}: ${describeHolder(row)}; try again then`, {
    owner,
    expiresAt,
    failures,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Names the present holder, for an error message. */
export function describeHolder(row: Row | undefined): string {
  if (!row) return 'there is no lease';
  const { owner, expiresAtMs, failures } = readLock(row);
  const until = new Date(Math.min(expiresAtMs, 8.64e15)).toISOString();
  if (owner === '' && failures > 0) return `the page is in back-off after ${failures} failures until ${until}`;
  return `it is held by ${owner || 'another holder'} until ${until}`;
}
