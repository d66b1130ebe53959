import { LruCache } from '../cache/lru.js';
import type { Answer, Value } from './contract.js';

/**
 * The cache of `next build` and `next dev`, which need no table. Fetches are kept in memory,
 * so that the pages of a build see the same data. Pages are not: Next.js stores those that it
 * builds in files.
 */
export class LocalCache {
  readonly #fetches = new LruCache<Answer>(64 << 20);

  get(key: string): Answer | null {
    return this.#fetches.get(key) ?? null;
  }

  set(key: string, value: Value): void {
    if (value?.kind !== 'FETCH') return;
    this.#fetches.set(key, { value, lastModified: Date.now() }, 2 * JSON.stringify(value).length);
  }

  /** Clears all fetches: their tags are only known at the next look-up. */
  revalidateTag(): void {
    this.#fetches.clear();
  }
}
