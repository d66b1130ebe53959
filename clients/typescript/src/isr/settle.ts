import { UnknownOutcomeError } from '../errors.js';
import { type Backend, failureOf, outcomeUnder, settling } from './backend.js';
import type { Refusal, WriteRequest } from './transaction.js';

/** What false conditions mean: that another request may get through, or the answer; no error: it had been carried out. */
export type Verdict = { again: true } | { again: false; error?: unknown };

/**
 * A transaction that moves META, and what its answers mean. What a change demands
 * does not come back once it is false: a version of META, a lease token, a purge
 * sequence. So a request that was refused can never happen later.
 */
export interface Change {
  /** What it is, for warnings. */
  readonly name: string;
  /** States the transaction anew. */
  request(): WriteRequest;
  /** It may be sent once more. */
  running(): boolean;
  /** Says what the false conditions mean. */
  judge(why: Refusal, signal: AbortSignal): Promise<Verdict>;
  /**
   * Sees to it that no request which was sent can happen any more. It returns what to
   * tell the caller, made of the cause, if none has.
   */
  preclude(cause: unknown, signal: AbortSignal): Promise<unknown>;
  /** Whether one of the requests was carried out. It is asked once none can be any more. */
  landed(sent: readonly WriteRequest[], signal: AbortSignal): Promise<boolean>;
}

/** How long a request is repeated under one client token: DynamoDB remembers tokens for ten minutes. */
const tokenLifeMs = 8 * 60_000;

/**
 * Sends a change until it has an answer. Without one the request is repeated as it is,
 * under its token; after a definite cancellation there is a new one.
 */
export async function carryOut(b: Backend, signal: AbortSignal | undefined, c: Change): Promise<void> {
  signal?.throwIfAborted(); // nothing was sent, nothing needs to be settled
  const startedAt = b.clock.elapsed();
  const sent = [c.request()];
  for (let attempt = 1; ; attempt++) {
    const latest = sent[sent.length - 1] as WriteRequest;
    const error = await failureOf(b.calls.call(signal, latest.send));
    const outcome = outcomeUnder(signal, error);
    // Crashing here loses nothing: all rows are as they should be.
    if (outcome === 'applied') return;
    if (outcome === 'refused' && attempt === 1) throw error;
    if (outcome === 'refused') return settle(b, c, sent, error);
    if (outcome === 'condition failed') {
      const verdict = await refused(b, c, sent, error, attempt === 1);
      if (!verdict.again) return conclude(verdict.error);
    }
    const goOn = await b.calls.pause(signal, attempt);
    if (!goOn || !c.running() || b.clock.elapsed() - startedAt > tokenLifeMs) return settle(b, c, sent, error);
    if (outcome !== 'unknown') sent.push(c.request());
  }
}

function conclude(error: unknown): void {
  if (error !== undefined) throw error;
}

/** The answer to a change whose conditions were false. `first` says that nothing was sent before. */
async function refused(
  b: Backend,
  c: Change,
  sent: readonly WriteRequest[],
  error: unknown,
  first: boolean,
): Promise<Verdict> {
  const why = (sent[sent.length - 1] as WriteRequest).refusal(error);
  if (why.size === 0) return { again: false, error };
  let verdict: Verdict = { again: false, error };
  // The rows are asked, whether the caller is still there or not.
  const asking = settling(b.settleTimeoutMs, async (signal) => {
    verdict = await c.judge(why, signal);
    if (verdict.again || verdict.error === undefined || first) return verdict;
    // An earlier request may be what made the conditions false.
    const landed = await c.landed(sent, signal);
    return landed ? { again: false as const } : verdict;
  });
  return asking.catch((failure: unknown) => {
    throw unknown(c, verdict.again ? error : verdict.error, failure);
  });
}

/**
 * Finds out what became of requests that were not answered, whether the caller is
 * still there or not: they are made impossible, and then the rows tell whether one of
 * them had happened. If we crash before that, the transaction lands whole or not at all.
 */
async function settle(b: Backend, c: Change, sent: readonly WriteRequest[], cause: unknown): Promise<void> {
  let answer: unknown = cause;
  let landed = false;
  const failure = await failureOf(
    settling(b.settleTimeoutMs, async (signal) => {
      answer = await c.preclude(cause, signal);
      landed = await c.landed(sent, signal);
    }),
  );
  b.warn('settled an unanswered write', { write: c.name, landed, cause, failure });
  if (failure !== undefined) throw unknown(c, cause, failure);
  if (!landed) throw answer;
}

function unknown(c: Change, cause: unknown, failure: unknown): UnknownOutcomeError {
  return new UnknownOutcomeError(
    `the outcome of the ${c.name} is unknown: ${String(cause)}; settling it: ${String(failure)}; read the page to see`,
    { cause },
  );
}
