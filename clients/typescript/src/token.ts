/** How long a request may be repeated under one client token (ClientRequestToken of a transaction). */

import type { Clock } from './clock.js';
import { UnknownOutcomeError } from './errors.js';

/** DynamoDB remembers a client token for ten minutes; two are left for a request that is on its way. */
const tokenLifeMs = 8 * 60_000;

/**
 * The age of a client token since it was first sent. It goes by the larger of two
 * clocks: a process that was frozen sees no monotonic time pass on some systems, and
 * the wall clock may be set back.
 */
export class TokenAge {
  readonly #clock: Clock;
  #first: { now: number; elapsed: number } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get expired(): boolean {
    return this.#ageMs() > tokenLifeMs;
  }

  /**
   * To be called before every send; the first one starts the age.
   * @throws UnknownOutcomeError if the token is too old to be sent again
   */
  check(): void {
    this.#first ??= { now: this.#clock.now(), elapsed: this.#clock.elapsed() };
    if (!this.expired) return;
    throw new UnknownOutcomeError(
      `the transaction was not repeated: its client token is ${Math.floor(this.#ageMs() / 1000)} seconds old, and DynamoDB may have forgotten it; read what is stored`,
    );
  }

  #ageMs(): number {
    if (!this.#first) return 0;
    return Math.max(this.#clock.now() - this.#first.now, this.#clock.elapsed() - this.#first.elapsed);
  }
}
