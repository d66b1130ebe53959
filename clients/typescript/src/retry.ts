/** How often, how long and at which pauses a call of DynamoDB is made. */

import type { Clock } from './clock.js';
import { InvalidInputError } from './errors.js';
import { outcomeOf } from './outcome.js';

/** How calls are made; every member has a default. */
export interface RetryOptions {
  /** Bounds one call, with the retries that the SDK makes in it, in milliseconds. Default: 5,000. */
  callTimeoutMs?: number;
  /**
   * The mean pause before a call is repeated for the first time, in milliseconds; it
   * doubles with each further one, up to 32 times of it, with full jitter. Default: 25.
   */
  retryDelayMs?: number;
  /** A random number in [0, 1), of which the jitter is made. Default: `Math.random`. */
  random?: () => number;
}

/** Bounds how often an ordinary call is made; the SDK's own retries come on top, within each. */
const maxAttempts = 4;

/** How often the mean pause doubles at most. */
const maxDoublings = 5;

/** One call of the API; it gives the signal to the SDK. */
export type Call<T> = (signal: AbortSignal) => Promise<T>;

/** Makes calls, with bounds and pauses. It holds nothing between them. */
export class Calls {
  readonly clock: Clock;
  /** Bounds one call, in milliseconds. */
  readonly timeoutMs: number;
  readonly #delayMs: number;
  readonly #random: () => number;

  /** @throws InvalidInputError if a time is not more than 0, or more than an hour. */
  constructor(clock: Clock, options: RetryOptions = {}) {
    this.clock = clock;
    this.timeoutMs = milliseconds('callTimeoutMs', options.callTimeoutMs ?? 5000);
    this.#delayMs = milliseconds('retryDelayMs', options.retryDelayMs ?? 25);
    this.#random = options.random ?? Math.random;
  }

  /** Makes one call, which ends with the signal, and after `callTimeoutMs` at the latest. */
  call<T>(signal: AbortSignal | undefined, call: Call<T>): Promise<T> {
    return within(this.timeoutMs, signal, call);
  }

  /**
   * Makes a call that may be repeated without harm until its answer is definite: a
   * few times at most, and not once `callTimeoutMs` has passed, so that a database
   * that hangs holds nobody for longer than twice that. It throws the last error.
   */
  try<T>(signal: AbortSignal | undefined, call: Call<T>): Promise<T> {
    return this.#repeat(signal, call, (attempt, startedAt) => this.spent(attempt, startedAt));
  }

  /** Is `try` without bounds: only the signal ends it. */
  insist<T>(signal: AbortSignal, call: Call<T>): Promise<T> {
    return this.#repeat(signal, call, () => false);
  }

  async #repeat<T>(
    signal: AbortSignal | undefined,
    call: Call<T>,
    enough: (attempt: number, startedAt: number) => boolean,
  ): Promise<T> {
    const startedAt = this.clock.elapsed();
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.call(signal, call);
      } catch (error) {
        if (!isOpen(error) || enough(attempt, startedAt) || !(await this.pause(signal, attempt))) {
          throw error;
        }
      }
    }
  }

  /** Says that an ordinary operation, begun at `startedAt` of the monotonic clock, has been tried often or long enough. */
  spent(attempt: number, startedAt: number): boolean {
    return attempt >= maxAttempts || this.clock.elapsed() - startedAt >= this.timeoutMs;
  }

  /**
   * Exponential backoff: waits before the attempt after this one, the first of which is
   * 1, and says whether there is still a caller to make it for. Full jitter, from 0 to
   * twice the mean, keeps callers apart that failed together.
   */
  pause(signal: AbortSignal | undefined, attempt: number): Promise<boolean> {
    const mean = this.#delayMs * 2 ** Math.min(attempt - 1, maxDoublings);
    return this.clock.sleep(2 * mean * this.#random(), signal);
  }
}

const longest = 3_600_000;

function milliseconds(name: string, given: number): number {
  if (typeof given !== 'number' || !(given > 0 && given <= longest)) {
    throw new InvalidInputError(`${name} is ${given}: expected milliseconds, more than 0 and at most an hour`);
  }
  return given;
}

/** Says that a call which may be repeated is worth repeating. */
function isOpen(error: unknown): boolean {
  const outcome = outcomeOf(error);
  return outcome === 'unknown' || outcome === 'cancelled';
}

/**
 * Runs work with a signal that is aborted with the outer one, and once the time is
 * over at the latest; it then throws the signal's reason, whether the work heeds the
 * signal or not. Work that has to be done although its caller went away, such as
 * finding out what became of a write, is run without an outer signal.
 *
 * It takes the machine's timers: the bound is there for a database that hangs.
 */
export async function within<T>(milliseconds: number, outer: AbortSignal | undefined, work: Call<T>): Promise<T> {
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
function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
