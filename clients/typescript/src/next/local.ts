import type { Answer, Value } from './contract.js';
import { Memory } from './memory.js';

/**
 * The cache of `next build` and `next dev`, which need no table: fetches are kept in the
 * memory of the process, so that the pages of a build agree on what they read. Pages
 * are not: Next keeps those that it builds in files of its own.
 */
export class Local {
  readonly #fetches = new Memory<Answer>(64 << 20);

  get(key: string): Answer | null {
    return this.#fetches.get(key) ?? null;
  }

  set(key: string, value: Value): void {
    if (value?.kind !== 'FETCH') return;
    this.#fetches.set(key, { value, lastModified: Date.now() }, 2 * JSON.stringify(value).length);
  }

  /** Which fetches carry a tag is not known before the next look-up. */
  revalidateTag(): void {
    this.#fetches.clear();
  }
}
