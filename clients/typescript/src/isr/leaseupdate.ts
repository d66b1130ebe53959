import { InvalidInputError, LeaseLostError, MovedError } from '../errors.js';
import { answerOf, reasonsOf } from '../outcome.js';
import { deleteLockCall } from './acquire.js';
import { extendAttempt } from './attempt.js';
import { type Backend, errorOf, outcomeOfCall, updateCall } from './backend.js';
import { conditionOf, updateOf } from './expression.js';
import type { Fence } from './fence.js';
import type { HeldLease } from './lease.js';
import { describeHolder, expiry, isHeld, storedEnd } from './lockrow.js';
import { BOUNDS, SK } from './names.js';
import { N, type Row, S } from './row.js';
import { onRow, WriteRequest } from './transaction.js';

/**
 * Extends a lease to its duration from now. After an error other than LeaseLostError the
 * outcome is unknown; it may be called again.
 * @throws LeaseLostError
 */
export async function refresh(lease: HeldLease, signal: AbortSignal | undefined): Promise<void> {
  if (lease.ended) throw new LeaseLostError(`the lease of ${lease.pk} is lost: it was released`);
  const error = await errorOf(lease.backend.calls.retry(signal, (s) => extend(lease, s)));
  if (outcomeOfCall(signal, error) === 'condition failed') {
    lease.end();
    throw new LeaseLostError(`the lease of ${lease.pk} is lost: ${whyNotHeld(error)}`, { cause: error });
  }
  if (error !== undefined) throw error;
}

/**
 * Extends an unexpired lease that is still ours. An expired lease is never revived even if
 * the row still carries our token: another node may be about to acquire it.
 */
async function extend(lease: HeldLease, signal: AbortSignal): Promise<void> {
  const b = lease.backend;
  const now = b.clock.now();
  const askedAt = b.clock.elapsed();
  const expiresAt = expiry(now, lease.leaseDurationMs);
  await move(lease, now, expiresAt)(signal);
  lease.granted(expiresAt, askedAt);
}

/** Builds the call that extends the lease, and its request if it has one. If the request was taken over, the lease is lost. */
function move(lease: HeldLease, now: number, expiresAt: number): (signal: AbortSignal) => Promise<unknown> {
  const { backend: b, attempt, pk } = lease;
  const held = isHeld(lease.leaseToken, now);
  if (!attempt) return updateCall(b, pk, SK.lock, storedEnd(expiresAt), held);
  return new WriteRequest(b, [
    { purpose: 'lock', item: { Update: { ...onRow(b, pk, SK.lock), ...updateOf(storedEnd(expiresAt), held) } } },
    extendAttempt(b, pk, attempt, expiresAt),
  ]).send;
}

/** Describes the current holder, if the refusal returned the row. */
function whyNotHeld(error: unknown): string {
  const answer = answerOf(error);
  const [lock] = answer ? reasonsOf(answer) : [];
  if (!lock) return describeHolder(answer?.Item);
  if (lock.code === 'None') return 'its request was taken over or has ended';
  return describeHolder(lock.item as Row | undefined);
}

/** Releases a lease. Releasing a lost lease is not an error. */
export async function release(lease: HeldLease, signal: AbortSignal | undefined): Promise<void> {
  const error = await lease.releasing(() => errorOf(lease.backend.calls.retry(signal, deleteLockCall(lease))));
  if (error !== undefined && outcomeOfCall(signal, error) !== 'condition failed') throw error;
  lease.markReleased();
}

/**
 * Puts the page into backoff: the lease has no holder until the pause is over, and the
 * failure is counted. A pause of 0 releases the lease at once.
 * @throws InvalidInputError if the pause is not a number.
 */
export async function backOff(lease: HeldLease, pauseMs: number, signal: AbortSignal | undefined): Promise<void> {
  if (typeof pauseMs !== 'number' || Number.isNaN(pauseMs)) {
    throw new InvalidInputError(`pauseMs must be a number of milliseconds (got ${pauseMs})`);
  }
  const b = lease.backend;
  const until = expiry(b.clock.now(), Math.min(Math.max(pauseMs, 0), BOUNDS.interval * 1000));
  const pause = {
    lease_token: S(b.newToken()), // a token that no process knows
    // Idempotent: a constant, not an ADD, so that a retry does not count the failure twice.
    failures: N(lease.failures + 1),
    ...storedEnd(until),
    lease_owner: undefined,
  };
  const mine = { expression: 'lease_token = :held', values: { ':held': S(lease.leaseToken) } };
  const write = updateCall(b, lease.pk, SK.lock, pause, mine);
  const error = await lease.releasing(() => errorOf(b.calls.retry(signal, write)));
  // A failed condition is a lost lease, or an earlier attempt of ours whose reply was lost.
  // In both cases the row is as it should be.
  if (error !== undefined && outcomeOfCall(signal, error) !== 'condition failed') throw error;
  lease.markReleased();
}

/**
 * Deletes the lease that a read saw, whichever process holds it; a no-op if it saw none. A
 * lease without a token, of another service, counts as moved once it is refreshed.
 *
 * It is a transaction of one row to get a client token: a retry after a lost reply, by this
 * package or by the SDK, returns the result of the first attempt.
 * @throws MovedError if it is no longer that lease and this call did not delete it; after any other error the outcome is unknown
 */
export async function breakLease(b: Backend, fence: Fence, signal: AbortSignal | undefined): Promise<void> {
  if (!fence.lock) return;
  const item = { Delete: { ...onRow(b, fence.pk, SK.lock), ...conditionOf(fence.sameLock()) } };
  const request = new WriteRequest(b, [{ purpose: 'lock', item }]);
  const error = await errorOf(b.calls.retry(signal, request.send));
  if (error === undefined) return;
  if (outcomeOfCall(signal, error) !== 'condition failed') throw error;
  const holder = describeHolder(request.refusal(error).get('lock'));
  throw new MovedError(`the lease of ${fence.pk} is not the one that was read: ${holder}`, { cause: error });
}
