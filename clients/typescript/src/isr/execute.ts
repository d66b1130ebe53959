import { UnknownOutcomeError } from '../errors.js';
import { attemptsOf } from '../outcome.js';
import { type Backend, detached, errorOf, outcomeOfCall } from './backend.js';
import type { WriteRequest } from './transaction.js';

/** The meaning of failed conditions: retry with a new request, at once or after backoff, or stop, with an error or without. */
export type Verdict = { retry: 'now' | 'later' } | { retry: 'never'; error?: unknown };

/**
 * A transaction that is retried until its outcome is known. Its conditions (a version of
 * META, a lease token, a purge sequence) never become true again once they are false, so a
 * refused request can never be applied later.
 */
export interface Write {
  /** Names the write in warnings. */
  readonly name: string;
  /**
   * Builds the transaction from the current rows, with a new client token; undefined if
   * nothing is left to do. It is called after the backoff, so that the rows it reads are
   * current when the transaction is sent.
   */
  request(signal: AbortSignal | undefined): Promise<WriteRequest | undefined>;
  /** Reports whether another attempt may be made. */
  running(): boolean;
  /**
   * Interprets the failed conditions of the latest request. `doubtful`: the request was sent
   * before without a reply, and that attempt may be what made the conditions false.
   */
  judge(request: WriteRequest, error: unknown, doubtful: boolean, signal: AbortSignal): Promise<Verdict>;
  /**
   * Makes sure that none of the sent requests can be applied later. It returns the error
   * to throw if none was applied.
   */
  revoke(cause: unknown, signal: AbortSignal): Promise<unknown>;
  /** Reports whether one of the requests was applied. It is called when none can be applied later. */
  committed(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean>;
}

/**
 * Sends a write until its outcome is known. An unanswered request is retried unchanged under
 * its client token, and no new request is built until a failed condition shows that it can
 * no longer be applied: a conflict may be with our own earlier attempt in flight. After a
 * definite cancellation a new request is built. If building the first request fails, nothing
 * was sent, and that error is thrown.
 */
export async function execute(b: Backend, signal: AbortSignal | undefined, w: Write): Promise<void> {
  signal?.throwIfAborted(); // nothing was sent, nothing to settle
  const sent: WriteRequest[] = [];
  let request = await w.request(signal);
  let doubtful = false;
  for (let attempt = 1; request; attempt++) {
    if (sent[sent.length - 1] !== request) sent.push(request);
    const error = await errorOf(b.calls.call(signal, request.send));
    const outcome = outcomeOfCall(signal, error);
    // If we crash here, all rows are already consistent.
    if (outcome === 'applied') return;
    if (outcome === 'refused' && attempt === 1) throw error;
    if (outcome === 'refused') return settle(b, w, sent, error);
    doubtful ||= outcome === 'unknown' || attemptsOf(error) > 1;
    const verdict = outcome === 'condition failed' ? await refused(b, w, sent, error, doubtful) : later;
    if (verdict.retry === 'never') return throwIfError(verdict.error);
    const mayRetry = verdict.retry === 'now' || (await b.calls.backoff(signal, attempt));
    if (!mayRetry || !w.running() || request.expired) return settle(b, w, sent, error);
    if (doubtful && outcome !== 'condition failed') continue;
    try {
      request = await w.request(signal);
      doubtful = false;
    } catch (failure) {
      return settle(b, w, sent, failure);
    }
  }
}

const later: Verdict = { retry: 'later' };

function throwIfError(error: unknown): void {
  if (error !== undefined) throw error;
}

/** Handles a request whose conditions failed. */
async function refused(
  b: Backend,
  w: Write,
  sent: readonly WriteRequest[],
  error: unknown,
  doubtful: boolean,
): Promise<Verdict> {
  const latest = sent[sent.length - 1] as WriteRequest;
  if (latest.failed(error).size === 0) return { retry: 'never', error };
  let verdict: Verdict = { retry: 'never', error };
  // Detached: the rows are read even if the caller's signal is aborted.
  const asking = detached(b.settleTimeoutMs, async (signal) => {
    verdict = await w.judge(latest, error, doubtful, signal);
    if (verdict.retry !== 'never' || verdict.error === undefined || !doubtful) return verdict;
    // An earlier attempt of ours may have made the conditions false.
    const committed = await w.committed(sent, signal);
    return committed ? { retry: 'never' as const } : verdict;
  });
  return asking.catch((failure: unknown) => {
    throw unknown(w, verdict.retry === 'never' ? verdict.error : error, failure);
  });
}

/**
 * Settles unanswered requests, even if the caller's signal is aborted: it revokes them, and
 * then reads from the rows whether one was applied. If we crash before, the transaction is
 * applied as a whole or not at all.
 */
async function settle(b: Backend, w: Write, sent: readonly WriteRequest[], cause: unknown): Promise<void> {
  let answer: unknown = cause;
  let committed = false;
  const failure = await errorOf(
    detached(b.settleTimeoutMs, async (signal) => {
      answer = await w.revoke(cause, signal);
      committed = await w.committed(sent, signal);
    }),
  );
  b.warn('settled an unanswered write', { write: w.name, committed, cause, failure });
  if (failure !== undefined) throw unknown(w, cause, failure);
  if (!committed) throw answer;
}

function unknown(w: Write, cause: unknown, failure: unknown): UnknownOutcomeError {
  return new UnknownOutcomeError(
    `${w.name}: the outcome is unknown: ${String(cause)}; settling it failed: ${String(failure)}; read the page`,
    { cause },
  );
}
