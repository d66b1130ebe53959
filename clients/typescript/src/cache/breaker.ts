import type { Clock } from '../clock.js';
import { type ErrorCode, TheorydbError } from '../errors.js';
import type { Warn } from '../isr/backend.js';

/** This package's errors that count as an outage of the table; its other errors are responses. Errors of other types are the SDK's or the network's. */
const outages: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['TableNotFound', 'Throttled', 'UnknownOutcome']);

function isOutage(failure: unknown): boolean {
  return !(failure instanceof TheorydbError) || outages.has(failure.code);
}

/**
 * Work on the stores. It calls `answered` once a store has answered, if it goes on after that with
 * what takes long, such as a render or a wait for another process: the circuit closes then.
 */
export type StoreWork<T> = (answered: () => void) => Promise<T>;

/**
 * A circuit breaker in front of the table and the bucket: an outage is a cache miss, not an error.
 *
 *	closed ──► a call meets an outage ──► open, for the pause: no call is made
 *	  ▲                                     │
 *	  │ answered                            ▼ the pause has passed
 *	  └──────────────────────────────── half-open: one call probes, no other is made
 *
 * So at most one caller per pause waits for a store that does not answer, apart from the calls that
 * were in progress when the circuit opened.
 */
export class CircuitBreaker {
  readonly #clock: Clock;
  readonly #pauseMs: number;
  readonly #warn: Warn;
  readonly #answers: () => number;
  /** No call is made until then, on the monotonic clock; undefined while the circuit is closed. */
  #openUntil: number | undefined;
  /** The call that probes, while the circuit is half-open. */
  #probe: symbol | undefined;

  /** `answers` returns how many answers the table has given. */
  constructor(clock: Clock, pauseMs: number, warn: Warn, answers: () => number) {
    this.#clock = clock;
    this.#pauseMs = pauseMs;
    this.#warn = warn;
    this.#answers = answers;
  }

  /** Reports whether calls are not made at the moment, except for one that probes. */
  get isOpen(): boolean {
    return this.#openUntil !== undefined;
  }

  /** Runs work; undefined if it failed, or if it was not started because the circuit is open. */
  async call<T>(name: string, work: StoreWork<T>): Promise<T | undefined> {
    const call = Symbol(name);
    if (!this.#admits(call)) return undefined;
    const before = this.#answers();
    try {
      const result = await work(() => this.#answered(call));
      // Work that found all it needs in memory shows nothing of the table: the next call probes.
      if (this.#answers() > before) this.#answered(call);
      return result;
    } catch (failure) {
      this.#warn(`${name} failed`, { failure });
      if (isOutage(failure)) this.#openUntil = this.#clock.elapsed() + this.#pauseMs;
      else this.#answered(call);
      return undefined;
    } finally {
      if (this.#probe === call) this.#probe = undefined;
    }
  }

  /** Reports whether a call may be made. If the pause has passed, the call becomes the probe. */
  #admits(call: symbol): boolean {
    if (this.#openUntil === undefined) return true;
    if (this.#probe !== undefined || this.#clock.elapsed() < this.#openUntil) return false;
    this.#probe = call;
    return true;
  }

  /** Closes the circuit if the call is the probe: an older call may have been answered before the outage. */
  #answered(call: symbol): void {
    if (this.#probe !== call) return;
    this.#probe = undefined;
    this.#openUntil = undefined;
  }
}
