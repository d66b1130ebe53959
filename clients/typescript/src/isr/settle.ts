import { UnknownOutcomeError } from '../errors.js';
import { attemptsOf } from '../outcome.js';
import { type Backend, failureOf, outcomeUnder, settling } from './backend.js';
import type { WriteRequest } from './transaction.js';

/** What a definite answer means: that another request may get through, at once or after a pause; or the end, and its error, if there is one. */
export type Verdict = { again: 'now' | 'later' } | { again: 'never'; error?: unknown };

/**
 * A transaction that is sent until it is answered. What it demands does not come back
 * once it is false (a version of META, a lease token, a purge sequence), so that a
 * request that was refused can never be carried out later.
 */
export interface Write {
  /** What it is, for warnings. */
  readonly name: string;
  /**
   * States the transaction, with a client token of its own, from what is stored now.
   * undefined: nothing is left to be done. It is called after the pause, not before, so
   * that what it reads is not out of date when it is sent.
   */
  request(signal: AbortSignal | undefined): Promise<WriteRequest | undefined>;
  /** It may be sent once more. */
  running(): boolean;
  /**
   * Says what the false conditions of the latest request mean. `doubtful`: it was sent
   * before, without an answer, which may be what made them false.
   */
  judge(request: WriteRequest, error: unknown, doubtful: boolean, signal: AbortSignal): Promise<Verdict>;
  /**
   * Sees to it that no request which was sent can be carried out any more. It returns
   * what to tell the caller, made of the cause, if none was.
   */
  revoke(cause: unknown, signal: AbortSignal): Promise<unknown>;
  /** Whether one of the requests was carried out. It is asked once none can be any more. */
  committed(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean>;
}

/**
 * Sends a write until it has an answer. Without one the request is repeated as it is,
 * under its client token, and no other is made until a false condition says that it
 * cannot be carried out any more: a conflict may be one with an attempt that is still
 * under way. After a definite cancellation there is a new request. If stating the first
 * request fails, nothing was sent, and that error is thrown.
 */
export async function execute(b: Backend, signal: AbortSignal | undefined, w: Write): Promise<void> {
  signal?.throwIfAborted(); // nothing was sent, nothing needs to be settled
  const sent: WriteRequest[] = [];
  let request = await w.request(signal);
  let doubtful = false;
  for (let attempt = 1; request; attempt++) {
    if (sent[sent.length - 1] !== request) sent.push(request);
    const error = await failureOf(b.calls.call(signal, request.send));
    const outcome = outcomeUnder(signal, error);
    // Crashing here loses nothing: all rows are as they should be.
    if (outcome === 'applied') return;
    if (outcome === 'refused' && attempt === 1) throw error;
    if (outcome === 'refused') return settle(b, w, sent, error);
    doubtful ||= outcome === 'unknown' || attemptsOf(error) > 1;
    const verdict = outcome === 'condition failed' ? await refused(b, w, sent, error, doubtful) : later;
    if (verdict.again === 'never') return conclude(verdict.error);
    const goOn = verdict.again === 'now' || (await b.calls.backoff(signal, attempt));
    if (!goOn || !w.running() || request.expired) return settle(b, w, sent, error);
    if (doubtful && outcome !== 'condition failed') continue;
    try {
      request = await w.request(signal);
      doubtful = false;
    } catch (failure) {
      return settle(b, w, sent, failure);
    }
  }
}

const later: Verdict = { again: 'later' };

function conclude(error: unknown): void {
  if (error !== undefined) throw error;
}

/** The answer to a request whose conditions were false. */
async function refused(
  b: Backend,
  w: Write,
  sent: readonly WriteRequest[],
  error: unknown,
  doubtful: boolean,
): Promise<Verdict> {
  const latest = sent[sent.length - 1] as WriteRequest;
  if (latest.failed(error).size === 0) return { again: 'never', error };
  let verdict: Verdict = { again: 'never', error };
  // The rows are asked, whether the caller is still there or not.
  const asking = settling(b.settleTimeoutMs, async (signal) => {
    verdict = await w.judge(latest, error, doubtful, signal);
    if (verdict.again !== 'never' || verdict.error === undefined || !doubtful) return verdict;
    // An earlier request may be what made the conditions false.
    const committed = await w.committed(sent, signal);
    return committed ? { again: 'never' as const } : verdict;
  });
  return asking.catch((failure: unknown) => {
    throw unknown(w, verdict.again === 'never' ? verdict.error : error, failure);
  });
}

/**
 * Finds out what became of requests that were not answered, whether the caller is
 * still there or not: they are revoked, and then the rows tell whether one of them had
 * been carried out. If we crash before that, the transaction lands whole or not at all.
 */
async function settle(b: Backend, w: Write, sent: readonly WriteRequest[], cause: unknown): Promise<void> {
  let answer: unknown = cause;
  let committed = false;
  const failure = await failureOf(
    settling(b.settleTimeoutMs, async (signal) => {
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
    `the outcome of the ${w.name} is unknown: ${String(cause)}; settling it: ${String(failure)}; read the page to see`,
    { cause },
  );
}
