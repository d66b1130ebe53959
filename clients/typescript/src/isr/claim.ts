import { LeaseHeldError } from '../errors.js';
import { type Applicant, abandon, newLease } from './acquire.js';
import { type Attempt, type Claim, newAttempt, startedRow } from './attempt.js';
import { type Backend, failureOf, keyOf, outcomeUnder, readRow } from './backend.js';
import { conditionOf, updateOf } from './expression.js';
import type { HeldLease } from './lease.js';
import { expiry, heldBy, holdsUntil, isFreeAfter, readLock, storedLock } from './lockrow.js';
import { SK } from './names.js';
import { inProgress, isStanding, readRequest, standing, unchangedRequest } from './requestrow.js';
import type { Row } from './row.js';
import { onRow, type Refusal, WriteRequest } from './transaction.js';

/**
 * Takes the lease of a page for a request: LOCK and REQ# are written in one
 * transaction, so that a request is STARTED by a holder of the lease and by nobody
 * else. Both rows are read before: what a transaction replaces is not told, and it is
 * refused without saying all that is wrong.
 * @throws LeaseHeldError RequestCompletedError RequestInProgressError RequestMismatchError UnknownOutcomeError
 */
export async function acquireFor(
  b: Backend,
  signal: AbortSignal | undefined,
  who: Applicant,
  durationMs: number,
  claim: Claim,
): Promise<HeldLease> {
  const lease = newLease(b, who, durationMs);
  const attempt = newAttempt(b, claim);
  lease.for(attempt);
  signal?.throwIfAborted();
  await new Claiming(lease, attempt).ask(signal);
  return lease;
}

/** One request for both rows, made of them as they were found. */
interface Asking {
  request: WriteRequest;
  /** Of the lease that it replaces. */
  failures: number;
  /** Of the lease that it asks for, in epoch seconds. */
  expiresAt: number;
  /** Before it was sent, on the monotonic clock. */
  askedAt: number;
}

/** The asking for one lease with a request. */
class Claiming {
  readonly #lease: HeldLease;
  readonly #attempt: Attempt;
  /** What was asked may have been carried out. */
  #unanswered = false;

  constructor(lease: HeldLease, attempt: Attempt) {
    this.#lease = lease;
    this.#attempt = attempt;
  }

  /** Asks until there is an answer, or for as long as an ordinary operation. */
  async ask(signal: AbortSignal | undefined): Promise<void> {
    const { calls, clock } = this.#lease.backend;
    const startedAt = clock.elapsed();
    let next: Asking | undefined;
    for (let attempt = 1; ; attempt++) {
      next ??= await this.#look(signal).catch(async (error: unknown) => Promise.reject(await this.#failed(error)));
      if (!next) return; // the rows are ours already
      const { request } = next;
      let error = await failureOf(calls.call(signal, request.send));
      const outcome = outcomeUnder(signal, error);
      if (outcome === 'applied') {
        this.#lease.failures = next.failures;
        this.#lease.granted(next.expiresAt, next.askedAt);
        return;
      }
      if (outcome === 'refused') throw await this.#failed(error);
      if (outcome === 'unknown') this.#unanswered = true;
      else next = undefined;
      if (outcome === 'condition failed') {
        // Somebody was faster, perhaps an earlier request of ours.
        error = this.#contest(request.refusal(error), error);
        if (error === undefined) return;
      }
      if (calls.exhausted(attempt, startedAt) || !(await calls.backoff(signal, attempt)))
        throw await this.#failed(error);
    }
  }

  /** Reads what there is, and prepares to replace it; undefined if it is ours, by a request whose reply was lost. */
  async #look(signal: AbortSignal | undefined): Promise<Asking | undefined> {
    const { backend: b, pk, leaseToken } = this.#lease;
    const { claim, sk } = this.#attempt;
    const stored = await readRow(b, signal, pk, sk);
    const storedLock = await readRow(b, signal, pk, SK.lock);
    const lock = readLock(storedLock);
    const now = this.#lease.applicantNow();
    const askedAt = b.clock.elapsed();
    if (lock.token === leaseToken) {
      this.#lease.granted(lock.expiresAt, askedAt);
      return undefined;
    }
    const earlier = stored && readRequest(stored, claim.idempotencyKey, now);
    const refusal = earlier && standing(earlier, claim.requestHash, now);
    if (refusal) throw refusal;
    if (holdsUntil(lock.expiresAt, now)) throw heldBy(pk, storedLock);
    const expiresAt = expiry(now, this.#lease.leaseDurationMs);
    const request = this.#request(storedLock, stored, now, expiresAt);
    return { request, failures: lock.failures, expiresAt, askedAt };
  }

  /**
   * States both rows. If we crash once it is carried out, the lease expires, and the
   * request may be taken over at the same moment.
   */
  #request(lockRow: Row | undefined, requestRow: Row | undefined, now: number, expiresAt: number): WriteRequest {
    const { backend: b, pk, leaseToken, owner } = this.#lease;
    const { Key: _, ...onLock } = onRow(b, pk, SK.lock);
    const lock = { ...keyOf(pk, SK.lock), ...storedLock(leaseToken, owner, expiresAt) };
    // An update, which leaves alone what others keep there.
    const started = updateOf(startedRow(this.#attempt, expiresAt), unchangedRequest(requestRow));
    return new WriteRequest(b, [
      { purpose: 'lock', item: { Put: { ...onLock, Item: lock, ...conditionOf(isFreeAfter(lockRow, now)) } } },
      { purpose: 'request', item: { Update: { ...onRow(b, pk, this.#attempt.sk), ...started } } },
    ]);
  }

  /**
   * Reads the rows that refused us: undefined if they are ours. Otherwise it is what is
   * said to somebody for whom others are faster time and again.
   */
  #contest(why: Refusal, refused: unknown): unknown {
    const { backend: b, pk, leaseToken } = this.#lease;
    if (why.has('lock')) {
      const row = why.get('lock');
      const lock = readLock(row);
      if (lock.token !== leaseToken) return heldBy(pk, row, refused);
      this.#lease.granted(lock.expiresAt, b.clock.elapsed());
      return undefined;
    }
    const row = why.get('request');
    const { claim } = this.#attempt;
    const now = this.#lease.applicantNow();
    const earlier = row && readRequest(row, claim.idempotencyKey, now);
    if (!earlier) return refused;
    // Claimed since we looked, whatever became of it.
    return standing(earlier, claim.requestHash, now) ?? inProgress(earlier);
  }

  /**
   * The error of a claim. The rows of others are an answer; after anything else a
   * request that was not answered may have made them ours.
   */
  async #failed(error: unknown): Promise<unknown> {
    if (!this.#unanswered || isStanding(error) || error instanceof LeaseHeldError) return error;
    return abandon(this.#lease, error);
  }
}
