import { floorSeconds } from '../clock.js';
import { ceilDecimal } from '../decimal.js';
import { LeaseHeldError } from '../errors.js';
import type { Lock } from './entry.js';
import type { Condition } from './expression.js';
import { BOUNDS, MAX_LEASE_SECONDS } from './names.js';
import { clamp, floorOf } from './numbers.js';
import { N, type Row, S, text } from './row.js';

/** How many seconds a LOCK row outlives its lease before its ttl: longer than any clock skew. */
export const LOCK_LINGER = 3600;

/** The maximum failure count. The count only determines the backoff. */
const maxFailures = 1 << 20;

/** Builds a LOCK row without its key. `until` is in epoch seconds. */
export function storedLock(token: string, owner: string, until: number): Row {
  return {
    lease_token: S(token),
    ...storedEnd(until),
    ...(owner ? { lease_owner: S(owner) } : {}),
  };
}

/** The attributes that change when a lease is extended. */
export function storedEnd(until: number): Row {
  return { lease_expires_at: N(until), ttl: N(until + LOCK_LINGER) };
}

/** A LOCK row, parsed as the condition of an acquisition evaluates it. */
export interface ReadLock extends Lock {
  token: string;
  /** In epoch seconds, rounded up, since it is compared with a whole `:now`. 0, in the past, if the row has no number. */
  expiresAt: number;
}

/** Parses a LOCK row. A malformed row of another writer is never an error: it counts as free. */
export function readLock(row: Row | undefined): ReadLock {
  const end = row?.['lease_expires_at']?.N;
  const failures = row?.['failures'];
  const expiresAt = clamp((end && ceilDecimal(end)) || 0n, 0, BOUNDS.moment);
  return {
    token: text(row, 'lease_token'),
    owner: text(row, 'lease_owner'),
    expiresAt,
    expiresAtMs: expiresAt * 1000,
    failures: clamp((failures && floorOf(failures)) ?? 0n, 0, maxFailures),
  };
}

/** Converts a LOCK row to the public form. */
export function lockOf(row: Row): Lock {
  const { owner, expiresAtMs, failures } = readLock(row);
  return { owner, expiresAtMs, failures };
}

/** Reports whether a lease or a request with this end (epoch seconds) is still held: the end is in the future, but not beyond the longest lease. */
export function holdsUntil(end: number, nowMs: number): boolean {
  return end * 1000 > nowMs && end <= floorSeconds(nowMs) + MAX_LEASE_SECONDS;
}

const free =
  'attribute_not_exists(pk) OR NOT attribute_type(lease_expires_at, :number) OR lease_expires_at <= :now OR lease_expires_at > :longest';

/** Reports whether a page is in backoff after a failure: the row has no holder. Its end may have passed. */
export function isBackoff(lock: Lock | undefined): boolean {
  return lock !== undefined && lock.owner === '' && lock.failures > 0;
}

/** Reports whether a page is in backoff, which has not ended. */
export function isBackingOff(lock: Lock | undefined, nowMs: number): boolean {
  return lock !== undefined && isBackoff(lock) && holdsUntil(lock.expiresAtMs / 1000, nowMs);
}

/** The condition that the lease is not held, see {@link holdsUntil}. A row without a numeric end is free. */
export function isFree(nowMs: number): Condition {
  const now = floorSeconds(nowMs);
  return { expression: free, values: { ':number': S('N'), ':now': N(now), ':longest': N(now + MAX_LEASE_SECONDS) } };
}

/**
 * {@link isFree}, and the failure count is the one that was read. A transaction
 * does not return what it replaces, and a worker that froze after the read must not restore
 * failures that another process has since cleared.
 */
export function isFreeAfter(found: Row | undefined, nowMs: number): Condition {
  const { values } = isFree(nowMs);
  const failures = found?.['failures'];
  if (!failures) return { expression: `(${free}) AND attribute_not_exists(failures)`, values: values ?? {} };
  return { expression: `(${free}) AND failures = :failures`, values: { ...values, ':failures': failures } };
}

/** The condition that LOCK carries the token and has not expired. */
export function isHeld(token: string, nowMs: number): Condition {
  return {
    expression: 'lease_token = :token AND lease_expires_at > :now',
    values: { ':token': S(token), ':now': N(floorSeconds(nowMs)) },
  };
}

/** The condition that LOCK carries the token. */
export function hasToken(token: string): Condition {
  return { expression: 'lease_token = :token', values: { ':token': S(token) } };
}

/** Returns the end of a lease in epoch seconds, rounded up so that no holder gets less than it asked for. */
export function expiry(nowMs: number, durationMs: number): number {
  return Math.min(Math.max(Math.ceil((nowMs + durationMs) / 1000), 0), BOUNDS.moment);
}

/** Returns the error of a lease that another process holds. */
export function heldBy(pk: string, row: Row | undefined, cause?: unknown): LeaseHeldError {
  const { owner, expiresAt, failures } = readLock(row);
  return new LeaseHeldError(`the lease of ${pk}: ${describeHolder(row)}; retry after that`, {
    owner,
    expiresAt,
    failures,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Describes the current holder for an error message. */
export function describeHolder(row: Row | undefined): string {
  if (!row) return 'no process holds it';
  const { owner, expiresAtMs, failures } = readLock(row);
  const until = new Date(Math.min(expiresAtMs, 8.64e15)).toISOString();
  if (owner === '' && failures > 0) return `the page is in backoff after ${failures} failures until ${until}`;
  return `it is held by ${owner || 'another holder'} until ${until}`;
}
