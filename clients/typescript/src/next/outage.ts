import type { Clock } from '../clock.js';
import { type ErrorCode, TheorydbError } from '../errors.js';
import type { Warn } from '../isr/backend.js';

/** Errors of this package that say that the table is not there; all others are answers of it. Errors of other kinds are the SDK's or the network's. */
const outages: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['TableNotFound', 'Throttled', 'UnknownOutcome']);

/** Keeps failures of the table and the bucket from visitors: a cache that is not there is one that has nothing. */
export class Outage {
  readonly #clock: Clock;
  readonly #pauseMs: number;
  readonly #warn: Warn;
  /** Nothing is asked until then, on the monotonic clock: visitors do not wait for what failed a moment ago. */
  #until = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, pauseMs: number, warn: Warn) {
    this.#clock = clock;
    this.#pauseMs = pauseMs;
    this.#warn = warn;
  }

  /** Does work; undefined if it failed, or the store is known not to answer. */
  async spare<T>(name: string, work: () => Promise<T>): Promise<T | undefined> {
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
