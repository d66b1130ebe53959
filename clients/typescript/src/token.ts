/** The lifetime of a transaction's client token (ClientRequestToken). */

import type { Clock } from './clock.js';
import { UnknownOutcomeError } from './errors.js';

/** DynamoDB remembers a client token for ten minutes. Two of them are a margin for a request in flight. */
const tokenLifeMs = 8 * 60_000;

/**
 * The age of a client token since it was first sent, by whichever clock advanced more: on
 * some systems the monotonic clock stops while a process is frozen, and the wall clock may
 * be set back.
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
   * Must be called before every send; the first call starts the age.
   * @throws UnknownOutcomeError if the token is too old to be sent again
   */
  check(): void {
    this.#first ??= { now: this.#clock.now(), elapsed: this.#clock.elapsed() };
    if (!this.expired) return;
    throw new UnknownOutcomeError(
      `the transaction was not retried: its client token is ${Math.floor(this.#ageMs() / 1000)} seconds old and may have expired; read the stored items`,
    );
  }

  #ageMs(): number {
    if (!this.#first) return 0;
    return Math.max(this.#clock.now() - this.#first.now, this.#clock.elapsed() - this.#first.elapsed);
  }
}
