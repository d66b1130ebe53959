import { rejection } from '../retry.js';

/** The time that a render has. Its signal is aborted at the end, unless a visitor has taken over the response. */
export class Deadline {
  readonly #limits: AbortSignal;
  readonly #controller = new AbortController();
  readonly #end = () => this.#controller.abort(this.#limits.reason);

  /** Ends when the first of the limits is aborted. */
  constructor(...limits: AbortSignal[]) {
    this.#limits = AbortSignal.any(limits);
    if (this.#limits.aborted) this.#end();
    else this.#limits.addEventListener('abort', this.#end, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Lets the response take as long as its visitor wants. */
  waive(): void {
    this.#limits.removeEventListener('abort', this.#end);
  }

  /** Waits for work until the end. */
  async within<T>(work: () => Promise<T>): Promise<T> {
    this.signal.throwIfAborted();
    return Promise.race([work(), rejection(this.signal)]);
  }
}
