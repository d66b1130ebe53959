import type { Clock } from '../clock.js';
import { TheorydbError } from '../errors.js';
import type { Warn } from '../isr/backend.js';

/** Answers that are an opinion of the table's, or ours, and no sign that it is not there. */
const healthy = new Set(['InvalidInput', 'InvalidKey', 'LeaseHeld', 'LeaseLost', 'Moved', 'Pinned', 'MalformedRow']);

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
      if (!(failure instanceof TheorydbError && healthy.has(failure.code))) {
        this.#until = this.#clock.elapsed() + this.#pauseMs;
      }
      return undefined;
    }
  }
}
