import type { Clock } from '../clock.js';
import { type ErrorCode, TheorydbError } from '../errors.js';
import type { Warn } from '../isr/backend.js';

/** This package's errors that count as an outage of the table; its other errors are responses. Errors of other types are the SDK's or the network's. */
const outages: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['TableNotFound', 'Throttled', 'UnknownOutcome']);

/** A circuit breaker in front of the table and the bucket: an outage is a cache miss, not an error. */
export class CircuitBreaker {
  readonly #clock: Clock;
  readonly #pauseMs: number;
  readonly #warn: Warn;
  /** The circuit is open until then, on the monotonic clock: visitors do not wait for a store that just failed. */
  #until = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, pauseMs: number, warn: Warn) {
    this.#clock = clock;
    this.#pauseMs = pauseMs;
    this.#warn = warn;
  }

  /** Runs work; undefined if it failed or the circuit is open. */
  async call<T>(name: string, work: () => Promise<T>): Promise<T | undefined> {
    if (this.#clock.elapsed() < this.#until) return undefined;
    try {
      return await work();
    } catch (failure) {
      this.#warn(`${name} failed`, { failure });
      if (!(failure instanceof TheorydbError) || outages.has(failure.code)) {
        this.#until = this.#clock.elapsed() + this.#pauseMs;
      }
      return undefined;
    }
  }
}
