import { PutItemCommand } from '@aws-sdk/client-dynamodb';

import { InvalidInputError, UnknownOutcomeError } from '../errors.js';
import { answerOf } from '../outcome.js';
import { type Backend, deletion, failureOf, keyOf, outcomeUnder, settling } from './backend.js';
import { conditionOf } from './expression.js';
import { HeldLease, leaseDuration } from './lease.js';
import { expiry, hasToken, heldBy, isFree, LOCK_LINGER, readLock, storedLock } from './lockrow.js';
import { SK } from './names.js';
import { checkMoment } from './normalize.js';
import { endRequest } from './request.js';
import type { Row } from './row.js';

/** Who wants a lease, and of what. */
export interface Applicant {
  cacheKey: string;
  pk: string;
  owner: string;
  /** How far the applicant's wall clock is ahead of the store's, in milliseconds. Default: 0. */
  aheadMs?: number;
}

/** How far the clock of an applicant may be from the store's, in milliseconds. */
const mostApartMs = LOCK_LINGER * 1000;

/**
 * How far an applicant's clock is ahead of the store's, in milliseconds: 0 of one that has none.
 * @throws InvalidInputError if that is more than an hour, either way.
 */
export function aheadOf(b: Backend, nowMs: number | undefined): number {
  if (nowMs === undefined) return 0;
  checkMoment('nowMs', nowMs);
  const aheadMs = nowMs - b.clock.now();
  if (Math.abs(aheadMs) <= mostApartMs) return aheadMs;
  throw new InvalidInputError(
    `nowMs is ${nowMs}, ${Math.round(aheadMs / 1000)} s from the store's clock: expected at most ${LOCK_LINGER} s; a store can be given another clock`,
  );
}

/** A lease that nobody has asked for yet. */
export function newLease(b: Backend, who: Applicant, durationMs: number): HeldLease {
  const duration = leaseDuration(durationMs);
  // A clock in other units would take leases that end beyond any calendar.
  checkMoment("the store's clock", b.clock.now());
  return new HeldLease(b, who, b.newToken(), duration);
}

/**
 * Takes the lease of a page.
 *
 * A request whose reply was lost is repeated under the same token: if the row that
 * refuses it carries that token, the first one was carried out and the lease is ours.
 * If the answer stays out, or the caller gives up, the row is deleted by its token
 * before this rejects, whatever becomes of the signal; only if that is not answered
 * either is the outcome unknown, and then the worst that remains is a lease that
 * nobody uses until it expires.
 * @throws LeaseHeldError UnknownOutcomeError
 */
export async function acquire(b: Backend, signal: AbortSignal | undefined, who: Applicant, durationMs: number) {
  const lease = newLease(b, who, durationMs);
  signal?.throwIfAborted(); // nothing was asked, nothing needs to be settled
  const startedAt = b.clock.elapsed();
  for (let attempt = 1; ; attempt++) {
    const error = await failureOf(b.calls.call(signal, (s) => take(lease, s)));
    const outcome = outcomeUnder(signal, error);
    if (outcome === 'applied') return lease;
    if (outcome === 'condition failed') return contest(lease, error, startedAt);
    if (outcome === 'refused' && attempt === 1) throw error;
    if (outcome !== 'refused' && !b.calls.exhausted(attempt, startedAt) && (await b.calls.backoff(signal, attempt)))
      continue;
    throw await abandon(lease, error);
  }
}

/** Asks for the LOCK row once. If we crash here, a lease expires. */
async function take(lease: HeldLease, abortSignal: AbortSignal): Promise<void> {
  const b = lease.backend;
  const now = lease.applicantNow();
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
  // A back-off that has passed, or a lease whose holder died.
  lease.failures = readLock(answer.Attributes).failures;
  lease.granted(expiresAt, askedAt);
}

/**
 * Reads the row that refused us. Our own token on it means that an earlier attempt,
 * ours or the SDK's, was carried out and its reply lost.
 */
function contest(lease: HeldLease, refusal: unknown, startedAt: number): HeldLease {
  const row: Row | undefined = answerOf(refusal)?.Item;
  const { token, expiresAt } = readLock(row);
  if (token !== lease.leaseToken) throw heldBy(lease.pk, row, refusal);
  lease.granted(expiresAt, startedAt);
  return lease;
}

/**
 * Makes sure that a lease whose acquisition was not answered is nobody's, and returns
 * what to tell the caller. It gives up sooner than the settlement of a publish: what
 * it leaves behind at worst ends by itself.
 */
export async function abandon(lease: HeldLease, cause: unknown): Promise<unknown> {
  const b = lease.backend;
  const failure = await failureOf(
    settling(b.calls.timeoutMs, async (signal) => {
      await drop(lease, signal);
      // A request of ours which nobody will carry out can be made again.
      await endRequest(lease, { failure: `it was not begun: ${String(cause)}` }, (call) =>
        b.calls.retryUntilAborted(signal, call),
      );
    }),
  );
  lease.end();
  b.warn('settled an unanswered acquisition', { pk: lease.pk, cause, failure });
  if (failure === undefined) return cause;
  return new UnknownOutcomeError(
    `the lease of ${lease.pk}: its acquisition was not answered, nor was giving it back (${String(failure)}); at worst it is held by nobody until it expires`,
    { cause },
  );
}

/**
 * Deletes the LOCK row if it carries the lease's token, and insists on an answer. From
 * then on no row carries the token, and no request that demands it can succeed. It
 * says whether no row carried it to begin with.
 */
export async function drop(lease: HeldLease, signal: AbortSignal): Promise<{ gone: boolean }> {
  const b = lease.backend;
  const error = await failureOf(b.calls.retryUntilAborted(signal, erasure(lease)));
  if (outcomeUnder(signal, error) === 'condition failed') return { gone: true };
  if (error !== undefined) throw error;
  return { gone: false };
}

/** Deletes the LOCK row if it is the lease's. */
export function erasure(lease: HeldLease) {
  return deletion(lease.backend, lease.pk, SK.lock, hasToken(lease.leaseToken));
}
