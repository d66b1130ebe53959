import { LeaseHeldError } from '../errors.js';
import { type Acquirer, abandon, newLease } from './acquire.js';
import { type Attempt, type Claim, newAttempt, startedRow } from './attempt.js';
import { type Backend, errorOf, keyOf, outcomeOfCall, readRow } from './backend.js';
import { conditionOf, updateOf } from './expression.js';
import type { HeldLease } from './lease.js';
import { expiry, heldBy, holdsUntil, isFreeAfter, readLock, storedLock } from './lockrow.js';
import { SK } from './names.js';
import { inProgress, isRefusal, readRequest, refusalOf, unchangedRequest } from './requestrow.js';
import type { Row } from './row.js';
import { onRow, type Refusal, WriteRequest } from './transaction.js';

/**
 * Acquires the lease of a page for a request: LOCK and REQ# are written in one transaction,
 * so that only the holder of the lease can mark a request STARTED. Both rows are read first,
 * since a transaction returns neither the rows it replaces nor all failed conditions.
 * @throws LeaseHeldError RequestCompletedError RequestInProgressError RequestMismatchError UnknownOutcomeError
 */
export async function acquireFor(
  b: Backend,
  signal: AbortSignal | undefined,
  acquirer: Acquirer,
  durationMs: number,
  claim: Claim,
): Promise<HeldLease> {
  const lease = newLease(b, acquirer, durationMs);
  const attempt = newAttempt(b, claim);
  lease.bind(attempt);
  signal?.throwIfAborted();
  await new ClaimAttempt(lease, attempt).run(signal);
  return lease;
}

/** One transaction for both rows, built from the rows as they were read. */
interface ClaimRequest {
  request: WriteRequest;
  /** The failure count of the replaced LOCK row. */
  failures: number;
  /** The end of the requested lease, in epoch seconds. */
  expiresAt: number;
  /** When it was built, before sending, on the monotonic clock. */
  askedAt: number;
}

/** The acquisition of one lease with a request. */
class ClaimAttempt {
  readonly #lease: HeldLease;
  readonly #attempt: Attempt;
  /** An earlier transaction may have been applied. */
  #unanswered = false;

  constructor(lease: HeldLease, attempt: Attempt) {
    this.#lease = lease;
    this.#attempt = attempt;
  }

  /** Retries until the outcome is definite or the attempts are used up. */
  async run(signal: AbortSignal | undefined): Promise<void> {
    const { calls, clock } = this.#lease.backend;
    const startedAt = clock.elapsed();
    let next: ClaimRequest | undefined;
    for (let attempt = 1; ; attempt++) {
      next ??= await this.#prepare(signal).catch(async (error: unknown) => Promise.reject(await this.#errorOf(error)));
      if (!next) return; // the rows are already ours
      const { request } = next;
      let error = await errorOf(calls.call(signal, request.send));
      const outcome = outcomeOfCall(signal, error);
      if (outcome === 'applied') {
        this.#lease.failures = next.failures;
        this.#lease.granted(next.expiresAt, next.askedAt);
        return;
      }
      if (outcome === 'refused') throw await this.#errorOf(error);
      if (outcome === 'unknown') this.#unanswered = true;
      else next = undefined;
      if (outcome === 'condition failed') {
        // Another process was faster, or an earlier attempt of ours.
        error = this.#resolveRefusal(request.refusal(error), error);
        if (error === undefined) return;
      }
      if (calls.exhausted(attempt, startedAt) || !(await calls.backoff(signal, attempt)))
        throw await this.#errorOf(error);
    }
  }

  /** Reads both rows and builds the transaction; undefined if an earlier attempt of ours was applied. */
  async #prepare(signal: AbortSignal | undefined): Promise<ClaimRequest | undefined> {
    const { backend: b, pk, leaseToken } = this.#lease;
    const { claim, sk } = this.#attempt;
    const stored = await readRow(b, signal, pk, sk);
    const storedLock = await readRow(b, signal, pk, SK.lock);
    const lock = readLock(storedLock);
    const now = this.#lease.acquirerNow();
    const askedAt = b.clock.elapsed();
    if (lock.token === leaseToken) {
      this.#lease.granted(lock.expiresAt, askedAt);
      return undefined;
    }
    const earlier = stored && readRequest(stored, claim.idempotencyKey, now);
    const refusal = earlier && refusalOf(earlier, claim.requestHash, now);
    if (refusal) throw refusal;
    if (holdsUntil(lock.expiresAt, now)) throw heldBy(pk, storedLock);
    const expiresAt = expiry(now, this.#lease.leaseDurationMs);
    const request = this.#request(storedLock, stored, now, expiresAt);
    return { request, failures: lock.failures, expiresAt, askedAt };
  }

  /**
   * Builds the transaction. If we crash after it was applied, the lease expires and the
   * request may be taken over at the same time.
   */
  #request(lockRow: Row | undefined, requestRow: Row | undefined, now: number, expiresAt: number): WriteRequest {
    const { backend: b, pk, leaseToken, owner } = this.#lease;
    const { Key: _, ...onLock } = onRow(b, pk, SK.lock);
    const lock = { ...keyOf(pk, SK.lock), ...storedLock(leaseToken, owner, expiresAt) };
    // An update, to keep unknown attributes.
    const started = updateOf(startedRow(this.#attempt, expiresAt), unchangedRequest(requestRow));
    return new WriteRequest(b, [
      { purpose: 'lock', item: { Put: { ...onLock, Item: lock, ...conditionOf(isFreeAfter(lockRow, now)) } } },
      { purpose: 'request', item: { Update: { ...onRow(b, pk, this.#attempt.sk), ...started } } },
    ]);
  }

  /**
   * Interprets the rows that refused the transaction: undefined if they are ours, otherwise
   * the error to throw when the attempts are used up.
   */
  #resolveRefusal(why: Refusal, refused: unknown): unknown {
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
    const now = this.#lease.acquirerNow();
    const earlier = row && readRequest(row, claim.idempotencyKey, now);
    if (!earlier) return refused;
    // Another process claimed the request since our read.
    return refusalOf(earlier, claim.requestHash, now) ?? inProgress(earlier);
  }

  /**
   * Returns the error of a claim. Rows of another process are definite; after any other
   * error an unanswered transaction may have been applied, so the lease is released.
   */
  async #errorOf(error: unknown): Promise<unknown> {
    if (!this.#unanswered || isRefusal(error) || error instanceof LeaseHeldError) return error;
    return abandon(this.#lease, error);
  }
}
