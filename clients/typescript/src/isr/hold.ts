import { InvalidInputError, LeaseLostError, MovedError } from '../errors.js';
import { answerOf, reasonsOf } from '../outcome.js';
import { erasure } from './acquire.js';
import { extendAttempt } from './attempt.js';
import { alteration, type Backend, failureOf, outcomeUnder } from './backend.js';
import { conditionOf, updateOf } from './expression.js';
import type { Fence } from './fence.js';
import type { HeldLease } from './lease.js';
import { describeHolder, expiry, isHeld, storedEnd } from './lockrow.js';
import { BOUNDS, SK } from './names.js';
import { N, type Row, S } from './row.js';
import { onRow, WriteRequest } from './transaction.js';

/**
 * Extends a lease by its duration, counted from now. An error other than
 * LeaseLostError leaves open whether it was extended; it may be called again.
 * @throws LeaseLostError
 */
export async function refresh(lease: HeldLease, signal: AbortSignal | undefined): Promise<void> {
  if (lease.ended) throw new LeaseLostError(`the lease of ${lease.pk} is lost: it was given up`);
  const error = await failureOf(lease.backend.calls.retry(signal, (s) => extend(lease, s)));
  if (outcomeUnder(signal, error) === 'condition failed') {
    lease.end();
    throw new LeaseLostError(`the lease of ${lease.pk} is lost: ${whyNotHeld(error)}`, { cause: error });
  }
  if (error !== undefined) throw error;
}

/**
 * Moves the end of a lease that is still ours and has not passed. A lease that has
 * expired stays so, although the row still carries our token: another node may be
 * about to take it, by a request that has already been judged.
 */
async function extend(lease: HeldLease, signal: AbortSignal): Promise<void> {
  const b = lease.backend;
  const now = b.clock.now();
  const askedAt = b.clock.elapsed();
  const expiresAt = expiry(now, lease.leaseDurationMs);
  await move(lease, now, expiresAt)(signal);
  lease.granted(expiresAt, askedAt);
}

/** The new end of the lease, and of its request if it has one: one that was taken over takes the lease with it. */
function move(lease: HeldLease, now: number, expiresAt: number): (signal: AbortSignal) => Promise<unknown> {
  const { backend: b, attempt, pk } = lease;
  const held = isHeld(lease.leaseToken, now);
  if (!attempt) return alteration(b, pk, SK.lock, storedEnd(expiresAt), held);
  return new WriteRequest(b, [
    { purpose: 'lock', item: { Update: { ...onRow(b, pk, SK.lock), ...updateOf(storedEnd(expiresAt), held) } } },
    extendAttempt(b, pk, attempt, expiresAt),
  ]).send;
}

/** Names the present holder, if the refusal brought the row along. */
function whyNotHeld(error: unknown): string {
  const answer = answerOf(error);
  const [lock] = answer ? reasonsOf(answer) : [];
  if (!lock) return describeHolder(answer?.Item);
  if (lock.code === 'None') return 'its request was taken over, or is ended';
  return describeHolder(lock.item as Row | undefined);
}

/** Gives a lease up. One that is lost already is none of ours: no error. */
export async function release(lease: HeldLease, signal: AbortSignal | undefined): Promise<void> {
  const error = await lease.leave(() => failureOf(lease.backend.calls.retry(signal, erasure(lease))));
  if (error !== undefined && outcomeUnder(signal, error) !== 'condition failed') throw error;
  lease.giveUp();
}

/**
 * Turns a lease into one that nobody holds until the pause is over, and counts a
 * failure. A pause of 0 ends the lease now.
 * @throws InvalidInputError if the pause is no number.
 */
export async function backOff(lease: HeldLease, pauseMs: number, signal: AbortSignal | undefined): Promise<void> {
  if (typeof pauseMs !== 'number' || Number.isNaN(pauseMs)) {
    throw new InvalidInputError(`pauseMs is ${pauseMs}: expected a number of milliseconds`);
  }
  const b = lease.backend;
  const until = expiry(b.clock.now(), Math.min(Math.max(pauseMs, 0), BOUNDS.interval * 1000));
  const pause = {
    lease_token: S(b.newToken()), // nobody's, and nobody is told
    // A constant, not an addition: a repetition must not count the failure twice.
    failures: N(lease.failures + 1),
    ...storedEnd(until),
    lease_owner: undefined,
  };
  const mine = { expression: 'lease_token = :held', values: { ':held': S(lease.leaseToken) } };
  const write = alteration(b, lease.pk, SK.lock, pause, mine);
  const error = await lease.leave(() => failureOf(b.calls.retry(signal, write)));
  // A failed condition is a lost lease, or the effect of an attempt of ours whose
  // reply was lost. Both leave the row as it ought to be.
  if (error !== undefined && outcomeUnder(signal, error) !== 'condition failed') throw error;
  lease.giveUp();
}

/**
 * Frees the lease that a read saw, whoever holds it. If it saw none there is nothing
 * to free. A lease without a token, which another service took, counts as moved once
 * it was refreshed.
 *
 * It is a transaction of one row for the sake of its client token: whoever repeats it
 * because a reply was lost, this package or the SDK beneath it, is told what became of
 * the first.
 * @throws MovedError if it is not that lease any more, and this call did not free it; any other error leaves that open
 */
export async function breakLease(b: Backend, fence: Fence, signal: AbortSignal | undefined): Promise<void> {
  if (!fence.lock) return;
  const item = { Delete: { ...onRow(b, fence.pk, SK.lock), ...conditionOf(fence.sameLock()) } };
  const request = new WriteRequest(b, [{ purpose: 'lock', item }]);
  const error = await failureOf(b.calls.retry(signal, request.send));
  if (error === undefined) return;
  if (outcomeUnder(signal, error) !== 'condition failed') throw error;
  const holder = describeHolder(request.refusal(error).get('lock'));
  throw new MovedError(`the lease of ${fence.pk} is not the one that was read: ${holder}`, { cause: error });
}
