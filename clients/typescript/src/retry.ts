/** Retries, timeouts and backoff of DynamoDB calls. */

import type { Clock } from './clock.js';
import { InvalidInputError } from './errors.js';
import { outcomeOf } from './outcome.js';

/** Retry settings. Every member has a default. */
export interface RetryOptions {
  /** The timeout of one call, including the SDK's own retries, in milliseconds. Default: 5,000. */
  callTimeoutMs?: number;
  /**
   * The mean delay before the first retry, in milliseconds. Exponential backoff with
   * full jitter doubles it for each further retry, up to 32 times. Default: 25.
   */
  retryDelayMs?: number;
  /** Returns a random number in [0, 1) for the jitter. Default: `Math.random`. */
  random?: () => number;
}

/** Attempts per call. The SDK's own retries happen inside each attempt. */
const maxAttempts = 4;

/** How often the mean delay doubles. */
const maxDoublings = 5;

/** One API call. It passes the signal to the SDK. */
export type Call<T> = (signal: AbortSignal) => Promise<T>;

/** Makes API calls with timeouts, retries and exponential backoff. It counts answers, and keeps no other state between calls. */
export class Calls {
  readonly clock: Clock;
  /** The timeout of one call, in milliseconds. */
  readonly timeoutMs: number;
  readonly #delayMs: number;
  readonly #random: () => number;
  #answers = 0;

  /** @throws InvalidInputError unless each duration is above 0 and at most an hour. */
  constructor(clock: Clock, options: RetryOptions = {}) {
    this.clock = clock;
    this.timeoutMs = milliseconds('callTimeoutMs', options.callTimeoutMs ?? 5000);
    this.#delayMs = milliseconds('retryDelayMs', options.retryDelayMs ?? 25);
    this.#random = options.random ?? Math.random;
  }

  /** Makes one call. It ends when the signal is aborted or `callTimeoutMs` has passed. */
  async call<T>(signal: AbortSignal | undefined, call: Call<T>): Promise<T> {
    const answer = await withTimeout(this.timeoutMs, signal, call);
    this.#answers++;
    return answer;
  }

  /** How many calls the database has answered without an error. */
  get answers(): number {
    return this.#answers;
  }

  /**
   * Retries an idempotent call until its outcome is definite: at most 4 attempts, none of
   * which starts after `callTimeoutMs`, so that a hanging database blocks a caller for at
   * most twice that. It throws the last error.
   */
  retry<T>(signal: AbortSignal | undefined, call: Call<T>): Promise<T> {
    return this.#repeat(signal, call, (attempt, startedAt) => this.exhausted(attempt, startedAt));
  }

  /**
   * Retries like `retry`, for `callTimeoutMs`, however many attempts that takes: until another
   * transaction that is being committed no longer conflicts.
   */
  retryInTime<T>(signal: AbortSignal | undefined, call: Call<T>): Promise<T> {
    return this.#repeat(signal, call, (_, startedAt) => this.clock.elapsed() - startedAt >= this.timeoutMs);
  }

  /** Retries like `retry`, but without bounds: only the signal ends it. */
  retryUntilAborted<T>(signal: AbortSignal, call: Call<T>): Promise<T> {
    return this.#repeat(signal, call, () => false);
  }

  async #repeat<T>(
    signal: AbortSignal | undefined,
    call: Call<T>,
    stop: (attempt: number, startedAt: number) => boolean,
  ): Promise<T> {
    const startedAt = this.clock.elapsed();
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.call(signal, call);
      } catch (error) {
        if (!isRetryable(error) || stop(attempt, startedAt) || !(await this.backoff(signal, attempt))) {
          throw error;
        }
      }
    }
  }

  /** Reports whether an operation that began at `startedAt` (monotonic) has used up its attempts or its time. */
  exhausted(attempt: number, startedAt: number): boolean {
    return attempt >= maxAttempts || this.clock.elapsed() - startedAt >= this.timeoutMs;
  }

  /**
   * Waits after a failed attempt (counted from 1), by exponential backoff. Full jitter,
   * from 0 to twice the mean, spreads callers that failed together. It resolves with
   * false if the signal was aborted.
   */
  backoff(signal: AbortSignal | undefined, attempt: number): Promise<boolean> {
    const mean = this.#delayMs * 2 ** Math.min(attempt - 1, maxDoublings);
    return this.clock.sleep(2 * mean * this.#random(), signal);
  }
}

const maxMs = 3_600_000;

function milliseconds(name: string, value: number): number {
  if (typeof value !== 'number' || !(value > 0 && value <= maxMs)) {
    throw new InvalidInputError(`${name} must be above 0 and at most 3,600,000 milliseconds (got ${value})`);
  }
  return value;
}

/** Reports whether an idempotent call that failed is worth retrying. */
function isRetryable(error: unknown): boolean {
  const outcome = outcomeOf(error);
  return outcome === 'unknown' || outcome === 'cancelled';
}

/**
 * Runs work with a timeout. Its signal is aborted with the outer signal or when the time
 * is up; the returned promise then rejects with the signal's reason even if the work
 * ignores the signal. Work that must survive its caller, such as settling the outcome of
 * a write, passes no outer signal.
 *
 * It uses real timers, not the injected clock: the timeout guards against a database that
 * hangs.
 */
export async function withTimeout<T>(milliseconds: number, outer: AbortSignal | undefined, work: Call<T>): Promise<T> {
  outer?.throwIfAborted();
  const inner = new AbortController();
  const onAbort = () => inner.abort(outer?.reason);
  outer?.addEventListener('abort', onAbort);
  const timer = setTimeout(
    () => inner.abort(new DOMException(`no answer within ${milliseconds} ms`, 'TimeoutError')),
    milliseconds,
  );
  try {
    return await Promise.race([work(inner.signal), rejection(inner.signal)]);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener('abort', onAbort);
  }
}

/** Rejects with the signal's reason once it is aborted. */
export function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
