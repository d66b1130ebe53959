import { PutItemCommand } from '@aws-sdk/client-dynamodb';

import { InvalidInputError, UnknownOutcomeError } from '../errors.js';
import { answerOf } from '../outcome.js';
import { formatValue } from '../value.js';
import { type Backend, deleteCall, detached, errorOf, keyOf, outcomeOfCall } from './backend.js';
import { conditionOf } from './expression.js';
import { HeldLease, leaseDuration } from './lease.js';
import { expiry, hasToken, heldBy, isFree, LOCK_LINGER, readLock, storedLock } from './lockrow.js';
import { SK } from './names.js';
import { checkMoment } from './normalize.js';
import { endRequest } from './request.js';
import type { Row } from './row.js';

/** The page whose lease is acquired, and the process that acquires it. */
export interface Acquirer {
  cacheKey: string;
  pk: string;
  owner: string;
  /** How far the caller's wall clock is ahead of the store's, in milliseconds. Default: 0. */
  aheadMs?: number;
}

/** The maximum skew between a caller's clock and the store's, in milliseconds. */
const maxSkewMs = LOCK_LINGER * 1000;

/**
 * Returns how far a caller's clock is ahead of the store's, in milliseconds; 0 if it gives none.
 * @throws InvalidInputError if the difference exceeds an hour.
 */
export function clockAheadOf(b: Backend, nowMs: number | undefined): number {
  if (nowMs === undefined) return 0;
  checkMoment('nowMs', nowMs);
  const aheadMs = nowMs - b.clock.now();
  if (Math.abs(aheadMs) <= maxSkewMs) return aheadMs;
  throw new InvalidInputError(
    `nowMs is ${nowMs}, ${Math.round(aheadMs / 1000)} s from the store's clock: expected at most ${LOCK_LINGER} s; configure the store's clock with now`,
  );
}

/** Creates a lease that has not been requested yet. */
export function newLease(b: Backend, acquirer: Acquirer, durationMs: number): HeldLease {
  const duration = leaseDuration(durationMs);
  const token = b.newToken();
  if (typeof token !== 'string' || token === '') {
    throw new InvalidInputError(`newToken must return a text that is unique and not empty (got ${formatValue(token)})`);
  }
  return new HeldLease(b, acquirer, token, duration);
}

/**
 * Acquires the lease of a page.
 *
 * A request whose reply was lost is retried with the same lease token: if the row that
 * refuses it carries that token, the first request was applied and the lease is ours. If no
 * reply arrives, or the caller cancels, the row is deleted by its token before this rejects,
 * even if the signal is aborted. Only if that is not answered either is the outcome unknown;
 * the worst case is then an unused lease until it expires.
 * @throws LeaseHeldError UnknownOutcomeError
 */
export async function acquire(b: Backend, signal: AbortSignal | undefined, acquirer: Acquirer, durationMs: number) {
  const lease = newLease(b, acquirer, durationMs);
  signal?.throwIfAborted(); // nothing was sent, nothing to settle
  const startedAt = b.clock.elapsed();
  for (let attempt = 1; ; attempt++) {
    const error = await errorOf(b.calls.call(signal, (s) => putLock(lease, s)));
    const outcome = outcomeOfCall(signal, error);
    if (outcome === 'applied') return lease;
    if (outcome === 'condition failed') return resolveRefusal(lease, error, startedAt);
    if (outcome === 'refused' && attempt === 1) throw error;
    if (outcome !== 'refused' && !b.calls.exhausted(attempt, startedAt) && (await b.calls.backoff(signal, attempt)))
      continue;
    throw await abandon(lease, error);
  }
}

/** Tries once to put the LOCK row. If we crash here, the lease expires. */
async function putLock(lease: HeldLease, abortSignal: AbortSignal): Promise<void> {
  const b = lease.backend;
  const now = lease.acquirerNow();
  const askedAt = b.clock.elapsed();
  const expiresAt = expiry(now, lease.leaseDurationMs);
  const answer = await b.ddb.send(
    new PutItemCommand({
      TableName: b.tableName,
      Item: { ...keyOf(lease.pk, SK.lock), ...storedLock(lease.leaseToken, lease.owner, expiresAt) },
      ...conditionOf(isFree(now)),
      ReturnValues: 'ALL_OLD',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    }),
    { abortSignal },
  );
  // The replaced row: a backoff that is over, or the lease of a dead holder.
  lease.failures = readLock(answer.Attributes).failures;
  lease.granted(expiresAt, askedAt);
}

/**
 * Reads the row that refused the request. If it carries our own token, an earlier attempt
 * of ours or the SDK's was applied and its reply lost.
 */
function resolveRefusal(lease: HeldLease, refusal: unknown, startedAt: number): HeldLease {
  const row: Row | undefined = answerOf(refusal)?.Item;
  const { token, expiresAt } = readLock(row);
  if (token !== lease.leaseToken) throw heldBy(lease.pk, row, refusal);
  lease.granted(expiresAt, startedAt);
  return lease;
}

/**
 * Releases a lease whose acquisition was not answered, and returns the caller's error. Its
 * timeout is shorter than the timeout for settling a publish: at worst the lease expires.
 */
export async function abandon(lease: HeldLease, cause: unknown): Promise<unknown> {
  const b = lease.backend;
  const failure = await errorOf(
    detached(b.calls.timeoutMs, async (signal) => {
      await deleteLock(lease, signal);
      // Mark the request as failed, so that it can be retried.
      await endRequest(lease, { failure: `not started: ${String(cause)}` }, (call) =>
        b.calls.retryUntilAborted(signal, call),
      );
    }),
  );
  lease.end();
  b.warn('settled an unanswered acquisition', { pk: lease.pk, cause, failure });
  if (failure === undefined) return cause;
  return new UnknownOutcomeError(
    `the lease of ${lease.pk}: neither its acquisition nor its release was answered (${String(failure)}); at worst it stays unused until it expires`,
    { cause },
  );
}

/**
 * Deletes the LOCK row if it carries the lease's token, retrying until DynamoDB answers.
 * After that no row carries the token, so no request that requires it can be applied.
 * `gone` reports whether the row was already gone.
 */
export async function deleteLock(lease: HeldLease, signal: AbortSignal): Promise<{ gone: boolean }> {
  const b = lease.backend;
  const error = await errorOf(b.calls.retryUntilAborted(signal, deleteLockCall(lease)));
  if (outcomeOfCall(signal, error) === 'condition failed') return { gone: true };
  if (error !== undefined) throw error;
  return { gone: false };
}

/** Builds the call that deletes the LOCK row if it carries the lease's token. */
export function deleteLockCall(lease: HeldLease) {
  return deleteCall(lease.backend, lease.pk, SK.lock, hasToken(lease.leaseToken));
}
